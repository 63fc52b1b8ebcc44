#!/usr/bin/env python3
"""Trains one model with PyTorch on command: the process that bench/step.py measures Ullage beside.

    python bench/step_torch.py resnet50 --batch 16 --threads 2 --layout channels_last

When the model is built and warmed up, one JSON line {"ready": true, ...} is printed. Then every
line on standard input is a command, answered by one JSON line:

    step N    trains N steps                -> {"seconds": [each step's], "loss": of the last}
    quit      profiles --profile-steps more -> {"vmhwm_bytes", "profile": {group: seconds a step},
                                                "profile_operators": {operator: seconds a step}}

vmhwm_bytes is the process' peak resident size before profiling. The work is that of an ordinary
training loop: gradients set to None, forward, loss, backward, update, on one fixed random batch;
the optimizer is PyTorch's fused one, its fastest on a CPU (--optimizer plain for the standard one).
"""

import argparse
import json
import os
import sys
import time

import torch
import torch.nn.functional as F

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from operator_groups import group_seconds

IMAGE_PIXELS = 224
CLASSES = 1000
TOKENS = 256
WARMUP_STEPS = 2
TOP_OPERATORS = 25


def read_status_bytes(key):
    """A field of /proc/self/status given in kB, in bytes; None where there is no such file."""
    try:
        with open("/proc/self/status", encoding="ascii") as file:
            for line in file:
                if line.startswith(key + ":"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return None


def build_resnet50(options):
    """torchvision's ResNet-50 on random images: the model, a function to its loss, an optimizer."""
    import torchvision

    model = torchvision.models.resnet50(num_classes=CLASSES)
    images = torch.randn(options.batch, 3, IMAGE_PIXELS, IMAGE_PIXELS)
    targets = torch.randint(0, CLASSES, (options.batch,))
    if options.layout == "channels_last":
        model = model.to(memory_format=torch.channels_last)
        images = images.contiguous(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(
        model.parameters(), lr=0.1, momentum=0.9, **optimizer_flags(options)
    )
    return model, lambda run: F.cross_entropy(run(images), targets), optimizer


def build_gpt2(options):
    """Hugging Face's GPT-2 of 124 million parameters, without dropout, on random tokens."""
    import transformers

    transformers.logging.set_verbosity_error()
    config = transformers.GPT2Config(
        resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, use_cache=False
    )
    model = transformers.GPT2LMHeadModel(config)
    ids = torch.randint(0, config.vocab_size, (options.batch, TOKENS))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, **optimizer_flags(options))
    return model, lambda run: run(input_ids=ids, labels=ids).loss, optimizer


MODELS = {"resnet50": (build_resnet50, 16), "gpt2": (build_gpt2, 4)}


def optimizer_flags(options):
    return {"fused": True} if options.optimizer == "fused" else {}


class Trainer:
    def __init__(self, options):
        torch.set_num_threads(options.threads)
        torch.manual_seed(0)
        self.after_import_bytes = read_status_bytes("VmRSS")
        self.model, self.loss_of, self.optimizer = MODELS[options.model][0](options)
        self.model.train()
        self.run = torch.compile(self.model) if options.mode == "compile" else self.model

    def step(self):
        self.optimizer.zero_grad(set_to_none=True)
        loss = self.loss_of(self.run)
        loss.backward()
        self.optimizer.step()
        return loss.item()

    def timed_steps(self, count):
        seconds, loss = [], None
        for _ in range(count):
            start = time.perf_counter()
            loss = self.step()
            seconds.append(time.perf_counter() - start)
        return {"seconds": seconds, "loss": loss}

    def profile(self, steps):
        """Self time of every operator on the threads that issue them, in seconds a step."""
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
            start = time.perf_counter()
            for _ in range(steps):
                self.step()
            wall = time.perf_counter() - start
        operators = {}
        for event in profiler.key_averages():
            operators[event.key] = event.self_cpu_time_total / 1e6 / steps
        groups = group_seconds(operators)
        groups["step"] = wall / steps
        largest = sorted(operators, key=operators.get, reverse=True)[:TOP_OPERATORS]
        return {"profile": groups, "profile_operators": {name: operators[name] for name in largest}}


def answer(record):
    print(json.dumps(record), flush=True)


def parse_arguments():
    parser = argparse.ArgumentParser(description="Trains one model with PyTorch on command.")
    parser.add_argument("model", choices=MODELS)
    parser.add_argument("--batch", type=int, help="samples a step (resnet50: 16, gpt2: 4)")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--layout", choices=("contiguous", "channels_last"), default="contiguous")
    parser.add_argument("--mode", choices=("eager", "compile"), default="eager")
    parser.add_argument("--optimizer", choices=("fused", "plain"), default="fused")
    parser.add_argument("--steps", type=int, default=1, help="what `step` without a number runs")
    parser.add_argument("--profile-steps", type=int, default=2)
    options = parser.parse_args()
    options.batch = options.batch or MODELS[options.model][1]
    return options


def serve(trainer, options):
    for line in sys.stdin:
        command, *arguments = line.split() or [""]
        if command == "step":
            answer(trainer.timed_steps(int(arguments[0]) if arguments else options.steps))
        elif command == "quit":
            record = {"vmhwm_bytes": read_status_bytes("VmHWM")}
            answer({**record, **trainer.profile(options.profile_steps)})
            return
        elif command:
            answer({"error": f"unknown command {command}"})


def main():
    options = parse_arguments()
    trainer = Trainer(options)
    warmup = trainer.timed_steps(WARMUP_STEPS)
    parameters = sum(p.numel() for p in trainer.model.parameters())
    answer(
        {
            "ready": True,
            "torch": torch.__version__,
            "threads": torch.get_num_threads(),
            "batch": options.batch,
            "parameters": parameters,
            "warmup_seconds": warmup["seconds"],
            "after_import_bytes": trainer.after_import_bytes,
        }
    )
    serve(trainer, options)


if __name__ == "__main__":
    main()
