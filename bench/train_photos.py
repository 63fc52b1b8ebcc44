#!/usr/bin/env python3
"""Trains on a folder of photos and says who waits for whom.

    ./dev bench train_photos --photos FOLDER           # else `photos` of ULLAGE_TEST_DATA

The photos are sorted into --classes folders (by a checksum of their names: what a class means does
not matter here). ResNet-18 at 224 px is slower than the loader on a few cores: its steps may wait
for data at most 5 % of the time. LeNet at 32 px is far faster: the run must say that the loader is
the bottleneck, and which stage of it.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import zlib

ROOT = pathlib.Path(__file__).resolve().parent.parent
BINARY = ROOT / "build" / "release" / "ullage"
PHOTO_SUFFIXES = {".jpg", ".jpeg"}
MOST_WAIT = 0.05


def sort_photos(photos, classes, folder):
    """Links to the photos, in one folder a class."""
    for photo in sorted(pathlib.Path(photos).rglob("*")):
        if photo.suffix.lower() not in PHOTO_SUFFIXES:
            continue
        target = folder / f"class{zlib.crc32(photo.stem.encode()) % classes:03d}"
        target.mkdir(exist_ok=True)
        (target / photo.name).symlink_to(photo.resolve())


def train(model, folder, run, *flags):
    command = [BINARY, "train", model, "--data", folder, "--run", run, "--json", *map(str, flags)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{model} ended with {done.returncode}: {done.stderr.strip()[-500:]}")
    lines = [line for line in done.stderr.splitlines() if "bottleneck" in line]
    return json.loads(done.stdout.splitlines()[-1]), " ".join(lines)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    data = os.environ.get("ULLAGE_TEST_DATA")
    parser.add_argument("--photos", default=data and os.path.join(data, "photos"))
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--batch", type=int, default=32)
    options = parser.parse_args()
    if not options.photos:
        parser.error("name a folder with --photos, or set ULLAGE_TEST_DATA")
    with tempfile.TemporaryDirectory(prefix="ullage-bench-") as scratch:
        folder = pathlib.Path(scratch) / "photos"
        folder.mkdir()
        sort_photos(options.photos, options.classes, folder)
        common = ["--steps", options.steps, "--batch-size", options.batch]
        kinds = f"classes={options.classes}"
        slow, said = train(f"zoo:resnet18?{kinds}&image=224", folder, f"{scratch}/slow", *common)
        wait = slow["data_wait_fraction"]
        reached = "" if wait < MOST_WAIT else ", NOT reached"
        print(f"ResNet-18, 224 px: {slow['samples_per_second']:.1f} samples/s, waits for data "
              f"{100 * wait:.1f} % of the time, wanted below {100 * MOST_WAIT:.0f} %{reached}")
        print(f"    {said}")
        fast, said = train(f"zoo:lenet?{kinds}&image=32&channels=3", folder, f"{scratch}/fast", *common)
        print(f"LeNet, 32 px: {fast['samples_per_second']:.0f} samples/s, waits for data "
              f"{100 * fast['data_wait_fraction']:.0f} % of the time")
        print(f"    {said}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
