#!/usr/bin/env python3
"""Planned bytes are the bytes that a run counts, exactly: peaks of every tier, and every tag.

Each model trains at keep-all, at two budgets between and at the smallest, on cpu and on the
simulated accelerator. Then again with ULLAGE_POISON=1, where every range is NaN at its birth and
at its death and red zones are watched: the weights must have the same bits. Prints a table.
"""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
import command

STEPS = ["--steps", "3"]
ROW = "{:<10} {:<4} {:>11} {:>12} {:>12} {:>11} {:>11} {:>4} {:>4}"
HEAD = ROW.format("model", "on", "budget", "planned", "measured", "(host)", "(host)", "off", "tags")


def bytes_off(planned, measured):
    """Sum of what planned and measured figures of all tiers differ by."""
    tiers = set(planned) | set(measured)
    return sum(abs(planned.get(t, 0) - measured.get(t, 0)) for t in tiers)


def tags_off(planned, measured):
    return sum(bytes_off(planned.get(t, {}), measured.get(t, {})) for t in {*planned, *measured})


def train_at(arguments, budget, **env):
    steps = [] if "--epochs" in arguments else STEPS
    return command.train(*arguments, "--memory", budget, *steps, env=env)


def compare(arguments, budget):
    """Figures of one run, and whether a run under poison has the same bits and bytes."""
    plain = train_at(arguments, budget, ULLAGE_POISON="0")
    poisoned = train_at(arguments, budget, ULLAGE_POISON="1")
    planned, measured = plain["planned_peak_bytes"], plain["measured_peak_bytes"]
    return {
        "planned": planned,
        "measured": measured,
        "off": bytes_off(planned, measured),
        "tags_off": tags_off(plain["tags"], plain["per_tag"]),
        "tags": (plain["tags"], plain["per_tag"]),
        "poison_off": bytes_off(planned, poisoned["measured_peak_bytes"])
        + tags_off(plain["tags"], poisoned["per_tag"]),
        "hashes": (plain["weights_hash"], poisoned["weights_hash"]),
        "losses": (plain["losses"], poisoned["losses"]),
    }


def print_row(model, device, budget, row):
    print(ROW.format(
        model, device, budget, row["planned"]["device"], row["measured"]["device"],
        row["planned"]["host"], row["measured"]["host"], row["off"], row["tags_off"]), flush=True)


def check_model(test, model, arguments, device):
    arguments = [*arguments, *command.DEVICES[device]]
    budgets = command.four_budgets(command.plan(*arguments))
    rows = command.side_by_side(lambda budget: compare(arguments, budget), budgets)
    for budget, row in zip(budgets, rows):
        print_row(model, device, budget, row)
        with test.subTest(budget=budget):
            test.assertEqual(row["off"], 0, f"peaks: {row['planned']} {row['measured']}")
            test.assertEqual(row["tags_off"], 0, f"tags: {row['tags']}")
            test.assertLessEqual(row["planned"]["device"], budget)
            test.assertEqual(row["poison_off"], 0, "other bytes under poison")
            test.assertEqual(*row["losses"], "other losses under poison")
            test.assertEqual(*row["hashes"], "other weights under poison")


class Bytes(unittest.TestCase):
    def test_family(self):
        """A ragged last batch and an evaluation share the arena with training."""
        with command.folder() as folder:
            data = command.write_idx(folder, count=75, test_count=21)
            for device in command.DEVICES:
                check_model(self, "ragged", ["zoo:lenet", "--batch-size", "32", "--data", data,
                                             "--epochs", "1"], device)

    def test_micro_batches(self):
        """Gradients that live from program to program, and an update of its own."""
        for device in command.DEVICES:
            check_model(self, "micro", ["zoo:mlp?hidden=64", "--batch-size", "64",
                                        "--micro-batch", "16"], device)


def add_test(model, device):
    def check(self):
        check_model(self, model, command.MODELS[model], device)

    setattr(Bytes, f"test_{model}_{device}", check)


for each_model in command.MODELS:
    for each_device in command.DEVICES:
        add_test(each_model, each_device)


if __name__ == "__main__":
    command.need_command()
    print(HEAD)
    unittest.main()
