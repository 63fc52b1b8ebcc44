#!/usr/bin/env python3
"""Nothing is allocated in a step, counted from outside.

A preloaded library (count_calls.c) counts calls of the malloc family, mmap, open, clone and
pthread_create by the object whose code made them. Calls made by the command's own code must be as
many after 110 steps as after 10. Calls that libraries make in each step must be constant; they are
listed by library and function.
"""

import collections
import os
import pathlib
import shutil
import subprocess
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "support"))
import command

FEW, SOME, MANY = 10, 60, 110
CASES = {
    "mlp": ["zoo:mlp?hidden=32", "--batch-size", "8"],
    "resnet8": ["zoo:resnet8?width=8&image=16", "--batch-size", "4"],
    "gpt2_tiny": ["zoo:gpt2_tiny?layers=1", "--batch-size", "1", "--opt", "adamw"],
}
RUNS = [("mlp", []), ("mlp", ["--device", "sim:1GiB@8GB/s"]), ("gpt2_tiny", [])]


def build_counter(folder):
    compiler = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc")
    if not compiler:
        command.skip("no C compiler to build count_calls.c with")
    library = os.path.join(folder, "count_calls.so")
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", library,
                    str(HERE / "count_calls.c"), "-ldl"], check=True)
    return library


def read_counts(path):
    """{(object, function): calls}"""
    counts = {}
    with open(path, encoding="utf-8") as file:
        for line in file:
            name, function, calls = line.rsplit(" ", 2)
            counts[os.path.realpath(name), function] = int(calls)
    return counts


class Allocations(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = command.folder()
        cls.library = build_counter(cls.folder.name)
        cls.own = os.path.realpath(command.BINARY)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def count(self, arguments, steps):
        path = os.path.join(self.folder.name, f"counts-{steps}.txt")
        said = command.train(
            *arguments, "--steps", steps, "--threads", "2",
            env={"LD_PRELOAD": self.library, "COUNT_CALLS": path})
        self.assertEqual(said["steps_run"], steps)
        return read_counts(path), said

    def check_own(self, few, many):
        mine = {key[1]: calls for key, calls in few.items() if key[0] == self.own}
        later = {key[1]: calls for key, calls in many.items() if key[0] == self.own}
        self.assertTrue(mine, "the counter saw no call of the command")
        self.assertEqual(mine, later, f"calls grow from {FEW} to {MANY} steps")

    def check_libraries(self, few, some, many):
        """Calls a step of each library, which must be one number."""
        listed = collections.Counter()
        for key in sorted({*few, *some, *many}):
            if key[0] == self.own:
                continue
            early = (some.get(key, 0) - few.get(key, 0)) / (SOME - FEW)
            late = (many.get(key, 0) - some.get(key, 0)) / (MANY - SOME)
            self.assertEqual(early, late, f"{key}: the number of calls a step changes")
            if late:
                listed[f"{os.path.basename(key[0])} {key[1]}"] = late
        return listed

    def check(self, model, flags):
        arguments = [*CASES[model], *flags]
        smallest = command.plan(*arguments)["smallest_budget_bytes"]["device"]
        arguments += ["--memory", smallest]
        few, _ = self.count(arguments, FEW)
        some, _ = self.count(arguments, SOME)
        many, said = self.count(arguments, MANY)
        self.check_own(few, many)
        self.assertEqual(said["allocations_after_first_step"], 0)
        listed = self.check_libraries(few, some, many)
        text = ", ".join(f"{name} {calls:g}" for name, calls in listed.items()) or "none"
        print(f"{' '.join(map(str, arguments[:5]))}: calls a step by libraries: {text}", flush=True)

    def test_loader(self):
        """Batches from files, with two loader threads and augmentation."""
        data = command.write_idx(os.path.join(self.folder.name, "idx"), count=40, size=16)
        self.check("resnet8", ["--data", data, "--workers", "2", "--augment", "crop,flip"])

    def test_models(self):
        for model, flags in RUNS:
            with self.subTest(model=model, flags=flags):
                self.check(model, flags)


if __name__ == "__main__":
    command.need_command()
    if command.is_sanitized():
        command.skip("a sanitizer counts and allocates on its own")
    unittest.main()
