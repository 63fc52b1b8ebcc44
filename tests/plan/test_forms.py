#!/usr/bin/env python3
"""Saved forms: where backward needs a value for nothing but ReLU's mask, a tighter plan keeps one bit
an element instead, costs next to nothing for it, and gives the same weights.
"""

import json
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
import command

FLAGS = ("zoo:lenet", "--batch-size", "256", "--seed", "1")


class Forms(unittest.TestCase):
    def test_bits_instead_of_values(self):
        roomy = command.plan(*FLAGS)
        smallest = roomy["smallest_budget_bytes"]["device"]
        with tempfile.TemporaryDirectory() as folder:
            saved = pathlib.Path(folder) / "plan.json"
            tight = command.plan(*FLAGS, "--memory", smallest, "--save", saved)
            plan = json.loads(saved.read_text())
        nodes = [i["node"] for i in plan["instructions"]]
        masks = [n for n in nodes if n and n.endswith(".mask")]
        self.assertTrue(masks, "no mask is kept")
        for mask in masks:
            relu = mask.removesuffix(".mask")
            self.assertIn(f"{relu}.grad_input_mask", nodes)
            self.assertNotIn(f"{relu}.grad_input", nodes)
        self.assertLess(tight["tags"]["activation"]["device"],
                        0.8 * roomy["tags"]["activation"]["device"])
        self.assertLess(tight["predicted_step_seconds"], 1.05 * roomy["predicted_step_seconds"])

    def test_same_weights(self):
        roomy = command.train(*FLAGS, "--steps", "5")
        smallest = roomy["smallest_budget_bytes"]["device"]
        tight = command.train(*FLAGS, "--steps", "5", "--memory", smallest)
        self.assertEqual(roomy["losses"], tight["losses"])
        self.assertEqual(roomy["weights_hash"], tight["weights_hash"])


if __name__ == "__main__":
    unittest.main()
