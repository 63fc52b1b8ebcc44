#!/usr/bin/env python3
"""The law of budgets, at a fixed machine and micro-batch.

- Exactly the smallest budget plans and trains; one byte less ends with exit code 3 and names who
  holds the peak, the shortfall (one byte) and what to change, and that change works.
- The smallest is at most 1.05 x (persistent + largest launch), or comes with a certificate.
- More budget is never predicted slower: random budgets, each plan replayed outside the library.
- Keep-all recomputes nothing.

ULLAGE_RANDOM_BUDGETS sets the number of random budgets (30, and 5 in a build with sanitizers).
"""

import os
import pathlib
import random
import re
import shlex
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "support"))
sys.path.insert(0, str(HERE))
import command
import replay

MACHINE = ["--machine", "device:8GiB@8GB/s host:16GiB compute:200GFLOPS mem:20GB/s latency:5us "
           "process:24MiB kernel:40KiB", "--micro-batch", "off"]
RANDOM_BUDGETS = int(os.environ.get("ULLAGE_RANDOM_BUDGETS") or 0)
MOST_OVER_LOWER_BOUND = 1.05
DOES_NOT_FIT = 3


def replayed_plan(arguments, budget):
    """A plan whose file holds in the replayer and agrees with what was said."""
    with command.folder() as folder:
        path = os.path.join(folder, "plan.json")
        said = command.plan(*arguments, "--memory", budget, "--save", path)
        report = replay.replay(replay.read_json(path), {"device": budget}, said)
    return said, report


def check_refusal(test, result, budget, smallest):
    """One byte is missing, and the record says everything about it."""
    test.assertEqual(result.code, DOES_NOT_FIT, result.stderr[-500:])
    said = result.object
    error = said["error"]
    test.assertEqual(error["code"], "does_not_fit")
    test.assertEqual(error["shortfall_bytes"], smallest - budget)
    test.assertRegex(error["holder"], r"\S+ \(\d[\d.]* [KMG]?i?B\)", "no value holds the peak")
    test.assertIn(str(smallest), error["message"])
    test.assertEqual(said["smallest_budget_bytes"]["device"], smallest)
    test.assertFalse(said["fits"])
    test.assertIn(error["holder"], result.stderr)
    return error["change"]


def check_change(test, arguments, change):
    """The flags that the refusal proposes are accepted as they stand."""
    test.assertTrue(change, "nothing to change is named")
    flags = shlex.split(re.split(r", or | \(", change)[0])
    test.assertTrue(flags and flags[0].startswith("--"), change)
    command.plan(*arguments, *flags)


class BudgetLaw(unittest.TestCase):
    def check_smallest(self, arguments):
        smallest = command.plan(*arguments)["smallest_budget_bytes"]["device"]
        exact = command.plan(*arguments, "--memory", smallest)
        self.assertEqual(exact["smallest_budget_bytes"]["device"], smallest)
        self.assertLessEqual(exact["planned_peak_bytes"]["device"], smallest)
        trained = command.train(*arguments, "--memory", smallest, "--steps", "2")
        self.assertEqual(trained["measured_peak_bytes"], exact["planned_peak_bytes"])
        for verb in ("plan", "train"):
            result = command.run(verb, *arguments, "--memory", smallest - 1, "--json")
            change = check_refusal(self, result, smallest - 1, smallest)
        check_change(self, arguments, change)
        far = command.run("plan", *arguments, "--memory", smallest // 2, "--json")
        check_refusal(self, far, smallest // 2, smallest)
        return exact

    def check_lower_bound(self, said):
        smallest, bound = (said[key]["device"] for key in
                           ("smallest_budget_bytes", "lower_bound_bytes"))
        self.assertGreaterEqual(smallest, bound)
        print(f"{self.id().rpartition('test_')[2]}: smallest {smallest}, "
              f"{smallest / bound:.3f} x (persistent + largest launch)", flush=True)
        if smallest > MOST_OVER_LOWER_BOUND * bound:
            certificate = said.get("certificate")
            self.assertTrue(certificate, f"{smallest} is {smallest / bound:.3f} x {bound} and has "
                            "no certificate")
            self.check_certificate(certificate, smallest)

    def check_certificate(self, certificate, smallest):
        """It names the instruction and the values that must be live there, with the reason, and
        says what it does not prove; test_certificate.py looks closer."""
        values = certificate["values"]
        self.assertTrue(certificate["node"] and values)
        self.assertEqual(sum(each["bytes"] for each in values), certificate["sum_bytes"])
        self.assertTrue(all(each["value"] and each["why"] for each in values), values)
        proved = certificate["proved_budget_bytes"]
        self.assertEqual(proved + certificate["not_proved_bytes"], smallest)
        print(f"  certificate: {certificate['sum_bytes']} bytes live while {certificate['node']} "
              f"runs; smallest is {smallest / proved:.3f} x what is proved", flush=True)

    def check_keep_all(self, arguments, said):
        largest = said["keep_all_peak_bytes"]["device"]
        keep_all, report = replayed_plan(arguments, largest)
        self.assertEqual(report["errors"], [])
        self.assertEqual(keep_all["recomputed"], {"values": [], "bytes": 0, "seconds": 0})
        for tier, kept in keep_all["keep_all_peak_bytes"].items():
            self.assertLessEqual(keep_all["planned_peak_bytes"][tier], kept)
        return keep_all["predicted_step_seconds"]

    def check_random_budgets(self, arguments, said):
        smallest, largest = (said[key]["device"] for key in
                             ("smallest_budget_bytes", "keep_all_peak_bytes"))
        draw = random.Random(7)
        end = largest + (largest - smallest) // 10
        number = RANDOM_BUDGETS or (5 if command.is_sanitized() else 30)
        budgets = sorted(draw.randint(smallest, end) for _ in range(number))
        plans = command.side_by_side(lambda b: replayed_plan(arguments, b), budgets)
        before = (None, None)
        for budget, (planned, report) in zip(budgets, plans):
            self.assertEqual(report["errors"], [], f"at {budget} bytes")
            seconds = planned["predicted_step_seconds"]
            if before[0] is not None:
                self.assertLessEqual(seconds, before[0],
                                     f"{budget} bytes are predicted slower than {before[1]}")
            before = (seconds, budget)
        return before[0]

    def check_model(self, model):
        arguments = [*command.MODELS[model], *MACHINE]
        said = self.check_smallest(arguments)
        self.check_lower_bound(said)
        fastest = self.check_keep_all(arguments, said)
        self.assertGreaterEqual(said["predicted_step_seconds"], fastest)
        self.check_random_budgets(arguments, said)


def add_test(model):
    setattr(BudgetLaw, f"test_{model}", lambda self: self.check_model(model))


for each_model in command.MODELS:
    add_test(each_model)


if __name__ == "__main__":
    command.need_command()
    unittest.main()
