"""The shared library and its structures, as include/ullage/*.h declares them."""

import ctypes
import os
import pathlib
import threading
from ctypes import POINTER, c_bool, c_char, c_char_p, c_int, c_int64, c_size_t, c_uint8, c_uint64, c_void_p

MAX_RANK = 7  # ULL_DATA_MAX_RANK

# ull_dtype, in its order: what NumPy calls it (None where it has no such type).
DTYPES = ("float64", "float32", "float16", None, "int64", "int32", "uint8", "bool")

VERDICTS = (
    "ok",
    "repaired",
    "warned",
    "damaged",
    "truncated",
    "unsupported",
    "not_an_image",
    "empty",
    "too_big",
    "unreadable",
)


class Error(ctypes.Structure):
    """ull_error"""

    _fields_ = [
        ("status", c_int),
        ("message", c_char * 512),
        ("holder", c_char * 256),
        ("change", c_char * 256),
        ("wanted_bytes", c_uint64),
        ("available_bytes", c_uint64),
    ]


class BatchArray(ctypes.Structure):
    """ull_batch_array"""

    _fields_ = [
        ("name", c_char_p),
        ("dtype", c_int),
        ("rank", c_int),
        ("shape", c_int64 * (MAX_RANK + 1)),
        ("data", c_void_p),
        ("bytes", c_uint64),
    ]


class Batch(ctypes.Structure):
    """ull_batch"""

    _fields_ = [
        ("arrays", POINTER(BatchArray)),
        ("array_count", c_size_t),
        ("samples", c_uint64),
        ("epoch", c_uint64),
        ("batch", c_uint64),
        ("step", c_uint64),
        ("sample_index", POINTER(c_uint64)),
        ("verdict", POINTER(c_uint8)),
        ("replaced", c_uint64),
        ("wait_ns", c_uint64),
        ("used_verdict", POINTER(c_uint8)),
        ("skipped", c_uint64),
        ("mix_lambda", ctypes.c_double),
        ("mix_distance", c_uint64),
        ("length", c_int64),
    ]


class Position(ctypes.Structure):
    """ull_loader_position"""

    _fields_ = [("epoch", c_uint64), ("batch", c_uint64)]


class State(ctypes.Structure):
    """ull_loader_state"""

    _fields_ = [
        ("version", ctypes.c_uint32),
        ("reserved", ctypes.c_uint32),
        ("fingerprint", c_uint64),
        ("seed", c_uint64),
        ("epoch", c_uint64),
        ("position", c_uint64),
        ("bad", c_uint64),
        ("check", c_uint64),
    ]


STRUCTURES = {
    "ull_error": Error,
    "ull_batch_array": BatchArray,
    "ull_batch": Batch,
    "ull_loader_position": Position,
    "ull_loader_state": State,
}


# What the library says beside its statuses, kept for the thread that opens something.
HEARD = threading.local()
LogCallback = ctypes.CFUNCTYPE(None, c_void_p, c_int, c_char_p)
LOG_WARNING = 1


@LogCallback
def hear(_user, _level, message):
    messages = getattr(HEARD, "messages", None)
    if messages is not None:
        text = message.decode(errors="backslashreplace")
        messages.append("".join(c if c.isprintable() else "?" for c in text))


def find():
    """The library named by ULLAGE_LIBRARY, else the one built beside this package, else the
    system's."""
    named = os.environ.get("ULLAGE_LIBRARY")
    if named:
        return named
    root = pathlib.Path(__file__).resolve().parent.parent.parent
    built = root / "build" / "release" / "libullage.so"
    return str(built) if built.exists() else "libullage.so"


def load():
    path = find()
    try:
        library = ctypes.CDLL(path)
    except OSError as fault:
        raise ImportError(
            f"{path} cannot be opened ({fault}); build it with ./dev build, or name it in "
            "ULLAGE_LIBRARY"
        ) from fault
    functions = {
        "ull_version": (c_char_p, []),
        "ull_log_set": (None, [LogCallback, c_void_p, c_int]),
        "ull_status_name": (c_char_p, [c_int]),
        "ull_error_last": (POINTER(Error), []),
        "ull_stream_open": (c_int, [c_char_p, POINTER(c_char_p), c_size_t, POINTER(c_void_p)]),
        "ull_stream_close": (None, [c_void_p]),
        "ull_stream_loader": (c_void_p, [c_void_p]),
        "ull_stream_describe": (c_char_p, [c_void_p]),
        "ull_stream_bound_bytes": (c_uint64, [c_void_p]),
        "ull_stream_slots": (c_uint64, [c_void_p]),
        "ull_stream_samples": (c_uint64, [c_void_p]),
        "ull_stream_sample_name": (c_char_p, [c_void_p, c_uint64, c_char_p, c_size_t]),
        "ull_stream_class_count": (c_uint64, [c_void_p]),
        "ull_stream_class_name": (c_char_p, [c_void_p, c_uint64]),
        "ull_loader_wait": (c_bool, [c_void_p, c_uint64]),
        "ull_loader_next": (c_int, [c_void_p, POINTER(POINTER(Batch))]),
        "ull_loader_release": (None, [c_void_p, POINTER(Batch)]),
        "ull_loader_get_position": (Position, [c_void_p]),
        "ull_loader_set_position": (c_int, [c_void_p, Position]),
        "ull_loader_get_state": (State, [c_void_p]),
        "ull_loader_set_state": (c_int, [c_void_p, POINTER(State)]),
        "ull_loader_batches_per_epoch": (c_uint64, [c_void_p]),
    }
    for name, (result, arguments) in functions.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    library.ull_log_set(hear, None, LOG_WARNING)
    return library
