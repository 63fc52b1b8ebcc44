#!/usr/bin/env python3
"""Texts and conversations in Parquet give the sequences of the same lines of JSON."""

import json
import pathlib
import random
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
import command
import parquet_files

command.need_command()
pa = parquet_files.need_parquet()
pq = pa.parquet


def make_texts(count):
    draw = random.Random(3)
    letters = 'abc "\\\n\t\u0001éß漢🎈'
    return ["".join(draw.choices(letters, k=draw.randint(1, 80))) for _ in range(count)]


class Text(unittest.TestCase):
    def setUp(self):
        self.scratch = command.folder()
        self.addCleanup(self.scratch.cleanup)
        self.root = pathlib.Path(self.scratch.name)
        self.env = {"XDG_CACHE_HOME": str(self.root / "cache")}

    def write(self, name, rows, table=None, **options):
        lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        (self.root / f"{name}.jsonl").write_text(lines, encoding="utf-8")
        pq.write_table(table or pa.Table.from_pylist(rows), self.root / f"{name}.parquet", **options)

    def stream(self, source, *arguments, env=None):
        target = self.root / "samples.jsonl"
        command.run_json("data", "bench", f"text:{self.root}/{source}", "--batch-size", 4, "--epochs", 1,
                         "--samples", target, *arguments, env=env or self.env)
        lines = [json.loads(line) for line in target.read_text().splitlines()]
        return [(line["index"], line["verdict"], line["crc32"]) for line in lines]

    def compare(self, name, options="?seq=32"):
        expected = self.stream(f"{name}.jsonl{options}")
        self.assertGreater(len({crc for _, _, crc in expected}), 1)
        self.assertEqual(self.stream(f"{name}.parquet{options}"), expected)

    def fails(self, source, code, *words, env=None):
        result = command.run("data", "bench", f"text:{self.root}/{source}", "--epochs", 1, env=env or self.env)
        self.assertEqual(result.code, code, result.stderr)
        for word in words:
            self.assertIn(word, result.stderr)

    def test_texts(self):
        rows = [{"text": text, "id": i, "other": [[i]]} for i, text in enumerate(make_texts(200))]
        self.write("texts", rows, row_group_size=30)
        for options in ("?seq=32", "?seq=48&pack=1", "?seq=64&buckets=16,64"):
            with self.subTest(options=options):
                self.compare("texts", options)

    def test_parts_and_another_column(self):
        texts = make_texts(90)
        (self.root / "all.jsonl").write_text("".join(json.dumps({"content": text}) + "\n" for text in texts))
        for part in range(3):
            table = pa.table({"content": pa.array(texts[part * 30 : part * 30 + 30], pa.large_string())})
            pq.write_table(table, self.root / f"part-{part}.parquet")
        options = "?seq=32&field=content"
        self.assertEqual(self.stream(f"part-*.parquet{options}"), self.stream(f"all.jsonl{options}"))
        self.fails("part-*.parquet?seq=32", 6, "has no column 'text'", "field=")

    def test_completions_and_conversations(self):
        texts = make_texts(120)
        self.write("pairs", [{"prompt": a, "completion": b} for a, b in zip(texts[::2], texts[1::2])])
        self.compare("pairs")
        self.write("chats", [{"messages": [{"role": "user", "content": a}, {"role": "assistant", "content": b}]}
                             for a, b in zip(texts[::2], texts[1::2])], row_group_size=7)
        for chat in ("plain", "chatml"):
            self.compare("chats", f"?seq=64&chat={chat}")

    def test_rows_that_are_no_texts(self):
        rows = [{"text": "one"}, {"text": None}, {"text": "three"}]
        self.write("holes", rows)
        self.fails("holes.parquet?seq=8", 6, "holes.parquet", "row 2")
        self.compare("holes", "?seq=8&bad=skip")
        self.fails("holes.parquet?seq=8&format=text", 2, "format=text")

    def test_kept_tokens_need_no_library(self):
        self.write("kept", [{"text": text} for text in make_texts(20)])
        time.sleep(0.1)  # a file that is newer than this could change without its times showing it
        away = {**self.env, "ULLAGE_PARQUET_MODULE": str(self.root / "nowhere.so")}
        self.fails("kept.parquet?seq=16", 1, "its module is missing", env=away)
        expected = self.stream("kept.parquet?seq=16")
        self.assertEqual(self.stream("kept.parquet?seq=16", env=away), expected)

    def test_tokens_are_refused(self):
        self.write("ids", [{"input_ids": [1, 2, 3]}])
        result = command.run("data", "bench", f"tokens:{self.root}/ids.parquet?seq=8", "--epochs", 1, env=self.env)
        self.assertEqual(result.code, 1, result.stderr)
        self.assertIn("tokens in Parquet are not read", result.stderr)

    def test_damage(self):
        self.write("whole", [{"messages": [{"role": "assistant", "content": text}]} for text in make_texts(200)],
                   compression="none")
        content, draw = (self.root / "whole.parquet").read_bytes(), random.Random(5)
        for end in (0, 4, len(content) // 2, len(content) - 1):
            (self.root / "cut.parquet").write_bytes(content[:end])
            self.fails("cut.parquet?seq=16", 6, "cannot be read as Parquet")
        for _ in range(20):
            changed = bytearray(content)
            for _ in range(3):
                changed[draw.randrange(len(content))] = draw.randrange(256)
            (self.root / "cut.parquet").write_bytes(changed)
            result = command.run("data", "bench", f"text:{self.root}/cut.parquet?seq=16", "--epochs", 1, env=self.env)
            self.assertIn(result.code, (0, 6), result.stderr)


if __name__ == "__main__":
    unittest.main()
