#!/usr/bin/env python3
"""A Parquet file gives the samples of the same table as CSV: for every type, codec, division into row groups and
files, for any threads, places and ranks. What is damaged ends at once, and leaves nothing."""

import datetime
import decimal
import json
import os
import pathlib
import random
import sys
import tarfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
import command
import parquet_files
import pictures

command.need_command()
pa = parquet_files.need_parquet()
pq = pa.parquet

COUNT = 700
WORDS = ["red", "green", "a,b", 'q"uote', "two\nlines", "", "ü", "end\r", None]


def make_columns(count=COUNT, seed=1):
    """{name: (type, values as the sheet has them)}: every type that is read."""
    draw = random.Random(seed)

    def some(make, missing=0.1):
        return [None if draw.random() < missing else make() for _ in range(count)]

    def whole(bits, signed=True):
        low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
        return some(lambda: draw.choice([low, high, draw.randint(low, high), draw.randint(0, 100)]))

    instant = datetime.datetime(2024, 2, 29, 12, 30, 15)
    columns = {f"int{bits}": (getattr(pa, f"int{bits}")(), whole(bits)) for bits in (8, 16, 32, 64)}
    columns |= {f"uint{bits}": (getattr(pa, f"uint{bits}")(), whole(bits, False)) for bits in (8, 16, 32, 64)}
    columns |= {
        "half": (pa.float16(), some(lambda: draw.choice([0.5, -2.0, 65504.0, 2.0**-24, 1.0 + 2.0**-10]))),
        "single": (pa.float32(), some(lambda: draw.choice([1.0, -0.125, 3.0e38, 2.0**-149, draw.randint(0, 9) / 8]))),
        "double": (pa.float64(), some(lambda: draw.choice([draw.gauss(0, 1), 1e300, 5e-324, 7.0, float("nan")]))),
        "truth": (pa.bool_(), some(lambda: draw.random() < 0.5)),
        "nothing": (pa.null(), [None] * count),
        "word": (pa.string(), [draw.choice(WORDS) for _ in range(count)]),
        "large": (pa.large_string(), [draw.choice(WORDS) for _ in range(count)]),
        "code": (pa.dictionary(pa.int8(), pa.string()), [draw.choice(WORDS) for _ in range(count)]),
        "bytes": (pa.binary(), some(lambda: draw.choice([b"\xff\xfe", b"ab", b""]))),
        "fixed": (pa.binary(3), some(lambda: draw.choice([b"abc", b"xyz"]))),
        "money": (pa.decimal128(20, 3), some(lambda: decimal.Decimal(draw.randint(-10**7, 10**7)).scaleb(-3))),
        "day": (pa.date32(), some(lambda: datetime.date(1969, 12, 30) + datetime.timedelta(draw.randint(0, 9999)))),
        "clock": (pa.time64("us"), some(lambda: datetime.time(draw.randrange(24), 7, 9, draw.randrange(10**6)))),
        "span": (pa.duration("ms"), some(lambda: datetime.timedelta(milliseconds=draw.randint(-9999, 9999)))),
        "label": (pa.int32(), [draw.randrange(5) for _ in range(count)]),
    }
    for unit in ("s", "ms", "us", "ns"):
        zone = "Europe/Berlin" if unit == "us" else None
        columns[f"at_{unit}"] = (pa.timestamp(unit, zone), some(
            lambda: instant + datetime.timedelta(seconds=draw.randint(-3 * 10**9, 10**6))))
    return columns


def make_table(columns):
    utc = datetime.timezone.utc
    arrays = {}
    for name, (kind, values) in columns.items():
        zoned = pa.types.is_timestamp(kind) and kind.tz is not None
        aware = [v and v.replace(tzinfo=utc) for v in values] if zoned else values
        plain = aware if not pa.types.is_dictionary(kind) else pa.array(aware, kind.value_type)
        arrays[name] = pa.array(plain, kind) if plain is aware else plain.dictionary_encode().cast(kind)
    return pa.table(arrays)


def sheet_of(columns):
    return {name: values for name, (_, values) in columns.items()}


class Parquet(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = command.folder()
        cls.root = pathlib.Path(cls.scratch.name)
        cls.columns = make_columns()
        cls.table = make_table(cls.columns)
        cls.whole = cls.root / "whole.parquet"
        pq.write_table(cls.table, cls.whole, row_group_size=100)
        parquet_files.write_csv(cls.root / "whole.csv", sheet_of(cls.columns))

    @classmethod
    def tearDownClass(cls):
        cls.scratch.cleanup()

    @classmethod
    def environment(cls, **more):
        return {"XDG_CACHE_HOME": str(cls.root / "cache"), **more}

    @classmethod
    def lines(cls, source, *arguments, env=None, bad="fail"):
        target = cls.root / "samples.jsonl"
        command.run_json("data", "bench", source, "--batch-size", 16, "--epochs", 1, "--on-bad", bad,
                         "--max-bad", COUNT, "--samples", target, *arguments, env=env or cls.environment())
        return [json.loads(line) for line in target.read_text().splitlines()]

    @classmethod
    def stream(cls, source, *arguments, **options):
        found = cls.lines(source, *arguments, **options)
        return [(line["index"], line["verdict"], line["crc32"]) for line in found]

    def fails(self, source, code, *words, env=None):
        result = command.run("data", "bench", source, "--epochs", 1, env=env or self.environment())
        self.assertEqual(result.code, code, result.stderr)
        for word in words:
            self.assertIn(word, result.stderr)
        return result

    def test_every_type(self):
        expected = self.stream(f"csv:{self.root}/whole.csv")
        self.assertEqual(len(expected), COUNT)
        self.assertGreater(len({crc for _, _, crc in expected}), COUNT * 9 // 10)
        self.assertEqual(self.stream(f"parquet:{self.whole}"), expected)
        self.assertEqual(self.stream(f"csv:{self.whole}"), expected)

    def test_each_column_counts(self):
        for name in self.columns:
            with self.subTest(column=name):
                pq.write_table(self.table.select([name]), self.root / "one.parquet")
                parquet_files.write_csv(self.root / "one.csv", {name: self.columns[name][1]})
                options = f"?target=none{'&missing=mask' if name != 'nothing' else ''}"
                self.assertEqual(self.stream(f"parquet:{self.root}/one.parquet{options}"),
                                 self.stream(f"csv:{self.root}/one.csv{options}&header=yes"))

    def test_codecs_and_groups(self):
        expected = self.stream(f"csv:{self.root}/whole.csv")
        path = self.root / "coded.parquet"
        for codec, rows, dictionary, version in (("none", COUNT, False, "1.0"), ("snappy", 1, True, "2.0"),
                                                 ("gzip", 64, True, "1.0"), ("zstd", 333, False, "2.0"),
                                                 ("brotli", 50, True, "2.0"), ("lz4", 99, False, "1.0")):
            with self.subTest(codec=codec):
                pq.write_table(self.table, path, row_group_size=rows, compression=codec, use_dictionary=dictionary,
                               data_page_version=version, write_page_checksum=dictionary, data_page_size=2000)
                self.assertEqual(self.stream(f"parquet:{path}"), expected)

    def test_threads_places_and_ranks(self):
        for arguments in (["--workers", 1], ["--workers", 4], ["--start-batch", 20, "--batches", 7],
                          ["--rank", 1, "--world-size", 3], ["--seed", 9, "--mode", "train"]):
            with self.subTest(arguments=arguments):
                self.assertEqual(self.stream(f"parquet:{self.whole}", *arguments),
                                 self.stream(f"csv:{self.root}/whole.csv", *arguments))

    def test_targets_and_options(self):
        for options in ("?target=word", "?target=double&ignore=word,code", "?target=int8&log1p=yes&hash=10",
                        "?target=none&categories=uint8,day&missing=mask"):
            with self.subTest(options=options):
                self.assertEqual(self.stream(f"parquet:{self.whole}{options}", bad="skip"),
                                 self.stream(f"csv:{self.root}/whole.csv{options}", bad="skip"))

    def test_parts_are_one_table(self):
        folder = self.root / "parts"
        folder.mkdir()
        for part, (begin, end) in enumerate(((0, 100), (100, 101), (101, 101), (101, COUNT))):
            pq.write_table(self.table.slice(begin, end - begin), folder / f"part-{part}.parquet")
        expected = self.stream(f"csv:{self.root}/whole.csv")
        self.assertEqual(self.stream(f"parquet:{folder}/*.parquet"), expected)
        self.assertEqual(self.stream(f"parquet:{folder}/part-{{0..3}}.parquet"), expected)
        pq.write_table(self.table.rename_columns([*self.table.column_names[:-1], "other"]), folder / "part-4.parquet")
        self.fails(f"parquet:{folder}/*.parquet", 6, "part-4.parquet", "other columns")

    def test_lists_of_pictures(self):
        columns = {"path": [f"{i}.png" for i in range(6)], "label": ["x", "y", "x", "z", "y", "x"]}
        for i, name in enumerate(columns["path"]):
            (self.root / name).write_bytes(pictures.make_png(24, 24 + i, i))
        pq.write_table(pa.table(columns), self.root / "list.parquet")
        parquet_files.write_csv(self.root / "list.csv", columns)
        found = [self.lines(f"{scheme}:{self.root}/list.{scheme}", "--size", 24, "--mode", "eval")
                 for scheme in ("csv", "parquet")]
        self.assertEqual(found[0], found[1])
        self.assertEqual({line["path"] for line in found[0]}, {f"{self.root}/{name}" for name in columns["path"]})

    def write_pictures(self, folder):
        """Pictures in three classes as files, and in Parquet as data sets keep them; returns their bytes."""
        files = [pictures.make_png(20 + i % 7, 30 - i % 5, i) for i in range(60)]
        labels = [i * 3 // 60 for i in range(60)]
        for i, content in enumerate(files):
            place = folder / "tree" / "abc"[labels[i]] / f"{i:02d}.png"
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(content)
        kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
        image = pa.array([{"bytes": content, "path": f"{i}.png"} for i, content in enumerate(files)], kind)
        table = pa.table({"path": [f"x{i}.png" for i in range(60)], "image": image, "label": labels,
                          "caption": ["a, b"] * 60, "boxes": [[1]] * 60})
        for part, begin in enumerate((0, 25)):
            pq.write_table(table.slice(begin, 25 if part == 0 else 35), folder / f"train-{part}.parquet", row_group_size=10)
        return files, table

    def test_pictures_inside(self):
        folder = self.root / "inside"
        folder.mkdir()
        files, table = self.write_pictures(folder)
        source, arguments = f"parquet:{folder}/train-*.parquet", ("--size", 24, "--mode", "train", "--augment", "flip")
        self.assertEqual(self.stream(source, *arguments), self.stream(str(folder / "tree"), *arguments))
        names = pa.array("abc"[label.as_py()] for label in table["label"])
        renamed = table.set_column(2, "kind", names).rename_columns(["path", "img", "kind", "caption", "boxes"])
        pq.write_table(renamed, folder / "named.parquet")
        self.assertEqual(self.stream(f"parquet:{folder}/named.parquet?image=img&label=kind", *arguments),
                         self.stream(str(folder / "tree"), *arguments))
        lines = self.lines(f"parquet:{folder}/named.parquet?label=kind", *arguments)
        self.assertEqual({line["path"] for line in lines}, {f"{folder}/named.parquet:{i + 1}" for i in range(60)})
        packed = folder / "packed"
        result = command.run("data", "pack", source, "--out", packed, env=self.environment())
        self.assertEqual(result.code, 0, result.stderr)
        with tarfile.open(packed / "train-000000.tar") as shard:
            inside = [shard.extractfile(member).read() for member in shard if member.name.endswith(".png")]
        self.assertEqual(inside, files)

    def test_pictures_that_are_none(self):
        kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
        good = pictures.make_png(24, 24, 1)
        image = pa.array([{"bytes": b"no picture"}, None, {"bytes": good}, {"bytes": good[:60]}, {"path": "x.png"}], kind)
        path = self.root / "bad.parquet"
        pq.write_table(pa.table({"image": image, "label": [0, 1, 2, 3, 4]}), path)
        result = command.run_json("data", "bench", f"parquet:{path}", "--size", 24, "--epochs", 1, "--batch-size", 1,
                                  "--on-bad", "skip", env=self.environment())
        self.assertEqual(sorted(bad["path"] for bad in result["bad"]), [f"{path}:{row}" for row in (1, 2, 4, 5)])
        self.assertEqual(result["verdicts"]["ok"], 1)

    def test_rows_are_named(self):
        path = self.root / "rows.parquet"
        pq.write_table(pa.table({"text": ["a\nb", "c", "d\n\n", "e"], "label": [1, 2, None, 4]}), path)
        found = command.run_json("data", "bench", f"parquet:{path}", "--epochs", 1, "--on-bad", "skip",
                                 env=self.environment())
        self.assertEqual([bad["path"] for bad in found["bad"]], [f"{path}:3"])
        self.assertEqual({line["path"] for line in self.lines(f"parquet:{path}", bad="skip")},
                         {f"{path}:{row}" for row in (1, 2, 4)})

    def test_nested_columns_are_left_out(self):
        path = self.root / "nested.parquet"
        table = pa.table({"x": [1.5, 2.5], "boxes": [[1, 2], [3]], "label": [0, 1], "meta": [{"a": 1}, {"a": 2}]})
        pq.write_table(table, path)
        parquet_files.write_csv(self.root / "flat.csv", {"x": [1.5, 2.5], "label": [0, 1]})
        for _ in range(2):
            result = command.run("data", "bench", f"parquet:{path}", "--epochs", 1, env=self.environment())
            self.assertIn("2 columns", result.stderr)
            self.assertIn("'boxes'", result.stderr)
        self.assertEqual(self.stream(f"parquet:{path}"), self.stream(f"csv:{self.root}/flat.csv"))
        pq.write_table(table.select(["boxes"]), path)
        self.fails(f"parquet:{path}", 1, "boxes", "nested")

    def test_a_change_is_noticed(self):
        path = self.root / "changing.parquet"
        streams = []
        for value in (1, 2):
            pq.write_table(pa.table({"x": [value, 7], "label": [0, 1]}), path)
            streams.append(self.stream(f"parquet:{path}"))
        self.assertNotEqual(*streams)

    def test_kept_rows_need_no_library(self):
        env = self.environment(XDG_CACHE_HOME=str(self.root / "kept"))
        away = {**env, "ULLAGE_PARQUET_MODULE": str(self.root / "nowhere.so")}
        path = self.root / "kept.parquet"
        pq.write_table(self.table, path)
        time.sleep(0.1)  # a file that is newer than this could change without its times showing it
        self.fails(f"parquet:{path}", 1, "its module is missing", env=away)
        expected = self.stream(f"parquet:{path}", env=env)
        self.assertEqual(self.stream(f"parquet:{path}", env=away), expected)

    @unittest.skipIf(command.is_sanitized(), "sanitizers take memory of their own")
    def test_the_library_is_not_in_training(self):
        """Neither what the library takes nor what it leaves behind is beside a plan that knows nothing of it."""
        path = self.root / "train.parquet"
        draw = random.Random(7)
        columns = {f"x{i}": [draw.random() for _ in range(20000)] for i in range(8)}
        pq.write_table(pa.table(columns | {"label": [draw.randrange(3) for _ in range(20000)]}), path)
        record = command.run_json("train", "zoo:mlp?classes=3&in=8", "--data", f"parquet:{path}", "--steps", 3,
                                  "--run", self.root / "run", env=self.environment())
        self.assertLessEqual(record["vmhwm_bytes"], record["planned_peak_bytes"]["device"])

    def test_without_rows(self):
        path = self.root / "empty.parquet"
        pq.write_table(self.table.slice(0, 0), path)
        self.fails(f"parquet:{path}", 6, "holds no samples")

    def test_what_is_not_there(self):
        self.fails(f"parquet:{self.root}/none.parquet", 6, "none.parquet")
        self.fails(f"parquet:{self.whole}?target=none-such", 2, "none-such")
        self.fails(f"parquet:{self.whole}?sep=tab", 2, "sep")
        (self.root / "text.parquet").write_text("a,b\n1,2\n")
        self.fails(f"csv:{self.root}/text.parquet", 6, "text.parquet", "cannot be read as Parquet")
        (self.root / "odd.csv").write_bytes(self.whole.read_bytes())
        self.fails(f"csv:{self.root}/odd.csv", 1, "parquet:FILE")

    def test_damage(self):
        cache = self.root / "damaged-cache"
        env = self.environment(XDG_CACHE_HOME=str(cache))
        path, content = self.root / "damaged.parquet", self.whole.read_bytes()
        draw = random.Random(4)
        for end in [0, 1, 4, 8, 11, 12, *(draw.randrange(len(content)) for _ in range(12)), len(content) - 1]:
            path.write_bytes(content[:end])
            self.fails(f"parquet:{path}", 6, "damaged.parquet", env=env)
            self.assertEqual(os.listdir(cache / "ullage"), [])
        codes = set()
        for i in range(24):
            changed = bytearray(content)
            for _ in range(1 + i % 3):
                at = draw.randrange(len(content)) if i % 2 else len(content) - 1 - draw.randrange(8000)
                changed[at] ^= 1 << draw.randrange(8)
            path.write_bytes(changed)
            result = command.run("data", "bench", f"parquet:{path}", "--epochs", 1, "--on-bad", "skip", env=env)
            self.assertIn(result.code, (0, 1, 6), result.stderr)
            codes.add(result.code)
        self.assertIn(6, codes)

    def test_what_unfolds_without_end(self):
        path = self.root / "bomb.parquet"
        column = pa.DictionaryArray.from_arrays(pa.array(bytes(1 << 20), pa.int8()), pa.array(["x" * 100]))
        pq.write_table(pa.table({"word": column, "label": column}), path, compression="zstd")
        self.assertLess(path.stat().st_size, 100_000)
        sources = [f"parquet:{path}", f"text:{path}?seq=8&field=word"]
        for source in sources[: 1 if command.is_sanitized() else 2]:  # tokenising so much takes its time
            self.fails(source, 6, "bomb.parquet", "unfold")

    def test_checksums_of_pages(self):
        path = self.root / "checked.parquet"
        pq.write_table(self.table, path, write_page_checksum=True, compression="none", use_dictionary=False)
        content = bytearray(path.read_bytes())
        content[len(content) // 3] ^= 0x10
        path.write_bytes(content)
        self.fails(f"parquet:{path}", 6, "CRC")


if __name__ == "__main__":
    unittest.main()
