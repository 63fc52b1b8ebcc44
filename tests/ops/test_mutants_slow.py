"""Runs mutants.py on the build that is being tested."""

import pathlib
import runpy
import shutil
import sys

if not shutil.which("cmake"):
    sys.exit(77)
sys.argv = ["mutants.py"]
runpy.run_path(str(pathlib.Path(__file__).with_name("mutants.py")), run_name="__main__")
