#!/usr/bin/env python3
"""Micro-batches, and batches that do not come out even.

A step in micro-batches has the whole batch's loss to within float32 rounding, whatever samples are
left over at the end of a batch, of an epoch and of an evaluation; planned bytes stay counted bytes;
and every sample of an evaluation counts once.
"""

import json
import os
import pathlib
import random
import struct
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
import command

SAMPLES, EVALUATED = 43, 23
RECIPES = {
    "mlp": ["zoo:mlp?hidden=24", "--lr", "0.05"],
    "lenet": ["zoo:lenet", "--lr", "0.05"],
    "gpt2_tiny": ["zoo:gpt2_tiny?layers=1&heads=2&width=16&vocab=50&positions=16&seq=16",
                  "--opt", "adamw", "--lr", "0.001"],
}
# batch, micro-batch: left over by a batch and by the last one of 43 samples
PAIRS = [(16, 4),   # 0, 3
         (16, 5),   # 1, 1
         (10, 4),   # 2, 3
         (7, 7),    # 0, 1: no micro-batches
         (43, 8)]   # 3, 3
# Accumulating in another order rounds differently, and training carries that on.
CLOSE = 2e-5


def tokens(folder, name, count):
    draw = random.Random(len(name))
    ids = struct.pack(f"<{count * 16}q", *(draw.randrange(50) for _ in range(count * 16)))
    return command.write_npz(os.path.join(folder, name), {"input_ids": ("<i8", (count, 16), ids)})


class MicroBatches(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.place = command.folder()
        folder = cls.place.name
        images = ["--data", command.write_idx(f"{folder}/idx", count=SAMPLES,
                                              test_count=EVALUATED)]
        texts = ["--data", tokens(folder, "train.npz", SAMPLES),
                 "--val-data", tokens(folder, "val.npz", EVALUATED)]
        cls.data = {"mlp": images, "lenet": images, "gpt2_tiny": texts}

    @classmethod
    def tearDownClass(cls):
        cls.place.cleanup()

    def train(self, model, batch, micro, *more):
        return command.train(*RECIPES[model], *self.data[model], "--epochs", "3", "--batch-size",
                             batch, "--micro-batch", micro, "--threads", "2", *more)

    def check_bytes(self, said):
        self.assertEqual(said["planned_peak_bytes"], said["measured_peak_bytes"])
        self.assertEqual(said["tags"], said["per_tag"])
        self.assertEqual(said["allocations_after_first_step"], 0)

    def check_losses(self, model, batch, micro):
        whole = self.train(model, batch, "off")
        split = self.train(model, batch, micro)
        self.assertEqual(split["micro_batch"], micro)
        self.assertEqual(len(whole["losses"]), 3 * -(-SAMPLES // batch))
        self.assertEqual(len(split["losses"]), len(whole["losses"]))
        worst = max(abs(a - b) / max(abs(a), 0.01) for a, b in zip(whole["losses"], split["losses"]))
        self.assertLess(worst, CLOSE)
        self.check_bytes(whole)
        self.check_bytes(split)
        return worst

    def test_losses(self):
        for model in RECIPES:
            for batch, micro in PAIRS:
                with self.subTest(model=model, batch=batch, micro=micro):
                    worst = self.check_losses(model, batch, micro)
                    print(f"{model:9} batch {batch:2} in {micro}: losses within {worst:.1e}")

    def test_smallest_budget_and_sim(self):
        for model in RECIPES:
            first = self.train(model, 10, 4)
            smallest = first["smallest_budget_bytes"]["device"]
            for more in (["--memory", smallest], ["--device", "sim:1GiB@8GB/s"]):
                with self.subTest(model=model, more=more):
                    said = self.train(model, 10, 4, *more)
                    self.check_bytes(said)
                    self.assertEqual(said["losses"], first["losses"])
                    self.assertEqual(said["weights_hash"], first["weights_hash"])

    def test_less_memory(self):
        """That is what micro-batches are for."""
        whole = command.plan("zoo:lenet", "--batch-size", "256")
        split = command.plan("zoo:lenet", "--batch-size", "256", "--micro-batch", "16")
        activations = [said["tags"]["activation"]["device"] for said in (whole, split)]
        self.assertLess(activations[1], activations[0] / 8)

    def test_auto(self):
        flags = ["zoo:gpt2_tiny", "--batch-size", "256"]
        whole = command.plan(*flags, "--micro-batch", "auto")
        self.assertEqual(whole["micro_batch"], 256)
        budget = ["--memory", whole["smallest_budget_bytes"]["device"] - 1]
        found = command.plan(*flags, *budget, "--micro-batch", "auto")
        self.assertTrue(found["fits"])
        self.assertEqual(found["micro_batch"], 128)
        by_hand = command.train(*flags, *budget, "--steps", "2", "--micro-batch", "128")
        auto = command.train(*flags, *budget, "--steps", "2", "--micro-batch", "auto")
        self.assertEqual(auto["weights_hash"], by_hand["weights_hash"])

    def test_batch_normalisation_is_refused(self):
        for verb in ("plan", "train"):
            result = command.run(verb, "zoo:small_resnet", "--batch-size", "8", "--micro-batch",
                                 "4", "--json")
            self.assertEqual(result.code, 1, result.stderr)
            error = result.object["error"]
            self.assertEqual(error["code"], "unsupported")
            self.assertIn("stem.1", error["message"] + error["holder"])
            self.assertIn("batch", error["message"])
            self.assertTrue(error["change"])

    def test_micro_batch_of_the_whole_batch(self):
        """Not split: BatchNorm and all."""
        said = command.plan("zoo:small_resnet", "--batch-size", "8", "--micro-batch", "8")
        self.assertEqual(said["micro_batch"], 8)


class Evaluations(unittest.TestCase):
    def evaluate(self, *arguments):
        return command.run_json("eval", *arguments)

    def check_batches(self, model, data, batches):
        """Accuracy is a count: the same whatever the batch."""
        found = [self.evaluate(model, "--data", data, "--batch-size", b) for b in batches]
        for said in found:
            self.assertEqual(said["samples"], found[0]["samples"])
            self.assertEqual(said["accuracy"], found[0]["accuracy"])
            self.assertAlmostEqual(said["loss"], found[0]["loss"], places=5)
        return found[0]

    def test_ten_thousand(self):
        shared = os.environ.get("ULLAGE_TEST_DATA", "")
        with command.folder() as folder:
            data = f"idx:{shared}/mnist"
            if not os.path.isdir(f"{shared}/mnist"):
                data = command.write_idx(folder, count=16, test_count=10000)
            said = self.check_batches("zoo:mlp?hidden=32", data, (128, 625, 999))
        self.assertEqual(said["samples"], 10000)
        right = said["accuracy"] * 10000
        self.assertAlmostEqual(right, round(right), places=6)

    def test_a_run(self):
        """The run's own evaluation, its folder, and its weights by name say the same."""
        with command.folder() as folder:
            data = command.write_idx(f"{folder}/idx", count=40, test_count=EVALUATED)
            run = f"{folder}/run"
            trained = command.train("zoo:lenet", "--data", data, "--batch-size", "8", "--epochs",
                                    "4", "--lr", "0.05", "--run", run)
            by_folder = self.evaluate(run, "--data", data)
            by_file = self.evaluate("zoo:lenet", "--init", f"{run}/weights.safetensors", "--data",
                                    data, "--batch-size", "8")
            over = self.evaluate(run, "--data", data, "--batch-size", "5")
            self.assertEqual(by_folder["samples"], EVALUATED)
            self.assertEqual(by_folder["accuracy"], trained["accuracy"])
            self.assertEqual(by_folder, by_file)
            self.assertEqual(over["accuracy"], trained["accuracy"])

    def test_other_data_is_normalised_as_in_training(self):
        with command.folder() as folder:
            data = command.write_idx(f"{folder}/idx", count=40, test_count=EVALUATED)
            other = command.write_idx(f"{folder}/other", count=7, seed=9, test_count=EVALUATED)
            run = f"{folder}/run"
            trained = command.train("zoo:lenet", "--data", data, "--batch-size", "8", "--epochs",
                                    "2", "--run", run)
            said = pathlib.Path(run, "config.json").read_text(encoding="utf-8")
            numbers = json.loads(said)["normalize"]
            by_folder = self.evaluate(run, "--data", other)
            weights = ["--init", f"{run}/weights.safetensors", "--data", other, "--batch-size", "8"]
            self.assertEqual(by_folder, self.evaluate("zoo:lenet", *weights, "--normalize",
                                                      numbers))
            self.assertNotEqual(by_folder["loss"], self.evaluate("zoo:lenet", *weights)["loss"])
            again = command.train("--config", f"{run}/config.json", "--run", f"{folder}/again")
            self.assertEqual(again["weights_hash"], trained["weights_hash"])

    def test_texts(self):
        """A model without a target has nothing to pad with, and still leaves no sample out."""
        with command.folder() as folder:
            model = RECIPES["gpt2_tiny"][0]
            data = tokens(folder, "val.npz", EVALUATED)
            found = [self.evaluate(model, "--data", data, "--batch-size", b) for b in (23, 4, 10)]
            for said in found:
                self.assertEqual(said["samples"], EVALUATED)
                self.assertAlmostEqual(said["loss"], found[0]["loss"], places=5)

    def test_folder_without_a_run(self):
        with command.folder() as folder:
            result = command.run("eval", folder, "--json")
            self.assertNotEqual(result.code, 0)
            self.assertIn("config.json", json.dumps(result.object["error"]))


if __name__ == "__main__":
    command.need_command()
    unittest.main()
