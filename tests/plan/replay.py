#!/usr/bin/env python3
"""Replays a saved plan outside the library and says whether it holds.

    ullage plan MODEL --memory 512MiB --save plan.json
    python3 tests/plan/replay.py plan.json --budget 536870912

Nothing is shared with the planner or its checker: only the file is read, with Python's standard
library. For every program (training, ragged tail, evaluation) it verifies that

- buffers live at the same time (first..last, both included) in the same tier and slab do not
  overlap;
- an instruction touches a buffer only within its life, and reads only what an earlier instruction
  has written, or what is persistent (parameters, buffers, optimizer state: there from the start);
- waits name earlier instructions, and instructions on different lanes that touch the same bytes,
  one of them writing, are ordered by their lanes and waits, also where the bytes belong to two
  buffers one after the other;
- programs of one family agree on where each persistent buffer lies;
- peaks stay within --budget (tier `device`), --host-budget and --disk-budget.

One JSON line is printed: ok, errors[], and for tier `device` (all tiers under `tiers`):

    peak_bytes      persistent extent + the most the arenas reach at any instruction + runtime
    extent_bytes    what is committed: each slab's largest offset + size over the family, + runtime
    max_live_bytes  largest sum of sizes live at once, without holes: no packing does with less
    tags            largest live sum of each tag and tier in the training program

Exit code: 0 the plan holds, 1 it does not or cannot be read, 2 usage.
"""

import argparse
import bisect
import collections
import json
import sys

TIERS = ("device", "host", "disk")
MOST_ERRORS = 50
# A committed slab may be rounded up to whole pages beyond its last buffer.
SLAB_ROUNDING_BYTES = 4096


class Malformed(Exception):
    """The file is not a plan."""


class Buffer:
    """One placed range of bytes with its life in instructions."""

    def __init__(self, record, instruction_count):
        self.id = record["id"]
        self.name = record.get("name") or f"value {record.get('value')}"
        self.tag = record["tag"]
        self.tier = record["tier"]
        self.size = record["size_bytes"]
        self.offset = record["offset_bytes"]
        slab = record["slab"]
        self.placed = slab is not None and slab >= 0
        self.slab = (self.tier, slab)
        self.persistent = bool(record["persistent"])
        end = max(instruction_count - 1, 0)
        self.first, self.last = (0, end) if self.persistent else (record["first"], record["last"])

    @property
    def end(self):
        return self.offset + self.size

    def __str__(self):
        return f"buffer {self.id} ({self.name}, {self.tag}, {self.size} bytes)"


class Instruction:
    def __init__(self, index, record):
        self.index = index
        self.op = record["op"]
        self.lane = record.get("lane", "compute")
        self.reads = record.get("reads", [])
        self.writes = record.get("writes", [])
        self.waits = record.get("waits", [])

    def __str__(self):
        return f"instruction {self.index} ({self.op}, lane {self.lane})"


class Program:
    def __init__(self, record):
        self.name = record.get("name", "train")
        self.instructions = [Instruction(i, r) for i, r in enumerate(record["instructions"])]
        self.buffers = [Buffer(r, len(self.instructions)) for r in record["buffers"]]
        self.by_id = {b.id: b for b in self.buffers}


class Errors:
    """Collects messages; keeps the first ones and counts the rest."""

    def __init__(self):
        self.messages, self.count, self.program = [], 0, ""

    def add(self, message):
        self.count += 1
        if len(self.messages) < MOST_ERRORS:
            self.messages.append(f"{self.program}: {message}" if self.program else message)


def check_records(program, errors):
    """Sizes, lives and identities make sense; where not, the program is not replayed."""
    if len(program.by_id) != len(program.buffers):
        errors.add("two buffers have the same id")
    count = len(program.instructions)
    for buffer in program.buffers:
        if buffer.tier not in TIERS:
            errors.add(f"{buffer}: unknown tier {buffer.tier}")
        if buffer.size < 0 or (buffer.placed and buffer.offset < 0):
            errors.add(f"{buffer}: negative size or offset {buffer.offset}")
        if not buffer.placed and buffer.tag != "runtime":
            errors.add(f"{buffer}: has no slab")
        if not buffer.persistent and not 0 <= buffer.first <= buffer.last < count:
            errors.add(f"{buffer}: life {buffer.first}..{buffer.last} outside 0..{count - 1}")


class LiveRanges:
    """The ranges of one slab that are live now, sorted by offset and disjoint."""

    def __init__(self):
        self.starts, self.buffers = [], []

    def find_overlap(self, buffer):
        place = bisect.bisect_right(self.starts, buffer.offset)
        for neighbour in self.buffers[max(place - 1, 0) : place + 1]:
            if neighbour.offset < buffer.end and buffer.offset < neighbour.end:
                return neighbour
        return None

    def insert(self, buffer):
        place = bisect.bisect_right(self.starts, buffer.offset)
        self.starts.insert(place, buffer.offset)
        self.buffers.insert(place, buffer)

    def remove(self, buffer):
        place = bisect.bisect_left(self.starts, buffer.offset)
        del self.starts[place], self.buffers[place]


def check_overlap(program, errors):
    """Walks births in order of time; a range leaves when an instruction after its last is born."""
    live = collections.defaultdict(LiveRanges)
    deaths = sorted((b for b in program.buffers if b.placed and b.size > 0), key=lambda b: b.last)
    inserted, next_death = set(), 0
    for buffer in sorted(deaths, key=lambda b: b.first):
        while deaths[next_death].last < buffer.first:
            if id(deaths[next_death]) in inserted:
                live[deaths[next_death].slab].remove(deaths[next_death])
            next_death += 1
        other = live[buffer.slab].find_overlap(buffer)
        if other:
            errors.add(
                f"{buffer} at {buffer.offset} overlaps {other} at {other.offset} in slab "
                f"{buffer.slab[1]} of {buffer.tier} from instruction {buffer.first}"
            )
        else:
            live[buffer.slab].insert(buffer)
            inserted.add(id(buffer))


def look_up(program, ids, instruction, errors):
    """The buffers of these ids that live at the instruction; complains of the others."""
    found = []
    for identity in ids:
        buffer = program.by_id.get(identity)
        if buffer is None:
            errors.add(f"{instruction} names buffer {identity}, which does not exist")
        elif not buffer.first <= instruction.index <= buffer.last:
            errors.add(
                f"{instruction} touches {buffer} outside its life {buffer.first}..{buffer.last}"
            )
        else:
            found.append(buffer)
    return found


def check_reads(program, errors):
    """Follows contents: a buffer holds something once an instruction has written it."""
    written = {b.id for b in program.buffers if b.persistent}
    for instruction in program.instructions:
        for buffer in look_up(program, instruction.reads, instruction, errors):
            if buffer.id not in written:
                errors.add(f"{instruction} reads {buffer} before anything is written to it")
        for buffer in look_up(program, instruction.writes, instruction, errors):
            written.add(buffer.id)


def happens_before(program, errors):
    """For each instruction: {lane: its last instruction that is complete when this one starts}."""
    done_before, lane_state = [], {}
    for instruction in program.instructions:
        known = dict(lane_state.get(instruction.lane, {}))
        for wait in instruction.waits:
            if not 0 <= wait < instruction.index:
                errors.add(
                    f"{instruction} waits for instruction {wait}, which is not an earlier one"
                )
                continue
            awaited = program.instructions[wait]
            for lane, index in [*done_before[wait].items(), (awaited.lane, wait)]:
                known[lane] = max(known.get(lane, -1), index)
        done_before.append(known)
        lane_state[instruction.lane] = {**known, instruction.lane: instruction.index}
    return done_before


class AccessMap:
    """For each byte of a slab: the last instruction of every lane that read it, and that wrote it.

    Bytes with the same history form a segment; segments are split where an access begins or ends.
    """

    def __init__(self):
        self.starts = [0]
        self.histories = [({}, {})]  # (reads, writes): lane -> instruction index

    def split(self, at):
        place = bisect.bisect_left(self.starts, at)
        if place == len(self.starts) or self.starts[place] != at:
            reads, writes = self.histories[place - 1]
            self.starts.insert(place, at)
            self.histories.insert(place, (dict(reads), dict(writes)))
        return place

    def range(self, start, end):
        first = self.split(start)
        return self.histories[first : self.split(end)]


def find_unordered(history, known):
    """An earlier instruction of this history that may still be running, or None."""
    for lane, index in history.items():
        if known.get(lane, -1) < index:
            return index
    return None


def check_order(program, errors):
    """No instructions of two lanes touch the same bytes unordered when one of them writes."""
    done_before = happens_before(program, errors)
    maps = collections.defaultdict(AccessMap)
    for instruction in program.instructions:
        known = done_before[instruction.index]
        accesses = [(i, False) for i in instruction.reads] + [(i, True) for i in instruction.writes]
        for identity, writes in accesses:
            buffer = program.by_id.get(identity)
            if buffer is None or not buffer.placed or buffer.size <= 0 or buffer.offset < 0:
                continue
            check_access(instruction, buffer, writes, known, maps[buffer.slab], errors)


def check_access(instruction, buffer, writes, known, access_map, errors):
    unordered = None
    known = {**known, instruction.lane: instruction.index}
    for reads_of, writes_of in access_map.range(buffer.offset, buffer.end):
        unordered = unordered or find_unordered(writes_of, known)
        if writes:
            unordered = unordered or find_unordered(reads_of, known)
        (writes_of if writes else reads_of)[instruction.lane] = instruction.index
    if unordered is not None:
        errors.add(
            f"{instruction} {'writes' if writes else 'reads'} {buffer} without waiting for "
            f"instruction {unordered}, which touches the same bytes on another lane"
        )


def check_family(programs, errors):
    """A persistent buffer has one place, whichever program runs."""
    places = {}
    for program in programs:
        for buffer in program.buffers:
            if not buffer.persistent or buffer.name.startswith("value "):
                continue
            place = (buffer.slab, buffer.offset, buffer.size)
            other_name, other_place = places.setdefault(buffer.name, (program.name, place))
            if other_name != program.name and other_place != place:
                errors.add(
                    f"{buffer} of program {program.name} lies elsewhere in program {other_name}"
                )


def largest_live_sums(program, key):
    """{key: largest sum of sizes live at one instruction} over the buffers of each key."""
    change = collections.defaultdict(collections.Counter)
    for buffer in program.buffers:
        change[key(buffer)][buffer.first] += buffer.size
        change[key(buffer)][buffer.last + 1] -= buffer.size
    largest = {}
    for name, steps in change.items():
        live = most = 0
        for index in sorted(steps):
            live += steps[index]
            most = max(most, live)
        largest[name] = most
    return largest


def largest_reach(program, tier):
    """The most that a tier's slabs reach together at one instruction, without persistent ones."""
    moves = collections.defaultdict(list)
    for buffer in program.buffers:
        if buffer.tier == tier and buffer.placed and not buffer.persistent and buffer.size > 0:
            moves[buffer.first].append((True, buffer))
            moves[buffer.last + 1].append((False, buffer))
    ends, most = collections.defaultdict(list), 0
    for index in sorted(moves):
        for born, buffer in moves[index]:
            column = ends[buffer.slab]
            place = bisect.bisect_left(column, buffer.end)
            if born:
                column.insert(place, buffer.end)
            else:
                del column[place]
        most = max(most, sum(column[-1] for column in ends.values() if column))
    return most


def extents(programs, chosen):
    """{slab: largest offset + size} over the chosen buffers of all programs."""
    found = collections.Counter()
    for program in programs:
        for buffer in program.buffers:
            if buffer.placed and chosen(buffer):
                found[buffer.slab] = max(found[buffer.slab], buffer.end)
    return found


def measure_tier(programs, tier):
    """Peak, extent and live bytes of one tier; what has no slab (runtime) is added by its size."""
    unplaced = max(
        sum(b.size for b in p.buffers if b.tier == tier and not b.placed) for p in programs
    )
    all_slabs = extents(programs, lambda b: b.tier == tier)
    persistent = extents(programs, lambda b: b.tier == tier and b.persistent)
    arenas = extents(programs, lambda b: b.tier == tier and not b.persistent)
    shared = set(persistent) & set(arenas)
    reach = max(largest_reach(p, tier) for p in programs)
    peak = sum(persistent.values()) + reach
    if shared:  # a slab that holds both kinds reaches as far as either
        peak = sum(all_slabs.values())
    live = max(largest_live_sums(p, lambda b: b.tier).get(tier, 0) for p in programs)
    return {
        "peak_bytes": peak + unplaced,
        "extent_bytes": sum(all_slabs.values()) + unplaced,
        "max_live_bytes": live,
        "slabs": len(all_slabs),
    }


def measure_tags(program):
    tags = collections.defaultdict(lambda: dict.fromkeys(TIERS, 0))
    for (tag, tier), size in largest_live_sums(program, lambda b: (b.tag, b.tier)).items():
        tags[tag][tier] = size
    return dict(sorted(tags.items()))


def check_runtime(programs, runtime_bytes, errors):
    for program in programs:
        errors.program = program.name
        planned = sum(b.size for b in program.buffers if b.tag == "runtime")
        if planned != runtime_bytes:
            errors.add(
                f"buffers of tag runtime hold {planned} bytes, runtime_bytes is {runtime_bytes}"
            )
        for buffer in program.buffers:
            if buffer.tag == "runtime" and not buffer.persistent:
                errors.add(f"{buffer} is not persistent")
    errors.program = ""


def check_budgets(tiers, budgets, errors):
    for tier, budget in budgets.items():
        if budget is not None and tiers[tier]["extent_bytes"] > budget:
            errors.add(
                f"{tier}: {tiers[tier]['extent_bytes']} bytes are needed, the budget is {budget}"
            )


def check_expected(expected, tiers, tags, errors):
    """Compares with the object that `ullage plan --json` printed."""
    for tier, planned in expected.get("planned_peak_bytes", {}).items():
        extent = tiers[tier]["extent_bytes"]
        if not extent <= planned <= extent + SLAB_ROUNDING_BYTES * max(tiers[tier]["slabs"], 1):
            errors.add(f"{tier}: planned_peak_bytes is {planned}, the replay finds {extent}")
    for tag, planned in expected.get("tags", {}).items():
        found = tags.get(tag, {})
        for tier, size in planned.items():
            if size != found.get(tier, 0):
                errors.add(
                    f"tag {tag} in {tier}: planned {size}, the replay finds {found.get(tier, 0)}"
                )


def check_program(program, errors):
    """Returns whether the records were sound enough to replay and to measure."""
    errors.program = program.name
    before = errors.count
    check_records(program, errors)
    sound = errors.count == before
    if sound:
        check_overlap(program, errors)
        check_reads(program, errors)
        check_order(program, errors)
    errors.program = ""
    return sound


def read_programs(plan):
    try:
        records = plan.get("programs") or [plan]
        return [Program(record) for record in records]
    except (KeyError, TypeError, AttributeError) as fault:
        raise Malformed(f"not a plan: {type(fault).__name__}: {fault}") from fault


def replay(plan, budgets=None, expected=None):
    """Checks a plan (the parsed file); returns the report that the command prints."""
    programs, errors = read_programs(plan), Errors()
    if not all([check_program(program, errors) for program in programs]):
        return {"ok": False, "errors": errors.messages, "error_count": errors.count}
    check_family(programs, errors)
    check_runtime(programs, plan.get("runtime_bytes", 0), errors)
    tiers = {tier: measure_tier(programs, tier) for tier in TIERS}
    tags = measure_tags(programs[0])
    check_budgets(tiers, budgets or {}, errors)
    if expected:
        check_expected(expected, tiers, tags, errors)
    device = {key: tiers["device"][key] for key in ("peak_bytes", "extent_bytes", "max_live_bytes")}
    return {
        "ok": not errors.count,
        **device,
        "tiers": tiers,
        "tags": tags,
        "programs": {p.name: len(p.instructions) for p in programs},
        "errors": errors.messages,
        "error_count": errors.count,
    }


def read_json(path):
    try:
        with sys.stdin if path == "-" else open(path, encoding="utf-8") as file:
            return json.load(file)
    except (OSError, ValueError) as fault:
        raise Malformed(f"{path}: {fault}") from fault


def main(arguments=None):
    parser = argparse.ArgumentParser(
        description="Replays a saved plan and checks it independently."
    )
    parser.add_argument(
        "plan", help="file written by `ullage plan --save`, or - for standard input"
    )
    parser.add_argument("--budget", type=int, metavar="BYTES", help="most bytes of tier device")
    parser.add_argument("--host-budget", type=int, metavar="BYTES", help="most bytes of tier host")
    parser.add_argument("--disk-budget", type=int, metavar="BYTES", help="most bytes of tier disk")
    parser.add_argument(
        "--expect", metavar="FILE", help="output of `ullage plan --json` to compare with"
    )
    chosen = parser.parse_args(arguments)
    budgets = {"device": chosen.budget, "host": chosen.host_budget, "disk": chosen.disk_budget}
    try:
        expected = read_json(chosen.expect) if chosen.expect else None
        report = replay(read_json(chosen.plan), budgets, expected)
    except Malformed as fault:
        report = {"ok": False, "errors": [str(fault)], "error_count": 1}
    print(json.dumps(report))
    return 0 if report["ok"] else 1


if __name__ == "__main__":
    sys.exit(main())
