#!/usr/bin/env python3
"""Writes what Pillow and torchvision make of small synthetic pictures: tests/data/pictures.safetensors.

    pip install torch torchvision pillow numpy safetensors
    python tools/make_picture_reference.py

Pictures are a formula (`picture` below, the same in the tests), so only results are stored, as
uint8. The name of a tensor says how it was made; numbers are integers, O is EXIF's orientation of
the stored picture, X Y W H a window in the upright one:

    window.WIDTH.HEIGHT.O.X.Y.W.H.OUTW.OUTH    cut out, then Image.resize(BILINEAR)     [H, W, 3]
    centre.WIDTH.HEIGHT.O.SIDE.OUTW.OUTH       torchvision Resize(SIDE), CenterCrop     [H, W, 3]
    nearest.WIDTH.HEIGHT.O.X.Y.W.H.OUTW.OUTH   channel 0, Image.resize(NEAREST)         [H, W]
    change.NAME.THOUSANDTHS                    one change of colour or place of picture(48, 40)
    randaugment                                magnitudes [31, 14], float64, signs left out
"""

import argparse
import pathlib

import numpy as np
import torch
import torchvision.transforms.functional as F
from PIL import Image
from safetensors.numpy import save_file
from torchvision.transforms import CenterCrop, InterpolationMode, RandAugment, Resize

TURNS = {
    1: None,
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}


def picture(width, height):
    """Slow waves and noise of 64 steps, [height, width, 3] uint8."""
    x = np.arange(width, dtype=np.uint32)[None, :, None]
    y = np.arange(height, dtype=np.uint32)[:, None, None]
    c = np.arange(3, dtype=np.uint32)[None, None, :]
    noise = x * np.uint32(374761393) + y * np.uint32(668265263) + c * np.uint32(2246822519)
    noise = (noise ^ (noise >> np.uint32(13))) * np.uint32(1274126177)
    noise = (noise ^ (noise >> np.uint32(16))) & np.uint32(63)
    wave = (x * np.uint32(7) + y * np.uint32(4) + c * np.uint32(90)) % np.uint32(382)
    return (np.minimum(wave, np.uint32(382) - wave) + noise).astype(np.uint8)


def upright(width, height, orientation):
    image = Image.fromarray(picture(width, height))
    turn = TURNS[orientation]
    return image if turn is None else image.transpose(turn)


def add_windows(out):
    cases = [
        (500, 375, 1, 0, 0, 500, 375, 64, 64),
        (375, 500, 1, 41, 97, 201, 173, 64, 48),
        (500, 375, 1, 300, 11, 37, 29, 64, 64),
        (64, 48, 1, 0, 0, 64, 48, 64, 48),
        (61, 47, 1, 3, 5, 50, 40, 96, 72),
        (5, 3, 1, 0, 0, 5, 3, 33, 31),
        (1, 1, 1, 0, 0, 1, 1, 17, 9),
        (1601, 1203, 1, 100, 3, 1400, 1200, 32, 24),
        (2, 1500, 1, 0, 0, 2, 1500, 24, 20),
    ]
    cases += [(301, 217, turn, 20, 30, 150, 120, 64, 56) for turn in range(2, 9)]
    for case in cases:
        width, height, turn, x, y, w, h, out_width, out_height = case
        cut = upright(width, height, turn).crop((x, y, x + w, y + h))
        resized = cut.resize((out_width, out_height), Image.Resampling.BILINEAR)
        out["window." + ".".join(map(str, case))] = np.asarray(resized).copy()
        numbers = cut.getchannel(0).resize((out_width, out_height), Image.Resampling.NEAREST)
        out["nearest." + ".".join(map(str, case))] = np.asarray(numbers).copy()


def add_centres(out):
    cases = [
        (500, 375, 1, 73, 64, 64),
        (333, 700, 1, 73, 64, 64),
        (333, 700, 6, 64, 64, 56),
        (100, 80, 1, 50, 64, 64),
        (40, 97, 3, 60, 61, 47),
    ]
    for case in cases:
        width, height, turn, side, out_width, out_height = case
        image = CenterCrop((out_height, out_width))(Resize(side)(upright(width, height, turn)))
        out["centre." + ".".join(map(str, case))] = np.asarray(image).copy()


def add_changes(out):
    image = Image.fromarray(picture(48, 40))
    nearest = InterpolationMode.NEAREST

    def affine(shear=(0.0, 0.0), shift=(0, 0), center=None):
        return F.affine(image, 0.0, list(shift), 1.0, list(shear), nearest, None, center)

    def degrees(slope):
        return float(np.degrees(np.arctan(slope)))

    changes = {
        "rotate": (lambda v: F.rotate(image, v, nearest), [-180, -33.3, -9, 5, 45, 90]),
        "shear_x": (lambda v: affine(shear=(degrees(v), 0.0), center=[0, 0]), [-0.3, 0.09]),
        "shear_y": (lambda v: affine(shear=(0.0, degrees(v)), center=[0, 0]), [-0.09, 0.3]),
        "shift_x": (lambda v: affine(shift=(int(v * 48), 0)), [-0.13, 0.453]),
        "shift_y": (lambda v: affine(shift=(0, int(v * 40))), [-0.453, 0.13]),
        "brightness": (lambda v: F.adjust_brightness(image, v), [0, 0.4, 1, 1.27, 1.9]),
        "contrast": (lambda v: F.adjust_contrast(image, v), [0, 0.4, 1, 1.27, 1.9]),
        "saturation": (lambda v: F.adjust_saturation(image, v), [0, 0.4, 1, 1.27, 1.9]),
        "sharpness": (lambda v: F.adjust_sharpness(image, v), [0.1, 0.73, 1.27, 1.9]),
        "hue": (lambda v: F.adjust_hue(image, v), [-0.5, -0.1, 0.05, 0.25]),
        "grayscale": (lambda v: F.rgb_to_grayscale(image, 3), [0]),
        "posterize": (lambda v: F.posterize(image, v), [4, 6, 7]),
        "solarize": (lambda v: F.solarize(image, v), [0, 178.5, 255]),
        "autocontrast": (lambda v: F.autocontrast(image), [0]),
        "equalize": (lambda v: F.equalize(image), [0]),
    }
    for name, (change, values) in changes.items():
        for value in values:
            out[f"change.{name}.{round(value * 1000)}"] = np.asarray(change(value)).copy()


def add_magnitudes(out):
    """Of an image of one pixel a side: translations are then parts of width and height."""
    space = RandAugment()._augmentation_space(31, (1, 1))
    table = np.zeros((31, len(space)))
    for column, (magnitudes, _) in enumerate(space.values()):
        if magnitudes.ndim > 0:
            table[:, column] = magnitudes.to(torch.float64).numpy()
    out["randaugment"] = table


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    folder = pathlib.Path(__file__).resolve().parent.parent / "tests" / "data"
    parser.add_argument("--out", type=pathlib.Path, default=folder)
    arguments = parser.parse_args()
    out = {}
    add_windows(out)
    add_centres(out)
    add_changes(out)
    add_magnitudes(out)
    save_file(out, arguments.out / "pictures.safetensors")


if __name__ == "__main__":
    main()
