#!/usr/bin/env python3
"""What libraries take behind our back is measured once, planned, and enforced.

`ullage probe MODEL --json` is a machine file with an allowance for each kernel of the library's. A
run with it plans what the file says, to the byte, and the same numbers; where a kernel takes more
than the file allows the run ends with an error that names it, before or in the first step. A file
of another fingerprint allows nothing of the kind, and a text machine 0.
"""

import json
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
import command

MIB, PAGE = 1 << 20, 4096
MODEL = ["zoo:resnet8?width=16&image=16", "--batch-size", "4"]
THREADS = ["--threads", "2"]
STEPS = ["--steps", "2"]
BASE = 24 * MIB


def up(size, grain):
    return -(-size // grain) * grain


def allowed(size):
    """Whole pages and one more; nothing stays nothing."""
    return up(size + PAGE, PAGE) if size else 0


class LibraryMemory(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = command.folder()
        cls.machine = command.run_json("probe", *MODEL, *THREADS)
        cls.plain = command.train(*MODEL, *THREADS, *STEPS)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def file(self, machine):
        path = pathlib.Path(self.folder.name, "machine.json")
        path.write_text(json.dumps(machine), encoding="utf-8")
        return path

    def changed(self, key, value, pick=lambda name: True):
        kernels = [{**k, key: value} if pick(k["name"]) else k for k in self.machine["allowances"]]
        return self.file({**self.machine, "allowances": kernels})

    def train(self, path):
        return command.run("train", *MODEL, *THREADS, *STEPS, "--machine", path, "--json")

    def test_figures(self):
        kernels = self.machine["allowances"]
        self.assertGreater(len(kernels), 5)
        self.assertEqual(len({k["name"] for k in kernels}), len(kernels))
        for k in kernels:
            with self.subTest(kernel=k["name"]):
                self.assertTrue(k["name"].startswith("onednn:"))
                self.assertGreater(k["prepared_bytes"], 0)
                self.assertLess(k["prepared_bytes"], MIB)
                # No implementation that is taken hides packing buffers.
                self.assertLess(k["launch_bytes"], 16 << 10)
                if not command.is_sanitized():
                    self.assertGreater(k["launch_calls"], 0)

    def test_planned_as_the_file_says(self):
        """At one program; evaluation has kernels of its own, so bounds where it takes part."""
        result = self.train(self.file(self.machine))
        self.assertEqual(result.code, 0, result.stderr[-500:])
        said = result.object
        self.assertEqual(said["losses"], self.plain["losses"])
        self.assertEqual(said["planned_peak_bytes"], said["measured_peak_bytes"])
        self.assertTrue(said["library_calls"])
        self.assertFalse(self.plain["library_calls"], "nothing is watched without a machine file")
        first = sum(allowed(k["prepared_bytes"]) for k in self.machine["allowances"])
        again = sum((k["training_nodes"] - 1) * allowed(k["again_bytes"])
                    for k in self.machine["allowances"] if k["training_nodes"] > 1)
        launch = max(allowed(k["launch_bytes"]) for k in self.machine["allowances"])
        runtime = said["tags"]["runtime"]["device"]
        print(f"runtime: {runtime} bytes by the file, {self.plain['tags']['runtime']['device']} "
              f"nominal; the file's kernels {first}, further ones {again}, a launch {launch}")
        self.assertEqual(runtime % MIB, 0)
        self.assertGreaterEqual(runtime, up(BASE + first + launch, MIB))
        forward = sum(k["training_nodes"] * allowed(k["again_bytes"])
                      for k in self.machine["allowances"])
        self.assertLessEqual(runtime, up(BASE + first + again + forward + launch, MIB))

    def test_a_launch_that_takes_more(self):
        if command.is_sanitized():
            self.skipTest("C++'s operator new is the sanitizer's")
        name = self.machine["allowances"][-1]["name"]
        result = self.train(self.changed("launch_bytes", 0, lambda n: n == name))
        self.assertEqual(result.code, command.EXIT_CODES["out_of_memory"], result.stderr[-500:])
        error = result.object["error"]
        self.assertEqual(error["holder"], name[:160])
        self.assertGreater(error["shortfall_bytes"], 0)
        self.assertEqual(result.object["steps_run"], 0)

    def test_preparing_that_takes_more(self):
        name = self.machine["allowances"][0]["name"]
        result = self.train(self.changed("prepared_bytes", 1, lambda n: n == name))
        self.assertEqual(result.code, command.EXIT_CODES["out_of_memory"], result.stderr[-500:])
        self.assertEqual(result.object["error"]["holder"], name[:160])

    def test_another_fingerprint(self):
        """The list is not taken: nominal allowances, and nothing to exceed."""
        path = self.changed("launch_bytes", 0)
        path = self.file({**json.loads(path.read_text()), "fingerprint": "onednn 1.0 none"})
        result = self.train(path)
        self.assertEqual(result.code, 0, result.stderr[-500:])
        self.assertEqual(result.object["tags"]["runtime"], self.plain["tags"]["runtime"])

    def test_a_text_machine_allows_nothing(self):
        said = command.plan(*MODEL, *THREADS, "--machine", "shared:8GiB")
        source = said["tags"]["runtime"]["device"]
        self.assertLessEqual(source, MIB, "only what the data source holds")


if __name__ == "__main__":
    command.need_command()
    unittest.main()
