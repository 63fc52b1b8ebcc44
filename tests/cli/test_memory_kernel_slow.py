#!/usr/bin/env python3
"""The kernel's view of memory agrees with the plan's.

- From keep-all to the smallest budget the process' peak resident size moves as the plan does,
  within 5 %, where the two plans differ by at least 64 MiB.
- Each model survives in a cgroup that allows the sum of its planned tiers and max(1 %, 4 MiB).

Needs the right to make a memory cgroup (v1 or v2) for its second part, and says so where it has
not.
"""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
import command
from cgroup import Cgroup

MIB = 1 << 20
LEAST_DIFFERENCE = 64 * MIB
TOLERANCE = 0.05
STEPS = ["--steps", "2"]

# Batches at which keep-all and smallest differ by more than 64 MiB.
CASES = {
    "mlp": ["zoo:mlp?hidden=256&layers=24", "--batch-size", "8192"],
    "lenet": ["zoo:lenet?image=64", "--batch-size", "2048"],
    "resnet18": ["zoo:resnet18?classes=10&image=64", "--batch-size", "96"],
    "gpt2_tiny": ["zoo:gpt2_tiny", "--batch-size", "512", "--opt", "adamw"],
}


def planned_bytes(said):
    return sum(said["planned_peak_bytes"].values())


class MemoryKernel(unittest.TestCase):
    def check_resident(self, model):
        arguments = CASES[model]
        said = command.plan(*arguments)
        budgets = [said[key]["device"] for key in ("keep_all_peak_bytes", "smallest_budget_bytes")]
        large, small = (command.train(*arguments, *STEPS, "--memory", b) for b in budgets)
        planned = planned_bytes(large) - planned_bytes(small)
        resident = large["vmhwm_bytes"] - small["vmhwm_bytes"]
        print(f"{model} ({' '.join(arguments)}): planned {planned_bytes(large) / MIB:.1f} and "
              f"{planned_bytes(small) / MIB:.1f} MiB, resident {large['vmhwm_bytes'] / MIB:.1f} "
              f"and {small['vmhwm_bytes'] / MIB:.1f} MiB; differences {planned / MIB:.1f} and "
              f"{resident / MIB:.1f} MiB ({resident / planned - 1:+.1%})", flush=True)
        self.assertGreaterEqual(planned, LEAST_DIFFERENCE, "the batch is too small to tell")
        self.assertLessEqual(abs(resident - planned), TOLERANCE * planned)
        for each in (large, small):
            self.assertLessEqual(each["vmhwm_bytes"], self.allowed_bytes(each))

    @staticmethod
    def allowed_bytes(said):
        planned = planned_bytes(said)
        return planned + max(planned // 100, 4 * MIB)

    def check_cgroup(self, arguments, budget_key):
        said = command.plan(*arguments)
        arguments = [*arguments, "--memory", said[budget_key]["device"]]
        limit = self.allowed_bytes(command.plan(*arguments))
        with Cgroup(limit) as group:
            result = command.run("train", *arguments, *STEPS, "--json", prefix=group.prefix())
            peak = group.peak_bytes()
        self.assertEqual(result.code, 0, f"in a cgroup of {limit} bytes: {result.stderr[-500:]}")
        self.assertEqual(result.object["steps_run"], int(STEPS[1]))
        print(f"  {arguments[0]} {budget_key}: limit {limit}, highest {peak}", flush=True)

    def test_cgroup(self):
        for model, arguments in CASES.items():
            for key in ("keep_all_peak_bytes", "smallest_budget_bytes"):
                with self.subTest(model=model, budget=key):
                    self.check_cgroup(arguments, key)

    def test_cgroup_kills_who_takes_more(self):
        """The limit is one: half of it is not survived."""
        arguments = CASES["resnet18"]
        limit = planned_bytes(command.plan(*arguments)) // 2
        with Cgroup(limit) as group:
            result = command.run("train", *arguments, *STEPS, "--json", "--memory", 2 * limit,
                                 prefix=group.prefix())
        self.assertNotEqual(result.code, 0)


def add_test(model):
    setattr(MemoryKernel, f"test_resident_{model}", lambda self: self.check_resident(model))


for each_model in CASES:
    add_test(each_model)


if __name__ == "__main__":
    command.need_command()
    if command.is_sanitized():
        command.skip("a sanitizer takes memory of its own")
    unittest.main()
