#!/usr/bin/env python3
"""Measures the Python loader beside the command on the same photos: the same stream, twice.

    ./dev bench python_loader --photos FOLDER          # else `photos` of ULLAGE_TEST_DATA

In each round both load the folder for --epochs epochs, in turns; the figure is the median of the
rounds' ratios of rates over all epochs but the first (which warms up) and the last (in which only
one of the two makes batches of an epoch to come). The Python loop adds up the labels of every batch,
or its first pixels, and, where PyTorch is installed, wraps its pictures as a tensor. It runs in the
python that ULLAGE_TORCH_PYTHON names, else in this one; NumPy has to be there.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
BINARY = ROOT / "build" / "release" / "ullage"
LEAST = 0.95


def loop(options):
    """The child: prints samples/s over the epochs in the middle."""
    sys.path.insert(0, str(ROOT / "python"))
    import ullage

    try:
        from torch import from_numpy as wrap
    except ImportError:
        wrap = None
    loader = ullage.DataLoader(
        options.photos, options.batch, options.size, train=options.mode == "train", workers=options.workers
    )
    seconds, total = [], 0
    for _ in range(options.epochs):
        began = time.perf_counter()
        for images, labels in loader:
            if wrap:
                images = wrap(images)
            total += int(images[:, 0, 0, 0].sum() if labels is None else labels.sum())
        seconds.append(time.perf_counter() - began)
    print(json.dumps({"rate": rate_of(seconds, loader.samples), "total": total}))


def rate_of(seconds, samples):
    middle = seconds[1:-1]
    return samples * len(middle) / sum(middle)


def run_python(options):
    python = os.environ.get("ULLAGE_TORCH_PYTHON") or sys.executable
    command = [python, __file__, "--child", "--photos", options.photos, "--mode", options.mode]
    command += ["--batch", options.batch, "--size", options.size, "--epochs", options.epochs]
    command += ["--workers", options.workers]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"python_loader: {python} cannot run the loop:\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])["rate"]


def run_command(options):
    command = [BINARY, "data", "bench", options.photos, "--mode", options.mode, "--json"]
    command += ["--batch-size", options.batch, "--size", options.size, "--epochs", options.epochs]
    command += ["--workers", options.workers]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=True)
    result = json.loads(done.stdout.splitlines()[-1])
    samples = result["samples"] / options.epochs
    return rate_of([samples / rate for rate in result["epoch_samples_per_second"]], samples)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    data = os.environ.get("ULLAGE_TEST_DATA")
    parser.add_argument("--photos", default=data and os.path.join(data, "photos"))
    parser.add_argument("--mode", choices=("train", "eval"), default="train")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if not options.photos:
        parser.error("name a folder with --photos, or set ULLAGE_TEST_DATA")
    if options.child:
        return loop(options)
    ratios = []
    for number in range(options.rounds):
        runs = [run_command, run_python] if number % 2 == 0 else [run_python, run_command]
        rates = {run: run(options) for run in runs}
        ratios.append(rates[run_python] / rates[run_command])
        print(
            f"round {number + 1}: command {rates[run_command]:.0f}/s, Python {rates[run_python]:.0f}/s"
        )
    ratio = statistics.median(ratios)
    reached = "" if ratio >= LEAST else ", NOT reached"
    print(f"Python over the command: {ratio:.2f}, wanted {LEAST}{reached}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
