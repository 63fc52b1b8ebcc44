#!/usr/bin/env python3
"""Checks the texts of the repository: no file of code above 600 lines, no trailing spaces or tabs,
a newline at the end, none of the words that mark unfinished work, no folder or host that one
developer alone has. Prints one line for each fault; exits 1 where there is one.

usage: check_text.py [ROOT]
"""
import pathlib
import re
import subprocess
import sys

MOST_LINES = 600
CODE = {".c", ".cc", ".h", ".py", ".sh", ".cmake"}
TEXT = CODE | {".md", ".txt", ".json", ".yml"}
NAMES = {"dev", "run", "CMakeLists.txt", ".gitignore", ".clang-format"}
# Files whose bytes are data: reference values, expected outputs.
DATA = re.compile(r"^(tests/data/|tests/golden/)|/golden/")
WORDS = re.compile(
    r"\b(TODO|FIXME|XXX|HACK|placeholder|stub|dummy|for\s+now|work\s+in\s+progress)\b",
    re.I)
# What holds on one machine alone: folders of its owner, hosts that packages come from.
ELSEWHERE = re.compile(
    r"(?<![\w.])/(work|home|root)/"
    r"|\b(pypi\.org|pythonhosted\.org|anaconda\.org|npmjs\.(org|com)|crates\.io|proxy\.golang\.org"
    r"|(deb|security|snapshot)\.debian\.org)\b", re.I)
WORDS_ARE_THE_SUBJECT = {"tools/check_text.py", "tests/cli/test_lint.py"}


def list_files(root):
    """Files that git knows or would add; every file where there is no repository."""
    command = ["git", "-C", str(root), "ls-files", "-co", "--exclude-standard", "-z"]
    listing = subprocess.run(command, capture_output=True, check=False)
    if listing.returncode == 0:
        names = [name for name in listing.stdout.decode().split("\0") if name]
    else:
        names = [path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file()]
    return sorted(name for name in names if (root / name).is_file())


def is_text(name):
    path = pathlib.PurePosixPath(name)
    return not DATA.search(name) and (path.suffix in TEXT or path.name in NAMES)


def check_lines(name, text):
    for number, line in enumerate(text.split("\n"), 1):
        if line != line.rstrip():
            yield f"{name}:{number}: spaces at the end of the line"
        if "\t" in line:
            yield f"{name}:{number}: a tab"
        word = WORDS.search(line)
        if word and name not in WORDS_ARE_THE_SUBJECT:
            yield f"{name}:{number}: the words '{word.group(0)}'"
        place = ELSEWHERE.search(line)
        if place and name not in WORDS_ARE_THE_SUBJECT:
            yield f"{name}:{number}: '{place.group(0)}' holds on one machine alone"


def check_file(root, name):
    text = (root / name).read_bytes().decode("utf-8", errors="replace")
    if text and not text.endswith("\n"):
        yield f"{name}: no newline at the end"
    if text.endswith("\n\n"):
        yield f"{name}: empty lines at the end"
    if pathlib.PurePosixPath(name).suffix in CODE and text.count("\n") > MOST_LINES:
        yield f"{name}: {text.count(chr(10))} lines, at most {MOST_LINES}"
    yield from check_lines(name, text)


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()
    faults = []
    for name in list_files(root):
        if is_text(name):
            faults += check_file(root, name)
    for fault in faults:
        print(fault)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
