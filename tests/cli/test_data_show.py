#!/usr/bin/env python3
"""`ullage data show`: the picture shows what the network gets, pixel by pixel."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
import command
import picture_files as pictures

GAP = 4  # around tiles
SIDE = 112  # tiles are shown at their own size from here on


class Grid:
    def __init__(self, path, report):
        self.report = report
        self.width, self.height, channels, self.pixels = pictures.read_png(path.read_bytes())
        assert channels == 3
        assert (report["width"], report["height"]) == (self.width, self.height)

    def pixel(self, x, y):
        at = (y * self.width + x) * 3
        return tuple(self.pixels[at : at + 3])

    def tile(self, x, y, width, height, zoom=1):
        """The pixels of a tile whose corner is at (x, y), with zoom undone."""
        for row in range(height * zoom):  # every pixel is a square of one colour
            for column in range(width * zoom):
                corner = self.pixel(x + column // zoom * zoom, y + row // zoom * zoom)
                assert self.pixel(x + column, y + row) == corner, (row, column)
        return [self.pixel(x + c * zoom, y + r * zoom) for r in range(height) for c in range(width)]


def triples(pixels):
    return [tuple(pixels[i : i + 3]) for i in range(0, len(pixels), 3)]


class Show(unittest.TestCase):
    def setUp(self):
        holder = command.folder()
        self.addCleanup(holder.cleanup)
        self.root = pathlib.Path(holder.name)

    def show(self, source, *flags):
        out = self.root / "grid.png"
        report = command.run_json("data", "show", source, "--out", out, *flags)
        return Grid(out, report)

    def make_photos(self, count=5, side=SIDE):
        for i in range(count):
            pictures.write_png(self.root / f"photos/c{i % 2}/{i}.png", side, side,
                               pictures.noise(side, side, i))
        return self.root / "photos"

    def test_pixels_are_the_files(self):
        source = self.make_photos()
        flags = ("--mode", "eval", "--size", SIDE, "--augment", "stretch")
        grid = self.show(source, *flags, "--n", 4)
        self.assertEqual([s["label"] for s in grid.report["samples"]], ["c0", "c0", "c0", "c1"])
        step_x, step_y = SIDE + GAP, (grid.height - GAP) // 2
        for number, name in enumerate(("c0/0", "c0/2", "c0/4", "c1/1")):
            x, y = GAP + number % 2 * step_x, GAP + number // 2 * step_y
            self.assertEqual(grid.tile(x, y, SIDE, SIDE),
                             triples(pictures.noise(SIDE, SIDE, int(name[-1]))), name)
        # Whatever the elements and their order are, they are the same picture.
        for more in (("--layout", "nhwc"), ("--dtype", "uint8"),
                     ("--dtype", "uint8", "--layout", "nhwc"), ("--normalize", "none"),
                     ("--normalize", "0.5,0.1,0.9:0.3,2,0.01")):
            self.assertEqual(self.show(source, *flags, "--n", 4, *more).pixels, grid.pixels, more)

    def test_labels_and_names_are_drawn(self):
        source = self.make_photos(4)
        grid = self.show(source, "--mode", "eval", "--size", SIDE, "--augment", "stretch")
        def below(number):
            x = GAP + number % 2 * (SIDE + GAP)
            y = GAP + number // 2 * ((grid.height - GAP) // 2) + SIDE
            lines = range(y, y + (grid.height - GAP) // 2 - SIDE)
            return [[grid.pixel(x + c, line) for c in range(SIDE)] for line in lines]
        def split(number):  # the label's lines, then the name's
            lines = below(number)
            background = lines[0][0]
            used = [i for i, line in enumerate(lines) if any(p != background for p in line)]
            gap = next(i for i, j in zip(used, used[1:]) if j > i + 1)
            return lines[used[0] : gap + 1], lines[gap + 1 :]
        # c0/0 c0/2 c1/1 c1/3
        self.assertEqual(split(0)[0], split(1)[0])
        self.assertNotEqual(split(0)[0], split(2)[0])
        self.assertNotEqual(split(0)[1], split(1)[1])

    def test_what_is_random_follows_the_seed(self):
        source = self.make_photos()
        flags = ("--n", 5, "--size", 32, "--augment", "rrc,flip,color-jitter:0.4:0.4:0.4:0.1,erase,mixup")
        first = self.show(source, *flags, "--seed", 1)
        self.assertEqual(first.pixels, self.show(source, *flags, "--seed", 1).pixels)
        self.assertNotEqual(first.pixels, self.show(source, *flags, "--seed", 2).pixels)
        self.assertRegex(first.report["samples"][0]["label"], r"^[01]\.\d\d c\d \+ [01]\.\d\d c\d$")

    def test_small_images_are_enlarged(self):
        source = command.write_idx(self.root / "idx", count=8, size=28)
        grid = self.show(source, "--mode", "eval", "--n", 1)
        zoom = SIDE // 28
        expected, labels = command.make_images(32, 28, 10, 2)  # the evaluation part
        self.assertEqual(grid.tile(GAP, GAP, 28, 28, zoom),
                         [(v, v, v) for v in expected[: 28 * 28]])
        self.assertEqual(grid.report["samples"][0]["label"], str(labels[0]))

    def test_masks_are_tints(self):
        image = pictures.noise(SIDE, SIDE, 1)
        mask = bytes((0, 1, 2, 255)[x * 4 // SIDE] for _y in range(SIDE) for x in range(SIDE))
        pictures.write_png(self.root / "pairs/images/0.png", SIDE, SIDE, image)
        pictures.write_png(self.root / "pairs/masks/0.png", SIDE, SIDE, mask, channels=1)
        grid = self.show(self.root / "pairs", "--mode", "eval", "--size", SIDE, "--augment",
                         "stretch", "--n", 1)
        shown, pixels = grid.tile(GAP, GAP, SIDE, SIDE), triples(image)
        tints = {}
        for at, number in enumerate(mask):
            if number == 0:
                self.assertEqual(shown[at], pixels[at])
                continue
            for a, b, channel in zip(shown[at], pixels[at], range(3)):
                low, high = tints.get((number, channel), (0, 255))
                tints[number, channel] = (max(low, 2 * a - b), min(high, 2 * a - b + 1))
        for (number, channel), (low, high) in tints.items():  # one colour explains every pixel
            self.assertLessEqual(low, high, (number, channel))
        self.assertNotEqual([tints[1, c] for c in range(3)], [tints[2, c] for c in range(3)])
        self.assertTrue(all(tints[255, c][1] >= 255 for c in range(3)))

    def test_a_pack_shows_what_its_folder_shows(self):
        source = self.make_photos()
        command.run_json("data", "pack", source, "--out", self.root / "out")
        flags = ("--size", 120, "--n", 3, "--seed", 4)
        a, b = self.show(source, *flags), self.show(f"tar:{self.root}/out/train-*.tar", *flags)
        self.assertEqual(a.tile(GAP, GAP, 120, 120), b.tile(GAP, GAP, 120, 120))
        self.assertEqual([s["label"] for s in a.report["samples"]],
                         [s["label"] for s in b.report["samples"]])
        # Names that do not suit the labels are not used.
        (self.root / "out/classes.txt").write_text("only one\n")
        b = self.show(f"tar:{self.root}/out/train-*.tar", *flags)
        self.assertLessEqual({s["label"] for s in b.report["samples"]}, {"0", "1"})

    def test_fewer_samples_and_bad_ones(self):
        source = self.make_photos(3)
        (source / "c0/2.png").write_bytes(b"no picture")
        report = self.show(source, "--n", 100, "--size", 16).report
        self.assertEqual(report["shown"], 3)
        self.assertEqual({s["verdict"] for s in report["samples"]}, {"ok"})
        failed = command.run("data", "show", source, "--out", self.root / "x.png", "--on-bad", "fail")
        self.assertEqual(failed.code, 6)
        self.assertFalse((self.root / "x.png").exists())

    def test_text_is_printed(self):
        (self.root / "t.txt").write_text("To be, or not to be, that is the question.\n" * 20)
        result = command.run("data", "show", f"text:{self.root}/t.txt?seq=16", "--n", 2, "--mode",
                             "eval")
        self.assertEqual(result.code, 0, result.stderr)
        self.assertIn('input_ids "To be, or not to"', result.stdout)
        self.assertIn('target "o be, or not to "', result.stdout)

    def test_the_ending_is_the_format(self):
        source, sizes = self.make_photos(2), []
        for name, magic in (("x.png", b"\x89PNG"), ("x.jpg", b"\xff\xd8\xff"), ("x.JPEG", b"\xff\xd8\xff")):
            out = self.root / name
            self.assertEqual(command.run("data", "show", source, "--out", out).code, 0)
            self.assertEqual(out.read_bytes()[:len(magic)], magic)
            said = command.run_json("data", "decode", out)
            self.assertEqual(said["verdict"], "ok")
            sizes.append((said["width"], said["height"]))
        self.assertEqual(len(set(sizes)), 1)

    def test_refusals(self):
        source = self.make_photos(2)
        self.assertEqual(command.run("data", "show", source).code, 2)
        self.assertEqual(command.run("data", "show", source, "--out", "x.png", "--n", 0).code, 2)
        for name in ("x.webp", "x.ppm", "x.GIF"):
            refused = command.run("data", "show", source, "--out", self.root / name)
            self.assertEqual(refused.code, 2)
            self.assertRegex(refused.stderr, rf"{name}: .png or .jpg is written")
            self.assertFalse((self.root / name).exists())
        nowhere = command.run("data", "show", source, "--out", self.root / "no/folder.png", "--json")
        self.assertEqual(nowhere.code, 1)
        self.assertIn("no/folder.png", nowhere.object["error"]["message"])
        self.assertEqual(command.run("data", "show", self.root / "none", "--out", "x.png").code, 2)


if __name__ == "__main__":
    command.need_command()
    unittest.main()
