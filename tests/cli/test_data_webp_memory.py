#!/usr/bin/env python3
"""WebP in bounded memory: a run is as large after many epochs as after one, whatever windows were drawn, and
pictures larger than the region come in bands, the same to the bit.

Needs Pillow, which writes the files; skips without it."""

import io
import json
import pathlib
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
import command
import pictures

command.need_modules("PIL")
from PIL import Image

MIB = 1 << 20
RESIDENT = pathlib.Path(command.__file__).with_name("resident.py")
PICTURES = 60
LARGE_PICTURES = 6


def resident(*arguments):
    done = subprocess.run([sys.executable, "-I", "-S", RESIDENT, command.BINARY, *map(str, arguments)],
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
    lines = done.stdout.splitlines()
    return int(lines[-1]), lines[:-1]


def bench(root, epochs, memory, *more):
    """The record of `data bench` and what it had resident."""
    most, out = resident("data", "bench", root, "--size", 64, "--batch-size", 4, "--workers", 4, "--loader-memory",
                         memory, "--epochs", epochs, "--on-bad", "skip", "--max-bad", 10**6, "--json", *more)
    return json.loads(out[-1]), most


def make_small(folder):
    for i in range(PICTURES):
        image = Image.open(io.BytesIO(pictures.make_png(300 + i * 7, 400 + i * 3, i)))
        image.save(folder / f"{i:03}.webp", lossless=i % 2 == 0, method=0)


def make_large(folder):
    for i in range(LARGE_PICTURES):
        image = Image.open(io.BytesIO(pictures.make_png(350, 263, i))).convert("RGB")
        image.resize((2800, 2104 - i), Image.BICUBIC).save(folder / f"{i:03}.webp", quality=80, method=0)


class WebPMemory(unittest.TestCase):
    def check_flat(self, make, memory, *more):
        with command.folder() as scratch:
            root = pathlib.Path(scratch) / "pictures"
            (root / "all").mkdir(parents=True)
            make(root / "all")
            base, _ = resident("--version")
            record, one = bench(root, 1, memory, "--prefetch", 2, *more)
            self.assertEqual(record["verdicts"]["ok"], record["samples"])
            record, many = bench(root, 12, memory, "--prefetch", 2, *more)
            self.assertEqual(record["verdicts"]["ok"], record["samples"])
            self.assertLessEqual(many - base, record["bound_bytes"] + 12 * MIB)
            self.assertLessEqual(many, one + 2 * MIB)

    @unittest.skipIf(command.is_sanitized(), "sanitizers take memory of their own")
    def test_epochs_are_flat(self):
        self.check_flat(make_small, "64MiB")

    @unittest.skipIf(command.is_sanitized(), "sanitizers take memory of their own")
    def test_epochs_of_large_pictures_are_flat(self):
        self.check_flat(make_large, "64MiB")

    @unittest.skipIf(command.is_sanitized(), "sanitizers take memory of their own")
    def test_training_stays_within_its_plan(self):
        """Lossless pictures lie on libwebp's heap as a whole, beside memory that was committed before."""
        with command.folder() as scratch:
            for i in range(2):
                folder = pathlib.Path(scratch) / "pictures" / f"class{i}"
                folder.mkdir(parents=True)
                image = Image.open(io.BytesIO(pictures.make_png(300, 225, i))).convert("RGB")
                image.resize((2400, 1800), Image.NEAREST).save(folder / "0.webp", lossless=True, method=0)
            record = command.run_json("train", "zoo:resnet8?classes=2&image=32", "--data", folder.parent, "--batch-size", 2,
                                      "--epochs", 1, "--threads", 1, "--run", pathlib.Path(scratch) / "run")
            self.assertLessEqual(record["vmhwm_bytes"], record["planned_peak_bytes"]["device"])

    def test_the_budget_that_scan_names_is_enough(self):
        """Bands make do with less than all of a picture, and that is what is named; less is too little."""
        with command.folder() as scratch:
            root = pathlib.Path(scratch) / "pictures"
            (root / "all").mkdir(parents=True)
            make_large(root / "all")
            said = command.run_json("data", "scan", root)
            enough = said["loader_memory_bytes"]
            self.assertLess(enough, 4 * said["most_working_bytes"])
            record, _ = bench(root, 1, enough, "--mode", "eval")
            self.assertEqual(record["verdicts"]["ok"], LARGE_PICTURES)
            record, _ = bench(root, 1, enough - 40960, "--mode", "eval")
            self.assertGreater(record["verdicts"]["too_big"], 0)

    def test_bands_are_the_picture(self):
        with command.folder() as scratch:
            root = pathlib.Path(scratch) / "pictures"
            (root / "all").mkdir(parents=True)
            make_large(root / "all")
            samples = []
            for memory, mode in (("32MiB", "train"), ("1GiB", "train"), ("32MiB", "eval"), ("1GiB", "eval")):
                file = pathlib.Path(scratch) / f"{memory}.jsonl"
                record, _ = bench(root, 2 if mode == "train" else 1, memory, "--mode", mode, "--samples", file)
                self.assertEqual(record["verdicts"]["ok"], record["samples"])
                samples.append(file.read_text())
            self.assertEqual(samples[0], samples[1])
            self.assertEqual(samples[2], samples[3])


if __name__ == "__main__":
    command.need_command()
    unittest.main()
