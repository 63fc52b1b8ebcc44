#!/usr/bin/env python3
"""What libwebp takes from the heap goes back: a run over WebP files is as large after many epochs as after
one.

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


def resident(*arguments):
    done = subprocess.run([sys.executable, "-I", "-S", RESIDENT, command.BINARY, *map(str, arguments)],
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
    lines = done.stdout.splitlines()
    return int(lines[-1]), lines[:-1]


@unittest.skipIf(command.is_sanitized(), "sanitizers take memory of their own")
class WebPMemory(unittest.TestCase):
    def test_epochs_are_flat(self):
        with command.folder() as scratch:
            root = pathlib.Path(scratch) / "pictures"
            (root / "all").mkdir(parents=True)
            for i in range(PICTURES):
                image = Image.open(io.BytesIO(pictures.make_png(300 + i * 7, 400 + i * 3, i)))
                image.save(root / "all" / f"{i:03}.webp", lossless=i % 2 == 0, method=0)
            base, _ = resident("--version")
            common = ("data", "bench", root, "--size", 64, "--batch-size", 4, "--workers", 4, "--loader-memory", "64MiB",
                      "--on-bad", "skip", "--max-bad", 10**6, "--json")
            # Every thread, those standing by too, has had a picture of each kind after a few epochs.
            few, out = resident(*common, "--epochs", 4)
            many, _ = resident(*common, "--epochs", 24)
            self.assertLessEqual(many - base, json.loads(out[-1])["bound_bytes"] + 12 * MIB)
            self.assertLessEqual(many, few + 2 * MIB)


if __name__ == "__main__":
    command.need_command()
    unittest.main()
