#!/usr/bin/env python3
"""The checks of `./dev lint` find what they are for: each fault is planted in a small tree and must be named."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]


def run(tool, files):
    """Writes `files` into a fresh folder and returns the tool's exit code and lines."""
    with tempfile.TemporaryDirectory() as folder:
        for name, text in files.items():
            path = pathlib.Path(folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        done = subprocess.run([sys.executable, str(ROOT / "tools" / tool), folder],
                              capture_output=True, text=True, check=False)
        return done.returncode, done.stdout.splitlines()


SOUND = {
    "src/base/error.h": '#include "ullage/status.h"\n',
    "src/memory/slab.h": '#include "base/error.h"\n',
    "src/device/device.h": '#include "memory/slab.h"\n',
    "src/graph/graph.h": '#include "base/error.h"\n',
    "src/kernels/lowering.h": '#include "graph/graph.h"\n',
    "src/kernels/cpu/conv.h": '#include "graph/graph.h"\n',
    "src/kernels/cpu/conv.c": '#include <oneapi/dnnl/dnnl.h>\n#include "kernels/cpu/conv.h"\n',
    "src/plan/plan.c": '#include "kernels/lowering.h"\n#include "memory/slab.h"\n',
    "src/cli/main.c": '#include <stdio.h>\n#include "ullage/status.h"\n#include "cli/options.h"\n',
    "src/cli/options.h": '#include "ullage/status.h"\n',
    "include/ullage/status.h": "#include <stdint.h>\n",
}


class Includes(unittest.TestCase):
    def check(self, changes, *words):
        code, lines = run("check_includes.py", {**SOUND, **changes})
        self.assertEqual(code, 1, lines)
        for word in words:
            self.assertIn(word, "\n".join(lines))

    def test_a_sound_tree_passes(self):
        self.assertEqual(run("check_includes.py", SOUND), (0, []))

    def test_the_order_of_modules(self):
        self.check({"src/base/x.c": '#include "memory/slab.h"\n'}, "base may not use memory")
        self.check({"src/graph/x.c": '#include "device/device.h"\n'}, "graph may not use device")
        self.check({"src/device/x.c": '#include "graph/graph.h"\n'}, "device may not use graph")
        self.check({"src/data/x.c": '#include "graph/graph.h"\n'}, "data may not use graph")
        self.check({"src/odd/x.c": '#include "base/error.h"\n'}, "odd is no module")

    def test_a_plan_touches_no_device(self):
        self.check({"src/plan/x.c": '#include "device/device.h"\n'}, "never touches a live device")
        self.check({"src/plan/x.c": '#include "kernels/cpu/conv.h"\n'}, "the lowering alone")

    def test_the_command_line_sees_public_headers(self):
        self.check({"src/cli/x.c": '#include "base/error.h"\n'}, "cli sees include/ullage alone")
        self.check({"include/ullage/x.h": '#include "base/error.h"\n'}, "a public header includes")

    def test_vendor_headers_have_their_place(self):
        self.check({"src/plan/x.c": "#include <dnnl.h>\n"}, "belongs to src/kernels/cpu/ alone")
        self.check({"src/device/cpu/x.c": "#include <CL/cl.h>\n"}, "src/device/opencl/ alone")
        self.check({"src/data/x.c": "#include <jansson.h>\n"}, "src/base/json. alone")

    def test_circles(self):
        self.check({"src/base/a.h": '#include "base/b.h"\n', "src/base/b.h": '#include "base/a.h"\n'},
                   "headers in a circle: base/a.h -> base/b.h -> base/a.h")


class Texts(unittest.TestCase):
    def check(self, name, text, word):
        code, lines = run("check_text.py", {name: text})
        self.assertEqual(code, 1, lines)
        self.assertIn(word, "\n".join(lines))

    def test_a_sound_file_passes(self):
        files = {"src/a.c": "int a;\n", "tests/data/x.json": "{} \n", "README.md": "# Title\n"}
        self.assertEqual(run("check_text.py", files), (0, []))

    def test_faults_are_named_with_file_and_line(self):
        self.check("src/a.c", "int a; \n", "src/a.c:1: spaces at the end")
        self.check("src/a.c", "int a;\n\tint b;\n", "src/a.c:2: a tab")
        self.check("src/a.c", "int a;", "src/a.c: no newline at the end")
        self.check("src/a.c", "int a;\n\n", "src/a.c: empty lines at the end")
        self.check("src/a.c", "int a;\n" * 601, "src/a.c: 601 lines, at most 600")
        self.check("src/a.c", "/* TO" "DO */\n", "src/a.c:1: the words")
        self.check("docs/a.md", "fine for now\n", "docs/a.md:1: the words 'for now'")
        self.check("docs/a.md", "see /home/me/x\n", "docs/a.md:1: '/home/' holds on one machine")
        self.check("docs/a.md", "from pypi.org\n", "docs/a.md:1: 'pypi.org' holds on one machine")


if __name__ == "__main__":
    unittest.main()
