"""GPT-2 on documents of many lengths: the set-up of tests that lay several of them in one batch."""

import json
import os
import pathlib
import random
import unittest

import command

MODEL = "zoo:gpt2_tiny?packed=1"
UNPACKED = "zoo:gpt2_tiny?vocab=257"
LENGTH = 64
CLOSE = 1e-5


def make_documents(count):
    """One to four sentences; every fourth one is a question whose answer alone is learnt."""
    draw = random.Random(11)
    nouns, verbs = ["the cat", "a dog", "my king"], ["sees", "hears", "likes"]
    documents = []
    for i in range(count):
        words = f"{draw.choice(nouns)} {draw.choice(verbs)}"
        if i % 4 == 3:
            answer = "yes, " + words[:draw.randrange(4, 12)]
            documents.append({"prompt": f"{words}? ", "completion": answer})
        else:
            documents.append({"text": " and ".join([words] * draw.choice([1, 1, 1, 2, 3, 4]))[:60]})
    return documents


def inputs_of(document):
    return len("".join(document.values()))


def targets_of(document):
    """Bytes but the first, and the end; of an answer all of it."""
    return len(document["text"]) if "text" in document else len(document["completion"]) + 1


class Training(unittest.TestCase):
    """`documents` of them in the file `data`, and the network `trained` on it with `how`."""

    COUNT, HOW = 0, ()

    @classmethod
    def setUpClass(cls):
        cls.place = command.folder()
        cls.env = {"XDG_CACHE_HOME": cls.path("cache")}
        cls.documents = make_documents(cls.COUNT)
        cls.data = cls.write("all.jsonl", cls.documents)
        cls.trained = cls.train(cls.data, *cls.HOW, "--steps", 60)

    @classmethod
    def tearDownClass(cls):
        cls.place.cleanup()

    @classmethod
    def path(cls, name):
        return os.path.join(cls.place.name, name)

    @classmethod
    def write(cls, name, documents):
        path = pathlib.Path(cls.path(name))
        path.write_text("".join(json.dumps(document) + "\n" for document in documents), encoding="utf-8")
        return f"text:{path}"

    @classmethod
    def words(cls, data, *more, model=MODEL):
        return [model, "--data", data, "--seq", LENGTH, "--threads", 2, "--opt", "adam", "--lr", "0.003", *more]

    @classmethod
    def train(cls, data, *more, model=MODEL):
        return command.train(*cls.words(data, *more, model=model), env=cls.env)

    def loss(self, data, batch, *more, model=MODEL):
        """Of the first batch that the trained network sees."""
        said = self.train(data, "--init", self.trained["weights"], "--no-shuffle", "--steps", 1, "--batch-size", batch,
                          *more, model=model)
        self.assertEqual(said["steps_run"], 1)
        return said["losses"][0]

    def loss_alone(self, documents):
        """The mean over all targets of documents that are never in one batch."""
        singles = [self.write(f"{i}.jsonl", [document]) for i, document in enumerate(documents)]
        losses = command.side_by_side(lambda data: self.loss(data, 1), singles)
        weights = [targets_of(document) for document in documents]
        return sum(loss * weight for loss, weight in zip(losses, weights)) / sum(weights)

    def evaluate(self, *more):
        return command.run_json("eval", MODEL, "--data", self.data, "--seq", LENGTH, "--threads", 2,
                                "--init", self.trained["weights"], *more, env=self.env)

    def refuse(self, *more, model=MODEL, data=None, code=2):
        """What the command says that ends with the code."""
        done = command.run("train", *self.words(data or self.data, "--steps", 1, *more, model=model), env=self.env)
        self.assertEqual(done.code, code, done.stderr)
        return done.stderr

    def assert_close(self, value, wanted, more=None):
        self.assertLess(abs(value - wanted), CLOSE * wanted, more)

    def test_the_loss_falls(self):
        losses = self.trained["losses"]
        self.assertEqual(len(losses), 60)
        self.assertGreater(losses[0], 5)
        self.assertLess(sum(losses[-7:]) / 7, 0.5 * losses[0])
