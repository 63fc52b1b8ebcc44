#!/usr/bin/env python3
"""Measures a training step of Ullage beside PyTorch's on the same threads.

    ./dev bench step                              # ResNet-50 and GPT-2 124M, five rounds
    ./dev bench step --models resnet50 --quick
    ./dev bench step --threads 2 --json step.json

PyTorch's processes (bench/step_torch.py, one for each memory layout) stay alive and are stopped
while another runs; in each round every competitor runs a few steps, and who begins changes from
round to round, so that a machine that slows down slows all of them. The figures are medians over
all steps of all rounds. Peak resident is that of whole processes, libraries included. Ullage runs
as a user would start it, without a memory budget unless --memory gives one.

PyTorch comes from the python that ULLAGE_TORCH_PYTHON names, else from this one if it has torch,
else from a virtual environment in ~/.cache/ullage/torch-venv, made when missing (some GB).
"""

import argparse
import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile

from operator_groups import group_seconds

ROOT = pathlib.Path(__file__).resolve().parent.parent
PACKAGES = ("torch", "torchvision", "transformers")
PEER_BYTES = 5 << 30  # what one PyTorch process may hold at its peak

MODELS = {
    "resnet50": {
        "title": "ResNet-50, 224 px, float32, SGD with momentum",
        "batch_size": 16,
        "zoo": "zoo:resnet50?image=224&classes=1000",
        "recipe": ["--opt", "sgd", "--lr", "0.1", "--momentum", "0.9"],
        "layouts": ["contiguous", "channels_last"],
    },
    "gpt2": {
        "title": "GPT-2 124M, 256 tokens, float32, AdamW",
        "batch_size": 4,
        "zoo": "zoo:gpt2?seq=256",
        "recipe": ["--opt", "adamw", "--lr", "1e-4"],
        "layouts": ["contiguous"],
    },
}


class Failure(Exception):
    """A message for the user; the benchmark goes on without what failed, or ends."""


def say(text):
    print(text, file=sys.stderr, flush=True)


def has_torch(python):
    command = [python, "-c", f"import {', '.join(PACKAGES)}"]
    try:
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def make_environment(folder):
    python = folder / "bin" / "python"
    say(f"installing {', '.join(PACKAGES)} into {folder} (once, some GB)")
    try:
        subprocess.run([sys.executable, "-m", "venv", folder], check=True, stdout=sys.stderr)
        install = [python, "-m", "pip", "install", "--quiet", *PACKAGES]
        subprocess.run(install, check=True, stdout=sys.stderr)
    except (OSError, subprocess.CalledProcessError) as fault:
        raise Failure(
            f"PyTorch could not be installed ({fault}). Name a python that has "
            f"{', '.join(PACKAGES)} in ULLAGE_TORCH_PYTHON; python3 -m venv needs python3-venv."
        ) from fault
    return str(python)


def find_torch_python():
    named = os.environ.get("ULLAGE_TORCH_PYTHON")
    if named:
        if not has_torch(named):
            raise Failure(f"ULLAGE_TORCH_PYTHON={named} cannot import {', '.join(PACKAGES)}")
        return named
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
    folder = cache / "ullage" / "torch-venv"
    for python in (sys.executable, str(folder / "bin" / "python")):
        if has_torch(python):
            return python
    return make_environment(folder)


class TorchPeer:
    """A PyTorch process that is stopped unless it is asked something."""

    def __init__(self, python, model, layout, mode, options):
        self.label = f"PyTorch {layout.replace('_', '-')}{' compiled' if mode == 'compile' else ''}"
        self.seconds, self.farewell = [], {}
        self.log = tempfile.TemporaryFile()
        command = [python, str(ROOT / "bench" / "step_torch.py"), model, "--layout", layout]
        command += ["--mode", mode, "--threads", str(options.threads)]
        command += ["--batch", str(MODELS[model]["batch_size"])]
        environment = {**os.environ, "OMP_NUM_THREADS": str(options.threads)}
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.log,
            text=True,
            env=environment,
        )
        self.ready = self.receive()
        self.process.send_signal(signal.SIGSTOP)

    def receive(self):
        for line in self.process.stdout:
            if line.startswith("{"):
                return json.loads(line)
        self.log.seek(0)
        last = self.log.read().decode(errors="replace").strip().splitlines()[-3:]
        raise Failure(f"{self.label} ended: {' / '.join(last)}")

    def ask(self, command):
        self.process.send_signal(signal.SIGCONT)
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()
        return self.receive()

    def measure(self, steps):
        self.seconds += self.ask(f"step {steps}")["seconds"]
        self.process.send_signal(signal.SIGSTOP)

    def finish(self):
        self.farewell = self.ask("quit")
        self.process.stdin.close()
        self.process.wait()

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def result(self):
        profile = dict(self.farewell.get("profile", {}))
        profiled_step = profile.pop("step", None)
        return {
            "label": self.label,
            "torch": self.ready["torch"],
            "seconds": self.seconds,
            "seconds_median": statistics.median(self.seconds),
            "vmhwm_bytes": self.farewell["vmhwm_bytes"],
            "after_import_bytes": self.ready["after_import_bytes"],
            "operator_seconds": profile,
            "profiled_step_seconds": profiled_step,
            "largest_operators": self.farewell.get("profile_operators", {}),
        }


class Ullage:
    """Runs the command as a whole process in every round."""

    label = "Ullage"

    def __init__(self, binary, model, options):
        self.model, self.options, self.reports = MODELS[model], options, []
        self.binary = binary

    def command(self, steps, run_folder):
        command = [str(self.binary), "train", self.model["zoo"], "--data", "synthetic"]
        command += ["--batch-size", str(self.model["batch_size"]), "--steps", str(steps)]
        command += [*self.model["recipe"], "--threads", str(self.options.threads)]
        command += ["--seed", "0", "--run", run_folder, "--json"]
        return command + (["--memory", self.options.memory] if self.options.memory else [])

    def measure(self, steps):
        with tempfile.TemporaryDirectory(prefix="ullage-bench-") as folder:
            command = self.command(steps + 1, os.path.join(folder, "run"))
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
        try:
            report = json.loads(lines[-1])
        except (IndexError, ValueError):
            report = {}
        if done.returncode != 0 or "step_seconds_median" not in report:
            said = report.get("error", {}).get("message") or done.stderr.strip()[-400:]
            raise Failure(f"{' '.join(command)}\n  ended with exit code {done.returncode}: {said}")
        self.reports.append(report)

    def result(self):
        last = self.reports[-1]
        seconds = [report["step_seconds_median"] for report in self.reports]
        return {
            "label": self.label,
            "seconds": seconds,
            "seconds_median": statistics.median(seconds),
            "vmhwm_bytes": max(report["vmhwm_bytes"] for report in self.reports),
            "operator_seconds": group_seconds(last.get("operator_seconds") or {}),
            "largest_operators": last.get("operator_seconds") or {},
            **{
                key: last.get(key)
                for key in ("planned_peak_bytes", "keep_all_peak_bytes", "fingerprint", "tags")
            },
        }


def available_bytes():
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            fields = dict(line.split(":", 1) for line in file)
        return int(fields["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError):
        return None


def run_rounds(competitors, options):
    """Every competitor in every round; a competitor that fails is left out from then on."""
    running = list(competitors)
    for number in range(options.rounds):
        begin = number % max(len(running), 1)
        for competitor in running[begin:] + running[:begin]:
            try:
                competitor.measure(options.steps)
            except Failure as failure:
                say(str(failure))
                running.remove(competitor)
        say(f"  round {number + 1} of {options.rounds} done")
    return running


def start_peers(python, model, options):
    peers = []
    variants = [(layout, "eager") for layout in MODELS[model]["layouts"]]
    if options.compile:
        variants.append(("contiguous", "compile"))
    try:
        for layout, mode in variants:
            say(f"  starting PyTorch, {layout}, {mode}")
            peers.append(TorchPeer(python, model, layout, mode, options))
    except BaseException:
        for peer in peers:
            peer.kill()
        raise
    return peers


def measure_model(model, python, binary, options):
    say(MODELS[model]["title"])
    peers = start_peers(python, model, options) if python else []
    try:
        competitors = peers + ([Ullage(binary, model, options)] if binary else [])
        finished = run_rounds(competitors, options)
        for peer in peers:
            if peer in finished:
                peer.finish()
        return [competitor.result() for competitor in finished]
    finally:
        for peer in peers:
            peer.kill()


def compare(model, results):
    """The record of one model: figures of all, and Ullage's against PyTorch's better ones."""
    ullage = next((r for r in results if r["label"] == "Ullage"), None)
    peers = [r for r in results if r["label"] != "Ullage"]
    record = {"model": model, "batch_size": MODELS[model]["batch_size"], "results": results}
    if ullage and peers:
        fastest = min(peers, key=lambda r: r["seconds_median"])
        smallest = min(peers, key=lambda r: r["vmhwm_bytes"])
        record["fastest_torch"], record["smallest_torch"] = fastest["label"], smallest["label"]
        record["speed_ratio"] = fastest["seconds_median"] / ullage["seconds_median"]
        record["memory_ratio"] = ullage["vmhwm_bytes"] / smallest["vmhwm_bytes"]
    return record


def format_record(record, options):
    title = MODELS[record["model"]]["title"]
    lines = [
        "",
        f"{title}, batch {record['batch_size']}, {options.threads} threads, "
        f"{options.rounds} rounds of {options.steps} steps",
        "",
    ]
    lines.append(f"{'':28}{'s/step':>9}{'min':>8}{'max':>8}{'samples/s':>11}{'peak resident':>15}")
    for result in record["results"]:
        median = result["seconds_median"]
        lines.append(
            f"{result['label']:28}{median:9.3f}{min(result['seconds']):8.3f}"
            f"{max(result['seconds']):8.3f}{record['batch_size'] / median:11.2f}"
            f"{result['vmhwm_bytes'] / 2**30:11.2f} GiB"
        )
    if "speed_ratio" in record:
        lines += [
            "",
            f"Ullage: {record['speed_ratio']:.2f} x the speed of {record['fastest_torch']}, "
            f"{record['memory_ratio']:.2f} x the memory of {record['smallest_torch']}",
        ]
    return "\n".join(lines + format_split(record["results"]))


def format_split(results):
    """Seconds a step by operator group, one column for each competitor that recorded them."""
    shown = [r for r in results if r["operator_seconds"]]
    if not shown:
        return []
    groups = {g for r in shown for g in r["operator_seconds"]}
    order = sorted(groups, key=lambda g: -max(r["operator_seconds"].get(g, 0) for r in shown))
    lines = [
        "",
        f"{'seconds a step by operator':28}" + "".join(f"{r['label'][-22:]:>24}" for r in shown),
    ]
    for group in order:
        cells = [r["operator_seconds"].get(group) for r in shown]
        lines.append(
            f"{group:28}" + "".join(f"{'-' if c is None else f'{c:.3f}':>24}" for c in cells)
        )
    sums = [sum(r["operator_seconds"].values()) for r in shown]
    lines.append(f"{'sum':28}" + "".join(f"{s:24.3f}" for s in sums))
    return lines


def parse_arguments():
    parser = argparse.ArgumentParser(
        prog="./dev bench step", description="A training step beside PyTorch's."
    )
    parser.add_argument("--models", default=",".join(MODELS), help="comma-separated: resnet50,gpt2")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=5, help="timed steps a competitor and round")
    parser.add_argument("--quick", action="store_true", help="two rounds of two steps")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--memory", metavar="SIZE", help="budget given to Ullage")
    parser.add_argument("--compile", action="store_true", help="adds torch.compile as a competitor")
    parser.add_argument("--no-torch", action="store_true", help="measures Ullage alone")
    parser.add_argument(
        "--ullage", type=pathlib.Path, default=ROOT / "build" / "release" / "ullage"
    )
    parser.add_argument(
        "--json", metavar="FILE", type=pathlib.Path, help="writes all figures there"
    )
    options = parser.parse_args()
    options.models = options.models.split(",")
    unknown = set(options.models) - set(MODELS)
    if unknown:
        parser.error(f"unknown model {', '.join(sorted(unknown))}; known: {', '.join(MODELS)}")
    if options.quick:
        options.rounds, options.steps = 2, 2
    if min(options.rounds, options.steps, options.threads) < 1:
        parser.error("--rounds, --steps and --threads must be at least 1")
    return options


def find_binary(options):
    if os.access(options.ullage, os.X_OK):
        return options.ullage.resolve()
    say(f"{options.ullage} is not there: build it with ./dev build. PyTorch is measured alone.")
    return None


def warn_of_little_memory():
    free, wanted = available_bytes(), 3 * PEER_BYTES
    if free is not None and free < wanted:
        say(
            f"only {free / 2**30:.1f} GiB are available; below {wanted / 2**30:.0f} GiB the "
            "competitors may be swapped out while others run, and figures mean little"
        )


def main():
    options = parse_arguments()
    # A stopped process outlives its parent: leave through the blocks that end them.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    binary = find_binary(options)
    try:
        python = None if options.no_torch else find_torch_python()
        if not python and not binary:
            raise Failure("nothing to measure")
        warn_of_little_memory()
        records = []
        for model in options.models:
            records.append(compare(model, measure_model(model, python, binary, options)))
            print(format_record(records[-1], options), flush=True)
    except Failure as failure:
        say(str(failure))
        return 1
    missing = any("Ullage" not in [r["label"] for r in record["results"]] for record in records)
    if options.json:
        report = {
            "schema": 1,
            "threads": options.threads,
            "rounds": options.rounds,
            "steps": options.steps,
            "models": records,
        }
        options.json.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    return 1 if binary and missing else 0


if __name__ == "__main__":
    sys.exit(main())
