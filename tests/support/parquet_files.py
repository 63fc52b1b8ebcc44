"""What tests of Parquet need: pyarrow, the module that reads Parquet, and CSV that means the same."""

import csv
import datetime
import decimal
import os
import pathlib
import sys

import command

MODULE = pathlib.Path(os.environ.get("ULLAGE_BUILD_DIR") or command.ROOT / "build" / "release") / "ullage_parquet.so"
EPOCH = datetime.datetime(1970, 1, 1)


def need_parquet():
    """pyarrow; skips the test where it or the module is missing."""
    if not MODULE.exists():
        command.skip(f"{MODULE.name} is not built: Apache Arrow was not found")
    folder = os.environ.get("ULLAGE_PYARROW")
    if folder:
        sys.path.insert(0, str(pathlib.Path(folder).parent))
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        command.skip(f"pyarrow cannot be used: {error}")
    return pyarrow


def seconds(span):
    return span.days * 86400 + span.seconds + decimal.Decimal(span.microseconds) / 1000000


def text_of(value):
    """A value of Python as a sheet has it."""
    if value is None or value != value:
        return ""
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogateescape")
    if isinstance(value, datetime.datetime):
        return str(seconds(value.replace(tzinfo=None) - EPOCH))
    if isinstance(value, datetime.date):
        return str((value - EPOCH.date()).days)
    if isinstance(value, datetime.time):
        return str(seconds(datetime.datetime.combine(EPOCH, value) - EPOCH))
    if isinstance(value, datetime.timedelta):
        return str(seconds(value))
    return str(value)


def write_csv(path, columns):
    """`columns` = {name: values}; a row for each of the values."""
    with open(path, "w", newline="", encoding="utf-8", errors="surrogateescape") as file:
        sheet = csv.writer(file, lineterminator="\n", quoting=csv.QUOTE_ALL)
        sheet.writerow(columns)
        sheet.writerows([text_of(value) for value in row] for row in zip(*columns.values()))
