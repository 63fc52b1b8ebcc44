#!/usr/bin/env python3
"""Measures Ullage's loader beside others, and beside libjpeg-turbo alone, on the same photos.

    ./dev bench data --photos FOLDER                   # 4,000 files, all methods, five rounds
    ./dev bench data --photos FOLDER --rounds 3 --methods libjpeg,ullage,dali

FOLDER holds photos, in sub-folders or not; without it, the folder `photos` of ULLAGE_TEST_DATA.
They are copied, each copy with a comment marker of its own, until there are --files different files
in one folder a class. All files are in the page cache. Batches of 128, 224 px, float32, normalised:

    libjpeg       libjpeg-turbo alone: whole pictures, accurate DCT, nothing else. The yardstick L.
    ullage        resize of the short side and centre crop (eval); random-resized-crop, flip (train)
    pillow        PyTorch's DataLoader with Pillow's transforms
    torchvision   PyTorch's DataLoader with torchvision's decode_image and its v2 transforms
    dali          NVIDIA DALI on the CPU
    spdl          SPDL with FFmpeg

In every round each method loads all files once, and who begins changes from round to round; between
its turns a process is stopped. Figures are medians over the rounds. Peers come from the python that
ULLAGE_TORCH_PYTHON names (torch, torchvision, pillow; nvidia-dali and spdl where they install);
what is not there is left out and said so.
"""

import argparse
import json
import os
import pathlib
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "release"
PHOTO_SUFFIXES = {".jpg", ".jpeg"}
CLASSES = 100
MODES = ("train", "eval")
PEERS = ("pillow", "torchvision", "dali", "spdl")
BARS = {  # (mode, over which method, at least)
    "evaluation against libjpeg alone": ("eval", "libjpeg", 0.9),
    "training crops against libjpeg alone": ("train", "libjpeg", 1.2),
    "training crops against DALI": ("train", "dali", 2.0),
    "training crops against PyTorch with Pillow": ("train", "pillow", 3.0),
}


class Failure(Exception):
    """A message for the user."""


def say(text):
    print(text, file=sys.stderr, flush=True)


def find_photos(named):
    folder = pathlib.Path(named) if named else None
    if folder is None and os.environ.get("ULLAGE_TEST_DATA"):
        folder = pathlib.Path(os.environ["ULLAGE_TEST_DATA"]) / "photos"
    if folder is None or not folder.is_dir():
        raise Failure("name a folder of JPEG photos with --photos, or set ULLAGE_TEST_DATA")
    photos = [path for path in sorted(folder.rglob("*")) if path.suffix.lower() in PHOTO_SUFFIXES]
    if not photos:
        raise Failure(f"{folder} holds no JPEG files")
    return photos


def mark(photo, number):
    """The file with a comment marker behind the start of the picture: other bytes, same pixels."""
    text = f"copy {number}".encode()
    return photo[:2] + b"\xff\xfe" + (len(text) + 2).to_bytes(2, "big") + text + photo[2:]


def make_files(photos, count, folder):
    for number in range(count):
        photo = photos[number % len(photos)]
        target = folder / f"class{number % len(photos) % CLASSES:03d}"
        target.mkdir(parents=True, exist_ok=True)
        path = target / f"{photo.stem}_{number // len(photos):03d}.jpg"
        path.write_bytes(mark(photo.read_bytes(), number))


class Process:
    """A loader that is stopped unless it is its turn."""

    def __init__(self, command):
        self.log = tempfile.TemporaryFile()
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log, text=True
        )
        self.ready = self.receive()
        self.pause()

    def pause(self):
        """Its workers too: they would go on filling their queues."""
        for pid in self.family():
            os.kill(pid, signal.SIGSTOP)

    def family(self):
        pids, tasks = [self.process.pid], f"/proc/{self.process.pid}/task"
        for task in os.listdir(tasks):
            try:
                with open(f"{tasks}/{task}/children", encoding="ascii") as file:
                    pids += [int(pid) for pid in file.read().split()]
            except OSError:  # the thread has ended
                continue
        return pids

    def receive(self):
        for line in self.process.stdout:
            if line.startswith("{"):
                return json.loads(line)
        self.log.seek(0)
        last = self.log.read().decode(errors="replace").strip().splitlines()[-1:]
        raise Failure(" ".join(last) or "ended without a word")

    def epoch(self):
        for pid in self.family():
            os.kill(pid, signal.SIGCONT)
        self.process.stdin.write("epoch\n")
        self.process.stdin.flush()
        answer = self.receive()
        self.pause()
        return answer

    def close(self):
        for pid in self.family():
            os.kill(pid, signal.SIGCONT)
        self.process.stdin.close()
        try:
            self.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.process.kill()


class Ullage:
    """`ullage data bench`, a new process each time."""

    def __init__(self, mode, folder, options):
        self.ready = {}
        self.command = [str(BUILD / "ullage"), "data", "bench", str(folder), "--mode", mode]
        self.command += ["--size", str(options.size), "--batch-size", str(options.batch)]
        self.command += ["--workers", str(options.workers), "--epochs", "2", "--json"]
        self.detail = {}

    def epoch(self):
        done = subprocess.run(self.command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise Failure(done.stderr.strip().splitlines()[-1:] or f"exit {done.returncode}")
        self.detail = json.loads(done.stdout.splitlines()[-1])
        rate = self.detail["epoch_samples_per_second"][-1]
        samples = self.detail["samples"] / 2
        cpu = self.detail["cpu_seconds_per_1000"] * samples / 1000
        return {"samples": samples, "seconds": samples / rate, "cpu_seconds": cpu}

    def close(self):
        pass


def start(options, folder):
    """(method, mode) -> process; what cannot start is said and left out."""
    wanted, contestants = options.methods.split(","), {}
    python = os.environ.get("ULLAGE_TORCH_PYTHON", sys.executable)
    common = ["--folder", str(folder), "--batch", str(options.batch), "--size", str(options.size)]
    if "libjpeg" in wanted:
        command = [str(BUILD / "bench_libjpeg"), str(folder), str(options.workers)]
        contestants["libjpeg", "decode"] = Process(command)
    for mode in MODES:
        if "ullage" in wanted:
            contestants["ullage", mode] = Ullage(mode, folder, options)
        for peer in PEERS:
            if peer not in wanted:
                continue
            script = [python, str(ROOT / "bench" / "data_peers.py"), peer, "--mode", mode]
            try:
                say(f"starting {peer}, {mode}")
                contestants[peer, mode] = Process(script + common + ["--workers", str(options.workers)])
            except Failure as fault:
                say(f"{peer} is left out ({fault})")
    return contestants


def measure(contestants, rounds):
    answers = {key: [] for key in contestants}
    keys = list(contestants)
    for number in range(rounds):
        say(f"round {number + 1} of {rounds}")
        shift = number % len(keys)
        for key in keys[shift:] + keys[:shift]:
            answers[key].append(contestants[key].epoch())
    return answers


def summarise(answers):
    table = {}
    for (method, mode), epochs in answers.items():
        rates = [epoch["samples"] / epoch["seconds"] for epoch in epochs]
        cpu = [1000 * epoch["cpu_seconds"] / epoch["samples"] for epoch in epochs]
        table[method, mode] = {
            "samples_per_second": statistics.median(rates),
            "slowest": min(rates),
            "fastest": max(rates),
            "cpu_seconds_per_1000": statistics.median(cpu),
        }
    return table


def print_table(table):
    yard = table.get(("libjpeg", "decode"), {}).get("samples_per_second")
    print(f"{'method':14}{'mode':8}{'img/s':>8}{'range':>14}{'x L':>7}{'CPU s/1000':>12}")
    for (method, mode), row in table.items():
        span = f"{row['slowest']:.0f}-{row['fastest']:.0f}"
        ratio = f"{row['samples_per_second'] / yard:.2f}" if yard else "-"
        print(
            f"{method:14}{mode:8}{row['samples_per_second']:8.0f}{span:>14}{ratio:>7}"
            f"{row['cpu_seconds_per_1000']:12.2f}"
        )


def judge(answers):
    """Ratios of the same round, median over the rounds, beside what is wanted."""
    verdicts = {}
    for text, (mode, peer, least) in BARS.items():
        ours = answers.get(("ullage", mode))
        theirs = answers.get((peer, "decode" if peer == "libjpeg" else mode))
        if not ours or not theirs:
            print(f"{text}: not measured")
            continue
        ratios = [
            (a["samples"] / a["seconds"]) / (b["samples"] / b["seconds"])
            for a, b in zip(ours, theirs)
        ]
        ratio = statistics.median(ratios)
        verdicts[text] = {"ratio": ratio, "wanted": least, "reached": ratio >= least}
        print(f"{text}: {ratio:.2f} x, wanted {least} x{'' if ratio >= least else ', NOT reached'}")
    return verdicts


def print_stages(contestants):
    for mode in MODES:
        stages = getattr(contestants.get(("ullage", mode)), "detail", {}).get("stages")
        if stages:
            parts = ", ".join(f"{name} {seconds:.3f}" for name, seconds in stages.items())
            print(f"ullage {mode}, seconds of threads by stage: {parts}")


def run(options):
    photos = find_photos(options.photos)
    folder = pathlib.Path(tempfile.mkdtemp(prefix="ullage-bench-data-"))
    try:
        say(f"writing {options.files} files made of {len(photos)} photos")
        make_files(photos, options.files, folder)
        contestants = start(options, folder)
        answers = measure(contestants, options.rounds)
        table = summarise(answers)
        print_table(table)
        verdicts = judge(answers)
        print_stages(contestants)
        for contestant in contestants.values():
            contestant.close()
        if options.json:
            versions = {m: c.ready.get("version") for (m, _), c in contestants.items()}
            rows = [{"method": m, "mode": mode, **row} for (m, mode), row in table.items()]
            result = {"rows": rows, "bars": verdicts, "versions": versions}
            pathlib.Path(options.json).write_text(json.dumps(result, indent=1))
    finally:
        shutil.rmtree(folder)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--photos", help="folder of JPEG photos")
    parser.add_argument("--files", type=int, default=4000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--methods", default="libjpeg,ullage," + ",".join(PEERS))
    parser.add_argument("--json", help="file for all figures")
    options = parser.parse_args()
    try:
        run(options)
    except Failure as fault:
        say(f"bench data: {fault}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
