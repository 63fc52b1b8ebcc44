#!/usr/bin/env python3
"""Certificates of smallest budgets, checked against the plans' own instructions.

What runs before what is read from the instructions of keep-all, where everything runs once; which
nodes run once, from the smallest plan. From these alone: each value of a certificate is an operand
of its node, or was made once by a node that has run before and is read by one that cannot have, or
is what forward makes for a later reader; the cases leave no way around them, where they are about
one value; the sums are right; and the smallest plan meets one of the cases, unless it is larger
than what is proved.

The smallest budget is at most 1.05 x (persistent + largest launch), or has a certificate that
proves it to 5 %.
"""

import json
import os
import pathlib
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "support"))
import command

MACHINE = ["--machine", "device:64GiB@8GB/s host:64GiB compute:200GFLOPS mem:20GB/s latency:5us "
           "process:24MiB kernel:40KiB", "--micro-batch", "off"]
MOST_OVER_LOWER_BOUND = MOST_OVER_PROVED = 1.05
ALIGNMENT = 64
ADAMW = ["--opt", "adamw", "--lr", "0.001"]
ZOO = {
    "mlp": ["zoo:mlp", "--batch-size", "512"],
    "lenet": ["zoo:lenet", "--batch-size", "128"],
    "resnet8": ["zoo:resnet8", "--batch-size", "64"],
    "resnet14": ["zoo:resnet14", "--batch-size", "64"],
    "resnet20": ["zoo:resnet20", "--batch-size", "64"],
    "small_resnet": ["zoo:small_resnet", "--batch-size", "64"],
    "resnet18": ["zoo:resnet18?image=224", "--batch-size", "16"],
    "resnet34": ["zoo:resnet34?image=224", "--batch-size", "16"],
    "resnet50": ["zoo:resnet50?image=224", "--batch-size", "16"],
    "gpt2_tiny": ["zoo:gpt2_tiny", "--batch-size", "16", *ADAMW],
}


def aligned(size):
    return -(-size // ALIGNMENT) * ALIGNMENT


class Program:
    """Instructions of one program, and what precedes what."""

    def __init__(self, plan, name):
        program = next(each for each in plan["programs"] if each["name"] == name)
        self.buffers = {each["id"]: each for each in program["buffers"]}
        self.instructions = program["instructions"]
        self.runs = {}
        for index, each in enumerate(self.instructions):
            self.runs.setdefault(each["node"], []).append(index)

    def find_before(self):
        """By node: the nodes that it cannot do without, from the last writer of what it reads."""
        self.before, self.readers, writer = {}, {}, {}
        self.loss = "loss"
        for each in self.instructions:
            node = each["node"]
            if node is None:
                continue
            makers = {writer[b] for b in each["reads"] if b in writer}
            self.readers[node] = makers
            self.before[node] = makers.union(*(self.before[m] for m in makers))
            for buffer in each["writes"]:
                if not self.buffers[buffer]["persistent"]:
                    writer[buffer] = node

    def arena(self, index, key):
        """Sizes of the arena's buffers that an instruction reads or writes."""
        buffers = (self.buffers[b] for b in set(self.instructions[index][key]))
        return [aligned(b["size_bytes"]) for b in buffers if not b["persistent"]]

    def live_names(self, index):
        """Names of the buffers that live while an instruction runs: of values that share storage in
        place, the first has given it."""
        return {b["value"] for b in self.buffers.values() if b["first"] <= index <= b["last"]}


class Certificates(unittest.TestCase):
    def plan_at(self, arguments, budget):
        with command.folder() as folder:
            path = os.path.join(folder, "plan.json")
            said = command.plan(*arguments, "--memory", budget, "--save", path)
            return said, json.loads(pathlib.Path(path).read_text(encoding="utf-8"))

    def check_operand(self, program, case, value):
        """Read, written or workspace: of the node in keep-all, with the same bytes."""
        index = program.runs[case["node"]][0]
        sizes = program.arena(index, "reads") + program.arena(index, "writes")
        self.assertIn(value["bytes"], sizes, (case["node"], value))

    def precedes(self, keep_all, case, first, second):
        """In the order that the case is about, if it is about one."""
        if first in keep_all.before[second]:
            return True
        if not case["order"]:
            return False
        one, other = case["order"]
        return ((first == one or first in keep_all.before[one]) and
                (second == other or other in keep_all.before[second]))

    def check_crossing(self, keep_all, smallest, case, value):
        maker, reader = value["made_by"], value["read_by"]
        self.assertEqual(len(smallest.runs[reader]), 1, f"{reader} runs again")
        end = case["before"] or case["node"]
        self.assertTrue(reader == case["before"] or self.precedes(keep_all, case, end, reader),
                        f"{reader} could run before {end}")
        if maker is None:
            return
        self.assertEqual(len(smallest.runs[maker]), 1, f"{maker} runs again")
        ends = case["after"] if case["before"] else [case["node"]]
        self.assertTrue(any(maker == a or self.precedes(keep_all, case, maker, a) for a in ends),
                        f"{maker} need not have run when {case['node']} runs")
        self.assertIn(value["bytes"], keep_all.arena(keep_all.runs[maker][0], "writes"), value)

    def check_held(self, keep_all, case, value):
        """Made by forward; its reader comes after the node and reads what the maker makes."""
        self.assertTrue(case["holds"])
        maker, reader = value["made_by"], value["read_by"]
        self.assertTrue(self.precedes(keep_all, case, case["node"], reader))
        self.assertIn(maker, keep_all.before[keep_all.loss], f"{maker} is not forward")
        self.assertIn(maker, keep_all.readers[reader])
        self.assertIn(value["bytes"], keep_all.arena(keep_all.runs[maker][0], "writes"), value)

    def check_case(self, keep_all, smallest, case):
        self.assertEqual(sum(v["bytes"] for v in case["values"]), case["sum_bytes"])
        names = [v["value"] for v in case["values"]]
        self.assertEqual(len(names), len(set(names)), "a value twice")
        for value in case["values"]:
            self.assertTrue(value["why"])
            if value["reason"] == "held":
                self.check_held(keep_all, case, value)
            elif value["reason"] == "crossing":
                self.check_crossing(keep_all, smallest, case, value)
            else:
                self.check_operand(keep_all, case, value)

    def check_covered(self, keep_all, cases, node, maker):
        """The needed value is made late, before `node`, or held over one of the nodes before it."""
        late = [c for c in cases if c["before"] == node]
        self.assertEqual(len(late), 1, f"nothing says what happens before {node}")
        self.assertEqual(late[0]["node"], maker)
        for after in late[0]["after"]:
            self.assertIn(after, keep_all.before[node])
            if not any(c["node"] == after and c["holds"] for c in cases):
                self.check_covered(keep_all, cases, after, maker)

    def check_orders(self, keep_all, cases):
        """Two nodes that a third cannot do without, in either order."""
        first, second = (c["order"] for c in cases)
        self.assertEqual(first, second[::-1])
        self.assertTrue(any({*first} <= makers for makers in keep_all.readers.values()), first)
        for case in cases:
            self.assertIsNone(case["before"])

    def check_met(self, smallest, cases):
        """Each value of some case is live somewhere in the smallest plan."""
        for case in cases:
            for index in smallest.runs.get(case["node"], []):
                live = smallest.live_names(index)
                others = [v for v in case["values"] if v["read_by"] is not None]
                if all(v["value"] in live or self.was_written(smallest, v, index) for v in others):
                    return
        self.fail("the smallest plan meets no case")

    def was_written(self, program, value, index):
        """Whether what the value's maker wrote is still live."""
        for run in program.runs.get(value["made_by"], []):
            for buffer in program.instructions[run]["writes"]:
                if run <= index <= program.buffers[buffer]["last"]:
                    return True
        return False

    def check_certificate(self, arguments, said, smallest_plan):
        certificate = said["certificate"]
        _, keep_all_plan = self.plan_at(arguments, said["keep_all_peak_bytes"]["device"])
        keep_all = Program(keep_all_plan, certificate["program"])
        keep_all.find_before()
        smallest = Program(smallest_plan, certificate["program"])
        cases = [certificate, *certificate["otherwise"]]
        for case in cases:
            self.check_case(keep_all, smallest, case)
            self.assertGreaterEqual(case["sum_bytes"], certificate["sum_bytes"])
        if certificate["needed"]:
            maker = next(c["node"] for c in cases if c["before"])
            self.check_covered(keep_all, cases, certificate["needed_by"], maker)
        elif len(cases) > 1:
            self.check_orders(keep_all, cases)
        if not certificate["not_proved_bytes"]:
            self.check_met(smallest, cases)
            self.assertGreaterEqual(certificate["live_bytes"], certificate["sum_bytes"])
        runs = smallest.instructions[certificate["instruction"]]
        self.assertEqual(runs["node"], certificate["node"])
        return certificate

    def check_model(self, name):
        arguments = [*ZOO[name], *MACHINE]
        smallest = command.plan(*arguments)["smallest_budget_bytes"]["device"]
        said, plan = self.plan_at(arguments, smallest)
        proved = bound = said["lower_bound_bytes"]["device"]
        if smallest > MOST_OVER_LOWER_BOUND * bound:
            self.assertIn("certificate", said, f"{smallest} is {smallest / bound:.3f} x {bound}")
            certificate = self.check_certificate(arguments, said, plan)
            proved = certificate["proved_budget_bytes"]
            self.assertEqual(proved + certificate["not_proved_bytes"], smallest)
            self.assertGreater(proved, bound)
        print(f"{name}: smallest {smallest}, {smallest / bound:.3f} x (persistent + largest launch), "
              f"{smallest / proved:.3f} x what is proved", flush=True)
        self.assertLessEqual(smallest, MOST_OVER_PROVED * proved)


def add_test(name):
    setattr(Certificates, f"test_{name}", lambda self: self.check_model(name))


for each_name in ZOO:
    add_test(each_name)


if __name__ == "__main__":
    command.need_command()
    unittest.main()
