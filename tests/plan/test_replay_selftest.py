#!/usr/bin/env python3
"""Shows that the replayer accepts a sound plan and finds each kind of fault in a broken one.

python3 tests/plan/test_replay_selftest.py
"""

import contextlib
import copy
import io
import json
import os
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import replay

RUNTIME_BYTES = 1000


def buffer(identity, tag, slab, offset, size, first, last, persistent=False):
    return {
        "id": identity,
        "value": identity,
        "name": f"b{identity}",
        "tag": tag,
        "tier": "device",
        "slab": slab,
        "offset_bytes": offset,
        "size_bytes": size,
        "first": first,
        "last": last,
        "persistent": persistent,
    }


def instruction(op, reads, writes, lane="compute", waits=()):
    return {
        "op": op,
        "node": -1,
        "lane": lane,
        "reads": list(reads),
        "writes": list(writes),
        "waits": list(waits),
    }


def sound_plan():
    """A copy, two layers forward, one backward, an update; buffers 3 and 4 share bytes in turn."""
    program = {
        "name": "train",
        "buffers": [
            buffer(0, "parameter", 0, 0, 128, 0, 4, persistent=True),
            buffer(1, "activation", 1, 0, 64, 0, 3),
            buffer(2, "activation", 1, 64, 64, 1, 3),
            buffer(3, "workspace", 1, 128, 96, 1, 2),
            buffer(4, "gradient", 1, 128, 128, 3, 4),
            buffer(5, "activation", 1, 224, 32, 2, 2),
            buffer(6, "runtime", 2, 0, RUNTIME_BYTES, 0, 4, persistent=True),
        ],
        "instructions": [
            instruction("copy_in", [], [1], lane="copy_in"),
            instruction("launch", [0, 1], [2, 3], waits=[0]),
            instruction("launch", [2, 3], [5]),
            instruction("launch", [0, 1, 2], [4]),
            instruction("launch", [0, 4], [0]),
        ],
    }
    return {"runtime_bytes": RUNTIME_BYTES, "programs": [program], **program}


class ReplayTest(unittest.TestCase):
    def setUp(self):
        self.plan = sound_plan()
        self.program = self.plan["programs"][0]
        self.buffers, self.instructions = self.program["buffers"], self.program["instructions"]

    def assert_fault(self, message, **more):
        report = replay.replay(self.plan, **more)
        self.assertFalse(report["ok"])
        self.assertIn(message, "\n".join(report["errors"]))

    def assert_sound(self, **more):
        report = replay.replay(self.plan, **more)
        self.assertEqual(report["errors"], [])
        self.assertTrue(report["ok"])
        return report


class SoundPlan(ReplayTest):
    def test_sums(self):
        report = self.assert_sound(budgets={"device": 128 + 256 + RUNTIME_BYTES})
        self.assertEqual(report["peak_bytes"], 128 + 256 + RUNTIME_BYTES)
        self.assertEqual(report["extent_bytes"], 128 + 256 + RUNTIME_BYTES)
        # at instruction 2: buffers 1, 2, 3, 5 = 256 bytes; at 3: buffers 1, 2, 4 = 256 bytes
        self.assertEqual(report["max_live_bytes"], 128 + 256 + RUNTIME_BYTES)
        self.assertEqual(report["tags"]["activation"]["device"], 64 + 64 + 32)
        self.assertEqual(report["tags"]["runtime"]["device"], RUNTIME_BYTES)
        self.assertEqual(report["tiers"]["host"]["extent_bytes"], 0)

    def test_hole_counts_in_the_extent_only(self):
        self.buffers[5]["offset_bytes"] = 512
        report = self.assert_sound()
        self.assertEqual(report["extent_bytes"], 128 + 544 + RUNTIME_BYTES)
        self.assertEqual(report["max_live_bytes"], 128 + 256 + RUNTIME_BYTES)

    def test_runtime_without_a_slab(self):
        self.buffers[6]["slab"] = -1
        self.assertEqual(self.assert_sound()["extent_bytes"], 128 + 256 + RUNTIME_BYTES)

    def test_programs_share_slabs(self):
        tail = copy.deepcopy(self.program)
        tail["name"] = "tail"
        tail["buffers"][1]["size_bytes"] = 32
        self.plan["programs"].append(tail)
        report = self.assert_sound()
        self.assertEqual(report["extent_bytes"], 128 + 256 + RUNTIME_BYTES)
        self.assertEqual(report["programs"], {"train": 5, "tail": 5})

    def test_plan_without_family(self):
        del self.plan["programs"]
        self.assert_sound()

    def test_expected_output(self):
        planned = {"device": 128 + 256 + RUNTIME_BYTES, "host": 0, "disk": 0}
        tags = {"activation": {"device": 160, "host": 0, "disk": 0}}
        self.assert_sound(expected={"planned_peak_bytes": planned, "tags": tags})


class BrokenPlan(ReplayTest):
    def test_overlap_by_one_byte(self):
        self.buffers[2]["offset_bytes"] = 63
        self.assert_fault("overlaps")

    def test_overlap_in_one_shared_instruction(self):
        self.buffers[3]["last"] = 3
        self.assert_fault("overlaps")

    def test_overlap_inside_a_larger_buffer(self):
        self.buffers[5].update(offset_bytes=10, size_bytes=4)
        self.assert_fault("overlaps")

    def test_overlap_with_persistent(self):
        self.buffers[2].update(slab=0, offset_bytes=120)
        self.assert_fault("overlaps")

    def test_overlap_in_the_second_program(self):
        self.plan["programs"].append(copy.deepcopy(self.program))
        self.plan["programs"][1]["name"] = "eval"
        self.plan["programs"][1]["buffers"][2]["offset_bytes"] = 32
        self.assert_fault("eval: ")

    def test_read_before_write(self):
        self.instructions[1]["writes"] = [3]
        self.assert_fault("before anything is written")

    def test_input_never_copied_in(self):
        self.instructions[0]["writes"] = []
        self.assert_fault("before anything is written")

    def test_read_after_death(self):
        self.instructions[4]["reads"].append(1)
        self.assert_fault("outside its life")

    def test_write_before_birth(self):
        self.instructions[2]["writes"].append(4)
        self.assert_fault("outside its life")

    def test_unknown_buffer(self):
        self.instructions[2]["reads"].append(99)
        self.assert_fault("does not exist")

    def test_wait_for_itself_and_later(self):
        self.instructions[2]["waits"] = [2]
        self.assert_fault("not an earlier one")
        self.instructions[2]["waits"] = [4]
        self.assert_fault("not an earlier one")

    def test_missing_wait_for_a_copy(self):
        self.instructions[1]["waits"] = []
        self.assert_fault("without waiting")

    def test_reuse_of_bytes_that_another_lane_still_reads(self):
        self.instructions[2].update(lane="copy_out", waits=[1])
        self.instructions[2]["reads"] = [3]
        self.assert_fault("without waiting")
        self.instructions[3]["waits"] = [2]
        self.assert_sound()

    def test_waits_are_transitive(self):
        self.instructions[2].update(lane="copy_out", waits=[1])
        self.instructions[3].update(lane="disk", waits=[2])
        self.assert_fault("instruction 4 (launch, lane compute)")
        self.instructions[4]["waits"] = [3]
        self.assert_sound()

    def test_life_outside_the_program(self):
        self.buffers[4]["last"] = 5
        self.assert_fault("outside 0..4")

    def test_negative_offset(self):
        self.buffers[4]["offset_bytes"] = -8
        self.assert_fault("negative")

    def test_two_buffers_with_one_id(self):
        self.buffers[4]["id"] = 3
        self.assert_fault("same id")

    def test_budget_of_one_byte_less(self):
        self.assert_fault("the budget is", budgets={"device": 128 + 256 + RUNTIME_BYTES - 1})

    def test_runtime_missing(self):
        del self.buffers[6]
        self.assert_fault("runtime_bytes is 1000")

    def test_weights_that_move_between_programs(self):
        self.plan["programs"].append(copy.deepcopy(self.program))
        self.plan["programs"][1]["name"] = "eval"
        self.plan["programs"][1]["buffers"][0]["offset_bytes"] = 64
        self.assert_fault("lies elsewhere")

    def test_plan_that_promises_less(self):
        self.assert_fault("planned_peak_bytes", expected={"planned_peak_bytes": {"device": 1383}})
        self.assert_fault("tag activation", expected={"tags": {"activation": {"device": 159}}})


class Command(unittest.TestCase):
    def run_on(self, text, *arguments):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "plan.json")
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                code = replay.main([path, *arguments])
        return code, json.loads(printed.getvalue())

    def test_exit_codes(self):
        text = json.dumps(sound_plan())
        self.assertEqual(self.run_on(text)[0], 0)
        self.assertEqual(self.run_on(text, "--budget", "1")[0], 1)

    def test_no_plan(self):
        for text in (
            "",
            "[]",
            "{}",
            '{"programs": [{"name": "train"}]}',
            '{"buffers": [1], "instructions": []}',
        ):
            code, report = self.run_on(text)
            self.assertEqual((code, report["ok"]), (1, False), text)


if __name__ == "__main__":
    unittest.main()
