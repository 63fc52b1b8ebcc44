#!/usr/bin/env python3
"""Rough treatment: signals, closed and full outputs, small limits, odd flags, narrow terminals.

A run ends with weights or with a message and an exit code; nothing is half-written, nothing hangs.
"""

import fcntl
import json
import os
import pathlib
import pty
import re
import resource
import select
import signal
import struct
import subprocess
import sys
import termios
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
import command

SMALL = ["zoo:mlp?hidden=16", "--batch-size", "8"]
FILES = {"config.json", "lock", "metrics.jsonl", "weights.safetensors"}


class Case(unittest.TestCase):
    def setUp(self):
        self.temporary = command.folder()
        self.folder = pathlib.Path(self.temporary.name)
        self.run_folder = self.folder / "run"

    def tearDown(self):
        self.temporary.cleanup()

    def train(self, *arguments, **options):
        return command.run("train", *SMALL, *arguments, "--run", self.run_folder, **options)

    def check_weights(self):
        tensors, _ = command.read_safetensors(self.run_folder / "weights.safetensors")
        self.assertTrue(tensors)

    def check_metrics(self):
        """Every line is whole and they count up."""
        text = (self.run_folder / "metrics.jsonl").read_text(encoding="ascii")
        self.assertTrue(text == "" or text.endswith("\n"), text[-200:])
        steps = [json.loads(line)["step"] for line in text.splitlines()]
        self.assertEqual(steps, list(range(1, len(steps) + 1)))
        return len(steps)

    def check_files(self, expected):
        self.assertEqual({path.name for path in self.run_folder.iterdir()}, expected)

    def start(self, **options):
        return command.start_run(self.run_folder, *SMALL, **options)


class Signals(Case):
    def check_stops(self, number):
        process = self.start()
        process.send_signal(number)
        _, words = process.communicate(timeout=120)
        self.assertEqual(process.returncode, command.EXIT_CODES["stopped"], words)
        self.assertIn(b"weights saved", words)
        self.check_weights()
        self.assertGreater(self.check_metrics(), 0)
        self.check_files(FILES)

    def test_an_interrupt_saves_and_stops(self):
        self.check_stops(signal.SIGINT)

    def test_a_lost_terminal_saves_and_stops(self):
        self.check_stops(signal.SIGHUP)

    def test_nohup_is_respected(self):
        process = self.start(preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
        process.send_signal(signal.SIGHUP)
        time.sleep(0.5)
        self.assertIsNone(process.poll())
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=120)
        self.assertEqual(process.returncode, command.EXIT_CODES["stopped"])

    def test_the_second_interrupt_ends_at_once(self):
        process = self.start()
        deadline = time.time() + 60
        while process.poll() is None and time.time() < deadline:
            process.send_signal(signal.SIGINT)
            time.sleep(0.001)
        process.communicate(timeout=60)
        self.assertIn(process.returncode, (-signal.SIGINT, command.EXIT_CODES["stopped"]))
        self.check_metrics()

    def test_a_killed_run_leaves_a_folder_that_can_be_used(self):
        process = self.start()
        process.kill()
        process.communicate()
        self.check_metrics()
        self.check_files(FILES - {"weights.safetensors"})
        (self.run_folder / "weights.safetensors.4711.partial").write_bytes(b"half")
        result = self.train("--steps", "2")
        self.assertEqual(result.code, 0, result.stderr)
        self.check_files(FILES | {"metrics.previous.jsonl"})
        self.assertEqual(self.check_metrics(), 2)


class Outputs(Case):
    def test_closed_streams_leave_files_alone(self):
        for closed in ("<&-", ">&-", "2>&-", "<&- >&- 2>&-"):
            with self.subTest(closed=closed):
                line = f'exec "$0" "$@" {closed}'
                arguments = ["train", *SMALL, "--steps", "2", "--run", str(self.run_folder)]
                done = subprocess.run(["sh", "-c", line, command.BINARY, *arguments],
                                      capture_output=True, timeout=120, check=False)
                self.assertEqual(done.returncode, 1 if ">&-" in closed.split() else 0, done.stderr)
                self.assertEqual((self.run_folder / "lock").read_bytes(), b"")
                json.loads((self.run_folder / "config.json").read_text(encoding="utf-8"))
                self.assertEqual(self.check_metrics(), 2)
                self.check_weights()

    def test_a_full_output_is_an_error(self):
        with open("/dev/full", "wb") as full:
            done = subprocess.run(
                [command.BINARY, "train", *SMALL, "--steps", "2", "--json", "--run",
                 str(self.run_folder)], stdout=full, stderr=subprocess.PIPE, timeout=120,
                check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"ullage: cannot write to standard output", done.stderr)
        self.check_weights()

    def test_a_reader_that_ends_does_not_end_the_run(self):
        process = self.start()
        process.stdout.close()
        time.sleep(0.2)
        self.assertIsNone(process.poll())
        process.send_signal(signal.SIGINT)
        process.stderr.read()
        process.stderr.close()
        self.assertEqual(process.wait(timeout=120), command.EXIT_CODES["stopped"])
        self.check_weights()

    def limit_files(self, limit):
        return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    def run_limited(self, limit, *arguments):
        return subprocess.run(
            [command.BINARY, "train", *SMALL, "--run", str(self.run_folder), *arguments],
            capture_output=True, text=True, timeout=120, check=False,
            preexec_fn=self.limit_files(limit))

    def test_weights_that_cannot_be_written(self):
        done = self.run_limited(20000, "--steps", "2")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertRegex(done.stderr, r"cannot write .*weights\.safetensors.*: File too large")
        self.check_files(FILES - {"weights.safetensors"})

    def test_metrics_that_cannot_be_written(self):
        done = self.run_limited(4000, "--steps", "1000")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertRegex(done.stderr, r"ullage: cannot write metrics in .*: File too large")
        self.assertGreater(self.check_metrics(), 5)
        self.check_files(FILES - {"weights.safetensors"})

    def test_no_place_for_a_folder(self):
        result = command.run("train", *SMALL, "--steps", "2", cwd="/sys")
        self.assertEqual(result.code, 1)
        self.assertRegex(result.stderr, r"ullage: cannot create the folder runs")


class Limits(Case):
    def check_limited(self, number, values, codes):
        """Ends with one of the codes and, where that is not 0, with a message; no signal."""
        seen = set()
        for value in values:
            with self.subTest(value=value):
                done = subprocess.run(
                    [command.BINARY, "train", *SMALL, "--steps", "2", "--memory", "1GiB", "--run",
                     str(self.run_folder)], capture_output=True, text=True, timeout=120,
                    check=False, preexec_fn=lambda: resource.setrlimit(number, (value, value)))
                self.assertIn(done.returncode, codes, done.stderr)
                if done.returncode != 0:
                    self.assertRegex(done.stderr, r"(^|\n)ullage: ")
                seen.add(done.returncode)
        return seen

    def test_few_files(self):
        seen = self.check_limited(resource.RLIMIT_NOFILE, [*range(4, 12), 16], {0, 1})
        self.assertEqual(seen, {0, 1})

    @unittest.skipIf(command.is_sanitized(), "sanitizers reserve addresses")
    def test_few_addresses(self):
        mib = 1 << 20
        seen = self.check_limited(resource.RLIMIT_AS, range(80 * mib, 400 * mib, 40 * mib), {0, 3})
        self.assertEqual(seen, {0, 3})


class Flags(Case):
    def test_numbers_of_threads(self):
        for threads in (1, 2, 64):
            with self.subTest(threads=threads):
                result = self.train("--steps", "2", "--threads", threads)
                self.assertEqual(result.code, 0, result.stderr)
        for threads in (0, -1, 100000):
            with self.subTest(threads=threads):
                self.assertEqual(self.train("--threads", threads).code, 2)

    def test_instruction_sets(self):
        for model in ("zoo:mlp", "zoo:resnet8"):
            for isa in ("portable", "avx2", "avx512", ""):
                with self.subTest(model=model, isa=isa):
                    result = command.run("train", model, "--batch-size", "2", "--steps", "1",
                                         "--run", self.run_folder, env={"ULLAGE_ISA": isa})
                    self.assertEqual(result.code, 0, result.stderr)
        result = self.train("--steps", "1", env={"ULLAGE_ISA": "nonsense"})
        self.assertEqual(result.code, 2)
        self.assertIn("ULLAGE_ISA=nonsense is no instruction set", result.stderr)

    def test_long_paths(self):
        name = "a" * 250
        paths = ((f"{name}/{name}", 0), (f"{name}/{name}/{name}/{name}", 2), ("b" * 300, 1))
        for path, code in paths:
            with self.subTest(length=len(path)):
                result = command.run("train", *SMALL, "--steps", "1", "--run", path,
                                     cwd=self.folder)
                self.assertEqual(result.code, code, result.stderr)
                if code != 0:
                    self.assertTrue(result.stderr.startswith("ullage: "), result.stderr)

    def test_names_that_are_no_text(self):
        for arguments in (["--run", b"bad\xff\x1b[31m"], ["--data", b"npz:bad\xff"]):
            with self.subTest(arguments=arguments):
                done = subprocess.run([command.BINARY, "train", *SMALL, *arguments, "--json"],
                                      capture_output=True, timeout=120, check=False)
                self.assertEqual(done.returncode, 2)
                self.assertEqual(json.loads(done.stdout.decode())["error"]["code"], "usage")
                self.assertNotIn(b"\x1b", done.stderr + done.stdout)

    def test_the_saved_configuration_runs_again(self):
        source = command.write_idx(self.folder / "idx")
        first = command.train(*SMALL, "--data", source, "--steps", "7", "--opt", "adamw", "--lr",
                              "0.003", "--seed", "5", "--schedule", "one-cycle", "--run",
                              self.run_folder)
        again = command.train("--config", self.run_folder / "config.json", "--run",
                              self.folder / "again")
        self.assertEqual(again["weights_hash"], first["weights_hash"])
        self.assertEqual(again["losses"], first["losses"])

    def test_runs_that_start_together_have_their_own_folders(self):
        processes = [subprocess.Popen([command.BINARY, "train", *SMALL, "--steps", "2"],
                                      cwd=self.folder, stdout=subprocess.DEVNULL,
                                      stderr=subprocess.PIPE) for _ in range(4)]
        for process in processes:
            _, words = process.communicate(timeout=120)
            self.assertEqual(process.returncode, 0, words)
        runs = sorted((self.folder / "runs").iterdir())
        self.assertEqual(len(runs), 4)
        for run in runs:
            command.read_safetensors(run / "weights.safetensors")


class Terminal(Case):
    def show(self, columns, **environment):
        """What a run of half a second draws on a terminal of that width."""
        control, terminal = pty.openpty()
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        process = subprocess.Popen(
            [command.BINARY, "train", *SMALL, "--steps", "1000000", "--run", str(self.run_folder)],
            stdout=terminal, stderr=terminal, env={**os.environ, "TERM": "xterm", **environment})
        os.close(terminal)
        content, stopped = b"", False
        while True:
            ready, _, _ = select.select([control], [], [], 60)
            try:
                part = os.read(control, 65536) if ready else b""
            except OSError:
                break
            if not part:
                break
            content += part
            if not stopped and content.count(b"\r\x1b[K") >= 3:
                process.send_signal(signal.SIGINT)
                stopped = True
        self.assertEqual(process.wait(timeout=120), command.EXIT_CODES["stopped"])
        os.close(control)
        return content.decode()

    def draws(self, text):
        lines = [part.split("\r\n")[0] for part in text.split("\r\x1b[K")[1:]]
        return [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in lines]

    def test_the_line_fits(self):
        for columns in (40, 60, 80, 100, 132, 200):
            with self.subTest(columns=columns):
                draws = self.draws(self.show(columns))
                self.assertGreaterEqual(len(draws), 3)
                for line in draws:
                    self.assertLess(len(line), columns)
                    self.assertIn("loss", line)
                    if columns >= 60:
                        self.assertIn("left", line)
                    if columns == 200:
                        for word in ("epoch", "acc", "samples/s", "mem", "data wait"):
                            self.assertIn(word, line)

    def test_colour(self):
        self.assertIn("\x1b[1m", self.show(120))
        plain = self.show(120, NO_COLOR="1").replace("\r\x1b[K", "")
        self.assertNotIn("\x1b", plain)
        self.assertIn("loss", plain)


class Again(Case):
    """A second run in the same folder keeps what the first one left."""

    def test_previous_files(self):
        self.train("--steps", "2", "--seed", "1")
        weights = (self.run_folder / "weights.safetensors").read_bytes()
        metrics = (self.run_folder / "metrics.jsonl").read_bytes()
        self.train("--steps", "2", "--seed", "2", "--init", self.run_folder / "weights.safetensors")
        previous = self.run_folder / "weights.previous.safetensors"
        self.assertEqual(previous.read_bytes(), weights)
        self.assertEqual((self.run_folder / "metrics.previous.jsonl").read_bytes(), metrics)
        self.assertNotEqual((self.run_folder / "weights.safetensors").read_bytes(), weights)


if __name__ == "__main__":
    command.need_command()
    unittest.main()
