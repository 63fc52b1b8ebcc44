#!/usr/bin/env python3
"""How near the zoo's smallest budgets come to the bytes of one launch: ./dev bench smallest

For each model: the smallest budget, its ratio to (persistent + largest launch), the share of it
that a certificate proves where the ratio is above 1.05, what no certificate proves, the
predicted seconds of the smallest plan and of keep-all, and the seconds that planning took.
"""

import argparse
import pathlib
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "support"))
import command

MACHINE = ["--machine", "device:64GiB@8GB/s host:64GiB compute:200GFLOPS mem:20GB/s latency:5us "
           "process:24MiB kernel:40KiB", "--micro-batch", "off"]
ADAMW = ("--opt", "adamw")
ZOO = [
    ("zoo:mlp", 512), ("zoo:lenet", 128),
    ("zoo:resnet8", 64), ("zoo:resnet14", 64), ("zoo:resnet20", 64), ("zoo:resnet34", 16),
    ("zoo:resnet18?classes=10&image=64", 4), ("zoo:resnet18?image=224", 16),
    ("zoo:resnet50?classes=10&image=64", 8), ("zoo:resnet50?image=224", 16),
    ("zoo:gpt2_tiny", 16, *ADAMW), ("zoo:gpt2", 4, *ADAMW),
]
COLUMNS = "{:36} {:>5} {:>14} {:>7} {:>8} {:>12} {:>10} {:>9} {:>8}"


def measure(model, batch, flags):
    arguments = [model, "--batch-size", batch, *flags, *MACHINE]
    began = time.monotonic()
    keep_all = command.plan(*arguments)
    seconds = time.monotonic() - began
    smallest = keep_all["smallest_budget_bytes"]["device"]
    said = command.plan(*arguments, "--memory", smallest)
    certificate = said.get("certificate", {})
    proved = certificate.get("proved_budget_bytes", said["lower_bound_bytes"]["device"])
    print(COLUMNS.format(
        model, batch, smallest, f"{smallest / said['lower_bound_bytes']['device']:.3f}",
        f"{smallest / proved:.3f}", smallest - proved,
        f"{said['predicted_step_seconds'] * 1e3:.2f}",
        f"{keep_all['predicted_step_seconds'] * 1e3:.2f}", f"{seconds:.2f}"), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="*", help="names or their parts (default: all)")
    chosen = parser.parse_args()
    print(COLUMNS.format("model", "batch", "smallest", "/bound", "/proved", "not proved", "ms",
                         "keep-all", "planning"))
    for model, batch, *flags in ZOO:
        if not chosen.models or any(name in model for name in chosen.models):
            measure(model, batch, flags)


if __name__ == "__main__":
    command.need_command()
    main()
