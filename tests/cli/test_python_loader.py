#!/usr/bin/env python3
"""The Python loader: the same stream as the command's, views that stay valid, resume, errors.

Needs libullage.so beside the command (there is none in sanitizer builds), NumPy for arrays, and
PyTorch for one test where it is installed; what is missing is skipped and said so.
"""

import functools
import gc
import json
import os
import pathlib
import pickle
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest
import warnings
import zlib

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests" / "support"))
sys.path.insert(0, str(ROOT / "python"))
import command

LIBRARY = pathlib.Path(command.BINARY).parent / "libullage.so"
os.environ["ULLAGE_LIBRARY"] = str(LIBRARY)
if not LIBRARY.exists():
    print(f"skipped: {LIBRARY} is not built (sanitizers)")
    sys.exit(command.SKIPPED)
command.need_modules("numpy")
import numpy

try:
    import torch
except ImportError:
    torch = None
import ullage

CLASSES, PICTURES, SIZE, BATCH = 3, 37, 32, 8


def png(width, height, number):
    """A picture with its own pixels in every row."""
    rows = []
    for y in range(height):
        row = bytes((x * 3 + y * 5 * (c + 1) + number * 29) % 256 for x in range(width) for c in range(3))
        rows.append(b"\0" + row)
    return png_of(width, height, b"".join(rows))


def png_of(width, height, rows):
    def chunk(kind, body):
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(rows))
        + chunk(b"IEND", b"")
    )


def make_folder(folder, bad=()):
    for number in range(PICTURES):
        path = folder / f"class {number % CLASSES}" / f"{number:03d}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        data = png(40 + number % 9, 36 + number % 7, number)
        path.write_bytes(data[: len(data) // 2] if number in bad else data)


class Taken:
    """Something that lends a capsule which is there already."""

    def __init__(self, capsule):
        self.capsule = capsule

    def __dlpack__(self, **options):
        return self.capsule

    def __dlpack_device__(self):
        return (1, 0)


class PythonLoader(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory(prefix="ullage-test-")
        cls.folder = pathlib.Path(cls.scratch.name) / "photos"
        make_folder(cls.folder)

    @classmethod
    def tearDownClass(cls):
        cls.scratch.cleanup()

    def loader(self, **options):
        settings = {"batch_size": BATCH, "size": SIZE, "seed": 5, **options}
        return ullage.DataLoader(str(self.folder), **settings)

    def command_stream(self, *flags):
        """(index, crc32) of every sample, as `data bench` writes them."""
        with tempfile.NamedTemporaryFile(suffix=".jsonl") as file:
            command.run_json(
                "data", "bench", self.folder, "--size", SIZE, "--batch-size", BATCH, "--seed", 5,
                "--samples", file.name, *flags,
            )
            lines = [json.loads(line) for line in file.read().splitlines()]
        return [(line["index"], line["crc32"]) for line in lines]

    def test_same_stream_as_the_command(self):
        for mode in ("train", "eval"):
            wanted = self.command_stream("--mode", mode, "--epochs", 2)
            loader = self.loader(train=mode == "train")
            got = []
            for _ in range(2):
                for batch in loader:
                    images, labels = batch
                    self.assertEqual(images.shape, (batch.samples, 3, SIZE, SIZE))
                    self.assertEqual(images.dtype, numpy.float32)
                    self.assertEqual(labels.dtype, numpy.int64)
                    got += [
                        (index, zlib.crc32(image.tobytes()))
                        for index, image in zip(batch.sample_index, images)
                    ]
            self.assertEqual(len(wanted), 2 * PICTURES)
            self.assertEqual(got, wanted)

    def test_what_a_loader_says_of_itself(self):
        loader = self.loader(train=False)
        self.assertEqual(len(loader), -(-PICTURES // BATCH))
        self.assertEqual(loader.samples, PICTURES)
        self.assertEqual(loader.classes, [f"class {i}" for i in range(CLASSES)])
        self.assertGreater(loader.bound_bytes, 2 * BATCH * 3 * SIZE * SIZE * 4)
        self.assertIn(str(self.folder), repr(loader))
        for images, labels in loader:
            break
        names = [loader.sample_name(i) for i in range(PICTURES)]
        self.assertEqual(sorted(os.path.basename(name) for name in names), [f"{i:03d}.png" for i in range(PICTURES)])

    def test_views_stay_valid_as_long_as_they_are_kept(self):
        fresh = [(x.copy(), y.copy()) for x, y in self.loader()]
        kept = list(self.loader(prefetch=3))  # more than the ring has
        self.assertEqual(len(kept), len(fresh))
        for (x, y), (fresh_x, fresh_y) in zip(kept, fresh):
            numpy.testing.assert_array_equal(x, fresh_x)
            numpy.testing.assert_array_equal(y, fresh_y)
        loader = self.loader(prefetch=4)
        x, _ = next(iter(loader))
        copy = x.copy()
        del loader
        gc.collect()
        numpy.testing.assert_array_equal(x, copy)  # the view keeps the ring alive

    def test_a_loop_that_ends_early_gives_way_to_the_next_epoch(self):
        loader = self.loader()
        for batch in loader:
            break
        self.assertEqual(sum(batch.samples for batch in loader), PICTURES)
        self.assertEqual(sum(batch.samples for batch in loader), PICTURES)
        self.assertEqual(loader.epoch, 3)

    def test_an_epoch_is_chosen(self):
        wanted = [[batch.sample_index for batch in loader] for loader in [self.loader()] for _ in range(3)]
        loader = self.loader()
        for epoch in (2, 0, 1):
            loader.epoch = epoch
            self.assertEqual([batch.sample_index for batch in loader], wanted[epoch])
        next(iter(loader))
        loader.epoch = 0  # also where a loop ended early
        self.assertEqual([batch.sample_index for batch in loader], wanted[0])
        for epoch in (-1, 1.5, "1", 1 << 63):
            with self.assertRaises(ValueError):
                loader.epoch = epoch

    def test_resume(self):
        stream = [batch.sample_index for _ in range(2) for batch in self.resumable()]
        loader, got = self.loader(), []
        for batch in loader:
            got.append(batch.sample_index)
            if len(got) == 2:
                break
        state = json.loads(json.dumps(loader.state_dict()))
        self.assertLessEqual(len(bytes.fromhex(state["ullage"])), 64)
        resumed = self.loader(workers=1, prefetch=2)
        resumed.load_state_dict(state)
        got += [batch.sample_index for batch in resumed]
        self.assertEqual(got, stream[: len(got)])
        self.assertEqual(sum(map(len, got)), PICTURES)
        with self.assertRaises(ullage.UllageError) as caught:
            self.loader(seed=6).load_state_dict(state)
        self.assertEqual(caught.exception.status, "mismatch")
        with self.assertRaises(ValueError):
            resumed.load_state_dict({"ullage": "00"})

    def resumable(self):
        return self.loader()

    def test_ranks_share_global_batches(self):
        alone = [index for batch in self.loader(batch_size=8) for index in batch.sample_index]
        ranks = [list(self.loader(batch_size=4, rank=rank, world_size=2)) for rank in range(2)]
        self.assertEqual(len(ranks[0]), len(ranks[1]))
        together = [index for pair in zip(*ranks) for batch in pair for index in batch.sample_index]
        self.assertEqual(together, alone)

    def test_other_forms_of_pictures(self):
        bytes_ = next(iter(self.loader(train=False, dtype="uint8")))[0]
        floats = next(iter(self.loader(train=False, normalize="none")))[0]
        last = next(iter(self.loader(train=False, dtype="uint8", layout="nhwc")))[0]
        half = next(iter(self.loader(train=False, normalize="none", dtype="float16")))[0]
        self.assertEqual(bytes_.dtype, numpy.uint8)
        self.assertEqual(half.dtype, numpy.float16)
        self.assertEqual(last.shape, (BATCH, SIZE, SIZE, 3))
        numpy.testing.assert_array_equal(last.transpose(0, 3, 1, 2), bytes_)
        self.assertLessEqual(numpy.abs(floats - bytes_).max(), 0.5001)
        self.assertLessEqual(numpy.abs(half.astype(numpy.float32) - floats).max(), 0.07)

    def test_pictures_without_classes(self):
        flat = self.folder / "class 1"
        pairs = [(images, labels) for images, labels in ullage.DataLoader(str(flat), BATCH, SIZE)]
        self.assertEqual(sum(len(images) for images, _ in pairs), len(list(flat.iterdir())))
        self.assertTrue(all(labels is None for _, labels in pairs))

    def test_warnings_are_warnings(self):
        """What the library has to say while it opens something, in the thread that asked."""
        idx = command.write_idx(pathlib.Path(self.scratch.name) / "stored", size=28)
        with self.assertWarnsRegex(UserWarning, "no encoded pictures: --size 64 changes nothing") as caught:
            ullage.DataLoader(idx, size=64)
        self.assertEqual(caught.filename, __file__)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            ullage.DataLoader(idx, size=28)
            self.loader()

    def test_batches_of_one_length(self):
        """Of texts in buckets: shapes, every document once, the command's bytes, resume."""
        texts = ["abcdefghijklmnopqrstuvwxyz"[: 1 + i * 7 % 24] for i in range(50)]
        path = pathlib.Path(self.scratch.name) / "texts.jsonl"
        path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
        source = f"text:{path}?seq=24&buckets=3"
        loader = ullage.DataLoader(source, batch_size=BATCH, seed=5)
        got, lengths, states = [], [], []
        for batch in loader:
            states.append(loader.state_dict())
            lengths.append(batch.length)
            arrays = dict(zip(batch.names, batch))
            for array in batch:
                self.assertEqual(array.shape, (batch.samples, batch.length))
            for i in range(batch.samples):
                ids = arrays["input_ids"][i][arrays["documents"][i] == 0]
                crc = functools.reduce(lambda crc, array: zlib.crc32(array[i].tobytes(), crc), batch, 0)
                got.append((bytes(ids.astype("u1")).decode(), batch.sample_index[i], crc))
        self.assertEqual(sorted(text for text, _, _ in got), sorted(texts))
        self.assertEqual(sorted(set(lengths)), [8, 16, 24])
        self.assertNotEqual(lengths, sorted(lengths))
        self.assertEqual(len(loader), len(lengths))
        with tempfile.NamedTemporaryFile(suffix=".jsonl") as file:
            command.run_json("data", "bench", source, "--batch-size", BATCH, "--seed", 5, "--epochs", 1,
                             "--samples", file.name)
            lines = [json.loads(line) for line in file.read().splitlines()]
        self.assertEqual([(line["index"], line["crc32"]) for line in lines], [row[1:] for row in got])
        other = ullage.DataLoader(source, batch_size=BATCH // 2, world_size=2, rank=1, seed=5)
        other.load_state_dict(states[2])
        self.assertEqual([batch.length for batch in other], lengths[3:])
        with self.assertRaises(ullage.UllageError):
            ullage.DataLoader(source, batch_size=BATCH + 1, seed=5).load_state_dict(states[2])

    def test_bad_samples(self):
        with tempfile.TemporaryDirectory(prefix="ullage-test-") as scratch:
            folder = pathlib.Path(scratch)
            make_folder(folder, bad={3, 20})
            loader = ullage.DataLoader(folder.as_posix(), batch_size=BATCH, size=SIZE, seed=1)
            batches = list(loader)
            self.assertEqual(sum(batch.replaced for batch in batches), 2)
            self.assertEqual(sum(batch.samples for batch in batches), PICTURES)
            verdicts = [verdict for batch in batches for verdict in batch.verdicts]
            self.assertEqual(verdicts.count("truncated"), 2)
            with self.assertRaises(ullage.UllageError) as caught:
                list(ullage.DataLoader(scratch, batch_size=BATCH, size=SIZE, on_bad="fail"))
            self.assertEqual(caught.exception.status, "data")
            self.assertIn(".png", str(caught.exception))

    def test_errors_are_exceptions_with_names(self):
        for source, options, status in (
            ("/nonexistent/photos", {}, None),
            (str(self.folder), {"batch_size": 0}, "usage"),
            (str(self.folder), {"memory": "100KiB"}, "does_not_fit"),
            (str(self.folder), {"augment": "nonsense"}, "usage"),
        ):
            with self.assertRaises(ullage.UllageError) as caught:
                ullage.DataLoader(source, **{"size": SIZE, **options})
            self.assertTrue(caught.exception.message)
            if status:
                self.assertEqual(caught.exception.status, status)
        with self.assertRaises(ValueError):
            self.loader(output="pandas")
        error = pickle.loads(pickle.dumps(caught.exception))
        self.assertEqual((error.status, str(error)), (status, str(caught.exception)))

    def test_arguments_of_another_kind(self):
        self.assertEqual(ullage.DataLoader(self.folder, size=SIZE).samples, PICTURES)  # a path
        for options in ({"train": "no"}, {"shuffle": "yes"}, {"drop_last": 2}, {"copy": "no"}):
            with self.assertRaisesRegex(TypeError, next(iter(options))):
                self.loader(**options)
        for source in (None, 3):
            with self.assertRaises(TypeError):
                ullage.DataLoader(source, size=SIZE)
        with self.assertRaisesRegex(ValueError, "source"):
            ullage.DataLoader(f"{self.folder}\0x", size=SIZE)
        for sample in (-1, PICTURES):
            with self.assertRaises(IndexError):
                self.loader().sample_name(sample)
        for state in (None, {}, {"ullage": "no hex"}):
            with self.assertRaises(ValueError):
                self.loader().load_state_dict(state)

    def test_a_loader_is_of_one_process(self):
        """Neither copied with its handle, nor used by a fork's child, which its threads are not in."""
        loader = self.loader()
        for copy in (pickle.dumps, __import__("copy").deepcopy):
            with self.assertRaisesRegex(TypeError, "state_dict"):
                copy(loader)
        steps = iter(loader)
        batch = next(steps)
        child = os.fork()
        if child == 0:
            signal.alarm(10)  # what hangs is seen by the parent
            said = []
            for use in (lambda: next(steps), lambda: list(loader), loader.state_dict):
                try:
                    use()
                except RuntimeError as refusal:
                    said.append("fork" in str(refusal))
            del steps, loader, batch, use
            gc.collect()
            os._exit(0 if said == [True, True, True] else 1)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        self.assertEqual(batch.samples + sum(later.samples for later in steps), PICTURES)

    def test_an_interrupt_ends_a_long_wait(self):
        """Of a batch that would take many minutes."""
        side, folder = 4096, pathlib.Path(self.scratch.name) / "slow"
        folder.mkdir()
        (folder / "large.png").write_bytes(png_of(side, side, bytes(side * (3 * side + 1))))
        (folder / "list.csv").write_text("path,label\n" + "large.png,0\n" * 10000)
        program = (
            "import ullage\n"
            f"loader = ullage.DataLoader({f'csv:{folder}/list.csv'!r}, batch_size=10000, size=16, workers=1)\n"
            "print('made', flush=True)\n"
            "for batch in loader: pass\n"
        )
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "python")}
        with subprocess.Popen([sys.executable, "-c", program], env=environment, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE) as run:
            try:
                self.assertEqual(run.stdout.readline(), "made\n")
                time.sleep(0.3)  # long enough that the loop waits; right at any length
                run.send_signal(signal.SIGINT)
                self.assertIn("KeyboardInterrupt", run.communicate(timeout=60)[1])
            finally:
                run.kill()

    def test_dlpack(self):
        numbers = [x.copy() for x, _ in self.loader(train=False)]
        tensors = list(self.loader(train=False, output="dlpack"))
        for wanted, (x, _) in zip(numbers, tensors):
            self.assertEqual(x.__dlpack_device__(), (1, 0))
            numpy.testing.assert_array_equal(numpy.from_dlpack(x), wanted)
            apart = x.__dlpack__(copy=True)
            self.assertNotEqual(numpy.from_dlpack(Taken(apart)).ctypes.data, numpy.from_dlpack(x).ctypes.data)
            numpy.testing.assert_array_equal(numpy.from_dlpack(Taken(x.__dlpack__(copy=True))), wanted)
        capsule = tensors[0][0].__dlpack__()
        del capsule  # nobody took it
        gc.collect()
        from ullage import dlpack

        self.assertEqual(len(dlpack._lent), 0)

    def test_structures_are_those_of_the_headers(self):
        """Compiled against the headers: sizes and offsets as ctypes has them."""
        from ullage import _library

        lines, wanted = [], []
        for name, structure in _library.STRUCTURES.items():
            lines.append(f'printf("%zu\\n", sizeof({name}));')
            wanted.append(("size of " + name, __import__("ctypes").sizeof(structure)))
            for field, *_ in structure._fields_:
                lines.append(f'printf("%zu\\n", offsetof({name}, {field}));')
                wanted.append((f"{name}.{field}", getattr(structure, field).offset))
        program = "#include <stdio.h>\n#include \"ullage/data.h\"\nint main(void) {" + "".join(lines) + "}"
        with tempfile.TemporaryDirectory() as scratch:
            binary = os.path.join(scratch, "layout")
            subprocess.run(
                ["cc", "-I", ROOT / "include", "-x", "c", "-", "-o", binary],
                input=program, text=True, check=True,
            )
            numbers = subprocess.run([binary], capture_output=True, text=True, check=True).stdout
        for (what, ours), theirs in zip(wanted, numbers.split(), strict=True):
            self.assertEqual(ours, int(theirs), what)

    @unittest.skipUnless(torch, "PyTorch is not installed")
    def test_inside_a_pytorch_loop(self):
        wanted = self.command_stream("--mode", "train")
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * SIZE * SIZE, CLASSES))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.0005)
        loader, got, losses = self.loader(), [], []
        for epoch in range(8):
            for batch in loader:
                images, labels = map(torch.from_numpy, batch)
                if epoch == 0:
                    got += [zlib.crc32(image.numpy().tobytes()) for image in images]
                optimizer.zero_grad()
                loss = torch.nn.functional.cross_entropy(model(images), labels)
                loss.backward()
                optimizer.step()
                losses.append(loss.item())
        self.assertEqual(got, [crc for _, crc in wanted])
        self.assertLess(sum(losses[-5:]), sum(losses[:5]))


if __name__ == "__main__":
    unittest.main()
