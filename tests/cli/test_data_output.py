#!/usr/bin/env python3
"""Where the data commands write: files that flags name, standard output under another name, full disks,
terminals of any width."""

import fcntl
import json
import os
import pathlib
import pty
import struct
import subprocess
import sys
import termios
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
import command
import pictures

PICTURES = 12
LINES = (("scan", "--files"), ("bench", "--size", 16, "--samples"))


class DataOutput(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = command.folder()
        cls.folder = pathlib.Path(cls.scratch.name)
        cls.root = cls.folder / "photos"
        cls.files = pictures.write_folder(cls.root, PICTURES)

    @classmethod
    def tearDownClass(cls):
        cls.scratch.cleanup()

    def data(self, name, *arguments, subject=None):
        done = subprocess.run([command.BINARY, "data", name, subject or self.root, *map(str, arguments)],
                              capture_output=True, check=False)
        return done.returncode, done.stdout, done.stderr.decode()

    def writers(self):
        yield ("show", "--size", 16, "--out"), None
        yield ("decode", "--out"), self.files[0]
        for arguments in LINES:
            yield arguments, None

    def test_standard_output_holds_the_file_alone(self):
        for arguments, subject in self.writers():
            apart = self.folder / "apart"
            self.assertEqual(self.data(*arguments, apart, subject=subject)[0], 0)
            code, out, said = self.data(*arguments, "/dev/stdout", subject=subject)
            self.assertEqual(code, 0, said)
            self.assertTrue(said)
            if arguments[0] == "scan":
                self.assertEqual(sorted(out.splitlines()), sorted(apart.read_bytes().splitlines()))
            else:
                self.assertEqual(out, apart.read_bytes())

    def test_lines_and_the_object_behind_them(self):
        for arguments in LINES:
            code, out, said = self.data(*arguments, "/dev/stdout", "--json")
            self.assertEqual(code, 0, said)
            lines = list(map(json.loads, out.splitlines()))
            self.assertEqual(len(lines), PICTURES + 1)
            self.assertEqual(lines[-1]["samples"], PICTURES)
            self.assertTrue(all("path" in line for line in lines[:-1]))

    def test_what_cannot_be_written(self):
        for arguments, subject in self.writers():
            full = self.folder / "full"
            full.symlink_to("/dev/full")
            code, out, said = self.data(*arguments, full, "--json", subject=subject)
            self.assertEqual(code, 1, said)
            error = json.loads(out.splitlines()[-1])["error"]
            self.assertEqual(error["code"], "io")
            self.assertIn(f"{full}: cannot be written: No space left", error["message"])
            self.assertEqual(len(out.splitlines()), 1)
            full.unlink()  # it is still there: what is no file of ours is not removed
            code, _, said = self.data(*arguments, self.folder / "no" / "where", subject=subject)
            self.assertEqual(code, 1)
            self.assertIn("No such file or directory", said)

    def test_nothing_is_left_of_half_a_file(self):
        for arguments, subject in (("show", "--size", 64, "--out"), None), (("decode", "--out"), self.files[0]):
            out = self.folder / "half"
            limit = ["prlimit", "--fsize=4096", command.BINARY, "data", arguments[0], subject or self.root]
            done = subprocess.run([*map(str, limit), *map(str, arguments[1:]), out], capture_output=True, check=False)
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertFalse(out.exists())

    def test_flags_of_another_command(self):
        code, _, said = self.data("scan", "--max-side", 3)
        self.assertEqual(code, 0)
        self.assertIn("data scan takes no notice of --max-side", said)
        self.assertNotIn("warning", self.data("scan", "--workers", 1)[2])
        for name in ("scan", "pack", "show"):
            code, _, said = self.data(name, "--workers", "1,2", "--out", self.folder / "any")
            self.assertEqual(code, 2)
            self.assertIn(f"data {name} takes one number of --workers", said)

    # ---- terminals ----

    def test_names_do_not_move_the_cursor(self):
        root = self.folder / "odd"
        pictures.write_folder(root / "train" / "a\033[2J", 1)
        (root / "train" / "b\rc").mkdir()
        (root / "train" / "b\rc" / "\033]0;title\007.png").write_bytes(b"")
        said = "".join(self.data("scan", subject=root)[1].decode()) + self.data("bench", subject=root)[2]
        self.assertIn("b?c/?]0;title?.png: empty", said)
        (root / "train" / "no\033[2J.txt").write_bytes(b"")
        bad = root / "train" / "b\rc" / "\033]0;title\007.png"
        run = pathlib.Path(self.folder, "run\033[2J\n\n")
        arguments = ("zoo:resnet8?classes=2&image=32", "--data", root, "--batch-size", 1)
        for words in (("train", *arguments, "--steps", 4, "--run", run), ("plan", *arguments), ("eval", *arguments),
                      ("eval", run), ("data", "decode", bad), ("data", "show", root, "--out", f"{run}.png"),
                      ("data", "pack", root, "--out", f"{run} packed"), ("check", f"{root}\033[2J")):
            result = command.run(*words)
            said += result.stdout + result.stderr
        self.assertIn("run?[2J??", said)
        for letter in "\033\007\r":
            self.assertNotIn(letter, said)

    def on_terminal(self, columns, term, *arguments):
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        run = subprocess.Popen([command.BINARY, *map(str, arguments)], stdout=theirs, stderr=theirs,
                               env={**os.environ, "TERM": term})
        os.close(theirs)
        said = b""
        try:
            while piece := os.read(ours, 4096):
                said += piece
        except OSError:  # the other end is closed
            pass
        os.close(ours)
        self.assertEqual(run.wait(), 0)
        return said.decode()

    def slow(self):
        """One large picture under many names."""
        root = self.folder / "slow"
        if not root.exists():
            (root / "a").mkdir(parents=True)
            side = 1600
            (root / "large").write_bytes(pictures.png_bytes(side, side, bytes(3 * side * side)))
            for i in range(40):
                (root / "a" / f"{i}.png").symlink_to("../large")
        return root

    def test_progress_fits_the_terminal(self):
        columns = 40
        for arguments in (("scan", self.slow()), ("pack", self.slow(), "--out", self.folder / "shards"),
                          ("bench", self.slow(), "--size", 16, "--batch-size", 4, "--augment", "stretch")):
            said = self.on_terminal(columns, "xterm", "data", *arguments, "--workers", 1)
            drawn = [line for line in said.split("\r\033[K")[1:-1] if line]
            self.assertTrue(drawn, said)
            for line in drawn:
                self.assertLess(len(line), columns, line)
        self.assertNotIn("\033", self.on_terminal(columns, "dumb", "data", "scan", self.slow()))


if __name__ == "__main__":
    command.need_command()
    unittest.main()
