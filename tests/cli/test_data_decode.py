#!/usr/bin/env python3
"""ullage data decode: pixels, crops, orientation, verdicts, exit codes; beside djpeg where it is installed."""

import os
import pathlib
import shutil
import struct
import subprocess
import sys
import unittest
import zlib

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
import command

WIDTH, HEIGHT = 7, 5
DATA, USAGE, IO = 6, 2, 1
KEYS = {"schema", "path", "format", "verdict", "reason", "width", "height", "stored_width", "stored_height",
        "orientation", "working_bytes"}


def chunk(kind, content):
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def pixel(x, y):
    return bytes([x * 30, y * 40, (x * y) % 256])


def png(orientation=1):
    rows = b"".join(b"\0" + b"".join(pixel(x, y) for x in range(WIDTH)) for y in range(HEIGHT))
    exif = b"MM\0*\0\0\0\x08\0\x01" + struct.pack(">HHIHHI", 0x112, 3, 1, orientation, 0, 0)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", WIDTH, HEIGHT, 8, 2, 0, 0, 0))
            + chunk(b"eXIf", exif) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def read_ppm(path):
    """(width, height, bytes)."""
    magic, size, most, pixels = path.read_bytes().split(b"\n", 3)
    if (magic, most) != (b"P6", b"255"):
        raise AssertionError(f"{path}: {magic} {most}")
    width, height = map(int, size.split())
    return width, height, pixels


class Decode(unittest.TestCase):
    def setUp(self):
        self.folder = command.folder()
        self.path = pathlib.Path(self.folder.name)

    def tearDown(self):
        self.folder.cleanup()

    def write(self, name, content):
        path = self.path / name
        path.write_bytes(content)
        return path

    def decode(self, file, *flags):
        out = self.path / "out.ppm"
        result = command.run("data", "decode", file, "--out", out, "--json", *flags)
        return result, out

    def test_whole_and_crop(self):
        file = self.write("a.png", png())
        result, out = self.decode(file)
        self.assertEqual(result.code, 0, result.stderr)
        self.assertEqual(set(result.object), KEYS | {"out"})
        self.assertEqual((result.object["format"], result.object["verdict"]), ("png", "ok"))
        expected = b"".join(pixel(x, y) for y in range(HEIGHT) for x in range(WIDTH))
        self.assertEqual(read_ppm(out), (WIDTH, HEIGHT, expected))
        result, out = self.decode(file, "--crop", "2,1,4,3")
        expected = b"".join(pixel(x, y) for y in range(1, 4) for x in range(2, 6))
        self.assertEqual(read_ppm(out), (4, 3, expected))
        self.assertEqual((result.object["width"], result.object["height"]), (4, 3))

    def test_orientation(self):
        file = self.write("a.png", png(6))
        result, out = self.decode(file, "--orientation", "ignore")
        self.assertEqual((read_ppm(out)[0], result.object["verdict"]), (WIDTH, "ok"))
        result, out = self.decode(file, "--crop", "1,2,3,4")
        self.assertEqual(result.object["verdict"], "repaired")
        self.assertEqual(result.object["orientation"], 6)
        expected = b"".join(pixel(y, HEIGHT - 1 - x) for y in range(2, 6) for x in range(1, 4))
        self.assertEqual(read_ppm(out), (3, 4, expected))

    def test_verdicts_and_exit_codes(self):
        whole = png()
        cases = [("empty.png", b"", "empty"), ("text.jpg", b"no picture at all", "not_an_image"),
                 ("cut.png", whole[:-40], "truncated"), ("a.gif", b"GIF89a" + bytes(20), "unsupported")]
        for name, content, verdict in cases:
            with self.subTest(name=name):
                result, out = self.decode(self.write(name, content))
                self.assertEqual((result.code, result.object["verdict"]), (DATA, verdict))
                self.assertEqual(result.object["error"]["code"], "data")
                self.assertFalse(out.exists())
        result, _ = self.decode(self.write("lies.jpg", whole))
        self.assertEqual((result.code, result.object["verdict"]), (0, "repaired"))
        damaged = bytearray(whole)
        damaged[-14] ^= 1  # the checksum of the pixels
        result, out = self.decode(self.write("damaged.png", bytes(damaged)))
        self.assertEqual((result.code, result.object["verdict"]), (DATA, "damaged"))
        self.assertTrue(out.exists())

    def test_wrong_use(self):
        file = self.write("a.png", png())
        self.assertEqual(self.decode(self.path / "missing.png")[0].code, IO)
        self.assertEqual(self.decode(self.path)[0].code, IO)
        for crop in ("0,0,8,1", "7,0,1,1", "0,0,0,1", "999999999,0,999999999,1"):
            self.assertEqual(self.decode(file, "--crop", crop)[0].code, USAGE, crop)
        self.assertEqual(command.run("data", "decode").code, USAGE)
        self.assertEqual(command.run("data").code, USAGE)
        self.assertEqual(command.run("data", "nothing", file).code, USAGE)
        result = command.run("data", "decode", file, "--out", self.path / "b.png")
        self.assertEqual((result.code, (self.path / "b.png").exists()), (USAGE, False))
        self.assertIn("b.png: .ppm or .pgm is written", result.stderr)
        result = command.run("data", "decode", file, "--out", self.path / "no" / "where.ppm", "--json")
        self.assertEqual((result.code, result.object["error"]["code"]), (IO, "io"))

    def test_memory_limit(self):
        file = self.write("a.png", png())
        result, _ = self.decode(file, "--loader-memory", "1KiB")
        self.assertEqual((result.code, result.object["verdict"]), (DATA, "too_big"))
        self.assertGreater(result.object["error"]["shortfall_bytes"], 0)

    def test_beside_djpeg(self):
        data = os.environ.get("ULLAGE_TEST_DATA")
        if not data or not shutil.which("djpeg"):
            self.skipTest("ULLAGE_TEST_DATA or djpeg is missing")
        folder = pathlib.Path(data)
        for file in [*sorted((folder / "camera-jpeg").iterdir()), *sorted((folder / "photos").iterdir())[::50]]:
            with self.subTest(file=file.name):
                djpeg = subprocess.run(["djpeg", "-dct", "int", "-pnm", file], capture_output=True, check=False)
                result, out = self.decode(file, "--orientation", "ignore")
                clean = djpeg.returncode == 0 and not djpeg.stderr
                self.assertEqual(clean, result.object["verdict"] in ("ok", "repaired"))
                if clean and djpeg.stdout[:2] == b"P6":
                    self.assertEqual(out.read_bytes(), djpeg.stdout)


if __name__ == "__main__":
    command.need_command()
    unittest.main()
