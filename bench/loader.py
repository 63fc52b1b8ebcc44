#!/usr/bin/env python3
"""The loader under conditions that take long, or a machine of one's own, to make. Each check prints its
figures and what is wanted.

    ./dev bench loader [CHECK ...] [--photos FOLDER]

    stream    ids and pixels for numbers of threads and slots, small budgets, an archive, chains of resumes and
              ranks: with one file of 20 damaged, and augmentations of every kind
    resume    first batch after a start at 90 % of the epoch beside a cold first one, fresh processes in turn
    state     the same for a state that a fresh loader is given (bench_first_batch): folder, tar, tables, packed text, JSON
              lines, index and page cache warm; processor time beside it. Of compressed tars, what it costs
    memory    resident size above --version for pictures of 1 KB to 50 MB beside the bound, and over 20 epochs
    corrupt   the same for 10,000 files that are damaged, cut or no pictures
    bad       processor time of an epoch with 1 % bad files beside one without, a folder and a tar: damaged, cut, no
              pictures, and all of them
    cgroup    2.6 GB of photos on a cold cache inside 256 MiB, and without (root, memory cgroups)
    kill      SIGKILL at random moments 30 times, the index on its way to disk or not; then a clean run
    slow      one sample of 200 sleeps 50 times as long as it costs (bench_slow_samples)

FOLDER holds JPEG photos; without it, the folder `photos` of ULLAGE_TEST_DATA. Pictures of other formats need
Pillow; without it `memory` has JPEG alone. Files are written below TMPDIR and removed.
"""

import argparse
import io
import json
import os
import pathlib
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import data

sys.path.insert(0, str(data.ROOT / "tests" / "support"))
import cgroup
import pictures

try:
    from PIL import Image
except ImportError:
    Image = None

ULLAGE = str(data.BUILD / "ullage")
RESIDENT = data.ROOT / "tests" / "support" / "resident.py"
MIB = 1 << 20
MARGIN, FLAT = 12 * MIB, 2 * MIB
BATCH = 24
BAD_VERDICTS = ("damaged", "truncated", "unsupported", "not_an_image", "empty", "too_big", "unreadable")


class Check:
    """Where a check writes, the photos it works on, and whether all of it held."""

    def __init__(self, photos, folder):
        self.photos, self.folder, self.held = photos, folder, True

    def report(self, text, holds=None):
        self.held &= holds is not False
        print(f"{'' if holds is None else 'ok      ' if holds else 'NOT MET '}{text}", flush=True)

    def bench(self, source, *arguments, prefix=(), env=None):
        done = subprocess.run([*prefix, ULLAGE, "data", "bench", str(source), *map(str, arguments), "--json"],
                              capture_output=True, text=True, check=False, env=env)
        if done.returncode != 0:
            raise data.Failure(done.stderr.strip()[-300:] or f"exit {done.returncode}")
        return json.loads(done.stdout.splitlines()[-1])

    def samples(self, source, *arguments, env=None):
        """Index, what it stands in for, and checksum of every sample of the stream."""
        told = self.folder / "told.jsonl"
        self.bench(source, "--size", 96, "--seed", 7, "--max-bad", 10**6, "--samples", told, *arguments, env=env)
        lines = [json.loads(line) for line in told.read_text(encoding="utf-8").splitlines()]
        return [(line["index"], line.get("instead_of"), line["crc32"]) for line in lines]

    def resident(self, *arguments):
        """Most that was resident, and the object that was printed."""
        done = subprocess.run([sys.executable, "-I", "-S", RESIDENT, ULLAGE, *map(str, arguments)],
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
        lines = done.stdout.splitlines()
        return int(lines[-1]), json.loads(lines[-2]) if len(lines) > 1 and lines[-2][:1] == b"{" else {}


# ---- stream ----


def spoil(photo, kind, draw):
    """Bytes of a file that is bad in one of several ways."""
    middle = len(photo) // 2
    return (b"", photo[:middle], draw.randbytes(5000), b"no picture", bytes(4000), photo[:200],
            photo[:middle] + draw.randbytes(200) + photo[middle + 200:], pictures.make_png(90, 90, 1)[:600])[kind % 8]


def write_spoiled(check):
    draw, root = random.Random(5), check.folder / "spoiled"
    for i, path in enumerate(check.photos):
        target = root / f"class{i % 7}" / f"{i:05}.jpg"
        target.parent.mkdir(parents=True, exist_ok=True)
        photo = path.read_bytes()
        target.write_bytes(spoil(photo, i // 20, draw) if i % 20 == 9 else photo)
    archive = check.folder / "spoiled.tar"
    subprocess.run(["tar", "--sort=name", "-cf", archive, "-C", root, "."], check=True)
    return root, f"tar:{archive}"


def by_ranks(check, root, world, size, count, arguments):
    """The stream of all ranks, one behind the other in every batch."""
    parts = [check.samples(root, "--batch-size", size, "--rank", rank, "--world-size", world, "--workers", 1 + rank,
                           *arguments) for rank in range(world)]
    whole = count // (size * world) * size
    joined = [sample for at in range(0, whole, size) for part in parts for sample in part[at:at + size]]
    return joined + [sample for part in parts for sample in part[whole:]]


def by_resumes(check, sources, batches, arguments):
    draw, got, at = random.Random(1), [], 0
    while at < batches:
        step = draw.randrange(1, 9)
        got += check.samples(draw.choice(sources), "--start-batch", at, "--batches", step, "--workers",
                             draw.randrange(1, 17), "--prefetch", draw.randrange(1, 20), *arguments)
        at += step
    return got


def check_stream(check):
    root, archive = write_spoiled(check)
    kinds = {"training": (), "evaluation, shuffled": ("--mode", "eval", "--shuffle", "true"),
             "augmented": ("--augment", "rrc,flip,randaugment,erase,color-jitter:0.4:0.4:0.4:0.1"),
             "mixup": ("--augment", "rrc,flip,mixup")}
    for name, arguments in kinds.items():
        twice = (*arguments, "--epochs", 2, "--batch-size", BATCH)
        wanted = check.samples(root, *twice, "--workers", 1, "--prefetch", 2)
        count = len(wanted) // 2
        for workers, slots in ((1, 1), (2, 1), (3, 64), (5, 2), (8, 7), (16, 64), (16, 1), (4, 33)):
            same = check.samples(root, *twice, "--workers", workers, "--prefetch", slots) == wanted
            check.report(f"{name}: {workers} threads, {slots} slots", same)
        check.report(f"{name}: 24 MiB", check.samples(root, *twice, "--loader-memory", "24MiB") == wanted)
        check.report(f"{name}: archive", check.samples(archive, *twice) == wanted)
        resumed = by_resumes(check, (root, archive), 2 * -(-count // BATCH), twice)
        check.report(f"{name}: resumes", resumed == wanted)
        if name == "mixup":
            continue  # mixes inside a rank's batch
        for world in range(1, 9):
            size = BATCH // world
            one = check.samples(root, "--batch-size", size * world, *arguments)
            got = by_ranks(check, root, world, size, count, arguments)
            check.report(f"{name}: {world} ranks", got == one)
    bad = sum(sample[1] is not None for sample in wanted) // 2
    check.report(f"{count} files, {bad} of them replaced")


# ---- resume ----


def check_resume(check):
    root = check.folder / "photos"
    data.make_files(check.photos, 2000, root)
    batch, seeds = 16, range(41)
    late, ratios, waits = 2000 * 9 // 10 // batch, [], {0: [], 1: []}
    for seed in seeds:
        found = {}
        for start in (0, late) if seed % 2 else (late, 0):
            said = check.bench(root, "--batch-size", batch, "--start-batch", start, "--batches", 1, "--seed", seed)
            found[start] = said["wait_seconds"]
            waits[start > 0].append(said["wait_seconds"])
        ratios.append(found[late] / found[0])
    cold, resumed = statistics.median(waits[0]), statistics.median(waits[1])
    check.report(f"first batch of {batch}: cold {cold * 1000:.1f} ms, at 90 % {resumed * 1000:.1f} ms, ratio of medians "
                 f"{resumed / cold:.3f}, median of {len(ratios)} ratios {statistics.median(ratios):.3f}",
                 min(resumed / cold, statistics.median(ratios)) <= 1.1)


# ---- state ----


def write_texts(folder):
    """A plain text and documents of many lengths, as lines of JSON."""
    draw, words = random.Random(4), ["model", "memory", "plan", "of", "the", "batch", "a", "tensor", "is", "kept"]
    documents = [" ".join(draw.choices(words, k=draw.randrange(5, 400))) for _ in range(20000)]
    (folder / "book.txt").write_text("\n".join(documents), encoding="utf-8")
    (folder / "lines.jsonl").write_text("".join(json.dumps({"text": d}) + "\n" for d in documents), encoding="utf-8")


def write_tables(folder, root):
    draw = random.Random(6)
    rows = (f"{draw.random():.5f},{draw.random() * 9:.3f},{draw.choice(['red', 'green', 'blue'])},{i % 2}\n"
            for i in range(200000))
    (folder / "rows.csv").write_text("weight,height,colour,target\n" + "".join(rows), encoding="ascii")
    paths = (f"{path.relative_to(folder)},{path.parent.name}\n" for path in sorted(root.rglob("*.jpg")))
    (folder / "paths.csv").write_text("image,label\n" + "".join(paths), encoding="utf-8")


def compress(root, folder):
    """The pictures in one shard, packed in two ways."""
    subprocess.run([ULLAGE, "data", "pack", root, "--out", folder / "one"], check=True, capture_output=True)
    shard = next((folder / "one").glob("*.tar"))
    for tool, end in (("zstd", "tar.zst"), ("gzip", "tgz")):
        with (folder / f"one.{end}").open("wb") as file:
            subprocess.run([tool, "-c", shard], stdout=file, check=True)


def sources_of_states(check):
    """(what it is, source, settings, rounds)."""
    root = check.folder / "photos"
    data.make_files(check.photos, 2000, root)
    subprocess.run([ULLAGE, "data", "pack", root, "--out", check.folder / "tars", "--shard-size", "64MiB"], check=True,
                   capture_output=True)
    write_texts(check.folder)
    write_tables(check.folder, root)
    compress(root, check.folder)
    pictures_of, rows = ("batch-size=16", "size=224", "workers=2"), ("batch-size=256", "workers=1")
    yield "folder", root, pictures_of, 101
    yield "tar", f"tar:{check.folder}/tars/*.tar", pictures_of, 101
    yield "csv of paths", f"csv:{check.folder}/paths.csv", pictures_of, 101
    yield "csv of rows", f"csv:{check.folder}/rows.csv", rows, 101
    yield "packed text", f"text:{check.folder}/book.txt?seq=256&pack=1", rows, 101
    yield "JSON lines", f"text:{check.folder}/lines.jsonl?seq=256", rows, 101
    yield "tar.zst, one shard", f"tar:{check.folder}/one.tar.zst", pictures_of, 11
    yield "tgz, one shard", f"tar:{check.folder}/one.tgz", pictures_of, 11


def check_state(check):
    for name, source, settings, rounds in sources_of_states(check):
        done = subprocess.run([data.BUILD / "bench_first_batch", str(rounds), *settings, str(source)], capture_output=True,
                              text=True, check=False)
        if done.returncode != 0:
            raise data.Failure(f"{name}: {done.stderr.strip()[-300:]}")
        said = json.loads(done.stdout)
        cold, resumed, cold_cpu, resumed_cpu = (statistics.median(said[who][what]) / 1e6 for what in ("wall_ns", "cpu_ns")
                                                for who in ("cold", "resumed"))
        ratio = statistics.median(b / a for a, b in zip(said["cold"]["wall_ns"], said["resumed"]["wall_ns"]))
        forward = "one shard" in name  # is decompressed up to its place
        check.report(f"{name}: cold {cold:.2f} ms, at 90 % {resumed:.2f} ms, ratio of medians {resumed / cold:.3f}, median of "
                     f"{rounds} ratios {ratio:.3f}; processor time {cold_cpu:.2f} and {resumed_cpu:.2f} ms, "
                     f"{resumed_cpu / cold_cpu:.3f}", None if forward else min(resumed / cold, ratio) <= 1.1)


# ---- memory ----


def encoded(image, kind, **options):
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def mixed_files(photos):
    """(name's end, bytes): 1 KB to 50 MB."""
    noise = pictures.make_png(4080, 4080, 1, level=0)
    yield "png", noise
    for i, path in enumerate(photos[:120]):
        yield "jpg", path.read_bytes()
        yield "png", pictures.make_png(20 + i, 30 + i % 50, i)
        if Image is None:
            continue
        image = Image.open(path).convert("RGB")
        yield "jpg", encoded(image.resize((40 + i, 30 + i)), "JPEG", quality=60)
        yield "jpg", encoded(image, "JPEG", progressive=True)
        yield "webp", encoded(image, "WEBP", lossless=i % 9 == 0, quality=80)
    if Image is not None:
        large = Image.open(photos[0]).convert("RGB").resize((9000, 6000))
        yield "jpg", encoded(large, "JPEG", quality=95)
        yield "jpg", encoded(large.resize((3000, 2500)), "JPEG", progressive=True)


def check_memory(check):
    root = check.folder / "mixed"
    for i, (end, content) in enumerate(mixed_files(check.photos)):
        path = root / "ab"[i % 2] / f"{i:04}.{end}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    base, _ = check.resident("--version")
    for mode in ("train", "eval"):
        for memory in ("16MiB", "24MiB", "64MiB", "512MiB"):
            for workers in (1, 2, 6):
                peak, said = check.resident("data", "bench", root, "--mode", mode, "--batch-size", 8, "--epochs", 2,
                                            "--workers", workers, "--loader-memory", memory, "--json")
                bound, counted = said["bound_bytes"], said["measured_peak_bytes"]
                check.report(f"{mode}, {memory}, {workers} threads: bound {bound / MIB:.1f}, counted {counted / MIB:.1f}, "
                             f"resident {(peak - base) / MIB:.1f} MiB, {said['verdicts']['too_big']} too big",
                             counted <= bound and peak - base <= bound + MARGIN)
    for memory in ("16MiB", "64MiB"):
        sizes = [check.resident("data", "bench", root, "--batch-size", 8, "--epochs", epochs, "--loader-memory", memory,
                                "--json")[0] - base for epochs in (1, 2, 20)]
        check.report(f"{memory}: resident after 1, 2 and 20 epochs {', '.join(f'{s / MIB:.2f}' for s in sizes)} MiB",
                     sizes[2] - sizes[0] <= FLAT)


def check_corrupt(check):
    draw, root = random.Random(2), check.folder / "corrupt" / "all"
    root.mkdir(parents=True)
    photos = [path.read_bytes() for path in check.photos[:60]]
    for i in range(10000):
        content = bytearray(spoil(draw.choice(photos), i, draw) if i % 3 else draw.choice(photos))
        for _ in range(0 if not content else 1 + i % 6):
            content[draw.randrange(len(content))] = draw.randrange(256)
        (root / f"{i:05}.jpg").write_bytes(content)
    base, _ = check.resident("--version")
    common = ("data", "bench", root.parent, "--size", 64, "--batch-size", 8, "--loader-memory", "32MiB", "--on-bad", "skip",
              "--max-bad", 10**9, "--json")
    few, _ = check.resident(*common, "--batches", 60)
    peak, said = check.resident(*common)
    bad = said["skipped"]
    check.report(f"10,000 files, {bad} bad: resident {(few - base) / MIB:.2f} after 480, {(peak - base) / MIB:.2f} MiB after "
                 f"all, bound {said['bound_bytes'] / MIB:.1f}", peak - few <= FLAT and bad > 5000)


# ---- bad ----

def damage(photo, draw):
    """A quarter of its bytes are others."""
    middle = len(photo) // 2
    return photo[:middle] + draw.randbytes(middle // 2) + photo[middle + middle // 2:]


SPOILERS = {"damaged": damage, "cut": lambda photo, draw: photo[:draw.randrange(700, len(photo))],
            "no pictures": lambda photo, draw: draw.randbytes(len(photo))}


def check_bad(check):
    """Of 2,000 files, 20; replaced, whole pictures, so that what is wrong is met at the same place every time."""
    mixes = {**{name: [spoiler] for name, spoiler in SPOILERS.items()}, "all kinds": list(SPOILERS.values())}
    sources, draw = {}, random.Random(8)
    for name, kinds in {"": [], **mixes}.items():
        root = check.folder / f"bad {name}"
        data.make_files(check.photos, 2000, root)
        files = sorted(root.rglob("*.jpg"))
        for i, path in enumerate(files[50::100] if name else ()):
            path.write_bytes(kinds[i % len(kinds)](path.read_bytes(), draw))
        archive = check.folder / f"bad {name}.tar"
        subprocess.run(["tar", "--sort=name", "-cf", archive, "-C", root, "."], check=True)
        sources[name] = {"folder": root, "tar": f"tar:{archive}"}
    for kind in ("folder", "tar"):
        costs = {name: [] for name in sources}
        for turn in range(9):
            order = list(sources) if turn % 2 else list(sources)[::-1]
            for name in order:
                said = check.bench(sources[name][kind], "--size", 224, "--batch-size", 32, "--augment", "resize", "--workers", 2)
                costs[name].append(said["cpu_seconds_per_1000"])
                bad = sum(said["verdicts"][verdict] for verdict in BAD_VERDICTS)
                if bad != (20 if name else 0):
                    raise data.Failure(f"{kind}, {name}: {bad} bad files")
        for name in mixes:
            ratio = statistics.median(a / b for a, b in zip(costs[name], costs[""]))
            check.report(f"{kind}, 1 % {name}: {statistics.median(costs[name]):.3f} s of processor time a thousand, without "
                         f"{statistics.median(costs['']):.3f}, median of {len(costs[name])} ratios {ratio:.4f}", ratio <= 1.03)


# ---- cgroup ----


def cool(root):
    """Takes the files out of the page cache, and nobody else's."""
    subprocess.run(["sync"], check=True)
    for path in root.rglob("*.jpg"):
        file = os.open(path, os.O_RDONLY)
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(file)


def spent():
    """Seconds of the kernel's and bytes from disk, of all commands so far."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_stime, usage.ru_inblock * 512


class Peaks(threading.Thread):
    """The most of every line of a cgroup's memory.stat, looked at 20 times a second."""

    def __init__(self, group):
        super().__init__(daemon=True)
        self.group, self.most, self.over = group, {}, threading.Event()

    def run(self):
        while not self.over.wait(0.05):
            for line in (self.group.path / "memory.stat").read_text(encoding="ascii").splitlines():
                name, value = line.split()
                self.most[name] = max(self.most.get(name, 0), int(value))

    def end(self):
        self.over.set()
        self.join()
        return {name: self.most[name] / MIB for name in ("rss", "anon", "cache", "file") if name in self.most}


def kills(group):
    for file in ("memory.events", "memory.oom_control"):
        path = group.path / file
        if path.exists():
            lines = dict(line.split() for line in path.read_text(encoding="ascii").splitlines())
            return int(lines.get("oom_kill", 0))
    return 0


def check_cgroup(check):
    root = check.folder / "big"
    data.make_files(check.photos, 2600 * MIB // (sum(path.stat().st_size for path in check.photos) // len(check.photos)),
                    root)
    common = (root, "--batch-size", 32, "--loader-memory", "128MiB")
    rates = {True: [], False: []}
    for turn in range(4):
        cool(root)
        limited, before = turn % 2 == 0, spent()
        if not limited:
            rates[False].append(check.bench(*common)["epoch_samples_per_second"][0])
            kernel, read = (b - a for a, b in zip(before, spent()))
            check.report(f"no limit: {kernel:.2f} s in the kernel, {read / MIB:.0f} MiB read in an epoch")
            continue
        with cgroup.Cgroup(256 * MIB) as group:
            peaks = Peaks(group)
            peaks.start()
            said = check.bench(*common, "--epochs", 2, prefix=group.prefix())
            most = ", ".join(f"{name} {value:.0f}" for name, value in peaks.end().items())
            kernel, read = (b - a for a, b in zip(before, spent()))
            rates[True].append(said["epoch_samples_per_second"][0])
            again = group.stat("workingset_refault_file")
            check.report(f"256 MiB: {said['samples']} samples, at most {most} MiB, killed {kills(group)} times, epochs "
                         f"{', '.join(f'{rate:.0f}' for rate in said['epoch_samples_per_second'])} samples/s; "
                         f"{kernel:.2f} s in the kernel, {read / MIB:.0f} MiB read, {again} pages that were just given up",
                         kills(group) == 0)
    ratios = [a / b for a, b in zip(rates[True], rates[False])]
    check.report(f"cold cache, inside over outside: {', '.join(f'{ratio:.2f}' for ratio in ratios)}")


# ---- kill ----


def check_kill(check):
    root, draw = check.folder / "killed", random.Random(3)
    data.make_files(check.photos, 2000, root)
    for i in range(30000):
        path = root / f"more{i % 10}" / f"{i:05}.jpg"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"")
    env = {**os.environ, "XDG_CACHE_HOME": str(check.folder / "cache")}
    first = ("--batches", 30, "--on-bad", "skip")
    wanted, killed = check.samples(root, *first, env={**env, "XDG_CACHE_HOME": "/nonexistent"}), 0
    for _ in range(30):
        for path in (check.folder / "cache").rglob("*"):
            if path.is_file() and draw.random() < 0.7:
                path.unlink()
        command = [ULLAGE, "data", "bench", root, "--epochs", "9", "--on-bad", "skip", "--max-bad", "1000000"]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=env) as run:
            time.sleep(draw.random() * 0.2)
            run.kill()
        killed += run.returncode == -9
    check.report(f"killed {killed} times of 30: the next run is the same", check.samples(root, *first, env=env) == wanted)


# ---- slow ----


def check_slow(check):
    done = subprocess.run([data.BUILD / "bench_slow_samples", check.photos[0].parent], check=False)
    check.report("order and pixels with sleepers", done.returncode == 0)


CHECKS = {name[6:]: function for name, function in list(globals().items()) if name.startswith("check_")}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checks", nargs="*", help=f"{', '.join(CHECKS)}; by default all")
    parser.add_argument("--photos", help="folder of JPEG photos")
    options = parser.parse_args()
    held = True
    try:
        photos = data.find_photos(options.photos)
        for name in options.checks or CHECKS:
            if name not in CHECKS:
                raise data.Failure(f"no check {name}: {', '.join(CHECKS)}")
            with tempfile.TemporaryDirectory(prefix="ullage-bench-loader-") as folder:
                print(f"---- {name}: load {os.getloadavg()[0]:.1f}", flush=True)
                check = Check(photos, pathlib.Path(folder))
                CHECKS[name](check)
                held &= check.held
    except (data.Failure, unittest.SkipTest) as fault:
        data.say(f"bench loader: {fault}")
        return 1
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
