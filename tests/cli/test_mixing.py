#!/usr/bin/env python3
"""mixup and cutmix in training: photographs and element images, micro-batches, evaluation on class
numbers, and clear refusals where there is nothing to mix."""

import json
import pathlib
import struct
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
import command
import pictures

MIXED = ["--augment", "flip,mixup:1,cutmix"]


def write_cifar(folder, count):
    """The training batches of a CIFAR-10 folder, `count` records each, and the test batch."""
    folder.mkdir(parents=True, exist_ok=True)
    for part in range(6):
        draw = pictures.random.Random(part)
        record = (bytes([(i + part) % 10]) + draw.randbytes(3072) for i in range(count))
        name = "test_batch.bin" if part == 5 else f"data_batch_{part + 1}.bin"
        (folder / name).write_bytes(b"".join(record))
    return f"cifar:{folder}"


def worst_distance(losses, others):
    return max(abs(a - b) / max(abs(a), 0.01) for a, b in zip(losses, others, strict=True))


class Mixing(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.place = command.folder()
        cls.folder = pathlib.Path(cls.place.name)
        cls.images = ["--data", command.write_idx(cls.folder / "idx", count=43, test_count=23)]

    @classmethod
    def tearDownClass(cls):
        cls.place.cleanup()

    def check_bytes(self, said):
        self.assertEqual(said["planned_peak_bytes"], said["measured_peak_bytes"])
        self.assertEqual(said["tags"], said["per_tag"])
        self.assertEqual(said["allocations_after_first_step"], 0)

    def check_everywhere(self, arguments, data_threads):
        """The same bits on devices, in budgets, with loader threads; other bits without mixing."""
        first = command.train(*arguments)
        smallest = first["smallest_budget_bytes"]["device"]
        for more in (["--device", "sim:1GiB@8GB/s"], ["--memory", smallest],
                     ["--workers", data_threads]):
            said = command.train(*arguments, *more)
            self.check_bytes(said)
            self.assertEqual(said["losses"], first["losses"], more)
            self.assertEqual(said["weights_hash"], first["weights_hash"], more)
        at = arguments.index("--augment")
        plain = command.train(*arguments[:at], *arguments[at + 2:])
        self.assertNotEqual(plain["losses"], first["losses"])
        return first

    def test_photographs(self):
        pictures.write_folder(self.folder / "photos", 20)
        self.check_everywhere(
            ["zoo:resnet8?width=4&channels=3&image=32&classes=2", "--data",
             self.folder / "photos", "--batch-size", "6", "--steps", "7", "--augment",
             "rrc,flip,mixup:0.2"], 3)

    def test_cifar(self):
        data = write_cifar(self.folder / "cifar", 10)
        said = self.check_everywhere(
            ["zoo:lenet?channels=3&image=32", "--data", data, "--batch-size", "8", "--epochs", "2",
             *MIXED], 2)
        self.assertIsNotNone(said["accuracy"])

    def test_micro_batches(self):
        """Samples of a whole batch meet, whatever it is cut into."""
        for batch, micro in ((16, 4), (10, 4), (7, 3)):
            arguments = ["zoo:lenet", *self.images, *MIXED, "--lr", "0.05", "--epochs", "3",
                         "--batch-size", batch]
            whole = command.train(*arguments)
            split = command.train(*arguments, "--micro-batch", micro)
            self.assertEqual(split["micro_batch"], micro)
            self.check_bytes(split)
            self.assertLess(worst_distance(whole["losses"], split["losses"]), 2e-5)

    def test_accuracy(self):
        """None of mixed batches; of the evaluation as `eval` finds it."""
        run = self.folder / "run"
        trained = command.train("zoo:lenet", *self.images, *MIXED, "--batch-size", "8", "--epochs",
                                "2", "--run", run)
        lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
        steps = [line for line in lines if "loss" in line and "lr" in line]
        self.assertEqual(len(steps), 12)
        self.assertEqual({line["accuracy"] for line in steps}, {None})
        said = command.run_json("eval", run, *self.images)
        self.assertEqual(said["accuracy"], trained["accuracy"])
        self.assertEqual(said["samples"], 23)
        again = command.train("--config", run / "config.json", "--run", self.folder / "again")
        self.assertEqual(again["weights_hash"], trained["weights_hash"])

    def test_learning(self):
        """Bright rows tell the class, mixed or not."""
        data = ["--data", command.write_idx(self.folder / "more", count=200, test_count=50)]
        said = command.train("zoo:mlp?hidden=32", *data, "--augment", "mixup:0.2,cutmix",
                             "--batch-size", "20", "--epochs", "20", "--lr", "0.02")
        self.assertGreater(said["accuracy"], 0.9)

    def test_synthetic_is_not_augmented(self):
        arguments = ["zoo:lenet", "--batch-size", "8", "--steps", "4"]
        plain, mixed = command.train(*arguments), command.train(*arguments, *MIXED)
        self.assertLess(worst_distance(plain["losses"], mixed["losses"]), 1e-5)

    def refuse(self, *arguments):
        for verb in ("plan", "train"):
            result = command.run(verb, *arguments, *MIXED, "--batch-size", "4", "--json")
            self.assertNotEqual(result.code, 0, arguments)
            error = result.object["error"]
            self.assertIn("mixup", error["change"], error)
        return error["message"]

    def write_arrays(self, name, image_shape, target):
        count = 4 * 3
        for n in image_shape:
            count *= n
        images = struct.pack(f"<{count // 4 * 4}B", *(i % 251 for i in range(count)))
        return command.write_npz(self.folder / name, {"image": ("|u1", (12, *image_shape), images),
                                                      "target": target})

    def test_refusals(self):
        labels = ("<i8", (12,), struct.pack("<12q", *(i % 4 for i in range(12))))
        self.assertIn("no classifier", self.refuse("zoo:gpt2_tiny"))
        flat = command.write_npz(self.folder / "flat.npz", {
            "features": ("<f4", (12, 6), bytes(12 * 6 * 4)), "target": labels})
        self.assertIn("no images", self.refuse("zoo:mlp?in=6&classes=4", "--data", flat))
        shares = ("<f4", (12, 4), struct.pack("<48f", *([0.25] * 48)))
        given = self.write_arrays("shares.npz", (1, 12, 12), shares)
        self.assertIn("class number", self.refuse("zoo:lenet?image=12&classes=4", "--data", given))
        one = ("<i8", (12,), bytes(12 * 8))
        single = self.write_arrays("one.npz", (1, 12, 12), one)
        self.assertIn("one class", self.refuse("zoo:lenet?image=12&classes=1", "--data", single))

    def test_class_out_of_range(self):
        labels = ("<i8", (12,), struct.pack("<12q", *([3] + [9] * 11)))
        data = self.write_arrays("range.npz", (1, 12, 12), labels)
        result = command.run("train", "zoo:lenet?image=12&classes=4", "--data", data, *MIXED,
                             "--batch-size", "4", "--steps", "1", "--json")
        self.assertEqual(result.code, command.EXIT_CODES["data"], result.stderr)


if __name__ == "__main__":
    command.need_command()
    unittest.main()
