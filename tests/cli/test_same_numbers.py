#!/usr/bin/env python3
"""One numeric fingerprint, one set of numbers.

Losses and weights after 20 steps have the same bits at keep-all, two budgets between and the
smallest, on cpu and on the simulated accelerator, with 1 and 2 loader threads, fused and unfused.
Fewer steps in a build with sanitizers. Small networks here; `./dev bench same_numbers` runs the larger matrix.
"""

import itertools
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
import command

STEPS = 20
ON_IMAGES = ["--augment", "crop,flip", "--batch-size", "12"]
CASES = {
    "mlp": ["zoo:mlp?hidden=64", *ON_IMAGES],
    "lenet": ["zoo:lenet", *ON_IMAGES],
    "mixed": ["zoo:mlp?hidden=64", "--augment", "crop,flip,mixup,cutmix", "--batch-size", "12",
              "--label-smoothing", "0.1"],
    "resnet8": ["zoo:resnet8?width=8", *ON_IMAGES, "--schedule", "one-cycle"],
    "gpt2_tiny": ["zoo:gpt2_tiny", "--batch-size", "2", "--opt", "adamw", "--lr", "0.001"],
}


def steps():
    return 4 if command.is_sanitized() else STEPS


def settings(arguments):
    """Every combination of device, fusion and loader threads that is worth a run, by budget."""
    fusions, workers = ("on", "off"), ("1", "2")
    for (device, flags), fusion in itertools.product(command.DEVICES.items(), fusions):
        chosen = [*arguments, *flags, "--fusion", fusion]
        planned = command.plan(*chosen, "--workers", workers[-1])
        for index, budget in enumerate(command.four_budgets(planned)):
            threads = workers[(index + (device == "sim") + (fusion == "off")) % 2]
            name = f"{device}, fusion {fusion}, {budget} bytes, {threads} loader threads"
            yield name, [*chosen, "--memory", budget, "--workers", threads, "--steps", steps()]


def numbers(setting):
    name, arguments = setting
    said = command.train(*arguments)
    return name, (said["losses"], said["weights_hash"]), said["recomputed"]["bytes"]


class SameNumbers(unittest.TestCase):
    def check(self, arguments):
        results = command.side_by_side(numbers, settings(arguments))
        first_name, first, _ = results[0]
        self.assertEqual(len(first[0]), steps())
        self.assertNotEqual(first[0][0], first[0][-1], "nothing is learnt")
        for name, found, _ in results[1:]:
            with self.subTest(setting=name, other=first_name):
                self.assertEqual(found[0], first[0], "losses differ")
                self.assertEqual(found[1], first[1], "weights differ")
        return any(recomputed for _, _, recomputed in results)

    def test_images(self):
        with command.folder() as folder:
            data = ["--data", command.write_idx(folder)]
            models = ("mlp", "lenet", "mixed", "resnet8")
            recomputed = [self.check([*CASES[m], *data]) for m in models]
        self.assertTrue(any(recomputed), "no budget made anything be recomputed")

    def test_text(self):
        self.check(CASES["gpt2_tiny"])

    def test_another_seed_gives_other_numbers(self):
        arguments = [*CASES["mlp"], "--steps", "2"]
        first, second = (command.train(*arguments, "--seed", seed) for seed in (1, 2))
        self.assertNotEqual(first["weights_hash"], second["weights_hash"])
        self.assertNotEqual(first["losses"], second["losses"])


if __name__ == "__main__":
    command.need_command()
    unittest.main()
