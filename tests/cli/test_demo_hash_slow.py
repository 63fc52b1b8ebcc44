#!/usr/bin/env python3
"""The demo's promise: its network, with its flags, in its budget, gives the weights that keeping
everything gives.

The flags are read from `run_demo` in ./dev. After 30 steps the weights' hash must equal the one of
a run with the budget of keep-all; a step is one micro-batch; activations take at most a third.
"""

import pathlib
import re
import shlex
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
import command

DATA = pathlib.Path("/usr/share/datasets/fashion-mnist")
STEPS = "30"
MOST_OF_KEEP_ALL = 1 / 3


def demo_flags():
    """The words behind `ullage train` in run_demo."""
    text = (command.ROOT / "dev").read_text(encoding="utf-8")
    body = re.search(r"^run_demo\(\) \{\n(.*?)^\}", text, re.M | re.S).group(1)
    call = re.search(r"ullage train(.*?)(?:\"\$@\"|$)", body.replace("\\\n", " "), re.S).group(1)
    variables = dict(re.findall(r"^ *([a-z_]+)=([^\s;]+)$", text, re.M))
    call = re.sub(r"\$\{?([a-z_]+)\}?", lambda m: variables.get(m.group(1), m.group(0)), call)
    return drop_pairs(shlex.split(call), ("--run", "--epochs", "--steps"))


def drop_pairs(words, names):
    kept, skipping = [], False
    for word in words:
        if skipping:
            skipping = False
        elif word in names:
            skipping = True
        elif word != "--json":
            kept.append(word)
    return kept


class DemoHash(unittest.TestCase):
    def test_weights(self):
        flags = [*demo_flags(), "--steps", STEPS]
        self.assertIn("--memory", flags, "the demo has no budget")
        planned = command.plan(*flags)
        keep_all = planned["keep_all_peak_bytes"]["device"]
        self.check_plan(planned, flags)
        small = command.train(*flags)
        large = command.train(*flags, "--memory", keep_all)
        self.assertEqual(large["recomputed"]["values"], [])
        self.assertEqual(len(small["losses"]), int(STEPS))
        self.assertEqual(small["losses"], large["losses"])
        self.assertEqual(small["weights_hash"], large["weights_hash"])
        for said in (small, large):
            self.assertEqual(said["measured_peak_bytes"], said["planned_peak_bytes"])
            self.assertEqual(said["per_tag"], said["tags"])

    def check_plan(self, planned, flags):
        self.assertEqual(planned["micro_batch"], planned["batch_size"])
        used = planned["tags"]["activation"]["device"]
        kept = planned["keep_all_tags"]["activation"]["device"]
        print(f"{' '.join(flags)}\nactivations {used} of {kept} bytes ({used / kept:.1%}), peak "
              f"{planned['planned_peak_bytes']['device']} of "
              f"{planned['keep_all_peak_bytes']['device']}", flush=True)
        self.assertLessEqual(used, MOST_OF_KEEP_ALL * kept)
        self.assertGreater(planned["recomputed"]["bytes"], 0)
        shown = command.run("plan", *flags, "--show", "graph")
        self.assertIn("batch_norm", shown.stdout, "the demo's network normalises no batch")


if __name__ == "__main__":
    command.need_command()
    if not DATA.is_dir():
        command.skip(f"{DATA} is not there (Debian's dataset-fashion-mnist)")
    unittest.main()
