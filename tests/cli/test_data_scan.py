#!/usr/bin/env python3
"""`ullage data scan`: a verdict for every file, counts, duplicates, exit code 6 where something is bad;
and what training says about a folder of pictures."""

import json
import pathlib
import re
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
import command
import pictures


class DataScan(unittest.TestCase):
    def setUp(self):
        self.scratch = command.folder()
        self.addCleanup(self.scratch.cleanup)
        self.root = pathlib.Path(self.scratch.name) / "photos"
        self.files = pictures.write_folder(self.root, 20)

    def scan(self, *arguments):
        lines = pathlib.Path(self.scratch.name) / "files.jsonl"
        result = command.run("data", "scan", self.root, "--files", lines, "--json", *arguments)
        return result, [json.loads(line) for line in lines.read_text(encoding="utf-8").splitlines()]

    def test_good_files(self):
        result, lines = self.scan()
        self.assertEqual(result.code, 0)
        said = result.object
        self.assertEqual((said["samples"], said["files"], said["bad"], said["duplicates"]), (20, 20, 0, 0))
        self.assertEqual(said["classes"], {"a": 10, "b": 10})
        self.assertEqual(said["verdicts"]["ok"], 20)
        self.assertEqual(len(lines), 20)
        for line, path in zip(lines, sorted(self.files)):
            self.assertEqual(line["path"], str(path))
            self.assertEqual((line["verdict"], line["reason"]), ("ok", ""))
            self.assertEqual(line["bytes"], path.stat().st_size)
            self.assertGreater(min(line["width"], line["height"]), 47)
        self.assertEqual(said["widths"], [min(l["width"] for l in lines), max(l["width"] for l in lines)])

    def test_mean_and_deviation(self):
        for path in self.files:
            path.unlink()
        half = bytes([0, 51, 255]) * 8 + bytes([255, 51, 255]) * 8
        self.files[0].write_bytes(pictures.png_bytes(4, 4, half))
        said = self.scan()[0].object
        for got, wanted in zip(said["mean"] + said["std"], (0.5, 0.2, 1, 0.5, 0, 0)):
            self.assertAlmostEqual(got, wanted, 12)

    def test_bad_files(self):
        self.files[2].write_bytes(b"")
        content = self.files[5].read_bytes()
        self.files[5].write_bytes(content[:len(content) // 2])
        self.files[7].write_bytes(b"no picture")
        self.files[9].write_bytes(self.files[8].read_bytes())
        results = [self.scan("--workers", workers) for workers in (1, 2, 7)]
        for result, lines in results:
            self.assertEqual(result.code, 6)
            self.assertEqual(lines, results[0][1])
            by_path = {line["path"]: line for line in lines}
            verdicts = [by_path[str(self.files[i])]["verdict"] for i in (2, 5, 7)]
            self.assertEqual(verdicts[0], "empty")
            self.assertIn(verdicts[1], ("truncated", "damaged"))
            self.assertEqual(verdicts[2], "not_an_image")
            said = result.object
            self.assertEqual((said["bad"], said["duplicates"]), (3, 1))
            self.assertEqual(len(said["bad_files"]), 3)
            same = [line for line in lines if "same_as" in line]
            self.assertEqual([line["path"] for line in same], [str(self.files[9])])

    def test_training_and_evaluation(self):
        root = pathlib.Path(self.scratch.name) / "split"
        pictures.write_folder(root / "train", 6)
        pictures.write_folder(root / "val", 4)
        self.root = root
        result, lines = self.scan()
        self.assertEqual(result.object["samples"], 10)
        self.assertEqual(len(lines), 10)
        self.assertEqual(result.object["classes"], {"a": 5, "b": 5})

    def test_arrays(self):
        self.root = command.write_idx(pathlib.Path(self.scratch.name) / "idx", count=30)
        result, lines = self.scan()
        self.assertEqual(result.code, 0)
        self.assertEqual(result.object["samples"], 62)
        self.assertEqual(lines[0]["width"], 28)

    # ---- training ----

    def train(self, *arguments):
        return command.run("train", "zoo:resnet8?classes=2&image=32", "--data", self.root, "--batch-size", 4,
                           "--steps", 6, "--json", *arguments)

    def test_training_from_a_folder(self):
        self.files[2].write_bytes(b"")
        result = self.train()
        self.assertEqual(result.code, 0, result.stderr)
        self.assertRegex(result.stderr, r"augmentation random resized crop 0\.08-1, flip")
        self.assertIn("mean 0.4490, std 0.2260 (auto)", result.stderr)  # one channel: the average
        self.assertRegex(result.stderr, r"the (model|loader) is the bottleneck")
        self.assertIn("picture0002.png: empty", result.stderr)
        said = result.object
        self.assertIn(said["bottleneck"], ("model", "loader"))
        self.assertGreaterEqual(said["gain_without_wait"], 1)
        self.assertGreaterEqual(said["bad_samples"], 1)
        self.assertEqual(self.train("--workers", 3, "--prefetch", 7).object["losses"], said["losses"])

    def test_a_run_of_photos_runs_again(self):
        """From its config.json: the same augmentation, normalisation and slots, though nothing was said."""
        first, again = pathlib.Path(self.scratch.name) / "first", pathlib.Path(self.scratch.name) / "again"
        said = self.train("--run", first)
        repeated = command.run("train", "--config", first / "config.json", "--run", again, "--json")
        self.assertEqual(repeated.code, 0, repeated.stderr)
        self.assertEqual(repeated.object["losses"], said.object["losses"])
        loaders = [next(line for line in result.stderr.splitlines() if line.startswith("loader"))
                   for result in (said, repeated)]
        self.assertEqual(loaders[0], loaders[1])

    def test_evaluation_sees_what_training_was_told(self):
        """The framing: eval of the run's folder gives the numbers of the run's own evaluation."""
        run = pathlib.Path(self.scratch.name) / "run"
        for number, path in enumerate(self.files):  # bright or dark, but for the middle
            row = bytes(255 * (x % 288 < 96) * (number % 2) for x in range(288))
            path.write_bytes(pictures.png_bytes(96, 32, row * 32))
        said = self.train("--val-data", self.root, "--augment", "stretch,flip", "--run", run)
        loss = re.findall(r"evaluation: loss (\S+)", said.stderr)[-1]
        self.assertEqual(f'{command.run_json("eval", run, "--data", self.root)["loss"]:.4f}', loss)
        other = command.run_json("eval", run, "--data", self.root, "--augment", "resize")
        self.assertNotEqual(f'{other["loss"]:.4f}', loss)

    def test_training_stops_at_too_many_bad_files(self):
        for path in self.files[:8]:
            path.write_bytes(b"")
        result = self.train("--max-bad", 1)
        self.assertEqual(result.code, 6)
        result = self.train("--on-bad", "fail")
        self.assertEqual(result.code, 6)
        self.assertRegex(result.object["error"]["message"], r"picture000\d\.png: empty")

    def test_evaluation_from_val(self):
        root = pathlib.Path(self.scratch.name) / "split"
        pictures.write_folder(root / "train", 12)
        pictures.write_folder(root / "val", 6)
        self.root = root
        result = self.train("--epochs", 1)
        self.assertEqual(result.code, 0, result.stderr)
        self.assertIn("evaluate", result.stderr)
        self.assertIsNotNone(result.object["accuracy"])


if __name__ == "__main__":
    command.need_command()
    unittest.main()
