#!/usr/bin/env python3
"""A name that promises another format than the content has makes a picture `repaired`, and an honest one does
not, in every kind of source that knows names: folders, lists, shards and packed shards, pictures and masks."""

import io
import json
import pathlib
import sys
import tarfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
import command
import pictures

IMAGES = ["0.png", "1.jpg", "2.webp", "3.PNG", "4.JPEG", "5.png"]
MASKS = ["0.png", "1.png", "2.png", "3.png", "4.jpg", "5.webp"]


def make_mask(i):
    return pictures.png_bytes(24, 20, bytes(byte for _ in range(24 * 20) for byte in (i, i, i)))


def of_name(name):
    return "ok" if name.lower().endswith(".png") else "repaired"


class Names(unittest.TestCase):
    def setUp(self):
        self.scratch = command.folder()
        self.root = pathlib.Path(self.scratch.name)
        for folder in ("single/all", "pairs/images", "pairs/masks"):
            (self.root / folder).mkdir(parents=True)
        for i, (image, mask) in enumerate(zip(IMAGES, MASKS)):
            for folder in ("single/all", "pairs/images"):
                (self.root / folder / image).write_bytes(pictures.make_png(24, 20, i))
            (self.root / "pairs/masks" / mask).write_bytes(make_mask(i))

    def tearDown(self):
        self.scratch.cleanup()

    def write_shard(self, name, mode, masks):
        with tarfile.open(self.root / name, mode) as tar:
            for i, image in enumerate(IMAGES):
                tar.add(self.root / "pairs/images" / image, f"key{i}{pathlib.Path(image).suffix}")
                if masks:
                    tar.add(self.root / "pairs/masks" / MASKS[i], f"key{i}.mask{pathlib.Path(MASKS[i]).suffix}")
                else:
                    label = tarfile.TarInfo(f"key{i}.cls")
                    label.size = 1
                    tar.addfile(label, io.BytesIO(b"0"))
        return f"tar:{self.root / name}"

    def write_list(self, name, heading, rows):
        (self.root / name).write_text("\n".join([heading, *rows]) + "\n")
        return f"csv:{self.root / name}"

    def check(self, source, files, worst):
        """Verdicts of files in the order of samples, and of samples."""
        target = self.root / "lines.jsonl"
        command.run_json("data", "scan", source, "--files", target)
        self.assertEqual([json.loads(line)["verdict"] for line in target.read_text().splitlines()],
                         [of_name(name) for name in files], source)
        command.run_json("data", "bench", source, "--mode", "eval", "--size", 16, "--batch-size", 2, "--epochs", 1,
                         "--samples", target)
        lines = sorted((json.loads(line) for line in target.read_text().splitlines()), key=lambda line: line["index"])
        self.assertEqual([line["verdict"] for line in lines], worst, source)

    def test_pictures(self):
        verdicts = [of_name(name) for name in IMAGES]
        rows = [f"single/all/{name},0" for name in IMAGES]
        for source in (str(self.root / "single"), self.write_list("list.csv", "path,label", rows),
                       self.write_shard("plain.tar", "w", False), self.write_shard("packed.tar.gz", "w:gz", False)):
            self.check(source, IMAGES, verdicts)

    def test_masks(self):
        files = [name for pair in zip(IMAGES, MASKS) for name in pair]
        worst = [max(of_name(image), of_name(mask)) for image, mask in zip(IMAGES, MASKS)]
        rows = [f"pairs/images/{image},pairs/masks/{mask}" for image, mask in zip(IMAGES, MASKS)]
        for source in (str(self.root / "pairs"), self.write_list("pairs.csv", "image,mask", rows),
                       self.write_shard("pairs.tar", "w", True)):
            self.check(source, files, worst)


if __name__ == "__main__":
    command.need_command()
    unittest.main()
