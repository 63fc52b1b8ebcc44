"""Pictures made with the standard library alone, for tests that run the command."""

import pathlib
import random
import struct
import zlib


def png_bytes(width, height, pixels, level=6):
    """An 8-bit PNG; `pixels` is [height, width, 3] as bytes."""

    def chunk(kind, content):
        body = kind + content
        return struct.pack(">I", len(content)) + body + struct.pack(">I", zlib.crc32(body))

    stride = 3 * width
    rows = b"".join(b"\0" + pixels[y * stride:(y + 1) * stride] for y in range(height))
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows, level))
            + chunk(b"IEND", b""))


def make_png(width, height, seed, level=6):
    """Random blocks, so that neighbouring pixels are alike in most places."""
    draw = random.Random(seed)
    block = [bytes(draw.randrange(256) for _ in range(3)) for _ in range(64)]
    row = [b"".join(block[(x // 8 + y * 7 + seed) % 64] for x in range(width)) for y in range(16)]
    return png_bytes(width, height, b"".join(row[(y // 8) % 16] for y in range(height)), level)


def write_folder(path, count, classes=("a", "b"), side=48):
    """Class folders of `count` small PNGs of different sizes; returns their paths."""
    paths = []
    for i in range(count):
        name = pathlib.Path(path) / classes[i % len(classes)] / f"picture{i:04}.png"
        name.parent.mkdir(parents=True, exist_ok=True)
        name.write_bytes(make_png(side + i * 5 % 37, side + i * 11 % 29, i))
        paths.append(name)
    return paths
