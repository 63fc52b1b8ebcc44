#!/usr/bin/env python3
"""The same pictures give the same stream from a folder, a list, a tar and packed shards; packed shards
have an order of their own that threads and places do not change; few open files are enough."""

import io
import json
import os
import pathlib
import sys
import tarfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
import command
import pictures

COUNT = 60
CLASSES = [b"a", b"b c", b"line\nbreak", b"\xff\xfe"]


def write_tree(root):
    """Pictures in classes with odd names; returns (path below the root, class) in the order of bytes."""
    files = []
    for i in range(COUNT):
        name = CLASSES[i % 4] + b"/" + [b"p", b"q r", b"\xe9"][i % 3] + b"%02d.PNG" % i
        path = os.path.join(os.fsencode(root), name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(pictures.make_png(20 + i * 5 % 37, 20 + i * 11 % 29, i))
        files.append((name, CLASSES.index(os.path.dirname(name))))
    return sorted(files, key=lambda item: (item[1], item[0]))


class Sources(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = command.folder()
        cls.root = pathlib.Path(cls.scratch.name)
        cls.files = write_tree(cls.root / "tree")
        cls.folder = cls.stream(str(cls.root / "tree"))

    @classmethod
    def tearDownClass(cls):
        cls.scratch.cleanup()

    @classmethod
    def bytes_of(cls, name):
        with open(os.path.join(os.fsencode(cls.root / "tree"), name), "rb") as file:
            return file.read()

    @classmethod
    def stream(cls, source, *arguments, mode="eval", **options):
        """Index, verdict and checksum of every sample, in the order of the stream."""
        target = cls.root / "samples.jsonl"
        command.run_json("data", "bench", source, "--mode", mode, "--size", 24, "--batch-size", 8,
                         "--epochs", 1, "--samples", target, *arguments, **options)
        lines = [json.loads(line) for line in target.read_bytes().splitlines()]
        return [(line["index"], line["verdict"], line["crc32"]) for line in lines]

    def write_shards(self, name, mode, per_shard, labels=True):
        for first in range(0, COUNT, per_shard):
            path = self.root / f"{name}-{first // per_shard:03}.tar"
            with tarfile.open(path, "w" + mode, format=tarfile.PAX_FORMAT) as tar:
                for i, (file, label) in enumerate(self.files[first:first + per_shard], first):
                    self.add(tar, f"{i:06}.png", self.bytes_of(file))
                    if labels:
                        self.add(tar, f"{i:06}.cls", str(label).encode())
        return f"tar:{self.root}/{name}-*.tar"

    @staticmethod
    def add(tar, name, content):
        member = tarfile.TarInfo(name)
        member.size = len(content)
        tar.addfile(member, io.BytesIO(content))

    def test_the_folder_itself(self):
        self.assertEqual([index for index, _, _ in self.folder], list(range(COUNT)))
        self.assertEqual({verdict for _, verdict, _ in self.folder}, {"ok"})
        self.assertGreater(len({crc for _, _, crc in self.folder}), COUNT // 2)

    def test_lists_and_shards_give_the_folder_s_stream(self):
        path = self.root / "list.csv"
        with open(path, "wb") as sheet:
            sheet.write(b"path,label\n")
            for name, label in self.files:
                sheet.write(b'"tree/' + name + b'",' + str(label).encode() + b"\n")
        self.assertEqual(self.stream(f"csv:{path}"), self.folder)
        for workers in (1, 3):
            plain = self.write_shards("plain", "", 17)
            self.assertEqual(self.stream(plain, "--workers", workers), self.folder)
            packed = self.write_shards("packed", ":gz", 17)
            self.assertEqual(self.stream(packed, "--workers", workers), self.folder)

    def test_shuffled_plain_shards_and_folder(self):
        plain = self.write_shards("plain", "", 17)
        trained = self.stream(str(self.root / "tree"), mode="train")
        self.assertNotEqual([index for index, _, _ in trained], list(range(COUNT)))
        self.assertEqual(self.stream(plain, "--workers", 2, mode="train"), trained)

    def test_packed_shards_have_an_order_of_their_own(self):
        packed = self.write_shards("packed", ":gz", 17) + "?window=64KiB"
        first = self.stream(packed, "--workers", 1, mode="train")
        indexes = [index for index, _, _ in first]
        self.assertEqual(sorted(indexes), list(range(COUNT)))
        self.assertNotEqual(indexes, sorted(indexes))
        for workers in (2, 5):
            self.assertEqual(self.stream(packed, "--workers", workers, mode="train"), first)
        self.assertEqual(self.stream(packed, "--start-batch", 5, mode="train"), first[40:])
        self.assertNotEqual(self.stream(packed, "--seed", 1, mode="train"), first)

    def test_many_shards_with_few_open_files(self):
        shards = self.write_shards("single", "", 1)
        few = ("sh", "-c", 'ulimit -n 32; exec "$@"', "sh")
        self.assertEqual(self.stream(shards, "--workers", 4, prefix=few), self.folder)

    def test_a_cut_shard(self):
        pattern = self.write_shards("cut", "", COUNT, labels=False)
        path = self.root / "cut-000.tar"
        content = path.read_bytes().rstrip(b"\0")
        path.write_bytes(content[:len(content) - 200])
        cut = self.stream(pattern, "--on-bad", "skip")
        self.assertEqual(cut[:COUNT - 1], self.folder[:COUNT - 1])
        scanned = command.run("data", "scan", pattern, "--json")
        self.assertEqual(scanned.code, command.EXIT_CODES["data"])
        self.assertIn("is cut or damaged", scanned.stderr)
        self.assertEqual(scanned.object["verdicts"]["truncated"], 1)


if __name__ == "__main__":
    command.need_command()
    unittest.main()
