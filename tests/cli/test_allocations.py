#!/usr/bin/env python3
"""Nothing is allocated in a step, counted from outside.

A preloaded library (count_calls.c) counts calls of the malloc family, mmap, open, clone and
pthread_create by the object whose code made them. Calls made by the command's own code must be as
many after 110 steps as after 10. Calls that libraries make in each step must be constant; they are
listed by library and function. oneDNN's are listed by implementation too, as the run itself counts
them and as `ullage probe MODEL` did in a dry run of each kernel.
"""

import collections
import json
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


def kernels_by_implementation(allowances):
    rows = collections.defaultdict(list)
    for kernel in allowances:
        rows[kernel["name"].split()[0]].append(kernel)
    return rows


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

    def library_calls(self, arguments, machine, steps):
        said = command.train(*arguments, "--steps", steps, "--threads", "2", "--machine", machine)
        return said["library_calls"]

    def check_dry_run(self, model):
        """A step's calls: by the run's own watch, kernel for kernel, and from outside. Those of the
        watch are whole numbers of launches at the figures of the dry run. Prints both tables."""
        arguments = CASES[model]
        machine = os.path.join(self.folder.name, "machine.json")
        probed = command.run_json("probe", *arguments[:3], "--threads", "2")
        with open(machine, "w", encoding="utf-8") as file:
            json.dump(probed, file)
        few, some, many = (self.library_calls(arguments, machine, n) for n in (FEW, SOME, MANY))
        outside_some, _ = self.count(arguments, SOME)
        outside_many, _ = self.count(arguments, MANY)
        seen = sum(calls - outside_some.get(key, 0) for key, calls in outside_many.items()
                   if "libdnnl" in key[0]) / (MANY - SOME)
        steps, known = MANY - SOME, 0
        rows = kernels_by_implementation(probed["allowances"])
        print(f"{arguments[0]}: {seen:g} calls a step by oneDNN")
        for name, last in sorted(many.items()):
            launches = (last["launches"] - some[name]["launches"]) / steps
            calls = (last["calls"] - some[name]["calls"]) / steps
            early = (some[name]["calls"] - few[name]["calls"]) / (SOME - FEW)
            fewest, most = (f(k["launch_calls"] for k in rows[name]) for f in (min, max))
            print(f"  {name}: {launches:g} launches and {calls:g} calls a step; in the dry run of "
                  f"{len(rows[name])} shapes {fewest} to {most} calls a launch", flush=True)
            self.assertEqual(calls, early, name)
            self.assertTrue(fewest * launches <= calls <= most * launches, name)
            known += calls
        self.assertEqual(known, seen)
        return known

    def test_dry_run(self):
        calls = 0
        for model in ("resnet8", "gpt2_tiny"):
            with self.subTest(model=model):
                calls += self.check_dry_run(model)
        self.assertGreater(calls, 0, "no model here runs a kernel of oneDNN's")

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
