"""Broken gradient rules against the operator tests: `./dev bench mutants`."""

import pathlib
import runpy

runpy.run_path(
    str(pathlib.Path(__file__).parents[1] / "tests/ops/mutants.py"), run_name="__main__"
)
