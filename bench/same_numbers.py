#!/usr/bin/env python3
"""The same numbers over a larger matrix than the test's: ./dev bench same_numbers

Every combination of model, budget (keep-all, two between, smallest), device, loader threads
(1 and 2) and fusion trains 20 steps; a model's losses and weights must have the same bits in all of
them. Prints a line a model; exits 1 where a run differs.
"""

import argparse
import itertools
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tests" / "support"))
import command

STEPS = "20"


def runs(arguments):
    for (device, flags), fusion in itertools.product(command.DEVICES.items(), ("on", "off")):
        chosen = [*arguments, *flags, "--fusion", fusion]
        for budget in command.four_budgets(command.plan(*chosen)):
            for workers in ("1", "2"):
                name = f"{device}, fusion {fusion}, {budget} bytes, {workers} loader threads"
                yield name, [*chosen, "--memory", budget, "--workers", workers, "--steps", STEPS]


def compare(model, arguments):
    """Number of runs whose numbers are not those of the first."""
    results = []
    for name, chosen in runs(arguments):
        said = command.train(*chosen)
        results.append((name, said["losses"], said["weights_hash"]))
    first = results[0]
    different = [result for result in results if result[1:] != first[1:]]
    print(f"{model:<10} {len(results)} runs, loss {first[1][0]:.6f} -> {first[1][-1]:.6f}, "
          f"{first[2][:16]}, {len(different)} differ", flush=True)
    for name, losses, digest in different:
        step = next((i for i, pair in enumerate(zip(losses, first[1])) if pair[0] != pair[1]), None)
        print(f"  {name}: {digest[:16]}, first other loss at step {step}")
    return len(different)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="*", default=list(command.MODELS))
    chosen = parser.parse_args()
    return sum(compare(model, command.MODELS[model]) for model in chosen.models)


if __name__ == "__main__":
    command.need_command()
    sys.exit(1 if main() else 0)
