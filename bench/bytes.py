#!/usr/bin/env python3
"""Planned and counted bytes of larger models: ./dev bench bytes

ResNet-50 at 224 px and batch 16 (or whatever models are named) trains three steps at keep-all, at
two budgets between and at the smallest, on cpu and on the simulated accelerator, plainly and under
poison. A line of the table is a run; `off` and `tags` are the bytes by which plan and count differ,
which must be 0. Exits 1 where they are not, or where poison changes a bit. Takes minutes and 4 GiB.
"""

import argparse
import pathlib
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
for folder in ("support", "plan"):
    sys.path.insert(0, str(ROOT / "tests" / folder))
import command
import test_bytes

DEFAULT = ["zoo:resnet50"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="*", default=DEFAULT)
    parser.add_argument("--batch-size", default="16")
    parser.add_argument("--device", choices=["cpu", "sim", "both"], default="both")
    chosen = parser.parse_args()
    devices = list(command.DEVICES) if chosen.device == "both" else [chosen.device]
    test = unittest.TestCase()
    print(test_bytes.HEAD)
    for model in chosen.models:
        name = model.partition(":")[2].partition("?")[0]
        for device in devices:
            test_bytes.check_model(test, name, [model, "--batch-size", chosen.batch_size], device)
    print(f"plan and count agree; images and batch: {chosen.models}, {chosen.batch_size}")


if __name__ == "__main__":
    command.need_command()
    try:
        main()
    except AssertionError as fault:
        print(fault)
        sys.exit(1)
