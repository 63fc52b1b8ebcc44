#!/usr/bin/env python3
"""What `cmake --install` leaves: headers and a library that another program is built with, found by
pkg-config wherever the folder was moved to, and a command that runs."""

import os
import pathlib
import shutil
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
import command
import pictures

BUILD = pathlib.Path(command.BINARY).parent
TOOLS = ("cmake", "cc", "c++", "pkg-config")


class Install(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = command.folder()
        folder = pathlib.Path(cls.scratch.name)
        cls.prefix, cls.photos = folder / "moved", folder / "photos"
        subprocess.run(["cmake", "--install", BUILD, "--prefix", folder / "installed"], check=True,
                       stdout=subprocess.DEVNULL)
        (folder / "installed").rename(cls.prefix)
        pictures.write_folder(cls.photos, 6)
        found = next(cls.prefix.rglob("ullage.pc"))
        cls.environment = {**os.environ, "PKG_CONFIG_PATH": str(found.parent),
                           "LD_LIBRARY_PATH": str(next(cls.prefix.rglob("libullage.so")).parent)}
        cls.flags = cls.tool("pkg-config", "--cflags", "--libs", "ullage").split()

    @classmethod
    def tearDownClass(cls):
        cls.scratch.cleanup()

    @classmethod
    def tool(cls, *arguments, **options):
        done = subprocess.run(list(map(str, arguments)), env=cls.environment, text=True, check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **options)
        assert done.returncode == 0, done.stdout
        return done.stdout

    def test_an_example_is_built_and_runs(self):
        program = self.prefix / "load"
        self.tool("cc", "-std=c17", "-Wall", "-Werror", command.ROOT / "examples" / "load.c", "-o", program,
                  *self.flags)
        self.assertIn("6 samples", self.tool(program, self.photos, "size=16", "workers=1"))
        self.assertIn("1000 samples", self.tool(program))
        self.tool("c++", "-std=c++20", "-Wall", "-Werror", "-x", "c++", command.ROOT / "examples" / "load.c", "-o",
                  program, *self.flags)
        self.assertIn("6 samples", self.tool(program, self.photos, "size=16", "workers=1"))

    def test_headers_are_those_of_a_cxx_program(self):
        headers = sorted(path.name for path in (self.prefix / "include" / "ullage").iterdir())
        self.assertIn("stream.h", headers)
        text = "".join(f'#include "ullage/{name}"\n' for name in headers)
        text += "int main() { return ull_version()[0] == 0; }\n"
        program = self.prefix / "version"
        self.tool("c++", "-std=c++17", "-Wall", "-Werror", "-x", "c++", "-", "-o", program, *self.flags, input=text)
        self.tool(program)

    def test_the_command_runs(self):
        said = self.tool(self.prefix / "bin" / "ullage", "data", "scan", self.photos)
        self.assertIn("6 samples", said)


if __name__ == "__main__":
    command.need_command()
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    if missing or not (BUILD / "libullage.so").exists():
        print(f"skipped: {', '.join(missing) or 'the shared library'} is not there")
        sys.exit(command.SKIPPED)
    unittest.main()
