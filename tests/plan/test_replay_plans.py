#!/usr/bin/env python3
"""Plans of the real command, replayed outside the library.

For every model, device and a row of budgets (keep-all, two between, the smallest that fits) the
saved plan must hold in replay.py and agree with what the command said: peak per tier, tags. One
byte less than the smallest must be refused with exit code 3, and no larger budget may be predicted
slower. ULLAGE_BINARY names the command (default build/release/ullage).
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import replay

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BINARY = os.environ.get("ULLAGE_BINARY") or str(ROOT / "build" / "release" / "ullage")
SKIPPED = 77
DOES_NOT_FIT = 3
TIMEOUT_SECONDS = 120

MODELS = {
    "mlp": ["zoo:mlp", "--batch-size", "32"],
    "lenet": ["zoo:lenet", "--batch-size", "32"],
    "resnet18": ["zoo:resnet18?classes=10&image=64", "--batch-size", "4"],
    "gpt2_tiny": ["zoo:gpt2_tiny", "--batch-size", "4"],
}
DEVICES = {"cpu": [], "sim": ["--device", "sim:2GiB@8GB/s"]}


def device_bytes(value):
    return value["device"] if isinstance(value, dict) else value


def plan(arguments, budget=None, save=None):
    """Runs `ullage plan`; returns its exit code and the object that it printed."""
    command = [BINARY, "plan", *arguments, "--json"]
    command += ["--memory", str(budget)] if budget is not None else []
    command += ["--save", save] if save else []
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=TIMEOUT_SECONDS
    )
    lines = done.stdout.strip().splitlines()
    if not lines:
        raise AssertionError(f"{' '.join(command)} printed nothing: {done.stderr[-500:]}")
    return done.returncode, json.loads(lines[-1])


class ReplayPlans(unittest.TestCase):
    def replay_budget(self, arguments, budget):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "plan.json")
            code, said = plan(arguments, budget, path)
            self.assertEqual(code, 0, said.get("error"))
            report = replay.replay(replay.read_json(path), {"device": budget}, said)
        self.assertEqual(report["errors"], [])
        self.assertTrue(report["ok"])
        return said

    def check(self, model, device, *more):
        arguments = [*MODELS[model], *DEVICES[device], *more]
        code, said = plan(arguments)
        self.assertEqual(code, 0, said.get("error"))
        largest = device_bytes(said["keep_all_peak_bytes"])
        smallest = device_bytes(said["smallest_budget_bytes"])
        self.assertLessEqual(smallest, largest)
        span = largest - smallest
        budgets = [smallest, smallest + span // 3, smallest + 2 * span // 3, largest]
        seconds = []
        for budget in budgets:
            with self.subTest(budget=budget):
                seconds.append(self.replay_budget(arguments, budget)["predicted_step_seconds"])
        self.assertEqual(seconds, sorted(seconds, reverse=True), "more budget is predicted slower")
        self.assertEqual(plan(arguments, smallest - 1)[0], DOES_NOT_FIT)

    def test_micro_batches(self):
        """A batch in halves: gradients live from one program to the next."""
        self.check("mlp", "cpu", "--micro-batch", "16")


def add_test(model, device):
    setattr(ReplayPlans, f"test_{model}_{device}", lambda self: self.check(model, device))


for each_model in MODELS:
    for each_device in DEVICES:
        add_test(each_model, each_device)


if __name__ == "__main__":
    if not os.access(BINARY, os.X_OK):
        print(f"skipped: {BINARY} is not there")
        sys.exit(SKIPPED)
    unittest.main()
