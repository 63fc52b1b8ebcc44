"""Runs the command as a user would, and makes and reads the files that tests need.

ULLAGE_BINARY names the command (default build/release/ullage). Python's standard library alone.
"""

import concurrent.futures
import hashlib
import importlib.util
import json
import os
import pathlib
import random
import struct
import subprocess
import sys
import tempfile
import time
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BINARY = os.environ.get("ULLAGE_BINARY") or str(ROOT / "build" / "release" / "ullage")
SKIPPED = 77
TIERS = ("device", "host", "disk")

# Exit codes by the name of the status.
EXIT_CODES = {"usage": 2, "invalid": 2, "overflow": 2, "does_not_fit": 3, "out_of_memory": 4,
              "stopped": 5, "data": 6, "numeric": 7}

# Small sizes of the models that promises are checked with.
MODELS = {
    "mlp": ["zoo:mlp?hidden=64&layers=6", "--batch-size", "512"],
    "lenet": ["zoo:lenet", "--batch-size", "128"],
    "resnet18": ["zoo:resnet18?classes=10&image=64", "--batch-size", "4"],
    "gpt2_tiny": ["zoo:gpt2_tiny", "--batch-size", "16", "--opt", "adamw", "--lr", "0.001"],
}
DEVICES = {"cpu": [], "sim": ["--device", "sim:2GiB@8GB/s"]}


def need_modules(*names):
    """Skips the test where a module is missing, after trying the system's Python, which has what
    Debian's packages bring whatever other Python comes first."""
    missing = [name for name in names if importlib.util.find_spec(name) is None]
    if not missing:
        return
    system = "/usr/bin/python3"
    if not os.environ.get("ULLAGE_TEST_PYTHON") and os.access(system, os.X_OK):
        os.environ["ULLAGE_TEST_PYTHON"] = system
        os.execv(system, [system, *sys.argv])
    print(f"skipped: {', '.join(missing)} not installed")
    sys.exit(SKIPPED)


class Result:
    """What a run of the command left: exit code, texts, and the object printed with --json."""

    def __init__(self, done):
        self.command = done.args
        self.code, self.stdout, self.stderr = done.returncode, done.stdout, done.stderr

    @property
    def object(self):
        lines = self.stdout.splitlines()
        if not lines:
            raise AssertionError(f"{self.describe()} printed nothing: {self.stderr[-2000:]}")
        return json.loads(lines[-1])

    def describe(self):
        return " ".join(str(word) for word in self.command)


# Where the command runs unless told otherwise: runs/ folders of its own go with the process.
SCRATCH = tempfile.TemporaryDirectory(prefix="ullage-test-")


def run(*arguments, env=None, cwd=None, timeout=600, prefix=()):
    """Runs the command; `env` is added to the environment, `prefix` goes before the command."""
    done = subprocess.run(
        [*prefix, BINARY, *map(str, arguments)], capture_output=True, text=True, check=False,
        timeout=timeout, cwd=cwd or SCRATCH.name, env={**os.environ, **(env or {})}, errors="replace",
    )
    return Result(done)


def run_json(*arguments, **options):
    """Runs with --json and expects success; returns the object."""
    result = run(*arguments, "--json", **options)
    if result.code != 0:
        raise AssertionError(
            f"{result.describe()} ended with {result.code}: {result.stderr[-2000:]}")
    return result.object


def start_run(folder, *arguments, **options):
    """A run without end that has begun: `train` in a process of its own, given to Popen with the options."""
    process = subprocess.Popen([BINARY, "train", *map(str, arguments), "--steps", "100000000", "--run", folder],
                               **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options})
    metrics = pathlib.Path(folder, "metrics.jsonl")
    for _ in range(600):
        if metrics.exists() and metrics.stat().st_size > 0:
            return process
        if process.poll() is not None:
            break
        time.sleep(0.1)
    process.kill()
    raise AssertionError(f"the run does not start: {process.communicate()}")


def plan(*arguments, **options):
    return run_json("plan", *arguments, **options)


def train(*arguments, **options):
    return run_json("train", *arguments, **options)


def four_budgets(planned):
    """Smallest, two between, keep-all: budgets of the device's tier, in bytes."""
    smallest = planned["smallest_budget_bytes"]["device"]
    span = planned["keep_all_peak_bytes"]["device"] - smallest
    return [smallest, smallest + span // 3, smallest + 2 * span // 3, smallest + span]


def side_by_side(function, items, workers=2):
    """[function(item) for item in items], a few at once; the command is a process of its own."""
    with concurrent.futures.ThreadPoolExecutor(workers) as pool:
        return list(pool.map(function, items))


def is_sanitized():
    """Whether the command was built with a sanitizer, which changes memory, speed and allocation."""
    content = pathlib.Path(BINARY).read_bytes()
    return b"__asan_init" in content or b"__tsan_init" in content


def skip(reason):
    print(f"skipped: {reason}")
    sys.exit(SKIPPED)


def need_command():
    if not os.access(BINARY, os.X_OK):
        skip(f"{BINARY} is not there")


def folder():
    return tempfile.TemporaryDirectory(prefix="ullage-test-")


# ---- data files ----


def idx_bytes(extents, elements):
    head = struct.pack(">BBBB", 0, 0, 8, len(extents))
    return head + b"".join(struct.pack(">I", n) for n in extents) + bytes(elements)


def make_images(count, size, classes, seed):
    """Images whose class shows in their brightness and in one bright row; labels go round."""
    draw = random.Random(seed)
    labels = [i % classes for i in range(count)]
    pixels = bytearray()
    for label in labels:
        image = bytearray(draw.randrange(64) for _ in range(size * size))
        row = label * size // classes
        image[row * size : (row + 1) * size] = bytes([255] * size)
        pixels += image
    return bytes(pixels), bytes(labels)


def write_idx(path, count=96, size=28, classes=10, seed=1, test_count=32):
    """The four files of an IDX folder."""
    path = pathlib.Path(path)
    path.mkdir(parents=True, exist_ok=True)
    for part, number, offset in (("train", count, 0), ("t10k", test_count, 1)):
        pixels, labels = make_images(number, size, classes, seed + offset)
        (path / f"{part}-images-idx3-ubyte").write_bytes(idx_bytes([number, size, size], pixels))
        (path / f"{part}-labels-idx1-ubyte").write_bytes(idx_bytes([number], labels))
    return f"idx:{path}"


def npy_bytes(descriptor, shape, content):
    text = f"{{'descr': '{descriptor}', 'fortran_order': False, 'shape': {tuple(shape)!r}, }}"
    pad = -(10 + len(text) + 1) % 64
    head = (text + " " * pad + "\n").encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head + content


def write_npz(path, arrays):
    """`arrays` = {name: (descriptor, shape, bytes)}."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, (descriptor, shape, content) in arrays.items():
            archive.writestr(f"{name}.npy", npy_bytes(descriptor, shape, content))
    return f"npz:{path}"


# ---- safetensors ----


def read_safetensors(path):
    """{name: (dtype, shape, bytes)} and the metadata."""
    content = pathlib.Path(path).read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8 : 8 + length])
    body = content[8 + length :]
    metadata = header.pop("__metadata__", {})
    tensors = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        tensors[name] = (entry["dtype"], entry["shape"], body[begin:end])
    covered = sum(len(content) for _, _, content in tensors.values())
    if covered != len(body):
        raise AssertionError(f"{path}: tensors cover {covered} of {len(body)} bytes")
    return tensors, metadata


def hash_tensors(tensors):
    """SHA-256 over name, dtype, shape and bytes of every tensor in name order."""
    digest = hashlib.sha256()
    for name in sorted(tensors, key=lambda text: text.encode()):
        dtype, shape, content = tensors[name]
        for text in (name, dtype, ",".join(map(str, shape))):
            digest.update(text.encode() + b"\0")
        digest.update(content)
    return digest.hexdigest()
