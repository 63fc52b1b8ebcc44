#!/usr/bin/env python3
"""Breaks every gradient rule in src/graph/ops and demands that the operator tests notice.

    python3 tests/ops/mutants.py [--build build/release] [--family linear ...]

Each contribution to a gradient gets the wrong sign, is doubled and is left out; each pair of
neighbouring operands of a backward node is swapped; each transposition of a product is turned. The
broken file alone is compiled, linked in front of the library, and `test_operators grad FAMILY` has
to fail. Exit status 1 where one survives.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(os.environ.get("ULLAGE_SOURCE_DIR", pathlib.Path(__file__).parents[2]))
TARGET = "ops_test_operators"

HELPER = """
static inline ull_status mutant_add(double factor, ull__gradients *gradients, ull__value_id value,
                                    ull__value_id gradient) {
  const ull__attribute_setting setting = ULL__REAL("factor", factor);
  if (factor == 0) return ULL_OK;
  ULL__TRY(ull__graph_add_node(ull__gradients_graph(gradients), "scale",
                               ull__graph_value(ull__gradients_graph(gradients), gradient)->name,
                               &gradient, 1, &setting, 1, &gradient));
  return ull__gradients_add(gradients, value, gradient);
}
static inline void mutant_replace(double factor, ull__gradients *gradients, ull__value_id value,
                                  ull__value_id gradient) {
  const ull__attribute_setting setting = ULL__REAL("factor", factor);
  if (factor == 0) return;
  (void)ull__graph_add_node(ull__gradients_graph(gradients), "scale", "mutant", &gradient, 1,
                            &setting, 1, &gradient);
  ull__gradients_replace(gradients, value, gradient);
}
"""

FACTORS = {"sign": "-1.0", "doubled": "2.0", "left out": "0.0"}


class Mutant:
    def __init__(self, family, text, place, kind, begin, end, replacement):
        self.family, self.kind = family, kind
        self.line = text.count("\n", 0, begin) + 1
        self.rule = place
        self.text = text[:begin] + replacement + text[end:]
        self.outcome = None


def function_around(text, position):
    """Name of the function that a position lies in."""
    found = None
    for match in re.finditer(r"^(?:static )?[\w *]+?\b(\w+)\([^;{]*\)\s*\{", text, re.MULTILINE):
        if match.start() > position:
            break
        found = match.group(1)
    return found or "?"


def split_operands(body):
    """The parts between commas outside brackets."""
    parts, depth, begin = [], 0, 0
    for i, letter in enumerate(body):
        depth += (letter in "([{") - (letter in ")]}")
        if letter == "," and depth == 0:
            parts.append(body[begin:i])
            begin = i + 1
    return parts + [body[begin:]]


def factor_mutants(family, text):
    for match in re.finditer(r"\bull__gradients_(add|replace)\(", text):
        place = function_around(text, match.start())
        for kind, factor in FACTORS.items():
            replacement = f"mutant_{match.group(1)}({factor}, "
            yield Mutant(family, text, place, kind, match.start(), match.end(), replacement)


def is_commutative(text, position):
    emitted = re.search(r'ull__gradients_emit\([^"]*"(\w+)"', text[position:])
    return emitted is not None and emitted.group(1) in ("mul", "add")


def swap_mutants(family, text):
    arrays = r"\b\w*(?:inputs|saved_output|saved_bits)\[\] = \{([^{};]*)\}"
    for match in re.finditer(arrays, text):
        parts = split_operands(match.group(1))
        place = function_around(text, match.start())
        if is_commutative(text, match.end()):
            continue
        for i in range(len(parts) - 1):
            swapped = parts[:]
            swapped[i], swapped[i + 1] = swapped[i + 1], swapped[i]
            yield Mutant(family, text, place, f"operands {i} and {i + 1} swapped", match.start(1),
                         match.end(1), ",".join(swapped))


def turn_mutants(family, text):
    for call in re.finditer(r"emit_matmul\(gradients, node, \"[^;:?]*?\)", text):
        for flag in re.finditer(r"(?<=, )(!?t[ab]|true|false)(?=[,)])", call.group(0)):
            word = flag.group(1)
            turned = {"true": "false", "false": "true"}.get(word, word[1:] if word[0] == "!" else
                                                            "!" + word)
            begin = call.start() + flag.start()
            yield Mutant(family, text, "matmul_gradient", f"{word} turned", begin,
                         begin + len(word), turned)
    for match in re.finditer(r'ULL__INT\("transposed", (ull__node_int\([^)]*\))\)', text):
        yield Mutant(family, text, function_around(text, match.start()), "transposed turned",
                     match.start(1), match.end(1), "!" + match.group(1))


def find_mutants(families):
    mutants = []
    for path in sorted((ROOT / "src/graph/ops").glob("*.c")):
        text = path.read_text()
        if (families and path.stem not in families) or "ull__gradients_" not in text:
            continue
        if not re.search(r"\.gradient = ", text):
            continue
        for make in (factor_mutants, swap_mutants, turn_mutants):
            mutants += make(path.stem, text)
    return mutants


class Build:
    def __init__(self, folder):
        self.folder = folder
        self.compile_commands = {
            pathlib.Path(entry["file"]).resolve(): entry
            for entry in json.loads((folder / "compile_commands.json").read_text())
        }
        self.link = self.find_link()

    def find_link(self):
        recorded = self.folder / f"CMakeFiles/{TARGET}.dir/link.txt"
        if recorded.exists():
            return recorded.read_text().strip()
        lines = subprocess.run(["ninja", "-C", self.folder, "-t", "commands", TARGET], check=True,
                               capture_output=True, text=True).stdout.splitlines()
        return re.sub(r"^: && | && :$", "", lines[-1].strip())

    def compile(self, mutant, folder):
        source = (ROOT / "src/graph/ops" / f"{mutant.family}.c").resolve()
        entry = self.compile_commands[source]
        words = shlex.split(entry["command"])
        mutated, result = folder / "mutated.c", folder / "mutated.o"
        include = mutant.text.rindex("#include")
        after = mutant.text.index("\n", include) + 1
        mutated.write_text(mutant.text[:after] + HELPER + mutant.text[after:])
        kept, skip = [], False
        for word in words[:-1]:
            if skip:
                skip = False
            elif word in ("-o", "-MF", "-MT"):
                skip = True
            elif word not in ("-c", "-MD", str(source)):
                kept.append("-O0" if word.startswith("-O") else word)
        run(kept + ["-Wno-error", "-w", "-c", mutated, "-o", result], entry["directory"])
        return result

    def link_program(self, mutated, program):
        words = shlex.split(self.link)
        at = words.index("-o")
        words[at + 1] = str(program)
        first = next(i for i, word in enumerate(words) if word.endswith(".o"))
        run(words[:first] + [mutated] + words[first:], self.folder)


def run(words, folder):
    done = subprocess.run([str(word) for word in words], cwd=folder, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(done.stdout + done.stderr)


def judge(build, mutant):
    with tempfile.TemporaryDirectory(prefix="ullage-mutant-") as name:
        folder = pathlib.Path(name)
        try:
            build.link_program(build.compile(mutant, folder), folder / "mutant")
        except RuntimeError as error:
            return f"does not build: {str(error)[:300]}"
        try:
            done = subprocess.run([folder / "mutant", "grad", mutant.family], capture_output=True,
                                  text=True, timeout=120)
        except subprocess.TimeoutExpired:
            return "noticed: no end"
    if done.returncode == 0:
        return "SURVIVED"
    if done.returncode < 0:
        return f"crashed: signal {-done.returncode}"
    wrong = "gradient of" in done.stderr or "differs from" in done.stderr
    return "noticed: wrong numbers" if wrong else "noticed: refused"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path,
                        default=pathlib.Path(os.environ.get("ULLAGE_BUILD_DIR",
                                                            ROOT / "build/release")))
    parser.add_argument("--family", nargs="*", default=[])
    parser.add_argument("--jobs", type=int, default=min(2, os.cpu_count() or 1))
    options = parser.parse_args()
    build_folder = options.build.resolve()
    if not (build_folder / "compile_commands.json").exists():
        sys.exit(f"mutants: {build_folder} has not been configured")
    subprocess.run(["cmake", "--build", build_folder, "--target", TARGET], check=True,
                   stdout=subprocess.DEVNULL)
    build = Build(build_folder)
    mutants = find_mutants(options.family)
    if not mutants:
        sys.exit("mutants: found no gradient rule to break")
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for mutant, outcome in zip(mutants, pool.map(lambda m: judge(build, m), mutants)):
            mutant.outcome = outcome
            print(f"{mutant.family:14} {mutant.rule:26} line {mutant.line:4} {mutant.kind:26} "
                  f"{outcome}", flush=True)
    missed = [m for m in mutants if not m.outcome.startswith("noticed")]
    print(f"{len(mutants)} broken gradient rules, {len(mutants) - len(missed)} noticed")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
