#!/usr/bin/env python3
"""Training with --on-bad skip: what is learnt is what the good files alone would teach; epochs are
shorter, in words; what cannot be is refused with a reason."""

import json
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
import command
import pictures

MODEL = "zoo:resnet8?width=4&channels=3&image=32&classes=2"
BATCH = 8
SKIP = ["--on-bad", "skip"]
IN_ORDER = ["--batch-size", BATCH, "--no-shuffle", "--augment", "stretch", "--schedule", "constant"]


class SkipTraining(unittest.TestCase):
    def setUp(self):
        self.place = command.folder()
        self.addCleanup(self.place.cleanup)
        self.folder = pathlib.Path(self.place.name)

    def write(self, name, count, bad=()):
        """A folder of pictures, those numbers in the order of the files spoilt; and the same without them."""
        for kind in ("spoilt", "clean"):
            paths = sorted(pictures.write_folder(self.folder / name / kind, count))
            for number in bad:
                content = paths[number].read_bytes()
                if kind == "clean":
                    paths[number].unlink()
                else:
                    paths[number].write_bytes((b"", b"no picture", content[:len(content) // 2])[number % 3])
        return self.folder / name / "spoilt", self.folder / name / "clean"

    def train(self, data, *arguments):
        said = command.train(MODEL, "--data", data, *arguments)
        self.assertEqual(said["planned_peak_bytes"], said["measured_peak_bytes"])
        self.assertEqual(said["allocations_after_first_step"], 0)
        return said

    def test_like_the_good_files_alone(self):
        spoilt, clean = self.write("rows", 40, bad=(0, 5, 6, 7, 8, 21, 22, 39))
        wanted = self.train(clean, *IN_ORDER, "--epochs", 2)
        self.assertEqual(wanted["steps_run"], 8)
        for workers in (1, 4):
            got = self.train(spoilt, *IN_ORDER, *SKIP, "--epochs", 2, "--workers", workers)
            self.assertEqual(got["losses"], wanted["losses"])
            self.assertEqual(got["weights_hash"], wanted["weights_hash"])
            self.assertEqual(got["bad_samples"], 16)

    def test_nothing_bad(self):
        """Shuffled, augmented, with a last batch that is smaller: the same bits as with replace."""
        clean, _ = self.write("fine", 21)
        arguments = ["--batch-size", BATCH, "--epochs", 2, "--augment", "rrc,flip,mixup:0.4", "--val-split", 0.2]
        wanted, got = self.train(clean, *arguments), self.train(clean, *arguments, *SKIP)
        for key in ("losses", "weights_hash", "accuracy", "steps_run"):
            self.assertEqual(got[key], wanted[key])

    def test_length_of_epochs(self):
        """37 of 44: four batches; the rest is of a size that nothing was planned for. --steps are all made."""
        spoilt, _ = self.write("short", 44, bad=range(10, 17))
        self.assertEqual(self.train(spoilt, *IN_ORDER, *SKIP, "--epochs", 3)["steps_run"], 12)
        self.assertEqual(self.train(spoilt, *IN_ORDER, *SKIP, "--steps", 14)["steps_run"], 14)
        planned = self.train(spoilt, *IN_ORDER, "--epochs", 3)
        self.assertEqual(planned["steps_run"], 18)
        told = command.run("train", MODEL, "--data", spoilt, *IN_ORDER, *SKIP, "--epochs", 3, "--val-data", spoilt)
        self.assertEqual(told.code, 0, told.stderr)
        text = told.stdout + told.stderr
        self.assertIn("samples that cannot be used are left out", text)
        self.assertIn("an epoch may be shorter than planned", text)
        self.assertIn("12 of 18 planned", text)
        self.assertIn("samples were left out:", text)
        for epoch in (1, 2, 3):
            self.assertIn(f"epoch {epoch} · evaluation", text)
        self.assertNotIn("epoch 4", text)
        self.assertIn("on 37 samples", text)

    def fail(self, data, *arguments):
        result = command.run("train", MODEL, "--data", data, *SKIP, *arguments, "--json")
        error = json.loads(result.stdout.splitlines()[-1])["error"]
        self.assertEqual(result.code, command.EXIT_CODES.get(error["code"], 1), result.stderr)
        return error

    def test_too_few(self):
        none, _ = self.write("none", 30, bad=range(30))
        few, _ = self.write("few", 30, bad=range(25))
        for ends in (("--epochs", 2), ("--steps", 50)):
            error = self.fail(none, *IN_ORDER, *ends)
            self.assertEqual(error["code"], "data")
            self.assertIn("not one batch", error["message"])
            error = self.fail(few, *IN_ORDER, *ends)
            self.assertEqual(error["code"], "data")
            self.assertIn("5 good samples do not make a batch of 8", error["message"])
        self.assertIn("3 are allowed", self.fail(none, *IN_ORDER, "--steps", 9, "--max-bad", 3)["message"])

    def test_refused(self):
        clean, _ = self.write("one", 20)
        self.assertEqual(self.fail(clean, *IN_ORDER, "--steps", 1, "--prefetch", 1)["code"], "usage")
        lines = self.folder / "lines.jsonl"
        lines.write_text("".join(json.dumps({"text": "word " * (1 + i % 40)}) + "\n" for i in range(60)), encoding="utf-8")
        result = command.run("train", "zoo:gpt2_tiny?packed=1", "--seq", 64, "--data", f"text:{lines}", "--buckets", 2,
                             "--batch-size", 4, "--steps", 1, *SKIP, "--json")
        error = json.loads(result.stdout.splitlines()[-1])["error"]
        self.assertEqual(error["code"], "unsupported", error)
        self.assertIn("several lengths", error["message"])
        self.assertIn("--on-bad replace", error["change"])


if __name__ == "__main__":
    command.need_command()
    unittest.main()
