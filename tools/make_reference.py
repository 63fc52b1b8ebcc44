#!/usr/bin/env python3
"""Writes the PyTorch reference values that the tests compare Ullage with (tests/data/).

Two small networks are trained for 20 steps of 4 samples, once in float32 and once in float64 from
the same weights, and the loss of every step is kept with the initial weights and the gradients of
step 1. A third file holds inputs, outputs and gradients of single operators in float64. What each
file contains is described in tests/data/README.md.

    pip install torch torchvision transformers numpy safetensors
    python tools/make_reference.py                     # everything
    python tools/make_reference.py resnet operators    # only these
    python tools/make_reference.py --out /tmp/values   # elsewhere

Weights come from torch.manual_seed(0) and samples from numpy's default_rng(1), both the same on
every machine. Losses in float32 depend on the processor's kernels in the last digits, and SGD
amplifies them; the float64 losses say by how much, which is why both are stored. Random layers
(dropout) are off, for no two libraries draw the same numbers.
"""

import argparse
import copy
import json
import pathlib

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch import nn

STEPS = 20
BATCH_SIZE = 4
WEIGHT_SEED = 0
SAMPLE_SEED = 1


class Residual(nn.Module):
    """Two 3x3 convolutions beside a shortcut, created in the order in which they draw weights."""

    def __init__(self, channels_in, channels_out, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(channels_in, channels_out, 3, stride=stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels_out)
        self.conv2 = nn.Conv2d(channels_out, channels_out, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels_out)
        self.downsample = nn.Identity()
        if stride != 1 or channels_in != channels_out:
            shortcut = nn.Conv2d(channels_in, channels_out, 1, stride=stride, bias=False)
            self.downsample = nn.Sequential(shortcut, nn.BatchNorm2d(channels_out))

    def forward(self, x):
        hidden = F.relu(self.bn1(self.conv1(x)))
        return F.relu(self.bn2(self.conv2(hidden)) + self.downsample(x))


class SmallResNet(nn.Module):
    """[N, 3, 32, 32] -> [N, 10] in three residual blocks."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2)
        )
        self.layers = nn.Sequential(Residual(8, 8, 1), Residual(8, 16, 2), Residual(16, 32, 2))
        self.fc = nn.Linear(32, 10)

    def forward(self, x):
        features = self.layers(self.stem(x))
        return self.fc(F.adaptive_avg_pool2d(features, 1).flatten(1))


class ResNetCase:
    name = "resnet"
    record = {
        "opt": "sgd",
        "lr": 0.01,
        "momentum": 0.9,
        "weight_decay": 0.0,
        "loss": "cross-entropy",
    }

    @staticmethod
    def build():
        return SmallResNet()

    @staticmethod
    def samples(generator, count):
        x = generator.standard_normal((count, 3, 32, 32), dtype=np.float32)
        return {"x": x, "target": generator.integers(0, 10, count)}

    @staticmethod
    def loss(model, batch):
        return F.cross_entropy(model(batch["x"]), batch["target"])

    @classmethod
    def optimizer(cls, model):
        return torch.optim.SGD(
            model.parameters(), lr=cls.record["lr"], momentum=cls.record["momentum"]
        )


class Gpt2Case:
    """Hugging Face's GPT-2 with its own loss: the mean of position t predicting token t + 1."""

    name = "gpt2"
    record = {
        "opt": "adamw",
        "lr": 1e-3,
        "betas": [0.9, 0.999],
        "eps": 1e-8,
        "weight_decay": 0.01,
        "decay_all": True,
        "loss": "next-token cross-entropy",
    }

    @staticmethod
    def build():
        from transformers import GPT2Config, GPT2LMHeadModel

        return GPT2LMHeadModel(
            GPT2Config(
                vocab_size=100,
                n_positions=64,
                n_embd=32,
                n_layer=2,
                n_head=4,
                resid_pdrop=0.0,
                embd_pdrop=0.0,
                attn_pdrop=0.0,
                bos_token_id=1,
                eos_token_id=1,
            )
        )

    @staticmethod
    def samples(generator, count):
        return {"input_ids": generator.integers(0, 100, (count, 16))}

    @staticmethod
    def loss(model, batch):
        ids = batch["input_ids"]
        return model(input_ids=ids, labels=ids, use_cache=False).loss

    @classmethod
    def optimizer(cls, model):
        record = cls.record
        return torch.optim.AdamW(
            model.parameters(),
            lr=record["lr"],
            betas=tuple(record["betas"]),
            eps=record["eps"],
            weight_decay=record["weight_decay"],
        )


def train(case, model, samples):
    """Runs all steps in the model's precision; returns the losses and step 1's gradients."""
    precision = next(model.parameters()).dtype
    optimizer = case.optimizer(model)
    losses, first_gradients = [], None
    for step in range(STEPS):
        chosen = slice(step * BATCH_SIZE, (step + 1) * BATCH_SIZE)
        batch = {name: torch.from_numpy(array[chosen]) for name, array in samples.items()}
        batch = {name: t.to(precision) if t.is_floating_point() else t for name, t in batch.items()}
        optimizer.zero_grad()
        loss = case.loss(model, batch)
        loss.backward()
        if first_gradients is None:
            first_gradients = {name: p.grad.clone() for name, p in model.named_parameters()}
        optimizer.step()
        losses.append(loss.item())
    return losses, first_gradients


def initial_state(model):
    """Parameters and buffers, without step counters and the second name of a tied matrix."""
    tied = set(model.state_dict()) - {name for name, _ in model.named_parameters()}
    tied -= {name for name, _ in model.named_buffers()}
    return {
        name: tensor.clone()
        for name, tensor in model.state_dict().items()
        if name not in tied and not name.endswith("num_batches_tracked")
    }


def save_tensors(tensors, path):
    save_file(tensors, path)
    path.chmod(0o644)


def write_json(path, value):
    path.write_text(json.dumps(value, indent=1) + "\n")


def write_case(case, folder):
    torch.manual_seed(WEIGHT_SEED)
    model = case.build().train()
    samples = case.samples(np.random.default_rng(SAMPLE_SEED), STEPS * BATCH_SIZE)
    state = initial_state(model)
    losses_float64, _ = train(case, copy.deepcopy(model).double(), samples)
    losses, gradients = train(case, model, samples)

    save_tensors(state, folder / f"{case.name}_weights.safetensors")
    save_tensors(gradients, folder / f"{case.name}_gradients.safetensors")
    np.savez(folder / f"{case.name}_samples.npz", **samples)
    record = {
        "torch": torch.__version__.split("+")[0],
        **case.record,
        "batch_size": BATCH_SIZE,
        "steps": STEPS,
        "losses": losses,
        "losses_float64": losses_float64,
    }
    write_json(folder / f"{case.name}_losses.json", record)
    apart = max(abs(a - b) for a, b in zip(losses, losses_float64))
    print(
        f"{case.name}: loss {losses[0]:.6f} -> {losses[-1]:.6f}, float32 at most {apart:.1e} from float64"
    )


class OperatorWriter:
    """Collects cases: tensors named OPERATOR.caseN.NAME, attributes under OPERATOR.caseN."""

    def __init__(self):
        self.generator = np.random.default_rng(SAMPLE_SEED)
        self.tensors, self.attributes = {}, {}

    def normal(self, *shape):
        return torch.from_numpy(self.generator.standard_normal(shape))

    def integers(self, low, high, *shape):
        return torch.from_numpy(self.generator.integers(low, high, shape))

    def add(self, operator, function, inputs, attributes, constants=None):
        """function(first input, rest by name) -> y; dy is random, each input gets its d<name>."""
        prefix = (
            f"{operator}.case{sum(name.startswith(operator + '.') for name in self.attributes)}"
        )
        constants = constants or {}
        leaves = {name: tensor.clone().requires_grad_() for name, tensor in inputs.items()}
        before = {name: tensor.clone() for name, tensor in constants.items()}
        first, *others = leaves
        y = function(leaves[first], **{name: leaves[name] for name in others}, **constants)
        dy = self.normal(*y.shape)
        y.backward(dy)
        found = {**inputs, **before, "y": y.detach(), "dy": dy}
        found |= {"d" + name: leaf.grad for name, leaf in leaves.items()}
        found |= {
            name + "_after": tensor
            for name, tensor in constants.items()
            if not tensor.equal(before[name])
        }
        self.tensors |= {f"{prefix}.{name}": tensor.contiguous() for name, tensor in found.items()}
        self.attributes[prefix] = attributes


def add_convolutions(writer):
    cases = [  # x, weight, stride, padding, dilation, groups, with bias
        ((2, 3, 9, 8), (4, 3, 3, 3), [2, 2], [1, 1], [1, 1], 1, False),
        ((2, 4, 7, 7), (6, 2, 3, 3), [1, 1], [2, 2], [2, 2], 2, True),
        ((1, 6, 8, 5), (6, 1, 3, 3), [2, 1], [1, 0], [1, 1], 6, True),
        ((2, 3, 15, 15), (5, 3, 7, 7), [2, 2], [3, 3], [1, 1], 1, False),
        ((2, 5, 6, 6), (7, 5, 1, 1), [2, 2], [0, 0], [1, 1], 1, False),
    ]
    for x, weight, stride, padding, dilation, groups, with_bias in cases:
        inputs = {"x": writer.normal(*x), "weight": writer.normal(*weight)}
        if with_bias:
            inputs["bias"] = writer.normal(weight[0])
        attributes = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
        writer.add(
            "conv2d",
            lambda x, weight, bias=None, a=attributes: F.conv2d(x, weight, bias, **a),
            inputs,
            attributes,
        )


def add_norms(writer):
    for shape in [(4, 3, 5, 6), (2, 4, 1, 1)]:
        channels, attributes = shape[1], {"momentum": 0.1, "eps": 1e-5, "training": True}
        inputs = {
            "x": writer.normal(*shape) * 2 + 0.5,
            "weight": writer.normal(channels),
            "bias": writer.normal(channels),
        }
        running = {
            "running_mean": writer.normal(channels),
            "running_var": writer.normal(channels).square() + 0.5,
        }
        writer.add(
            "batch_norm",
            lambda x, a=attributes, **t: F.batch_norm(x, **t, **a),
            inputs,
            attributes,
            running,
        )
    inputs = {name: tensor.clone() for name, tensor in inputs.items()}
    evaluation = {"momentum": 0.1, "eps": 1e-5, "training": False}
    writer.add(
        "batch_norm", lambda x, **t: F.batch_norm(x, **t, **evaluation), inputs, evaluation, running
    )
    for shape, axes in [((3, 4, 7), 1), ((2, 3, 4, 5), 2)]:
        normalized, attributes = list(shape[-axes:]), {"eps": 1e-5}
        inputs = {
            "x": writer.normal(*shape) * 3 - 1,
            "weight": writer.normal(*normalized),
            "bias": writer.normal(*normalized),
        }
        attributes["normalized_shape"] = normalized
        writer.add(
            "layer_norm", lambda x, a=attributes, **t: F.layer_norm(x, **t, **a), inputs, attributes
        )


def add_pooling(writer):
    for shape, kernel, stride, padding in [
        ((2, 3, 9, 8), 3, 2, 1),
        ((1, 2, 7, 7), 2, 2, 0),
        ((1, 2, 6, 5), 3, 1, 1),
    ]:
        attributes = {"kernel_size": [kernel] * 2, "stride": [stride] * 2, "padding": [padding] * 2}
        writer.add(
            "max_pool2d",
            lambda x, a=attributes: F.max_pool2d(x, **a),
            {"x": writer.normal(*shape)},
            attributes,
        )
    for shape, size in [((2, 3, 7, 5), [1, 1]), ((1, 2, 7, 5), [3, 2]), ((1, 2, 3, 4), [5, 4])]:
        attributes = {"output_size": size}
        writer.add(
            "adaptive_avg_pool2d",
            lambda x, a=attributes: F.adaptive_avg_pool2d(x, **a),
            {"x": writer.normal(*shape)},
            attributes,
        )


def add_activations(writer):
    for approximate in ["none", "tanh"]:
        x = torch.cat(
            [
                writer.normal(60) * 2,
                torch.tensor([0.0, -0.0, 9.0, -9.0, 1e-9, -40.0], dtype=torch.float64),
            ]
        )
        attributes = {"approximate": approximate}
        writer.add("gelu", lambda x, a=attributes: F.gelu(x, **a), {"x": x}, attributes)


def add_attention(writer):
    for length, causal, scale in [(7, True, None), (5, True, 0.3), (6, False, None)]:
        inputs = {name: writer.normal(2, 3, length, 4) for name in ("query", "key", "value")}
        attributes = {"is_causal": causal, "scale": scale or 4**-0.5}
        writer.add(
            "scaled_dot_product_attention",
            lambda query, a=attributes, **t: F.scaled_dot_product_attention(query, **t, **a),
            inputs,
            attributes,
        )


def add_losses(writer):
    ignored = writer.integers(0, 5, 8)
    ignored[[1, 6]] = -100
    for target, smoothing in [
        (writer.integers(0, 5, 8), 0.0),
        (ignored, 0.0),
        (ignored.clone(), 0.1),
    ]:
        attributes = {"reduction": "mean", "ignore_index": -100, "label_smoothing": smoothing}
        writer.add(
            "cross_entropy",
            lambda x, target, a=attributes: F.cross_entropy(x, target, **a),
            {"x": writer.normal(8, 5) * 4},
            attributes,
            {"target": target},
        )


def add_embeddings(writer):
    ids = writer.integers(0, 6, 3, 5)
    writer.add(
        "embedding",
        lambda weight, ids: F.embedding(ids, weight),
        {"weight": writer.normal(9, 4)},
        {},
        {"ids": ids},
    )


def add_soft_losses(writer):
    """Targets that are shares of classes; those of the last case do not add up to 1."""
    for shape, smoothing, normalized in [
        ((8, 5), 0.0, True),
        ((6, 7), 0.1, True),
        ((3, 4, 5), 0.2, False),
    ]:
        shares = writer.normal(*shape).square()
        shares[shares < 0.1] = 0
        if normalized:
            shares /= shares.sum(1, keepdim=True)
        attributes = {"reduction": "mean", "label_smoothing": smoothing}
        writer.add(
            "soft_cross_entropy",
            lambda x, target, a=attributes: F.cross_entropy(x, target, **a),
            {"x": writer.normal(*shape) * 4},
            attributes,
            {"target": shares},
        )


def write_operators(folder):
    writer = OperatorWriter()
    for add in (
        add_convolutions,
        add_norms,
        add_pooling,
        add_activations,
        add_attention,
        add_losses,
        add_embeddings,
        add_soft_losses,
    ):
        add(writer)
    save_tensors(writer.tensors, folder / "operators.safetensors")
    write_json(folder / "operators.json", writer.attributes)
    print(f"operators: {len(writer.attributes)} cases, {len(writer.tensors)} tensors")


PARTS = {
    "resnet": lambda folder: write_case(ResNetCase, folder),
    "gpt2": lambda folder: write_case(Gpt2Case, folder),
    "operators": write_operators,
}


def main():
    parser = argparse.ArgumentParser(description="Writes PyTorch reference values for the tests.")
    parser.add_argument(
        "parts", nargs="*", metavar="PART", help=f"any of {', '.join(PARTS)} (default: all)"
    )
    default = pathlib.Path(__file__).resolve().parent.parent / "tests" / "data"
    parser.add_argument(
        "--out",
        type=pathlib.Path,
        default=default,
        help="folder to write into (default: tests/data)",
    )
    arguments = parser.parse_args()
    unknown = set(arguments.parts) - set(PARTS)
    if unknown:
        parser.error(f"unknown part {', '.join(sorted(unknown))}")
    arguments.out.mkdir(parents=True, exist_ok=True)
    for part in arguments.parts or PARTS:
        PARTS[part](arguments.out)


if __name__ == "__main__":
    main()
