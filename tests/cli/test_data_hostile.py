#!/usr/bin/env python3
"""Folders as they come: names of any bytes, files that change under a run, files nobody may read. Threads
only, and no shared memory."""

import json
import os
import pathlib
import random
import shutil
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
import command
import pictures

NAMES = (b"with space.png", b"new\nline.png", b"\xff\xfe.png", b'quote".png', b"back\\slash.png",
         b"tab\t.png", b"\x01\x7f.png", "ü漢😀.png".encode(), b"-dash.png", b"%s%n.png", b"\xed\xa0\x80.png",
         b"{0..3}?a=b.png", b"x" * 251 + b".png")
CLASSES = (b"cl ass", b"n\nl", b"\xffclass")


def decoded(line):
    """The object of a line that is strictly UTF-8 and JSON."""
    return json.loads(line.decode("utf-8"))


def raw(*arguments, prefix=(), **options):
    return subprocess.run([*prefix, command.BINARY, "data", *arguments], capture_output=True, check=False,
                          timeout=60, cwd=command.SCRATCH.name, **options)


class Hostile(unittest.TestCase):
    def setUp(self):
        scratch = command.folder()
        self.addCleanup(scratch.cleanup)
        self.scratch = pathlib.Path(scratch.name)
        self.root = self.scratch / "photos"

    def write_names(self):
        root = os.fsencode(self.root)
        for folder in CLASSES:
            os.makedirs(os.path.join(root, folder))
            for i, name in enumerate(NAMES):
                pathlib.Path(os.fsdecode(os.path.join(root, folder, name))).write_bytes(
                    pictures.make_png(20, 20, i))
        return {os.path.join(root, folder, name) for folder in CLASSES for name in NAMES}

    # ---- names ----

    def test_names_of_any_bytes(self):
        wanted, told = self.write_names(), self.scratch / "told.jsonl"
        for arguments in (("scan", "--files"), ("bench", "--size", "16", "--samples")):
            done = raw(arguments[0], self.root, *arguments[1:], told, "--json")
            self.assertEqual(done.returncode, 0, done.stderr)
            lines = [decoded(line) for line in told.read_bytes().splitlines()]
            self.assertEqual({os.fsencode(line["path"]) for line in lines}, wanted)
            self.assertEqual(decoded(done.stdout)["samples"], len(wanted))
        self.assertEqual(decoded(raw("scan", self.root, "--json").stdout)["classes"],
                         {"cl ass": len(NAMES), "n\nl": len(NAMES), "\\xffclass": len(NAMES)})

    def test_bad_files_of_any_name_are_named(self):
        for name in self.write_names():
            if b"\xffclass" in name:
                pathlib.Path(os.fsdecode(name)).write_bytes(b"no picture")
        told = {b"\xff\xfe.png": "\\xff\\xfe.png", b"\xed\xa0\x80.png": "\\xed\\xa0\\x80.png"}
        paths = {f"{self.root}/\\xffclass/{told.get(name) or name.decode()}" for name in NAMES}
        for arguments, key in ((("scan",), "bad_files"), (("bench", "--max-bad", "100"), "bad")):
            done = decoded(raw(arguments[0], self.root, *arguments[1:], "--json").stdout)
            self.assertEqual({bad["path"] for bad in done[key]}, paths)
        done = raw("decode", os.path.join(os.fsencode(self.root), b"\xffclass", b"\xff\xfe.png"), "--json")
        self.assertEqual(done.returncode, 6)
        self.assertEqual(decoded(done.stdout)["path"], f"{self.root}/\\xffclass/\\xff\\xfe.png")
        done = raw("bench", self.root, "--mode", "eval", "--on-bad", "fail", "--json")
        self.assertEqual(done.returncode, 6)
        self.assertEqual(decoded(done.stdout)["error"]["code"], "data")

    # ---- changes ----

    def test_files_change_under_a_run(self):
        files = pictures.write_folder(self.root, 60)
        wanted = 400 * 60
        with subprocess.Popen(
                [command.BINARY, "data", "bench", self.root, "--size", "32", "--epochs", "400", "--max-bad",
                 str(wanted), "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as run:
            while run.stderr.readline()[:6] != b"memory":
                self.assertIsNone(run.poll())
            changes = (lambda path: path.mkdir(), os.mkfifo, lambda path: path.symlink_to("/nowhere/at all"),
                       lambda path: path.symlink_to(path), lambda path: path.write_bytes(b""), lambda path: None)
            for i, path in enumerate(random.Random(1).sample(files, 30)):
                path.unlink()
                changes[i % len(changes)](path)
            for path in files:
                if path.is_file() and path.stat().st_size > 0:
                    os.truncate(path, 300)
                    break
            out, _ = run.communicate(timeout=60)
        self.assertEqual(run.returncode, 0)
        said = decoded(out.splitlines()[-1])
        self.assertEqual(said["samples"], wanted)
        self.assertGreater(said["replaced"], 0)
        self.assertEqual(said["replaced"], wanted - said["verdicts"]["ok"])

    def test_what_is_no_file_is_no_sample(self):
        files = pictures.write_folder(self.root, 12)
        changes = (lambda path: path.mkdir(), os.mkfifo, lambda path: path.symlink_to("/nowhere/at all"))
        for path, change in zip(files, changes):
            path.unlink()
            change(path)
        scanned = raw("scan", self.root, "--json")
        said = decoded(scanned.stdout)
        self.assertIn(f"1 files are left out: by name, place or kind they are no pictures of the set (the first: "
                      f"{files[1].name})".encode(), scanned.stderr)
        self.assertEqual(said["samples"], 10)
        self.assertEqual(said["verdicts"]["ok"], 9)
        self.assertEqual(said["verdicts"]["unreadable"], 1)

    @unittest.skipUnless(os.geteuid() == 0 and shutil.which("setpriv"), "needs root and setpriv")
    def test_files_that_may_not_be_read(self):
        files = pictures.write_folder(self.root, 40)
        for path in files[:3]:
            path.chmod(0)
        for path in (self.scratch, self.root):
            path.chmod(0o755)
        prefix = ("setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups")
        home = {**os.environ, "XDG_CACHE_HOME": "/nonexistent"}
        if subprocess.run([*prefix, command.BINARY, "--version"], capture_output=True, check=False).returncode:
            self.skipTest("the command may not be run by another user")
        done = subprocess.run([*prefix, command.BINARY, "data", "scan", self.root, "--json"],
                              capture_output=True, check=False, env=home, cwd="/")
        self.assertEqual(done.returncode, 6)
        self.assertEqual(decoded(done.stdout)["verdicts"]["unreadable"], 3)
        done = subprocess.run([*prefix, command.BINARY, "data", "bench", self.root, "--json"],
                              capture_output=True, check=False, env=home, cwd="/")
        self.assertEqual(done.returncode, 0)
        self.assertEqual(decoded(done.stdout)["replaced"], 3)

    # ---- what a run leaves alone ----

    @unittest.skipIf(command.is_sanitized() or not shutil.which("strace"), "needs strace")
    def test_threads_only_and_no_shared_memory(self):
        pictures.write_folder(self.root, 30)
        calls = self.scratch / "calls"
        done = raw("bench", self.root, "--size", "16", "--workers", "3", prefix=(
            "strace", "-f", "-o", calls, "-e", "trace=process,memfd_create,shmget,openat"))
        if b"ptrace" in done.stderr.lower():
            self.skipTest("processes may not be traced here")
        self.assertEqual(done.returncode, 0, done.stderr)
        text = calls.read_text(encoding="utf-8", errors="replace")
        made = [line for line in text.splitlines() if " clone" in line and "resumed" not in line]
        self.assertGreaterEqual(len(made), 3)
        self.assertTrue(all("CLONE_THREAD" in line for line in made), made)
        for call in ("fork(", "memfd_create(", "shmget(", "/dev/shm"):
            self.assertNotIn(call, text)


if __name__ == "__main__":
    command.need_command()
    unittest.main()
