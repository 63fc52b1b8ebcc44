#!/usr/bin/env python3
"""GPT-2 on JSON lines: packed sequences train, and packing does not change what is learnt.

Documents that share a sequence do not see each other: the loss of a packed batch is the mean over
all targets of the documents alone, whichever way they lie, whole or in micro-batches. Were the
document numbers not looked at, the loss would differ by far more than rounding.
"""

import pathlib
import struct
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
import command
import documents
from documents import CLOSE, LENGTH

DOCUMENTS = 30


class PackedTraining(documents.Training):
    COUNT, HOW = DOCUMENTS, ("--pack", "--batch-size", 4)

    def packed_samples(self):
        done = command.run("train", *self.words(self.data, "--pack", "--steps", 1, "--batch-size", 1), env=self.env)
        words = done.stdout.split() + done.stderr.split()
        return int(words[words.index("into") + 1])

    def test_packing_changes_no_loss(self):
        samples = self.packed_samples()
        self.assertLess(samples, DOCUMENTS)
        packed, alone = self.loss(self.data, samples, "--pack"), self.loss_alone(self.documents)
        self.assert_close(packed, alone)
        self.assert_close(self.loss(self.data, DOCUMENTS), alone)
        for micro in (1, 3):
            self.assert_close(self.loss(self.data, samples, "--pack", "--micro-batch", micro), packed)

    def test_evaluation_counts_targets(self):
        whole = self.evaluate("--batch-size", DOCUMENTS)["loss"]
        for more in (["--batch-size", 7], ["--batch-size", 1], ["--pack", "--batch-size", 4]):
            self.assert_close(self.evaluate(*more)["loss"], whole, more)

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
        return command.write_npz(self.path(name), arrays)

    def test_documents_are_looked_at(self):
        texts = [d for d in self.documents if "text" in d and len(d["text"]) < LENGTH / 2][:2]
        rows = self.sequence(texts)
        apart = self.loss_of_rows("apart.npz", rows)
        packed = self.loss(self.write("pair.jsonl", texts), 1, "--pack")
        self.assert_close(apart, packed)
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
        data = command.write_npz(self.path("ids.npz"), arrays)
        plain = self.loss(data, 1, model=documents.UNPACKED)
        self.assertLess(abs(plain - packed), 1e-6 * plain)

    def test_what_would_be_wrong_is_refused(self):
        """A model that cannot leave targets out, or keep documents apart, is not fed such data."""
        for more in (["--pack"], []):
            self.assertIn("packed=1", self.refuse(*more, model=documents.UNPACKED, code=1))
        self.assertIn("vocab=257", self.refuse(model=documents.MODEL + "&vocab=100", code=6))


if __name__ == "__main__":
    command.need_command()
    unittest.main()
