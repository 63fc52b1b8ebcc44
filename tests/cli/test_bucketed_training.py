#!/usr/bin/env python3
"""GPT-2 on JSON lines in buckets of lengths: it trains, nothing of what is learnt changes by the
length a document is filled up to, and every length's programs take what was planned for them.
"""

import json
import pathlib
import re
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
import command
import documents

DOCUMENTS, BATCH = 52, 8


class BucketedTraining(documents.Training):
    COUNT, HOW = DOCUMENTS, ("--buckets", 4, "--batch-size", BATCH)

    # ---- what is learnt ----

    def test_a_batch_is_the_mean_of_its_documents(self):
        """Of the shortest bucket: what comes first unless shuffled."""
        bucket = self.trained["buckets"][-1]
        chosen = [d for d in self.documents if documents.inputs_of(d) <= bucket["length"]]
        self.assertEqual(len(chosen), bucket["samples"])
        self.assertGreater(len(chosen), 10)
        alone = self.loss_alone(chosen)
        self.assert_close(self.loss(self.data, len(chosen), "--buckets", 4), alone)
        for micro in (1, 5):
            self.assert_close(self.loss(self.data, len(chosen), "--buckets", 4, "--micro-batch", micro), alone)

    def test_evaluation_over_all_lengths(self):
        whole = self.evaluate("--batch-size", DOCUMENTS)["loss"]
        for more in (["--buckets", 4], ["--buckets", "16,48"], ["--buckets", 1], ["--buckets", "63,", "--batch-size", 3]):
            said = self.evaluate("--batch-size", BATCH, *more)
            self.assert_close(said["loss"], whole, more)
            self.assertEqual(said["samples"], DOCUMENTS)

    def padding(self, *more):
        done = command.run("plan", *self.words(self.data, "--batch-size", BATCH, *more), env=self.env)
        self.assertEqual(done.code, 0, done.stderr)
        return float(re.search(r"([0-9.]+) % padding", done.stdout + done.stderr)[1])

    def test_less_is_filled_up(self):
        without, one, four = self.padding(), self.padding("--buckets", 1), self.padding("--buckets", 4)
        self.assertEqual(without, one)
        self.assertLess(four, 0.4 * without)
        self.assertLess(four, self.padding("--buckets", 2))

    # ---- same numbers ----

    def test_nothing_else_changes_a_bit(self):
        """Budgets, devices, loader threads and slots."""
        common = ["--buckets", 3, "--batch-size", BATCH, "--steps", 9, "--val-split", "0.2"]
        planned = command.plan(*self.words(self.data, *common), env=self.env)
        runs = [["--memory", budget] for budget in command.four_budgets(planned)]
        runs += [["--device", "sim:2GiB@8GB/s"], ["--workers", 3, "--prefetch", 5], ["--workers", 1, "--prefetch", 1]]
        wanted = self.train(self.data, *common)
        for said in command.side_by_side(lambda more: self.train(self.data, *common, *more), runs):
            self.assertEqual(said["losses"], wanted["losses"])
            self.assertEqual(said["weights_hash"], wanted["weights_hash"])

    # ---- bytes ----

    def check_programs(self, said):
        """Every program of every length ran and took what was planned for it."""
        self.assertEqual(said["measured_peak_bytes"], said["planned_peak_bytes"])
        names = []
        for bucket in said["buckets"]:
            for program in bucket["programs"]:
                self.assertEqual(program.get("per_tag"), program["tags"], program["name"])
                self.assertEqual(program["name"].split("@")[1], str(bucket["length"]))
                names.append(program["name"])
        return names

    def test_planned_is_measured(self):
        common = ["--buckets", 4, "--batch-size", BATCH, "--epochs", 1, "--val-split", "0.2"]
        planned = command.plan(*self.words(self.data, *common), env=self.env)
        least, _, _, most = command.four_budgets(planned)
        for budget in (least, most):
            said = self.train(self.data, *common, "--memory", budget)
            names = self.check_programs(said)
            lengths = [bucket["length"] for bucket in said["buckets"]]
            self.assertEqual(lengths, sorted(lengths, reverse=True))
            self.assertEqual(sum(bucket["samples"] + bucket["eval_samples"] for bucket in said["buckets"]), DOCUMENTS)
            self.assertIn(f"train@{lengths[-1]}", names)
            self.assertIn(f"last@{lengths[-1]}", names)
            self.assertIn(f"eval@{lengths[-1]}", names)
            self.assertEqual(said["steps_run"], sum(-(-b["samples"] // BATCH) for b in said["buckets"]))
        self.check_programs(self.train(self.data, *common, "--micro-batch", 3))
        sizes = {program["name"]: program["arena_bytes"]
                 for bucket in said["buckets"] for program in bucket["programs"]}
        trains = [size for name, size in sizes.items() if name.startswith("train@")]
        self.assertEqual(trains, sorted(trains, reverse=True))

    def test_refused_before_the_first_step(self):
        common = ["--buckets", 4, "--batch-size", BATCH, "--steps", 8]
        planned = command.plan(*self.words(self.data, *common), env=self.env)
        least = planned["smallest_budget_bytes"]["device"]
        done = command.run("train", *self.words(self.data, *common, "--memory", least - 1), env=self.env)
        self.assertEqual(done.code, 3, done.stderr)
        self.assertNotIn("step 1", done.stdout)
        self.assertEqual(self.train(self.data, *common, "--memory", least)["measured_peak_bytes"]["device"], least)

    def test_a_saved_plan_names_lengths(self):
        path = self.path("plan.json")
        command.plan(*self.words(self.data, "--buckets", "24,48", "--batch-size", 4, "--save", path), env=self.env)
        names = {program["name"] for program in json.loads(pathlib.Path(path).read_text())["programs"]}
        self.assertLessEqual({"train@24", "train@48", "train@64"}, names)
        self.assertNotIn("train", names)
        said = command.plan(*self.words(self.data, "--batch-size", 4, "--save", path), env=self.env)
        names = {program["name"] for program in json.loads(pathlib.Path(path).read_text())["programs"]}
        self.assertEqual(names, {"train", "eval"})
        self.assertNotIn("buckets", said)

    # ---- evaluation on other data, and what is refused ----

    def test_other_data_gets_the_same_lengths(self):
        more = self.write("more.jsonl", [{"text": "a dog sees"}, {"text": "x" * 64}, {"text": "y" * 90}])
        said = self.train(self.data, "--buckets", "16,32", "--batch-size", BATCH, "--epochs", 1, "--val-data", more)
        lengths = [bucket["length"] for bucket in said["buckets"]]
        self.assertEqual(lengths, [64, 32, 16])
        self.assertEqual([bucket["eval_samples"] for bucket in said["buckets"]], [2, 1, 1])
        self.check_programs(said)

    def test_a_longest_bucket_that_only_evaluates(self):
        short = self.write("short.jsonl", [{"text": "abcdefgh"}, {"text": "abc"}, {"text": "defgh"}])
        said = self.train(short, "--buckets", "4,", "--batch-size", 2, "--steps", 3, "--val-data", self.data)
        self.check_programs(said)
        self.assertEqual([b["length"] for b in said["buckets"]], [64, 4])
        self.assertGreater(said["buckets"][0]["samples"], 0)
        long = self.train(self.write("four.jsonl", [{"text": "abcd"}] * 4), "--buckets", "4,", "--batch-size", 2,
                          "--epochs", 2, "--val-data", short)
        self.check_programs(long)
        self.assertEqual([(b["length"], b["samples"], b["eval_samples"]) for b in long["buckets"]],
                         [(64, 0, 2), (4, 4, 1)])
        self.assertEqual(long["tags"], long["per_tag"])

    def test_what_cannot_be_is_refused(self):
        self.assertIn("not both", self.refuse("--buckets", 4, "--pack"))
        self.assertIn("no sequences", self.refuse("--buckets", 4, data="synthetic"))
        self.assertIn("no sequences", self.refuse("--buckets", 4, "--val-data", "synthetic"))
        self.assertIn("too many", self.refuse("--buckets", 9))
        self.assertIn("longer", self.refuse("--buckets", "32,65"))
        self.assertIn("ascend", self.refuse("--buckets", "32,16"))
        self.assertIn("packed=1", self.refuse("--buckets", 4, model=documents.UNPACKED, code=1))
        one = self.write("one.jsonl", [{"text": "a"}, {"text": "abcdef"}])
        self.assertIn("sequences of 1", self.refuse("--buckets", "1,", "--batch-size", 1, data=one))


if __name__ == "__main__":
    command.need_command()
    unittest.main()
