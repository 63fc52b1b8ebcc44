#!/usr/bin/env python3
"""`ullage data bench` as a script uses it: keys, the stream written with --samples, memory, and what
becomes of bad files."""

import json
import os
import pathlib
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
import cgroup
import command
import pictures

MIB = 1 << 20
RESIDENT = pathlib.Path(command.__file__).with_name("resident.py")
PICTURES = 60
KEYS = {"bound_bytes", "measured_peak_bytes", "samples", "verdicts", "epoch_samples_per_second",
        "cpu_seconds_per_1000", "stage_seconds", "schema"}
VERDICTS = {"ok", "repaired", "warned", "damaged", "truncated", "unsupported", "not_an_image", "empty",
            "too_big", "unreadable"}


def resident_peak(*arguments):
    """The most that a run of the command had resident, and what it printed."""
    done = subprocess.run(
        [sys.executable, "-I", "-S", RESIDENT, command.BINARY, *map(str, arguments)],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
    lines = done.stdout.splitlines()
    return int(lines[-1]), done.returncode, lines[:-1]


def write_elsewhere(path, side):
    """A large PNG, uncompressed, made by another process: what this one ever had resident counts as its
    children's."""
    program = "import sys, pictures; open(sys.argv[1], 'wb').write(pictures.make_png({0}, {0}, 1, 0))"
    subprocess.run([sys.executable, "-c", program.format(side), path], check=True,
                   env={**os.environ, "PYTHONPATH": os.path.dirname(pictures.__file__)})


class DataBench(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = command.folder()
        cls.root = pathlib.Path(cls.scratch.name) / "photos"
        cls.files = pictures.write_folder(cls.root, PICTURES)

    @classmethod
    def tearDownClass(cls):
        cls.scratch.cleanup()

    def bench(self, *arguments, root=None, **options):
        return command.run_json("data", "bench", root or self.root, "--size", 32, *arguments, **options)

    def samples(self, *arguments, **options):
        path = pathlib.Path(self.scratch.name) / "samples.jsonl"
        self.bench("--samples", path, *arguments, **options)
        return path.read_text(encoding="utf-8").splitlines()

    def test_keys(self):
        said = self.bench("--batch-size", 16, "--epochs", 3)
        self.assertLessEqual(KEYS, said.keys())
        self.assertEqual(said["samples"], 3 * PICTURES)
        self.assertEqual(set(said["verdicts"]), VERDICTS)
        self.assertEqual(said["verdicts"]["ok"], 3 * PICTURES)
        self.assertEqual(len(said["epoch_samples_per_second"]), 3)
        self.assertTrue(all(rate > 0 for rate in said["epoch_samples_per_second"]))
        self.assertLessEqual(said["measured_peak_bytes"], said["bound_bytes"])

    def test_the_rate_is_that_of_the_whole_run(self):
        """Also of epochs that are a batch each, most of which are there when they are asked for."""
        said = self.bench("--epochs", 30, "--batch-size", PICTURES)
        self.assertEqual(said["samples"], 30 * PICTURES)
        self.assertAlmostEqual(said["samples_per_second"] * said["seconds"], said["samples"], 6)

    def test_memory_is_told_before_the_first_batch(self):
        words = command.run("data", "bench", self.root, "--size", 32, "--batch-size", 16).stdout
        self.assertRegex(words, r"memory +\S+ MiB = \d+ slots of .* threads of .* for large pictures")
        self.assertLess(words.index("memory"), words.index("rate"))

    def test_stream_does_not_depend_on_threads(self):
        wanted = self.samples("--batch-size", 8, "--workers", 1, "--prefetch", 2)
        first = json.loads(wanted[0])
        self.assertLessEqual({"index", "path", "verdict", "crc32"}, first.keys())
        self.assertEqual(sorted(json.loads(line)["index"] for line in wanted), list(range(PICTURES)))
        for workers, slots, memory in ((2, 1, "64MiB"), (7, 5, "8MiB"), (16, 64, "1GiB")):
            got = self.samples("--batch-size", 8, "--workers", workers, "--prefetch", slots,
                               "--loader-memory", memory)
            self.assertEqual(got, wanted)
        self.assertNotEqual(self.samples("--batch-size", 8, "--seed", 1), wanted)

    def test_ranks_share_the_stream(self):
        wanted = self.samples("--batch-size", 24)
        for world in (2, 3, 4, 8):
            size = 24 // world
            parts = [self.samples("--batch-size", size, "--rank", rank, "--world-size", world)
                     for rank in range(world)]
            batches = [[part[i:i + size] for part in parts] for i in range(0, PICTURES // world, size)]
            whole = PICTURES // 24
            got = [line for batch in batches[:whole] for piece in batch for line in piece]
            got += [line for part in parts for line in part[whole * size:]]
            self.assertEqual(got, wanted)

    def test_starts_anywhere(self):
        wanted = self.samples("--batch-size", 8, "--epochs", 2)
        self.assertEqual(self.samples("--batch-size", 8, "--epochs", 2, "--start-batch", 3), wanted[24:])
        self.assertEqual(self.samples("--batch-size", 8, "--epochs", 2, "--start-batch", 9,
                                      "--batches", 2), wanted[PICTURES + 8:PICTURES + 24])

    def test_evaluation_is_in_order(self):
        lines = self.samples("--mode", "eval", "--batch-size", 7)
        self.assertEqual([json.loads(line)["index"] for line in lines], list(range(PICTURES)))

    def test_several_numbers_of_workers(self):
        said = self.bench("--workers", "1,2,3")
        self.assertEqual([run["workers"] for run in said["runs"]], [1, 2, 3])
        self.assertIn(said["knee_workers"], (1, 2, 3))
        words = command.run("data", "bench", self.root, "--size", 32, "--workers", "1,2").stdout
        self.assertIn("knee", words)
        self.assertIn("little can be told", words)  # of a folder this small

    def test_other_sources(self):
        root = pathlib.Path(self.scratch.name)
        idx = command.write_idx(root / "idx", count=50)
        self.assertEqual(self.bench(root=idx)["samples"], 50)
        self.assertEqual(self.bench("--mode", "eval", root=idx)["samples"], 32)
        npz = command.write_npz(root / "a.npz", {"x": ("<f4", (6, 2), bytes(48)),
                                                 "target": ("<i8", (6,), bytes(48))})
        self.assertEqual(self.bench(root=npz)["samples"], 6)
        self.assertEqual(self.bench("--batch-size", 4, root="synthetic")["samples"], 4)

    # ---- bad files ----

    def spoiled(self):
        root = pathlib.Path(self.scratch.name) / "spoiled"
        if not root.exists():
            files = pictures.write_folder(root, 30)
            files[3].write_bytes(b"")
            files[4].write_bytes(files[4].read_bytes()[:200])
            files[17].write_bytes(b"no picture at all")
        return root

    def test_augmentation_that_would_change_nothing(self):
        """Of arrays that are images already."""
        idx = command.write_idx(pathlib.Path(self.scratch.name) / "plain")
        for words in ("rrc", "flip,rotate:30", "randaugment", "erase", "stretch"):
            for arguments in (("data", "bench", idx), ("plan", "zoo:lenet", "--data", idx)):
                result = command.run(*arguments, "--augment", words, "--json")
                self.assertEqual(result.code, 1, (arguments, words))
                self.assertIn("no encoded pictures", result.object["error"]["message"])
        self.assertEqual(command.run("data", "bench", idx, "--augment", "crop:2,flip,vflip,mixup,cutmix").code, 0)

    def test_what_would_change_nothing_is_told(self):
        """A size, or an order of axes, of arrays that are taken as they are stored."""
        idx = command.write_idx(pathlib.Path(self.scratch.name) / "stored", size=28)
        for words, source, told in (
                (("--size", 64), idx, "no encoded pictures: --size 64 changes nothing"),
                (("--layout", "nhwc"), idx, "no encoded pictures: --layout nhwc changes nothing"),
                (("--size", 28), idx, None), ((), idx, None), (("--size", 64, "--layout", "nhwc"), self.root, None),
                (("--size", 64), "synthetic", None)):
            said = command.run("data", "bench", source, "--batch-size", 4, *words)
            self.assertEqual(said.code, 0)
            self.assertEqual("changes nothing" in said.stderr, told is not None, words)
            self.assertIn(told or "", said.stderr)

    def test_bad_files_are_replaced(self):
        said = self.bench("--batch-size", 10, root=self.spoiled())
        self.assertEqual(said["samples"], 30)
        self.assertEqual(said["replaced"], 3)
        self.assertEqual(said["verdicts"]["empty"], 1)
        self.assertEqual(said["verdicts"]["not_an_image"], 1)
        self.assertEqual(len(said["bad"]), 3)
        lines = [self.samples("--batch-size", 10, "--workers", workers, root=self.spoiled())
                 for workers in (1, 2, 8)]
        self.assertEqual(lines[0], lines[1])
        self.assertEqual(lines[0], lines[2])
        self.assertEqual(len(lines[0]), 30)

    def test_bad_files_are_left_out(self):
        said = self.bench("--on-bad", "skip", root=self.spoiled())
        self.assertEqual(said["samples"], 27)
        self.assertEqual(said["skipped"], 3)

    def test_bad_files_are_errors(self):
        result = command.run("data", "bench", self.spoiled(), "--mode", "eval", "--on-bad", "fail",
                             "--json")
        self.assertEqual(result.code, 6)
        self.assertEqual(result.object["error"]["code"], "data")
        self.assertIn("picture0004.png", result.object["error"]["message"])

    def test_too_many_bad_files(self):
        result = command.run("data", "bench", self.spoiled(), "--max-bad", 2, "--json")
        self.assertEqual(result.code, 6)
        self.assertIn("2 are allowed", result.object["error"]["message"])

    def test_too_many_are_told_alike(self):
        """How many are bad, how many may be, a file of them and what to change: whatever is done about bad
        ones, and however few may be."""
        root = pathlib.Path(self.scratch.name) / "one or two"
        train = ("train", "zoo:resnet8?classes=2&image=32", "--data", root, "--steps", 9, "--run",
                 pathlib.Path(self.scratch.name) / "bad run")
        files = pictures.write_folder(root, 12)
        commands = [(first, rule) for first in (("data", "bench", root, "--mode", "eval"), train)
                    for rule in ("replace", "skip")] + [(("data", "pack", root, "--out"), "skip")]
        for bad in (1, 2):
            files[5 * bad].write_bytes(b"")
            for first, rule in commands:
                arguments = (*first, "--on-bad", rule, "--batch-size", 4, "--json", "--max-bad")
                if "pack" in first:
                    arguments = (*first, f"{root} packed {bad}", "--on-bad", rule, "--json", "--max-bad")
                result = command.run(*arguments, bad - 1)
                error = result.object["error"]
                self.assertEqual(result.code, 6, (first, rule))
                self.assertIn(("1 sample was", "2 samples were")[bad - 1] + f" unusable; {bad - 1} are allowed: ",
                              error["message"])
                self.assertRegex(error["message"], r"/picture\d+\.png: empty")
                self.assertIn("--max-bad", error["change"])
                self.assertEqual(command.run(*arguments, 50).code, 0, (first, rule))

    # ---- memory ----

    def test_a_budget_that_is_too_small(self):
        result = command.run("data", "bench", self.root, "--batch-size", 8, "--loader-memory", "1MiB",
                             "--json")
        self.assertEqual(result.code, 3)
        self.assertGreater(result.object["error"]["shortfall_bytes"], 0)
        least = int(result.object["error"]["change"].split()[1])
        said = command.run_json("data", "bench", self.root, "--batch-size", 8, "--loader-memory", least)
        self.assertEqual(said["samples"], PICTURES)

    def mixed(self):
        """Pictures from 1 KB to 50 MB."""
        root = pathlib.Path(self.scratch.name) / "mixed"
        if not root.exists():
            pictures.write_folder(root, 24, side=8)
            for name, side in (("a/large.png", 2100), ("b/huge.png", 4080)):
                write_elsewhere(root / name, side)
        return root

    @unittest.skipIf(command.is_sanitized(), "sanitizers take memory of their own")
    def test_the_budget_that_would_do_does(self):
        """What a refusal asks for is enough, and the budget in question is the user's own: also beside a
        source that holds memory, and where training and evaluation share it."""
        idx = command.write_idx(pathlib.Path(self.scratch.name) / "idx")
        train = ("train", "zoo:resnet8?classes=2&image=32", "--data", self.root, "--steps", 1, "--run",
                 pathlib.Path(self.scratch.name) / "run")
        for arguments in (("data", "bench", self.root, "--size", 224), ("data", "bench", idx),
                          train, (*train, "--val-data", self.root)):
            arguments = (*arguments, "--batch-size", 8, "--json", "--loader-memory")
            refused = command.run(*arguments, 1000)
            self.assertEqual(refused.code, 3, refused.stderr)
            error = refused.object["error"]
            self.assertIn("--loader-memory 1000", error["holder"])
            enough = 1000 + error["shortfall_bytes"]
            self.assertIn(f"allow {enough} bytes", error["change"])
            self.assertEqual(command.run(*arguments, enough - 8193).code, 3)
            self.assertEqual(command.run(*arguments, enough).code, 0)

    def test_resident_size(self):
        base, code, _ = resident_peak("--version")
        self.assertEqual(code, 0)
        for memory in ("16MiB", "24MiB"):
            peak, code, out = resident_peak("data", "bench", self.mixed(), "--batch-size", 8,
                                            "--loader-memory", memory, "--json")
            said = json.loads(out[-1])
            self.assertEqual(code, 0)
            self.assertEqual(said["samples"], 26)
            self.assertEqual(said["verdicts"]["ok"], 26)
            self.assertLessEqual(said["bound_bytes"], int(memory[:-3]) * MIB)
            self.assertLessEqual(said["measured_peak_bytes"], said["bound_bytes"])
            self.assertLessEqual(peak - base, said["bound_bytes"] + 12 * MIB)

    @unittest.skipIf(command.is_sanitized(), "sanitizers take memory of their own")
    def test_twenty_epochs_are_flat(self):
        arguments = ["data", "bench", self.root, "--batch-size", 8, "--size", 64, "--loader-memory",
                     "8MiB", "--json"]
        few = resident_peak(*arguments, "--epochs", 2)[0]
        many = resident_peak(*arguments, "--epochs", 20)[0]
        self.assertLessEqual(many, few + 2 * MIB)

    def test_few_descriptors(self):
        prefix = ["sh", "-c", 'ulimit -n 64 && exec "$@"', "sh"]
        said = self.bench("--workers", 16, "--prefetch", 32, "--batch-size", 4, prefix=prefix)
        self.assertEqual(said["samples"], PICTURES)

    @unittest.skipIf(command.is_sanitized(), "sanitizers take memory of their own")
    def test_small_cgroup(self):
        with cgroup.Cgroup(64 * MIB) as group:
            said = self.bench("--batch-size", 8, "--loader-memory", "16MiB", "--epochs", 3,
                              root=self.mixed(), prefix=group.prefix())
        self.assertEqual(said["samples"], 3 * 26)

    # ---- faults ----

    def test_a_dead_thread_ends_the_run(self):
        for stage in ("loader", "read", "decode", "transform", "finish"):
            result = command.run("data", "bench", self.root, "--size", 32, "--json", timeout=20,
                                 env={"ULLAGE_FAULT": f"{stage}:20"})
            self.assertEqual(result.code, 1)
            self.assertEqual(result.object["error"]["code"], "internal")

    def test_odd_names(self):
        root = pathlib.Path(self.scratch.name) / "names"
        (root / "a b").mkdir(parents=True)
        for i, name in enumerate((b"with space.png", b"new\nline.png", b"quote\".png", b"\xff\xfe.png")):
            (root / "a b" / os.fsdecode(name)).write_bytes(pictures.make_png(20, 20, i))
        (root / "empty").mkdir()
        path = pathlib.Path(self.scratch.name) / "names.jsonl"
        said = self.bench("--samples", path, root=root)
        self.assertEqual(said["samples"], 4)
        names = {os.path.basename(json.loads(line)["path"]) for line in path.read_text().splitlines()}
        self.assertEqual(names, {"with space.png", "new\nline.png", 'quote".png', "\udcff\udcfe.png"})


if __name__ == "__main__":
    command.need_command()
    unittest.main()
