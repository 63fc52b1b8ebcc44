#!/usr/bin/env python3
"""The stream's pixels do not depend on the instruction set: CRC-32 of every sample, every change
asked for, in each dtype and layout."""

import json
import pathlib
import struct
import sys
import tempfile
import unittest
import zlib

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
import command

PICTURES = 24
EVERYTHING = "rrc,flip,vflip,rotate:20,color-jitter:0.4:0.4:0.4:0.1,grayscale:0.2,randaugment,erase,mixup,cutmix"


def png(width, height, number):
    """Waves that differ in every picture and channel, with some noise."""

    def value(x, y, c):
        noise = (x * 374761393 + y * 668265263 + (c + number) * 2246822519) >> 7 & 63
        return (abs((x * 5 + y * 3 + c * 70 + number * 31) % 382 - 191) + noise) & 255

    rows = b"".join(
        b"\0" + bytes(value(x, y, c) for x in range(width) for c in range(3)) for y in range(height)
    )

    def chunk(kind, body):
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    data = chunk(b"IDAT", zlib.compress(rows, 1))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + data + chunk(b"IEND", b"")


class InstructionSets(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory(prefix="ullage-test-")
        cls.root = pathlib.Path(cls.scratch.name)
        for number in range(PICTURES):
            path = cls.root / "photos" / f"class{number % 3}" / f"{number}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(png(40 + number * 7, 150 - number * 5, number))

    @classmethod
    def tearDownClass(cls):
        cls.scratch.cleanup()

    def stream(self, isa, flags):
        samples = self.root / "samples.jsonl"
        result = command.run(
            "data", "bench", str(self.root / "photos"), "--size", "50", "--batch-size", "7",
            "--epochs", "2", "--workers", "2", "--seed", "5", "--samples", str(samples), "--json",
            *flags, env={"ULLAGE_ISA": isa},
        )
        self.assertEqual(result.code, 0, result.stderr)
        lines = [json.loads(line) for line in samples.read_text(encoding="utf-8").splitlines()]
        self.assertEqual(len(lines), 2 * PICTURES)
        return [(line["path"], line["crc32"]) for line in lines]

    def check(self, *flags):
        portable = self.stream("portable", flags)
        self.assertGreater(len({crc for _, crc in portable}), PICTURES * 3 // 2)
        for isa in ("avx2", "avx512"):
            self.assertEqual(self.stream(isa, flags), portable, isa)

    def test_crops(self):
        self.check("--augment", "rrc,flip")

    def test_everything(self):
        self.check("--augment", EVERYTHING)

    def test_borders_in_bytes(self):
        self.check("--augment", "crop:9:reflect,flip", "--dtype", "uint8", "--layout", "nhwc", "--normalize", "none")

    def test_half(self):
        self.check("--augment", "rrc", "--dtype", "float16", "--layout", "nhwc")

    def test_bfloat16(self):
        self.check("--augment", "rrc,erase", "--dtype", "bfloat16")


if __name__ == "__main__":
    unittest.main()
