#!/usr/bin/env python3
"""Bad input: each case ends with its exit code, a text for people and an error object for scripts.

The texts are golden files, tests/golden/bad_*.txt, reviewed like code: ULLAGE_UPDATE_GOLDEN=1
rewrites them. Folders read FOLDER, and where figures depend on the machine, numbers read #.
"""

import json
import os
import pathlib
import re
import signal
import struct
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
import command

GOLDEN = command.ROOT / "tests" / "golden"
UPDATE = os.environ.get("ULLAGE_UPDATE_GOLDEN") == "1"
ERROR_KEYS = ["code", "message", "holder", "shortfall_bytes", "change"]
SMALL = ["zoo:mlp?hidden=16", "--batch-size", "8", "--steps", "3"]
LENET = ["zoo:lenet", "--batch-size", "8", "--steps", "3"]


def without_numbers(text):
    return re.sub(r"\d+(\.\d+)?( [KMGT]?i?B\b)?", "#", text)


def without_kind(text):
    """Which of the two comes first depends on the instruction set."""
    return re.sub(r"is (infinite|not a number)\b", "is infinite or not a number", text)


class BadInput(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = command.folder()
        cls.folder = pathlib.Path(cls.temporary.name)
        cls.idx = command.write_idx(cls.folder / "idx", count=32, test_count=8)

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    def path(self, name):
        return str(self.folder / name)

    def normal(self, text):
        return text.replace(str(self.folder), "FOLDER")

    def check(self, name, code, status, *arguments, mask=None):
        """Runs twice, for people and for scripts, and compares with the golden file."""
        plain = command.run(*arguments, cwd=self.folder)
        scripted = command.run(*arguments, "--json", cwd=self.folder)
        error = scripted.object["error"]
        self.assertEqual((plain.code, scripted.code), (code, code), plain.stderr[-800:])
        self.assertEqual(command.EXIT_CODES.get(status, 1), code)
        self.assertEqual(error["code"], status)
        self.assertEqual(list(error), ERROR_KEYS)
        self.assertTrue(plain.stderr.startswith("ullage: ") or "\nullage: " in plain.stderr)
        words = plain.stderr[plain.stderr.index("ullage: "):]
        self.assertTrue(words.startswith(f"ullage: {error['message']}\n"), words)
        self.compare(name, self.describe(arguments, code, words, error, mask))

    def describe(self, arguments, code, words, error, mask):
        body = f"{words}{json.dumps(error, indent=2, ensure_ascii=False)}\n"
        line = " ".join(str(word) for word in arguments)
        return self.normal(f"$ ullage {line}\n{mask(body) if mask else body}exit {code}\n")

    def compare(self, name, text):
        path = GOLDEN / f"bad_{name}.txt"
        if UPDATE:
            path.write_text(text, encoding="utf-8")
        self.assertTrue(path.exists(), f"{path} is missing; ULLAGE_UPDATE_GOLDEN=1 writes it")
        self.assertEqual(text, path.read_text(encoding="utf-8"))

    # ---- flags ----

    def test_unknown_model(self):
        self.check("unknown_model", 2, "usage", "plan", "zoo:resnet81")

    def test_unknown_key(self):
        self.check("unknown_key", 2, "usage", "plan", "zoo:resnet18?imge=64")

    def test_no_model(self):
        self.check("no_model", 2, "usage", "train")

    def test_flags_of_later_versions(self):
        """Refused, never passed over in silence."""
        for words in (["--clip-grad", "1"], ["--load", "plan.json"], ["--resume", "run"],
                      ["--on-nan", "skip"], ["--checkpoint-every", "5"], ["--device", "cuda"],
                      ["--freeze", "fc1.*"]):
            with self.subTest(words=words):
                result = command.run("plan", "zoo:mlp", *words, "--json")
                self.assertEqual(result.code, 1, result.stderr)
                self.assertEqual(result.object["error"]["code"], "unsupported")
                self.assertIn(words[0], result.stderr)

    def test_commands_of_later_versions(self):
        result = command.run("predict", "zoo:mlp", "--json")
        self.assertEqual(result.code, 1)
        self.assertEqual(result.object["error"]["code"], "unsupported")
        self.assertEqual(list(result.object["error"]), ERROR_KEYS)

    def test_zero_batch(self):
        self.check("zero_batch", 2, "usage", "train", "zoo:mlp", "--batch-size", "0")

    def test_budget_of_one_byte(self):
        self.check("budget_of_one_byte", 3, "does_not_fit", "train", *SMALL, "--memory", "1",
                   mask=without_numbers)

    # ---- sizes that overflow ----

    def test_overflow_number(self):
        self.check("overflow_number", 2, "overflow", "plan", "zoo:mlp", "--batch-size", "9" * 30)

    def test_overflow_budget(self):
        self.check("overflow_budget", 2, "overflow", "plan", "zoo:mlp", "--memory", "9" * 9 + "TiB")

    def test_overflow_weights(self):
        self.check("overflow_weights", 2, "overflow", "plan",
                   "zoo:mlp?in=2147483648&hidden=2147483648")

    def test_overflow_activations(self):
        self.check("overflow_activations", 2, "overflow", "plan",
                   "zoo:resnet18?image=16384", "--batch-size", "1000000000")

    # ---- data files ----

    def test_missing_idx(self):
        self.check("missing_idx", 6, "data", "train", *LENET, "--data",
                   f"idx:{self.path('nowhere')}")

    def test_missing_idx_labels(self):
        command.write_idx(self.folder / "half", count=8)
        (self.folder / "half" / "train-labels-idx1-ubyte").unlink()
        self.check("missing_idx_labels", 6, "data", "train", *LENET, "--data",
                   f"idx:{self.path('half')}")

    def cut(self, name, keep):
        source = command.write_idx(self.folder / name, count=32)
        path = self.folder / name / "train-images-idx3-ubyte"
        path.write_bytes(path.read_bytes()[:keep])
        return source

    def test_truncated_idx(self):
        self.check("truncated_idx", 6, "data", "train", *LENET, "--data", self.cut("cut", 16 + 5000))

    def test_truncated_idx_header(self):
        self.check("truncated_idx_header", 6, "data", "train", *LENET, "--data",
                   self.cut("header", 9))

    def write_npz(self, name, labels, size=28):
        count = len(labels)
        return command.write_npz(self.folder / name, {
            "image": ("<f4", (count, 1, size, size), bytes(4 * count * size * size)),
            "label": ("<i8", (count,), struct.pack(f"<{count}q", *labels)),
        })

    def test_missing_npz(self):
        self.check("missing_npz", 6, "data", "train", *LENET, "--data",
                   f"npz:{self.path('nowhere.npz')}")

    def test_truncated_npz(self):
        source = self.write_npz("cut.npz", [0, 1] * 8)
        path = self.folder / "cut.npz"
        path.write_bytes(path.read_bytes()[:-40])
        self.check("truncated_npz", 6, "data", "train", *LENET, "--data", source)

    def test_labels_out_of_range(self):
        source = self.write_npz("labels.npz", [0, 1, 2, 9, 3, -7, 5, 6] * 2)
        self.check("labels_out_of_range", 6, "data", "train", *LENET, "--data", source,
                   "--no-shuffle")

    def test_another_number_of_classes(self):
        source = command.write_idx(self.folder / "twelve", count=48, classes=12)
        self.check("another_number_of_classes", 6, "data", "train",
                   "zoo:resnet18?image=28&channels=1", "--data", source, "--batch-size", "4")

    # ---- running ----

    def test_nan_loss(self):
        self.check("nan_loss", 7, "numeric", "train", *SMALL, "--data", self.idx, "--lr", "1e30",
                   "--normalize", "none", "--run", self.path("nan"), mask=without_kind)

    def test_run_folder_below_a_file(self):
        (self.folder / "file").write_text("", encoding="ascii")
        self.check("run_folder_below_a_file", 1, "io", "train", *SMALL, "--run",
                   self.path("file/run"))

    def test_read_only_run_folder(self):
        place = self.folder / "read-only"
        place.mkdir()
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "ro", "none", str(place)],
                                 capture_output=True, check=False).returncode == 0
        try:
            if not mounted and os.geteuid() == 0:
                self.skipTest("root, and nothing can be mounted: no folder is read-only here")
            if not mounted:
                place.chmod(0o555)
            result = command.run("train", *SMALL, "--run", place / "run", "--json")
        finally:
            if mounted:
                subprocess.run(["umount", str(place)], check=True)
        self.assertEqual(result.code, 1, result.stderr)
        error = result.object["error"]
        self.assertEqual(error["code"], "io")
        self.assertRegex(self.normal(error["message"]), r"FOLDER/read-only/run")
        self.assertRegex(error["message"], r"Read-only file system|Permission denied")

    def test_two_runs_in_one_folder(self):
        folder = self.path("shared")
        first = command.start_run(folder, *SMALL)
        try:
            self.check("two_runs_in_one_folder", 1, "busy", "train", *SMALL, "--run", folder)
            self.assertIsNone(first.poll(), "the first run was disturbed")
        finally:
            first.send_signal(signal.SIGTERM)
            _, words = first.communicate(timeout=120)
        self.assertEqual(first.returncode, command.EXIT_CODES["stopped"], words)
        tensors, _ = command.read_safetensors(pathlib.Path(folder, "weights.safetensors"))
        self.assertTrue(tensors)
        again = command.run("train", *SMALL, "--run", folder)
        self.assertEqual(again.code, 0, "a run that has ended still holds its folder")


if __name__ == "__main__":
    command.need_command()
    unittest.main()
