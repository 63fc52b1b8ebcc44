"""Pictures without a library: PNG written and read with zlib, orientation put into JPEG files."""

import pathlib
import random
import struct
import zlib


def png_bytes(width, height, channels, pixels):
    """8 bits a channel, no filters. `pixels` are rows one after the other."""
    row = width * channels
    raw = b"".join(b"\0" + bytes(pixels[y * row : (y + 1) * row]) for y in range(height))

    def chunk(kind, data):
        body = kind + data
        return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))

    head = struct.pack(">IIBBBBB", width, height, 8, {1: 0, 3: 2}[channels], 0, 0, 0)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(raw, 6))
            + chunk(b"IEND", b""))


def read_png(data):
    """(width, height, channels, pixels) of an 8-bit grey or RGB PNG without interlacing."""
    assert data[:8] == b"\x89PNG\r\n\x1a\n", data[:8]
    at, body, head = 8, b"", None
    while at < len(data):
        (size,) = struct.unpack(">I", data[at : at + 4])
        kind, content = data[at + 4 : at + 8], data[at + 8 : at + 8 + size]
        assert struct.unpack(">I", data[at + 8 + size : at + 12 + size])[0] == zlib.crc32(kind + content)
        head = struct.unpack(">IIBBBBB", content) if kind == b"IHDR" else head
        body += content if kind == b"IDAT" else b""
        at += 12 + size
    width, height, bits, colour, *_rest, interlaced = head
    assert bits == 8 and colour in (0, 2) and interlaced == 0, head
    channels = 3 if colour == 2 else 1
    return width, height, channels, unfilter(zlib.decompress(body), width * channels, height, channels)


def unfilter(raw, row, height, step):
    pixels, above = bytearray(), bytearray(row)
    for y in range(height):
        kind = raw[y * (row + 1)]
        line = bytearray(raw[y * (row + 1) + 1 : (y + 1) * (row + 1)])
        for x in range(row):
            left = line[x - step] if x >= step else 0
            corner = above[x - step] if x >= step else 0
            line[x] = (line[x] + (0, left, above[x], (left + above[x]) // 2,
                                  paeth(left, above[x], corner))[kind]) & 255
        pixels += line
        above = line
    return bytes(pixels)


def paeth(a, b, c):
    p = a + b - c
    distances = (abs(p - a), abs(p - b), abs(p - c))
    return (a, b, c)[distances.index(min(distances))]


def smooth(width, height, seed=0):
    """A picture that survives JPEG: slow ramps of all three channels."""
    return bytes(
        value for y in range(height) for x in range(width)
        for value in (x * 255 // max(width - 1, 1), y * 255 // max(height - 1, 1), seed * 37 % 256))


def noise(width, height, seed):
    return random.Random(seed).randbytes(width * height * 3)


def write_png(path, width, height, pixels, channels=3):
    path = pathlib.Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(png_bytes(width, height, channels, pixels))
    return path


def with_orientation(jpeg, number):
    """The JPEG with EXIF's orientation in front of everything else."""
    entry = struct.pack(">HHIHH", 0x0112, 3, 1, number, 0)
    tiff = b"MM\0*\0\0\0\x08" + b"\0\x01" + entry + b"\0\0\0\0"
    body = b"Exif\0\0" + tiff
    return jpeg[:2] + b"\xff\xe1" + struct.pack(">H", len(body) + 2) + body + jpeg[2:]


def read_ppm(path):
    """(width, height, pixels) of a binary PPM."""
    data = pathlib.Path(path).read_bytes()
    kind, width, height, most, pixels = split_ppm(data)
    assert kind == b"P6" and most == 255
    return width, height, pixels


def split_ppm(data):
    words, at = [], 0
    while len(words) < 4:
        end = at
        while data[end : end + 1] not in (b" ", b"\n"):
            end += 1
        words.append(data[at:end])
        at = end + 1
    return words[0], int(words[1]), int(words[2]), int(words[3]), data[at:]
