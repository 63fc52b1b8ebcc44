#!/usr/bin/env python3
"""`ullage data pack`: shards that hold what the folder holds, and that come out the same whatever
happens while they are made."""

import fcntl
import filecmp
import json
import os
import pathlib
import signal
import subprocess
import sys
import tarfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
import command
import picture_files as pictures

LONG = "long-" + 40 * "name-"
DATA, FULL, USAGE = 6, 1, 2


def make_tree(root, count=24, classes=3, size=40):
    """Class folders of PNGs, all different, some of them too small to be shrunk."""
    for i in range(count):
        side = size if i % 4 else 16
        pictures.write_png(root / f"class {i % classes}" / f"p{i:03}.png", side + 9, side,
                           pictures.noise(side + 9, side, i))
    return root


def pack(source, out, *flags, **options):
    return command.run_json("data", "pack", source, "--out", out, *flags, **options)


def members(out, part="train"):
    """[(name, bytes)] of all shards in order."""
    found = []
    for shard in sorted(pathlib.Path(out).glob(f"{part}-*.tar")):
        with tarfile.open(shard) as archive:
            found += [(m.name, archive.extractfile(m).read()) for m in archive.getmembers()]
    return found


def contents(folder):
    return {p.name: p.read_bytes() for p in pathlib.Path(folder).iterdir()}


def stream(source, *flags):
    with command.folder() as folder:
        samples = pathlib.Path(folder) / "samples"
        command.run_json("data", "bench", source, "--batch-size", 7, "--size", 24, "--seed", 5,
                         "--workers", 2, "--samples", samples, *flags)
        lines = map(json.loads, samples.read_text().splitlines())
        return [(line["index"], line["crc32"]) for line in lines]


class Folder(unittest.TestCase):
    def setUp(self):
        holder = command.folder()
        self.addCleanup(holder.cleanup)
        self.root = pathlib.Path(holder.name)
        self.tree = self.root / "tree"


class Copies(Folder):
    def test_members_are_the_files_in_order(self):
        make_tree(self.tree)
        result = pack(self.tree, self.root / "out", "--shard-size", "16KiB")
        files = sorted(self.tree.rglob("*.png"))
        found = members(self.root / "out")
        self.assertEqual([data for name, data in found if name.endswith(".png")],
                         [f.read_bytes() for f in files])
        self.assertEqual([data for name, data in found if name.endswith(".cls")],
                         [f.parent.name[-1].encode() for f in files])
        self.assertEqual(found[0][0], "000000000-p000.png")
        self.assertEqual((self.root / "out/classes.txt").read_text(), "class 0\nclass 1\nclass 2\n")
        self.assertEqual(result["samples"], 24)
        self.assertEqual(result["copied"], 24)
        self.assertEqual(result["bytes_in"], sum(f.stat().st_size for f in files))
        shards = sorted((self.root / "out").glob("*.tar"))
        self.assertGreater(len(shards), 3)
        self.assertEqual(result["shards"], len(shards))
        self.assertEqual(result["bytes_out"], sum(s.stat().st_size for s in shards))
        for shard in shards:
            self.assertLessEqual(shard.stat().st_size, 16384)
        self.assertEqual(set(contents(self.root / "out")), {
            "classes.txt", "train-pack.json", *(s.name for s in shards)})

    def test_a_pack_streams_as_its_folder(self):
        make_tree(self.tree)
        out = pack(self.tree, self.root / "out", "--shard-size", "16KiB")
        for mode in ("train", "eval"):
            self.assertEqual(stream(self.tree, "--mode", mode),
                             stream(out["parts"]["train"]["data"], "--mode", mode))

    def test_packing_a_pack_changes_nothing(self):
        make_tree(self.tree)
        first = pack(self.tree, self.root / "a", "--shard-size", "16KiB")
        pack(first["parts"]["train"]["data"], self.root / "b", "--shard-size", "16KiB")
        for name, data in contents(self.root / "a").items():
            if not name.endswith(".json"):
                self.assertEqual((self.root / "b" / name).read_bytes(), data)

    def test_a_compressed_pack_can_be_packed(self):
        make_tree(self.tree)
        pack(self.tree, self.root / "a", "--shard-size", "16KiB")
        for shard in (self.root / "a").glob("*.tar"):
            subprocess.run(["gzip", shard], check=True)
        pack(f"tar:{self.root}/a/train-*.tar.gz?window=64KiB", self.root / "b", "--shard-size",
             "16KiB", "--workers", 8, timeout=60)
        self.assertEqual(members(self.root / "b"), members_gz(self.root / "a"))

    def test_names_of_all_kinds(self):
        names = [b"a b.png", b"new\nline.png", b"not \xff utf-8.png", "ünï.png".encode(),
                 b"dots.in.name.PNG", LONG.encode() + b".png", b"-dash.png"]
        (self.tree / "c").mkdir(parents=True)
        for i, name in enumerate(names):
            with open(os.path.join(os.fsencode(self.tree / "c"), name), "wb") as file:
                file.write(pictures.png_bytes(8, 8, 3, pictures.noise(8, 8, i)))
        out = pack(self.tree, self.root / "out")
        keys = [name for name, _ in members(self.root / "out") if name.endswith(".png")]
        self.assertEqual(keys, [
            "000000000--dash.png", "000000001-a_b.png", "000000002-dots_in_name.png",
            f"000000003-{LONG}.png", "000000004-new_line.png", "000000005-not___utf-8.png",
            "000000006-ünï.png"])
        self.assertEqual(stream(self.tree), stream(out["parts"]["train"]["data"]))

    def test_two_parts(self):
        make_tree(self.tree / "train", count=6)
        make_tree(self.tree / "val", count=3, size=24)
        out = pack(self.tree, f"{self.root}/out/set-")
        self.assertEqual(set(contents(self.root / "out")), {
            "classes.txt", "set-train-000000.tar", "set-train-pack.json", "set-val-000000.tar",
            "set-val-pack.json"})
        self.assertEqual(out["samples"], 9)
        self.assertEqual(stream(self.tree, "--mode", "eval"),
                         stream(out["parts"]["val"]["data"], "--mode", "eval"))


def members_gz(out):
    found = []
    for shard in sorted(pathlib.Path(out).glob("*.tar.gz")):
        with tarfile.open(shard, "r:gz") as archive:
            found += [(m.name, archive.extractfile(m).read()) for m in archive.getmembers()]
    return found


class Shrinks(Folder):
    def decode(self, data, name="picture"):
        path = self.root / name
        path.write_bytes(data)
        command.run_json("data", "decode", path, "--out", self.root / "pixels.ppm")
        return pictures.read_ppm(self.root / "pixels.ppm")

    def test_the_shorter_side(self):
        wide, tall, small = (200, 100), (90, 240), (300, 48)
        for i, (width, height) in enumerate((wide, tall, small)):
            pictures.write_png(self.tree / "c" / f"{i}.png", width, height,
                               pictures.smooth(width, height))
        result = pack(self.tree, self.root / "out", "--max-side", 48)
        self.assertEqual((result["copied"], result["encoded"]), (1, 2))
        found = dict(members(self.root / "out"))
        for name, size in (("000000000-0.jpg", (96, 48)), ("000000001-1.jpg", (48, 128))):
            width, height, pixels = self.decode(found[name])
            self.assertEqual((width, height), size)
            expected = pictures.smooth(width, height)
            worst = max(abs(a - b) for a, b in zip(pixels, expected))
            self.assertLess(worst, 12)
        self.assertEqual(found["000000002-2.png"], (self.tree / "c/2.png").read_bytes())

    def test_pictures_become_upright(self):
        pictures.write_png(self.tree / "c/0.png", 96, 64, pictures.smooth(96, 64))
        pack(self.tree, self.root / "first", "--max-side", 56)
        jpeg = dict(members(self.root / "first"))["000000000-0.jpg"]
        for number in range(1, 9):
            name = self.root / f"turned{number}/c/x.jpg"
            name.parent.mkdir(parents=True)
            name.write_bytes(pictures.with_orientation(jpeg, number))
            pack(name.parent.parent, self.root / f"out{number}", "--max-side", 28)
            small = dict(members(self.root / f"out{number}"))["000000000-x.jpg"]
            self.assertNotIn(b"Exif", small)
            width, height, pixels = self.decode(small)
            upright_width, upright_height, large = self.decode(name.read_bytes(), "large.jpg")
            self.assertEqual((width, height), (upright_width // 2, upright_height // 2), number)
            worst = 0
            for y in range(height):
                for x in range(width):
                    near = ((2 * y) * upright_width + 2 * x) * 3
                    at = (y * width + x) * 3
                    worst = max(worst, *(abs(pixels[at + c] - large[near + c]) for c in range(3)))
            self.assertLess(worst, 20, number)

    def test_masks_keep_class_numbers_and_alignment(self):
        side, cell = 96, 12
        for i in range(3):
            classes = [(x // cell + y // cell * 8 + i) % 250 for y in range(side) for x in range(side)]
            colours = bytes(v for c in classes for v in (c, 255 - c, c // 2))
            pictures.write_png(self.tree / f"images/{i}.png", side, side, colours)
            pictures.write_png(self.tree / f"masks/{i}.png", side, side, bytes(classes), channels=1)
        result = pack(self.tree, self.root / "out", "--max-side", 24, "--quality", 100)
        self.assertEqual(result["encoded"], 6)
        found = dict(members(self.root / "out"))
        for i in range(3):
            width, height, channels, mask = pictures.read_png(found[f"00000000{i}-{i}.mask.png"])
            self.assertEqual((width, height, channels), (24, 24, 1))
            expected = bytes((x // 3 + y // 3 * 8 + i) % 250 for y in range(24) for x in range(24))
            self.assertEqual(mask, expected)
            self.assertEqual(self.decode(found[f"00000000{i}-{i}.jpg"])[:2], (24, 24))
        # Where nothing is shrunk both files are copied, and the pairs stream as the folder's.
        out = pack(self.tree, self.root / "copies")
        self.assertEqual(stream(self.tree), stream(out["parts"]["train"]["data"]))

    def test_quality_alone(self):
        pictures.write_png(self.tree / "c/noise.png", 64, 64, pictures.noise(64, 64, 1))
        pictures.write_png(self.tree / "c/plain.png", 64, 64, bytes(64 * 64 * 3))
        result = pack(self.tree, self.root / "out", "--quality", 50)
        self.assertEqual((result["copied"], result["encoded"]), (1, 1))
        found = dict(members(self.root / "out"))
        self.assertLess(len(found["000000000-noise.jpg"]), (self.tree / "c/noise.png").stat().st_size)
        self.assertEqual(found["000000001-plain.png"], (self.tree / "c/plain.png").read_bytes())

    def test_any_number_of_workers(self):
        make_tree(self.tree)
        flags = ("--max-side", 20, "--shard-size", "8KiB")
        pack(self.tree, self.root / "1", *flags, "--workers", 1)
        for workers in (2, 7):
            pack(self.tree, self.root / str(workers), *flags, "--workers", workers)
            self.assertEqual(contents(self.root / "1"), contents(self.root / str(workers)))

    def test_one_picture_needs_more_than_the_memory(self):
        make_tree(self.tree, count=4)
        pictures.write_png(self.tree / "class 0/large.png", 900, 700, bytes(900 * 700 * 3))
        flags = ("--max-side", 600, "--loader-memory", "256KiB")
        small = pack(self.tree, self.root / "1", *flags, "--workers", 1)
        self.assertEqual(small["verdicts"]["too_big"], 1)
        pack(self.tree, self.root / "8", *flags, "--workers", 8)
        self.assertEqual(contents(self.root / "1"), contents(self.root / "8"))


class Resumes(Folder):
    flags = ("--shard-size", "24KiB", "--max-side", 90)

    def make(self):
        for i in range(60):
            pictures.write_png(self.tree / f"c{i % 2}" / f"{i:03}.png", 120, 100,
                               pictures.noise(120, 100, i))
        pack(self.tree, self.root / "whole", *self.flags)

    def start(self, out, seen):
        """Packs until `seen` whole shards lie there, and is killed."""
        words = [command.BINARY, "data", "pack", self.tree, "--out", out, "--workers", "2"]
        process = subprocess.Popen([*words, *map(str, self.flags)], stdout=subprocess.DEVNULL)
        while process.poll() is None and len(list(out.glob("*.tar"))) < seen:
            time.sleep(0.001)
        process.send_signal(signal.SIGKILL)
        process.wait()

    def test_killed_again_and_again(self):
        self.make()
        out = self.root / "out"
        out.mkdir()
        total = len(list((self.root / "whole").glob("*.tar")))
        self.assertGreater(total, 6)
        for seen in range(1, total, 2):
            self.start(out, seen)
            for shard in out.glob("*.tar"):  # whatever has its name is whole
                self.assertTrue(filecmp.cmp(shard, self.root / "whole" / shard.name, shallow=False))
        result = pack(self.tree, out, *self.flags)
        self.assertGreater(result["resumed_samples"], 0)
        self.assertEqual(contents(out), contents(self.root / "whole"))
        again = pack(self.tree, out, *self.flags)
        self.assertEqual(again["resumed_samples"], 60)
        self.assertEqual(again["bytes_out"], result["bytes_out"])
        self.assertEqual(contents(out), contents(self.root / "whole"))

    def test_a_full_disk(self):
        self.make()
        out = self.root / "out"
        limit = ["sh", "-c", 'ulimit -f 20; exec "$0" "$@"']  # blocks of 512 bytes a file
        result = command.run("data", "pack", self.tree, "--out", out, *self.flags, "--json",
                             prefix=limit)
        self.assertEqual(result.code, FULL, result.stderr)
        self.assertEqual(result.object["error"]["code"], "io")
        self.assertIn("train-000000.tar", result.object["error"]["message"])
        self.assertIn("run the same again", result.object["error"]["change"])
        self.assertEqual(list(out.glob("*.tar*")), [])
        pack(self.tree, out, *self.flags)
        self.assertEqual(contents(out), contents(self.root / "whole"))

    def refuse(self, code, message, source, out, *flags):
        before = contents(out) if pathlib.Path(out).is_dir() else None
        result = command.run("data", "pack", source, "--out", out, *flags, "--json")
        self.assertNotEqual(result.code, 0, result.stderr)
        self.assertEqual(result.object["error"]["code"], code)
        self.assertIn(message, result.object["error"]["message"])
        if before is not None:
            self.assertEqual(contents(out), before)

    def test_refusals(self):
        make_tree(self.tree, count=6)
        out = self.root / "out"
        pack(self.tree, out, "--max-side", 20)
        self.refuse("mismatch", "--max-side 20, not 21", self.tree, out, "--max-side", 21)
        self.refuse("mismatch", "--quality none, not 80", self.tree, out, "--max-side", 20, "--quality",
                    80)
        self.refuse("mismatch", "--shard-size", self.tree, out, "--max-side", 20, "--shard-size",
                    "1MiB")
        extra = pictures.write_png(self.tree / "class 0/new.png", 8, 8, bytes(192))
        self.refuse("mismatch", "other samples", self.tree, out, "--max-side", 20)
        extra.unlink()
        descriptor = os.open(out, os.O_RDONLY)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        self.refuse("busy", "by another process", self.tree, out, "--max-side", 20)
        os.close(descriptor)
        (out / "train-000000.tar").write_bytes(b"something else")
        self.refuse("mismatch", "another size", self.tree, out, "--max-side", 20)
        (out / "train-pack.json").unlink()
        self.refuse("mismatch", "no -pack.json", self.tree, out, "--max-side", 20)

    def test_no_folder_and_nothing_to_pack(self):
        make_tree(self.tree, count=2)
        (self.root / "file").write_bytes(b"")
        self.refuse("io", "file", self.tree, self.root / "file/out")
        if os.geteuid() != 0:
            (self.root / "locked").mkdir(mode=0o555)
            self.refuse("io", "locked", self.tree, self.root / "locked")
        self.refuse("unsupported", "no encoded pictures", command.write_idx(self.root / "idx"),
                    self.root / "o")
        self.refuse("usage", "--workers", self.tree, self.root / "o", "--workers", "1,2")
        self.assertEqual(command.run("data", "pack", self.tree).code, USAGE)


class BadPictures(Folder):
    def setUp(self):
        super().setUp()
        make_tree(self.tree, count=12)
        files = sorted(self.tree.rglob("*.png"))
        self.cut, self.empty, self.text = files[1], files[4], files[9]
        self.cut.write_bytes(self.cut.read_bytes()[:-400])
        self.empty.write_bytes(b"")
        self.text.write_bytes(b"this is no picture")
        self.files = files

    def test_kept(self):
        for number, flags in enumerate(((), ("--max-side", 20))):
            out = self.root / str(number)
            result = pack(self.tree, out, *flags)
            self.assertEqual(result["samples"], 12)
            self.assertEqual(result["verdicts"]["truncated"] + result["verdicts"]["damaged"], 1)
            self.assertEqual(result["verdicts"]["empty"], 1)
            self.assertEqual(result["verdicts"]["not_an_image"], 1)
            found = [data for name, data in members(out) if not name.endswith(".cls")]
            for bad in (self.cut, self.empty, self.text):
                self.assertEqual(found[self.files.index(bad)], bad.read_bytes())
        pattern = f"tar:{self.root}/0/train-*.tar"
        self.assertEqual(stream(self.tree), stream(pattern))

    def test_left_out(self):
        result = pack(self.tree, self.root / "out", "--on-bad", "skip", "--shard-size", "16KiB")
        self.assertEqual((result["samples"], result["skipped"]), (9, 3))
        keys = [name[:9] for name, _ in members(self.root / "out") if name.endswith(".cls")]
        self.assertEqual(keys, [f"{i:09}" for i, f in enumerate(self.files)
                                if f not in (self.cut, self.empty, self.text)])

    def test_refused(self):
        out = self.root / "out"
        failed = command.run("data", "pack", self.tree, "--out", out, "--on-bad", "fail", "--json")
        self.assertEqual(failed.code, DATA)
        self.assertIn(str(self.cut), failed.object["error"]["message"])
        self.assertEqual(list(out.glob("*.tar*")), [])
        # No bad sample lies in a shard yet, so the policy may change.
        self.assertEqual(pack(self.tree, out, "--on-bad", "skip")["skipped"], 3)
        most = command.run("data", "pack", self.tree, "--out", self.root / "most", "--max-bad", 2,
                           "--json")
        self.assertEqual(most.code, DATA)
        self.assertIn(self.text.name, most.object["error"]["message"])

    def test_missing_files(self):
        link = self.tree / "class 1/gone.png"
        link.symlink_to(self.root / "nowhere")
        failed = command.run("data", "pack", self.tree, "--out", self.root / "out", "--json")
        self.assertEqual(failed.code, DATA)
        self.assertIn("gone.png", failed.object["error"]["message"])
        self.assertIn("--on-bad skip", failed.object["error"]["change"])
        kept = pack(self.tree, self.root / "out", "--on-bad", "skip")
        self.assertEqual(kept["verdicts"]["unreadable"], 1)


if __name__ == "__main__":
    command.need_command()
    unittest.main()
