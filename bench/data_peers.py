#!/usr/bin/env python3
"""One data loader on command: the processes that bench/data.py measures Ullage beside.

    python bench/data_peers.py pillow --folder DIR --mode train --batch 128 --workers 2 --size 224

One JSON line {"ready": true, "version": ...} when all is set up and one epoch has warmed it. Then
every line "epoch" on standard input loads all files once and is answered by one JSON line
{"samples", "seconds", "cpu_seconds"}; the processor time is that of the process and its children.

Each peer is used as its own documentation advises for a folder of photos: float32 batches
[B, 3, size, size], normalised with ImageNet's mean and deviation, random-resized-crop and flip for
training, resize of the short side and centre crop for evaluation.
"""

import argparse
import json
import math
import os
import pathlib
import resource
import sys
import time

MEAN = (0.485, 0.456, 0.406)
DEVIATION = (0.229, 0.224, 0.225)


def list_files(folder):
    return sorted(str(path) for path in pathlib.Path(folder).rglob("*") if path.is_file())


def processor_seconds():
    total = 0.0
    for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN):
        usage = resource.getrusage(who)
        total += usage.ru_utime + usage.ru_stime
    return total


def children_seconds():
    """Processor time of live children, which getrusage counts only once they are gone."""
    total, me = 0.0, os.getpid()
    ticks = os.sysconf("SC_CLK_TCK")
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            fields = (entry / "stat").read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        if int(fields[1]) == me:
            total += (int(fields[11]) + int(fields[12])) / ticks
    return total


class TorchLoader:
    """PyTorch's DataLoader with worker processes, kept from epoch to epoch."""

    def __init__(self, options, dataset):
        import torch

        torch.set_num_threads(1)
        self.version = torch.__version__
        self.loader = torch.utils.data.DataLoader(
            dataset,
            batch_size=options.batch,
            shuffle=options.mode == "train",
            num_workers=options.workers,
            persistent_workers=True,
            prefetch_factor=2,
        )

    def epoch(self):
        return sum(len(images) for images, _ in self.loader)


def pillow(options):
    from torchvision import datasets, transforms

    crop = (
        [transforms.RandomResizedCrop(options.size), transforms.RandomHorizontalFlip()]
        if options.mode == "train"
        else [transforms.Resize(options.size * 256 // 224), transforms.CenterCrop(options.size)]
    )
    steps = crop + [transforms.ToTensor(), transforms.Normalize(MEAN, DEVIATION)]
    return TorchLoader(options, datasets.ImageFolder(options.folder, transforms.Compose(steps)))


def torchvision(options):
    import torch
    from torchvision import datasets
    from torchvision.io import ImageReadMode, decode_image
    from torchvision.transforms import v2

    crop = (
        [v2.RandomResizedCrop(options.size, antialias=True), v2.RandomHorizontalFlip()]
        if options.mode == "train"
        else [
            v2.Resize(options.size * 256 // 224, antialias=True),
            v2.CenterCrop(options.size),
        ]
    )
    steps = crop + [v2.ToDtype(torch.float32, scale=True), v2.Normalize(MEAN, DEVIATION)]
    dataset = datasets.ImageFolder(
        options.folder,
        v2.Compose(steps),
        loader=lambda path: decode_image(path, mode=ImageReadMode.RGB),
    )
    return TorchLoader(options, dataset)


class Dali:
    def __init__(self, options):
        import nvidia.dali as dali
        from nvidia.dali import fn, types

        self.version = dali.__version__
        self.batch = options.batch
        self.count = len(list_files(options.folder))

        @dali.pipeline_def(batch_size=options.batch, num_threads=options.workers, device_id=None)
        def pipe():
            files, labels = fn.readers.file(
                file_root=options.folder,
                random_shuffle=options.mode == "train",
                name="reader",
                pad_last_batch=False,
            )
            if options.mode == "train":
                images = fn.decoders.image_random_crop(
                    files, device="cpu", random_area=[0.08, 1.0], random_aspect_ratio=[3 / 4, 4 / 3]
                )
                images = fn.resize(
                    images, size=options.size, interp_type=types.INTERP_LINEAR, antialias=True
                )
                mirror = fn.random.coin_flip()
            else:
                images = fn.decoders.image(files, device="cpu")
                images = fn.resize(
                    images,
                    resize_shorter=options.size * 256 // 224,
                    interp_type=types.INTERP_LINEAR,
                    antialias=True,
                )
                mirror = 0
            images = fn.crop_mirror_normalize(
                images,
                dtype=types.FLOAT,
                output_layout="CHW",
                crop=(options.size, options.size),
                mean=[255 * value for value in MEAN],
                std=[255 * value for value in DEVIATION],
                mirror=mirror,
            )
            return images, labels

        self.pipe = pipe()
        self.pipe.build()

    def epoch(self):
        samples = 0
        for _ in range(math.ceil(self.count / self.batch)):
            images, _ = self.pipe.run()
            samples += len(images)
        return samples


class Spdl:
    """SPDL: FFmpeg decodes and filters on a thread pool, batches are joined without copies."""

    def __init__(self, options):
        import importlib.metadata

        import numpy
        import spdl.io
        from spdl.pipeline import PipelineBuilder

        self.version = importlib.metadata.version("spdl")
        self.numpy, self.io, self.builder = numpy, spdl.io, PipelineBuilder
        self.options, self.files = options, list_files(options.folder)
        self.mean = numpy.array(MEAN, numpy.float32).reshape(1, 3, 1, 1)
        self.deviation = numpy.array(DEVIATION, numpy.float32).reshape(1, 3, 1, 1)

    def filters(self):
        size = self.options.size
        if self.options.mode == "eval":
            side = size * 256 // 224
            return (
                f"scale=w={side}:h={side}:force_original_aspect_ratio=increase:flags=bilinear,"
                f"crop={size}:{size},format=rgb24"
            )
        # One random window for each picture; FFmpeg's crop takes expressions.
        import random

        area, ratio = random.uniform(0.08, 1.0), math.exp(random.uniform(-0.2877, 0.2877))
        share = math.sqrt(area)
        wide, high = min(1.0, share * math.sqrt(ratio)), min(1.0, share / math.sqrt(ratio))
        x, y = random.uniform(0, 1 - wide), random.uniform(0, 1 - high)
        mirror = ",hflip" if random.random() < 0.5 else ""
        return (
            f"crop=w=iw*{wide:.4f}:h=ih*{high:.4f}:x=iw*{x:.4f}:y=ih*{y:.4f},"
            f"scale={size}:{size}:flags=bilinear{mirror},format=rgb24"
        )

    def decode(self, path):
        packets = self.io.demux_image(path)
        return self.io.decode_packets(packets, filter_desc=self.filters())

    def batch(self, frames):
        numpy = self.numpy
        pixels = self.io.to_numpy(self.io.convert_frames(frames))
        images = pixels.transpose(0, 3, 1, 2).astype(numpy.float32)
        images *= 1 / 255.0
        images -= self.mean
        images /= self.deviation
        return numpy.ascontiguousarray(images)

    def epoch(self):
        pipeline = (
            self.builder()
            .add_source(self.files)
            .pipe(self.decode, concurrency=self.options.workers)
            .aggregate(self.options.batch)
            .pipe(self.batch)
            .add_sink(3)
            .build(num_threads=self.options.workers)
        )
        with pipeline.auto_stop():
            return sum(len(images) for images in pipeline)


PEERS = {"pillow": pillow, "torchvision": torchvision, "dali": Dali, "spdl": Spdl}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("peer", choices=PEERS)
    parser.add_argument("--folder", required=True)
    parser.add_argument("--mode", choices=("train", "eval"), required=True)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--size", type=int, default=224)
    options = parser.parse_args()
    peer = PEERS[options.peer](options)
    peer.epoch()
    print(json.dumps({"ready": True, "version": peer.version}), flush=True)
    for line in sys.stdin:
        if line.strip() != "epoch":
            break
        began, used = time.perf_counter(), processor_seconds() + children_seconds()
        samples = peer.epoch()
        seconds = time.perf_counter() - began
        used = processor_seconds() + children_seconds() - used
        print(
            json.dumps({"samples": samples, "seconds": seconds, "cpu_seconds": used}), flush=True
        )


if __name__ == "__main__":
    main()
