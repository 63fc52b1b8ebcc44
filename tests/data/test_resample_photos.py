#!/usr/bin/env python3
"""Photos through the loader against Pillow: decode, resize with antialiasing, crop.

Needs ULLAGE_TEST_DATA, NumPy, Pillow and libullage.so; what is missing is said and the test skipped.
What is asked: mean 1/255, 99.9th percentile 2/255, maximum 4/255.
"""

import os
import pathlib
import shutil
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests" / "support"))
sys.path.insert(0, str(ROOT / "python"))
import command

DATA = os.environ.get("ULLAGE_TEST_DATA")
LIBRARY = pathlib.Path(command.BINARY).parent / "libullage.so"
os.environ["ULLAGE_LIBRARY"] = str(LIBRARY)


def skip(why):
    print(f"skipped: {why}")
    sys.exit(command.SKIPPED)


if not DATA:
    skip("ULLAGE_TEST_DATA is not set")
if not LIBRARY.exists():
    skip(f"{LIBRARY} is not built (sanitizers)")
command.need_modules("numpy", "PIL")
import numpy
from PIL import Image, ImageOps

import ullage

PHOTOS = sorted((pathlib.Path(DATA) / "photos").glob("*"))[::5]
MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def evaluate(path, side, size):
    """Pillow's and torchvision's way: short side to `side`, then the middle."""
    image = ImageOps.exif_transpose(Image.open(path)).convert("RGB")
    width, height = image.size
    short = min(width, height)
    image = image.resize((int(side * width / short), int(side * height / short)), Image.Resampling.BILINEAR)
    left, top = round((image.width - size) / 2), round((image.height - size) / 2)
    return numpy.asarray(image.crop((left, top, left + size, top + size)), dtype=numpy.float64)


class Photos(unittest.TestCase):
    def compare(self, size, side):
        normalize = ",".join(map(str, MEAN)) + ":" + ",".join(map(str, DEVIATION))
        scale = numpy.array(DEVIATION).reshape(3, 1, 1) * 255
        offset = numpy.array(MEAN).reshape(3, 1, 1) * 255
        apart = []
        with tempfile.TemporaryDirectory(prefix="ullage-test-") as scratch:
            folder = pathlib.Path(scratch) / "all"
            folder.mkdir()
            for path in PHOTOS:
                shutil.copy(path, folder / path.name)
            loader = ullage.DataLoader(
                scratch, 8, size, train=False, augment=f"resize:{side}", normalize=normalize, on_bad="fail"
            )
            position = 0
            for images, _ in loader:
                for image in images:
                    expected = evaluate(PHOTOS[position], side, size).transpose(2, 0, 1)
                    apart.append(numpy.abs(image * scale + offset - expected).ravel())
                    position += 1
        self.assertEqual(position, len(PHOTOS))
        means = [values.mean() for values in apart]
        values = numpy.concatenate(apart)
        quantile = numpy.quantile(values, 0.999)
        print(f"{size} px of {side}: mean {values.mean():.3f}, worst photo {max(means):.3f}, "
              f"99.9 % {quantile:.3f}, maximum {values.max():.3f} of 255")
        self.assertLessEqual(max(means), 1)
        self.assertLessEqual(quantile, 2)
        self.assertLessEqual(values.max(), 4)

    def test_resize_256_crop_224(self):
        self.compare(224, 256)

    def test_where_the_decoder_reduces(self):
        self.compare(96, 110)
        self.compare(20, 23)


if __name__ == "__main__":
    unittest.main()
