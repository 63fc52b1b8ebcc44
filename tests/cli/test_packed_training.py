#!/usr/bin/env python3
"""GPT-2 on JSON lines: packed sequences train, and packing does not change what is learnt.

Documents that share a sequence do not see each other: the loss of a packed batch is the mean over
all targets of the documents alone, whichever way they lie, whole or in micro-batches. Were the
document numbers not looked at, the loss would differ by far more than rounding.
"""

import json
import os
import pathlib
import random
import struct
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
import command

MODEL = "zoo:gpt2_tiny?packed=1"
LENGTH, DOCUMENTS = 64, 30
CLOSE = 1e-5


def make_documents():
    """Sentences of few words; every third one is a question whose answer alone is learnt."""
    draw = random.Random(4)
    nouns, verbs = ["the cat", "a dog", "my king"], ["sees", "hears", "likes"]
    documents = []
    for i in range(DOCUMENTS):
        words = f"{draw.choice(nouns)} {draw.choice(verbs)} {draw.choice(nouns)}"
        if i % 3 == 2:
            documents.append({"prompt": f"{words}? ", "completion": "yes, " + words[:draw.randrange(4, 12)]})
        else:
            documents.append({"text": " and ".join([words] * draw.randrange(1, 3))[:60]})
    return documents


def count_targets(document):
    """Bytes but the first, and the end; of an answer all of it."""
    if "text" in document:
        return len(document["text"])
    return len(document["completion"]) + 1


class PackedTraining(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.place = command.folder()
        cls.env = {"XDG_CACHE_HOME": os.path.join(cls.place.name, "cache")}
        cls.documents = make_documents()
        cls.data = cls.write("all.jsonl", cls.documents)
        cls.trained = cls.train(cls.data, "--pack", "--batch-size", 4, "--steps", 60, "--opt", "adam",
                                "--lr", "0.003")
        cls.start = ["--init", cls.trained["weights"], "--no-shuffle", "--steps", 1, "--lr", "0.1"]

    @classmethod
    def tearDownClass(cls):
        cls.place.cleanup()

    @classmethod
    def write(cls, name, documents):
        path = os.path.join(cls.place.name, name)
        with open(path, "w", encoding="utf-8") as out:
            out.writelines(json.dumps(document) + "\n" for document in documents)
        return f"text:{path}"

    @classmethod
    def train(cls, data, *more):
        return command.train(MODEL, "--data", data, "--seq", LENGTH, "--threads", 2, *more, env=cls.env)

    def loss(self, data, batch, *more):
        result = self.train(data, *self.start, "--batch-size", batch, *more)
        self.assertEqual(result["steps_run"], 1)
        return result["losses"][0]

    def packed_samples(self):
        done = command.run("train", MODEL, "--data", self.data, "--seq", LENGTH, "--pack", "--steps", 1,
                           "--batch-size", 1, env=self.env)
        words = done.stdout.split() + done.stderr.split()
        return int(words[words.index("into") + 1])

    def test_the_loss_falls(self):
        losses = self.trained["losses"]
        self.assertEqual(len(losses), 60)
        self.assertGreater(losses[0], 5)
        self.assertLess(sum(losses[-5:]) / 5, 0.5 * losses[0])

    def test_packing_changes_no_loss(self):
        samples = self.packed_samples()
        self.assertLess(samples, DOCUMENTS)
        packed = self.loss(self.data, samples, "--pack")
        unpacked = self.loss(self.data, DOCUMENTS)
        alone, targets = 0, 0
        singles = [self.write(f"{i}.jsonl", [d]) for i, d in enumerate(self.documents)]
        for document, loss in zip(self.documents,
                                  command.side_by_side(lambda data: self.loss(data, 1), singles)):
            alone += loss * count_targets(document)
            targets += count_targets(document)
        self.assertLess(abs(packed - alone / targets), CLOSE * packed)
        self.assertLess(abs(unpacked - alone / targets), CLOSE * packed)
        for micro in (1, 3):
            parts = self.loss(self.data, samples, "--pack", "--micro-batch", micro)
            self.assertLess(abs(parts - packed), CLOSE * packed)

    def test_evaluation_counts_targets(self):
        common = ["eval", MODEL, "--data", self.data, "--seq", LENGTH, "--init", self.trained["weights"],
                  "--threads", 2]
        whole = command.run_json(*common, "--batch-size", DOCUMENTS, env=self.env)["loss"]
        for more in (["--batch-size", 7], ["--batch-size", 1], ["--pack", "--batch-size", 4]):
            loss = command.run_json(*common, *more, env=self.env)["loss"]
            self.assertLess(abs(loss - whole), CLOSE * whole, more)

    def sequence(self, documents):
        """One packed sequence of two texts, written down here."""
        rows = {"input_ids": [], "target": [], "positions": [], "documents": []}
        for number, document in enumerate(documents):
            tokens = list(document["text"].encode()) + [256]
            rows["input_ids"] += tokens[:-1]
            rows["target"] += tokens[1:]
            rows["positions"] += range(len(tokens) - 1)
            rows["documents"] += [number] * (len(tokens) - 1)
        left = LENGTH - len(rows["input_ids"])
        for name, fill in (("input_ids", [256] * left), ("target", [-100] * left),
                           ("positions", range(left)), ("documents", [len(documents)] * left)):
            rows[name] += fill
        return rows

    def write_rows(self, name, rows):
        arrays = {key: ("<i8", (1, LENGTH), struct.pack(f"<{LENGTH}q", *row)) for key, row in rows.items()}
        return "npz:" + command.write_npz(os.path.join(self.place.name, name), arrays).removeprefix("npz:")

    def test_documents_are_looked_at(self):
        texts = [d for d in self.documents if "text" in d and len(d["text"]) < LENGTH / 2][:2]
        rows = self.sequence(texts)
        apart = self.loss_of_rows("apart.npz", rows)
        packed = self.loss(self.write("pair.jsonl", texts), 1, "--pack")
        self.assertLess(abs(apart - packed), CLOSE * packed)
        together = self.loss_of_rows("together.npz", dict(rows, documents=[0] * LENGTH))
        self.assertGreater(abs(together - apart), 20 * CLOSE * apart)
        onward = self.loss_of_rows("onward.npz", dict(rows, positions=list(range(LENGTH))))
        self.assertGreater(abs(onward - apart), 20 * CLOSE * apart)

    def loss_of_rows(self, name, rows):
        return self.loss(self.write_rows(name, rows), 1)

    def test_one_document_is_as_without_packing(self):
        """The same tokens in a model that packs and in one that does not."""
        tokens = (self.documents[0]["text"].encode() * 8)[:LENGTH]
        rows = {"input_ids": list(tokens), "target": list(tokens[1:]) + [-100],
                "positions": list(range(LENGTH)), "documents": [0] * LENGTH}
        packed = self.loss_of_rows("whole.npz", rows)
        arrays = {"input_ids": ("<i8", (1, LENGTH), struct.pack(f"<{LENGTH}q", *tokens))}
        data = command.write_npz(os.path.join(self.place.name, "ids.npz"), arrays)
        plain = command.train("zoo:gpt2_tiny?vocab=257", "--data", data, "--seq", LENGTH, "--threads", 2,
                              "--batch-size", 1, *self.start, env=self.env)["losses"][0]
        self.assertLess(abs(plain - packed), 1e-6 * plain)

    def test_what_would_be_wrong_is_refused(self):
        """A model that cannot leave targets out, or keep documents apart, is not fed such data."""
        for more in (["--pack"], []):
            done = command.run("train", "zoo:gpt2_tiny?vocab=257", "--data", self.data, "--seq", LENGTH,
                               "--steps", 1, *more, env=self.env)
            self.assertEqual(done.code, 1, done.stderr)
            self.assertIn("packed=1", done.stderr)
        done = command.run("train", MODEL + "&vocab=100", "--data", self.data, "--seq", LENGTH, "--steps", 1,
                           env=self.env)
        self.assertEqual(done.code, 6, done.stderr)
        self.assertIn("vocab=257", done.stderr)


if __name__ == "__main__":
    command.need_command()
    unittest.main()
