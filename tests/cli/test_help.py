#!/usr/bin/env python3
"""What scripts and newcomers rely on: help, version, suggestions, the keys of --json, metrics."""

import json
import math
import os
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
import command

COMMANDS = ["probe", "check", "plan", "train", "eval", "predict", "run", "data"]
SMALL = ["zoo:mlp?hidden=16", "--batch-size", "8"]
USAGE = 2

PLAN_KEYS = {
    "schema", "fits", "model", "batch_size", "micro_batch", "device", "fingerprint",
    "planned_peak_bytes", "keep_all_peak_bytes", "smallest_budget_bytes", "lower_bound_bytes",
    "predicted_step_seconds", "recomputed", "moved", "tags", "keep_all_tags",
}
TRAIN_KEYS = PLAN_KEYS | {
    "measured_peak_bytes", "per_tag", "losses", "steps_run", "resumed_from_step", "weights",
    "weights_hash", "allocations_after_first_step", "samples_per_second", "step_seconds_median",
    "data_wait_fraction", "vmhwm_bytes", "run",
}
TAGS = {"parameter", "gradient", "optimizer", "activation", "workspace", "staging", "loader",
        "runtime", "other"}
METRICS = {"step", "epoch", "loss", "accuracy", "lr", "samples", "seconds", "data_wait_seconds"}


def is_count(value):
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


class Texts(unittest.TestCase):
    def test_help_of_every_command(self):
        for name in COMMANDS:
            with self.subTest(command=name):
                result = command.run(name, "--help")
                self.assertEqual(result.code, 0, result.stderr)
                self.assertTrue(result.stdout.startswith(f"usage: ullage {name}"), result.stdout)
                self.assertEqual(result.stderr, "")
                golden = command.ROOT / "tests" / "golden" / f"help_{name}.txt"
                self.assertEqual(result.stdout, golden.read_text(encoding="utf-8"))

    def test_overview(self):
        for word in ("--help", "-h", "help"):
            result = command.run(word)
            self.assertEqual(result.code, 0)
            for name in COMMANDS:
                self.assertRegex(result.stdout, rf"(?m)^  {name} +\S")
        bare = command.run()
        self.assertEqual((bare.code, bare.stdout), (USAGE, ""))
        self.assertIn("ullage COMMAND", bare.stderr)

    def test_version(self):
        result = command.run("--version")
        self.assertEqual(result.code, 0)
        self.assertRegex(result.stdout, r"\Aullage \d+\.\d+\.\d+\S*\n\Z")

    def check_suggestion(self, suggested, *arguments):
        result = command.run(*arguments)
        self.assertEqual(result.code, USAGE, result.stderr)
        self.assertEqual(result.stdout, "")
        self.assertIn(suggested, result.stderr)

    def test_suggestions(self):
        self.check_suggestion("train", "trian", "zoo:mlp")
        self.check_suggestion("--batch-size", "plan", "zoo:mlp", "--batchsize", "4")
        self.check_suggestion("zoo:lenet", "plan", "zoo:lennet")
        self.check_suggestion("one-cycle", "plan", "zoo:mlp", "--schedule", "onecycle")
        self.check_suggestion("sgd", "plan", "zoo:mlp", "--opt", "sdg")

    def test_usage_errors(self):
        for words in (["--lr", "fast"], ["--memory", "4 apples"], ["--epochs"], ["zoo:lenet"],
                      ["--val-split", "2"], ["--device", "abacus"]):
            with self.subTest(words=words):
                result = command.run("plan", "zoo:mlp", *words)
                self.assertIn(result.code, (USAGE, 1))
                self.assertRegex(result.stderr, r"\Aullage: \S")


class Json(unittest.TestCase):
    def check_tiers(self, value, where):
        self.assertEqual(set(value), set(command.TIERS), where)
        self.assertTrue(all(is_count(n) for n in value.values()), f"{where}: {value}")

    def check_tags(self, value, where):
        self.assertEqual(set(value), TAGS, where)
        for tag, tiers in value.items():
            self.check_tiers(tiers, f"{where}.{tag}")

    def check_plan_object(self, said):
        self.assertEqual(said["schema"], 1)
        for key in ("planned_peak_bytes", "keep_all_peak_bytes", "smallest_budget_bytes",
                    "lower_bound_bytes"):
            self.check_tiers(said[key], key)
        for key in ("tags", "keep_all_tags"):
            self.check_tags(said[key], key)
        for key in ("recomputed", "moved"):
            self.assertEqual(set(said[key]), {"values", "bytes", "seconds"})
            self.assertIsInstance(said[key]["values"], list)
        self.assertGreater(said["predicted_step_seconds"], 0)
        self.assertEqual((said["batch_size"], said["micro_batch"]), (8, 8))
        self.assertTrue(said["fits"])

    def last_line(self, *arguments):
        result = command.run(*arguments, "--json")
        self.assertEqual(result.code, 0, result.stderr)
        self.assertEqual(len(result.stdout.splitlines()), 1, "stdout carries more than the object")
        return result.object

    def test_plan(self):
        for device, tier in (("cpu", {"host": 0}), ("sim:1GiB@8GB/s", {})):
            said = self.last_line("plan", *SMALL, "--device", device)
            self.assertLessEqual(PLAN_KEYS, set(said), PLAN_KEYS - set(said))
            self.check_plan_object(said)
            self.assertEqual(said["device"], device)
            for name, size in tier.items():
                self.assertEqual(said["planned_peak_bytes"][name], size)
        self.assertGreater(said["planned_peak_bytes"]["host"], 0)

    def test_plan_and_train_agree(self):
        planned = self.last_line("plan", *SMALL)
        trained = self.last_line("train", *SMALL, "--steps", "2")
        for key in PLAN_KEYS - {"predicted_step_seconds"}:
            self.assertEqual(planned[key], trained[key], key)

    def test_train(self):
        with command.folder() as folder:
            data = command.write_idx(os.path.join(folder, "idx"), count=20, test_count=10)
            run = os.path.join(folder, "run")
            said = self.last_line("train", *SMALL, "--data", data, "--epochs", "2", "--run", run,
                                  "--lr", "0.05")
            self.check_train_object(said, run)
            self.check_weights(said)
            self.check_metrics(said, run)
            self.check_config(run)
            self.check_evaluation(run, data, said)

    def check_train_object(self, said, run):
        self.assertLessEqual(TRAIN_KEYS, set(said), TRAIN_KEYS - set(said))
        self.check_plan_object(said)
        self.check_tiers(said["measured_peak_bytes"], "measured_peak_bytes")
        self.check_tags(said["per_tag"], "per_tag")
        self.assertEqual(said["steps_run"], 6, "20 samples in batches of 8, twice")
        self.assertEqual(len(said["losses"]), 6)
        self.assertTrue(all(math.isfinite(loss) and loss > 0 for loss in said["losses"]))
        self.assertEqual(said["resumed_from_step"], 0)
        self.assertEqual(said["allocations_after_first_step"], 0)
        self.assertEqual(pathlib.Path(said["run"]).resolve(), pathlib.Path(run).resolve())
        self.assertTrue(0 <= said["data_wait_fraction"] <= 1)
        for key in ("samples_per_second", "step_seconds_median", "vmhwm_bytes"):
            self.assertGreater(said[key], 0, key)

    def check_weights(self, said):
        tensors, metadata = command.read_safetensors(said["weights"])
        self.assertEqual(metadata.get("format"), "pt")
        self.assertEqual(command.hash_tensors(tensors), said["weights_hash"])
        shapes = {name: shape for name, (_, shape, _) in tensors.items()}
        self.assertIn([16, 784], shapes.values())
        for name, (dtype, shape, content) in tensors.items():
            self.assertEqual(dtype, "F32", name)
            self.assertEqual(4 * math.prod(shape), len(content), name)

    def check_metrics(self, said, run):
        lines = pathlib.Path(run, "metrics.jsonl").read_text(encoding="utf-8").splitlines()
        steps = [line for line in map(json.loads, lines) if "step" in line and "loss" in line]
        self.assertEqual([line["step"] for line in steps], [1, 2, 3, 4, 5, 6])
        self.assertEqual([line["epoch"] for line in steps], [1, 1, 1, 2, 2, 2])
        self.assertEqual([line["samples"] for line in steps], [8, 8, 4, 8, 8, 4])
        self.assertEqual([line["loss"] for line in steps], said["losses"])
        for line in steps:
            self.assertLessEqual(METRICS, set(line))
            self.assertAlmostEqual(line["lr"], 0.05)
            self.assertGreater(line["seconds"], 0)

    def check_config(self, run):
        config = json.loads(pathlib.Path(run, "config.json").read_text(encoding="utf-8"))
        text = json.dumps(config)
        for word in ("batch-size", "momentum", "seed"):
            self.assertIn(word, text, "the resolved configuration lacks a default")

    def check_evaluation(self, run, data, said):
        evaluated = self.last_line("eval", *SMALL, "--init", said["weights"], "--data", data)
        self.assertLessEqual({"loss", "accuracy", "samples"}, set(evaluated))
        self.assertEqual(evaluated["samples"], 10)
        self.assertTrue(0 <= evaluated["accuracy"] <= 1)
        self.assertAlmostEqual(evaluated["accuracy"], said["accuracy"], places=12)
        by_folder = self.last_line("eval", run, "--data", data)
        self.assertEqual(by_folder["loss"], evaluated["loss"])

    def test_init_from_weights(self):
        """A safetensors file is where a run starts from; one step of rate 0 changes nothing."""
        with command.folder() as folder:
            first = self.last_line("train", *SMALL, "--steps", "2", "--run",
                                   os.path.join(folder, "a"))
            again = self.last_line("train", *SMALL, "--steps", "1", "--lr", "0", "--init",
                                   first["weights"])
        self.assertEqual(again["weights_hash"], first["weights_hash"])

    def test_error_object(self):
        result = command.run("plan", "zoo:nothing", "--json")
        self.assertEqual(result.code, USAGE)
        self.assertEqual(result.object["error"]["code"], "usage")
        self.assertEqual(result.object["schema"], 1)
        self.assertIn(result.object["error"]["message"], result.stderr)


if __name__ == "__main__":
    command.need_command()
    unittest.main()
