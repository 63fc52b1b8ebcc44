#!/usr/bin/env python3
"""One file, one verdict: `data scan`, `data bench` and `data decode` say the same of every picture of the
stored collections, and a crop is never judged harder than the whole picture.

Reads ULLAGE_TEST_DATA; skips without it."""

import hashlib
import json
import os
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
import command

SUFFIXES = {".jpg", ".jpeg", ".png", ".webp", ".mpo"}
GOOD = {"ok", "repaired", "warned"}
DECODED = 12  # one file of so many goes through `data decode`, a process each
MEMORY = ("--loader-memory", "4GiB")  # a quarter is for a large picture: what scan and decode have
LENIENT = ("--mode", "eval", "--size", "64", "--max-bad", "100000")


def collect(folder, data):
    """Links to all pictures in one class folder, in an order that mixes good and bad ones."""
    (folder / "all").mkdir(parents=True)
    for collection in ("odd-images", "fuzz-jpeg", "camera-jpeg"):
        for path in sorted((data / collection).rglob("*")):
            if path.suffix.lower() in SUFFIXES:
                name = hashlib.sha256(str(path.relative_to(data)).encode()).hexdigest()[:16]
                suffix = path.suffix if path.suffix != ".mpo" else ".jpg"
                (folder / "all" / f"{name}{suffix}").symlink_to(path)


class Verdicts(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        data = os.environ.get("ULLAGE_TEST_DATA")
        if not data:
            command.skip("ULLAGE_TEST_DATA is not set")
        cls.scratch = command.folder()
        cls.root = pathlib.Path(cls.scratch.name) / "pictures"
        collect(cls.root, pathlib.Path(data))
        lines = cls.lines("scan", "--files")
        cls.scanned = {line["path"]: line for line in lines}
        cls.order = [line["path"] for line in lines]

    @classmethod
    def tearDownClass(cls):
        cls.scratch.cleanup()

    @classmethod
    def lines(cls, what, flag, *arguments):
        told = pathlib.Path(cls.scratch.name) / "told.jsonl"
        result = command.run("data", what, cls.root, flag, told, *arguments)
        assert result.code == (6 if what == "scan" else 0), result.stderr[-1000:]
        return [json.loads(line) for line in told.read_text(encoding="utf-8").splitlines()]

    def loaded(self, *arguments):
        """Path -> verdict of the sample that was asked for: evaluation is in the order of the files."""
        lines = self.lines("bench", "--samples", *LENIENT, *arguments)
        self.assertEqual(len(lines), len(self.order))
        return {path: line.get("instead_of", line["verdict"]) for path, line in zip(self.order, lines)}

    def test_whole_pictures(self):
        loaded = self.loaded("--augment", "stretch", *MEMORY)
        for path, verdict in loaded.items():
            with self.subTest(file=os.path.realpath(path)):
                self.assertEqual(verdict, self.scanned[path]["verdict"])

    def test_crops_are_not_judged_harder(self):
        for path, verdict in self.loaded(*MEMORY).items():
            if self.scanned[path]["verdict"] in GOOD:
                with self.subTest(file=os.path.realpath(path)):
                    self.assertIn(verdict, GOOD)

    def test_one_by_one(self):
        for path in self.order[::DECODED]:
            result = command.run("data", "decode", path, "--json", "--loader-memory", "1GiB")
            with self.subTest(file=os.path.realpath(path)):
                wanted = self.scanned[path]
                self.assertEqual(result.object["verdict"], wanted["verdict"])
                self.assertEqual(result.object["reason"], wanted["reason"])
                self.assertEqual(result.code, 0 if wanted["verdict"] in GOOD else 6)


if __name__ == "__main__":
    command.need_command()
    unittest.main()
