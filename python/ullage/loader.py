"""DataLoader: batches out of the C library's ring, without a copy."""

import ctypes
import functools
import os
import warnings

from . import _library
from .dlpack import Tensor

OUTPUTS = ("numpy", "dlpack")
WAIT_NS = 100_000_000  # between looks at signals, so that Ctrl-C ends a long wait


class UllageError(RuntimeError):
    """What the library reports. `status` is its name, such as "data"; `holder` what it is about and
    `change` what would help, either may be empty."""

    def __init__(self, status, message, holder="", change=""):
        super().__init__(f"{message} (try: {change})" if change else message)
        self.status, self.message, self.holder, self.change = status, message, holder, change

    def __reduce__(self):
        return UllageError, (self.status, self.message, self.holder, self.change)


@functools.cache
def library():
    return _library.load()


def _text(name, value):
    """The bytes of a text for the library."""
    text = os.fsencode(value)
    if b"\0" in text:
        raise ValueError(f"{name} holds a zero byte")
    return text


def _truth(name, value):
    if value not in (True, False):
        raise TypeError(f"{name} is {value!r}; True or False expected")
    return "true" if value else "false"


def _check(status):
    if status == 0:
        return
    error = library().ull_error_last().contents
    raise UllageError(
        library().ull_status_name(status).decode(),
        error.message.decode(errors="replace"),
        error.holder.decode(errors="replace"),
        error.change.decode(errors="replace"),
    )


class _Stream:
    """The C stream; closed when nothing refers to it any more, batches on loan included. Its threads
    live in the process that opened it: in a fork's child it is left alone."""

    def __init__(self, source, settings):
        self.handle, self.process = None, os.getpid()
        self.loans = set()  # of numbers that are its own: whichever thread lets go of one
        source = _text("source", source)
        texts = [_text(name, f"{name}={value}") for name, value in settings.items()]
        handle = ctypes.c_void_p()
        array = (ctypes.c_char_p * max(len(texts), 1))(*texts)
        open_stream = library().ull_stream_open
        _library.HEARD.messages = messages = []
        try:
            status = open_stream(source, array, len(texts), ctypes.byref(handle))
        finally:
            _library.HEARD.messages = None
        _check(status)
        self.handle = handle.value
        for message in messages:
            warnings.warn(message, stacklevel=3)

    @property
    def loader(self):
        if not self.is_here():
            raise RuntimeError("a loader cannot be used in a forked child; open one there")
        return library().ull_stream_loader(self.handle)

    def is_here(self):
        return self.process == os.getpid()

    def __reduce__(self):
        raise TypeError(
            "a loader cannot be copied or pickled; open another one and give it state_dict()"
        )

    def __del__(self):
        if self.handle and self.is_here():
            library().ull_stream_close(self.handle)


class _Loan:
    """One batch slot on loan; goes back when the last array over it is gone."""

    def __init__(self, stream, batch):
        self.stream, self.batch = stream, batch
        stream.loans.add(id(self))

    def __del__(self):
        if self.stream.is_here():
            library().ull_loader_release(self.stream.loader, self.batch)
        self.stream.loans.discard(id(self))


class Batch(tuple):
    """The arrays of a batch, inputs before targets, with where they come from. Where there is but one
    array, such as pictures without classes, None follows it: `for x, y in loader` always holds.

    names         of the arrays
    samples       how many there are
    sample_index  numbers of the samples in the source
    verdicts      of the samples that were asked for: "ok", "repaired", ...
    epoch, batch  from 0
    replaced      samples that stand in for bad ones
    wait_seconds  how long the loop waited for this batch
    length        first extent of every sample, where the source has buckets of lengths; else 0
    mix           (lambda, distance) of mixup and cutmix: sample i is lambda of itself and the rest of
                  sample (i + distance) % samples; (1.0, 0) where nothing is mixed
    """


def _describe(batch, fields, arrays, names):
    result = Batch(arrays if len(arrays) > 1 else [*arrays, None])
    count = fields.samples
    result.names, result.samples = names, count
    result.sample_index = fields.sample_index[:count]
    result.verdicts = [_library.VERDICTS[code] for code in fields.verdict[:count]]
    result.epoch, result.batch = fields.epoch, fields.batch
    result.mix = (fields.mix_lambda, fields.mix_distance)
    result.length = fields.length
    result.replaced, result.wait_seconds = fields.replaced, fields.wait_ns * 1e-9
    return result


class DataLoader:
    """Batches of a source, endlessly often.

    source      a folder of photos (class folders, train/ and val/), a text or a path; or any SRC of
                the command line:
                "tar:shards/*.tar", "csv:list.csv", "cifar:DIR", "idx:DIR", "tokens:FILE", ...
    batch_size  samples of this rank in a batch
    size        side of the square pictures; None: 224. Arrays are taken as they are stored
    seed        of order and random changes
    train       True: shuffled, random-resized-crop and flip. False: in order, resize and centre crop
    shuffle     None: as `train` says
    augment     as --augment says, such as "rrc,flip,randaugment"; None: as `train` says
    normalize   "auto", "none" or "MEAN:STD"
    dtype       of pictures: "float32", "float16", "uint8"
    layout      "nchw" or "nhwc"
    drop_last   leave out the last, smaller batch of an epoch
    workers     threads; None: what suits this machine
    prefetch    batch slots; None: what suits the batch. Batches that are kept hold their slots
    memory      budget such as "256MiB"; None: the slots' needs and the usual for threads
    on_bad      "replace", "skip" or "fail"; max_bad stops a run in which more are bad
    rank, world_size  this process' part of global batches of batch_size * world_size samples
    output      "numpy", or "dlpack" for objects that torch.from_dlpack and others take
    copy        True: arrays of their own instead of views into the ring

    Iterating yields one epoch as Batch tuples, (images, labels) for a folder, (images, None) where it
    has no class folders; the next loop is the next epoch, also where a loop ended early. After load_state_dict the first loop is the rest of
    that epoch. Arrays are views into the loader's memory and stay valid as
    long as they are kept; where a loop keeps more batches than the ring can spare, it gets copies.
    One thread at a time may iterate.
    """

    def __init__(
        self,
        source,
        batch_size=64,
        size=None,
        seed=0,
        *,
        train=True,
        shuffle=None,
        augment=None,
        normalize="auto",
        dtype="float32",
        layout="nchw",
        drop_last=False,
        workers=None,
        prefetch=None,
        memory=None,
        on_bad="replace",
        max_bad=None,
        rank=0,
        world_size=1,
        output="numpy",
        copy=False,
    ):
        if output not in OUTPUTS:
            raise ValueError(f"output is {output!r}; one of {', '.join(OUTPUTS)}")
        settings = {
            "batch-size": batch_size,
            "size": size,
            "seed": seed,
            "mode": "train" if _truth("train", train) == "true" else "eval",
            "shuffle": None if shuffle is None else _truth("shuffle", shuffle),
            "augment": augment,
            "normalize": normalize,
            "dtype": dtype,
            "layout": layout,
            "drop-last": _truth("drop_last", drop_last),
            "workers": workers,
            "prefetch": prefetch,
            "loader-memory": memory,
            "on-bad": on_bad,
            "max-bad": max_bad,
            "rank": rank,
            "world-size": world_size,
        }
        settings = {name: value for name, value in settings.items() if value is not None}
        self._stream = _Stream(source, settings)
        self._output, self._copy = output, _truth("copy", copy) == "true"
        self._begun = False  # batches of the current epoch went to a loop that may have ended early

    # ---- what it is ----

    def __len__(self):
        """Batches of an epoch."""
        return library().ull_loader_batches_per_epoch(self._stream.loader)

    @property
    def samples(self):
        """Samples of the source, all ranks together."""
        return library().ull_stream_samples(self._stream.handle)

    @property
    def bound_bytes(self):
        """The memory this loader keeps within."""
        return library().ull_stream_bound_bytes(self._stream.handle)

    @property
    def classes(self):
        """Names of the classes, in the order of their numbers; empty where there are none."""
        handle = self._stream.handle
        count = library().ull_stream_class_count(handle)
        names = (library().ull_stream_class_name(handle, number) for number in range(count))
        return [name.decode(errors="surrogateescape") for name in names]

    @property
    def epoch(self):
        """The epoch of the next batch, from 0."""
        return library().ull_loader_get_position(self._stream.loader).epoch

    @epoch.setter
    def epoch(self, number):
        """The next loop is this epoch, from its beginning."""
        if not isinstance(number, int) or not 0 <= number < 1 << 48:
            raise ValueError(f"epoch {number!r}; a whole number from 0 expected")
        self._move(number)
        self._begun = False

    def sample_name(self, sample):
        """The path, or another name, of a sample."""
        if not 0 <= sample < self.samples:
            raise IndexError(f"sample {sample} of {self.samples}")
        buffer = ctypes.create_string_buffer(4096)
        library().ull_stream_sample_name(self._stream.handle, sample, buffer, len(buffer))
        return buffer.value.decode(errors="surrogateescape")

    def __repr__(self):
        text = library().ull_stream_describe(self._stream.handle)
        return f"ullage.DataLoader({text.decode(errors='replace')})"

    # ---- batches ----

    def __iter__(self):
        if self._begun:
            self._move(self.epoch + 1)
        epoch, self._begun = self.epoch, True
        while self.epoch == epoch:
            yield self._next()
        self._begun = False

    def _move(self, epoch):
        position = _library.Position(epoch, 0)
        _check(library().ull_loader_set_position(self._stream.loader, position))

    def _next(self):
        stream, batch = self._stream, ctypes.POINTER(_library.Batch)()
        loader = stream.loader
        while not library().ull_loader_wait(loader, WAIT_NS):
            pass
        _check(library().ull_loader_next(loader, ctypes.byref(batch)))
        loan = _Loan(stream, batch)
        fields = batch.contents
        count = range(fields.array_count)
        copies = self._copy or len(stream.loans) >= self._slots
        arrays = [self._wrap(fields.arrays[i], loan, copies) for i in count]
        return _describe(batch, fields, arrays, [fields.arrays[i].name.decode() for i in count])

    @functools.cached_property
    def _slots(self):
        """Batches that may be on loan before views turn into copies: one slot stays the ring's."""
        return max(library().ull_stream_slots(self._stream.handle) - 1, 1)

    def _wrap(self, array, loan, copies):
        shape = tuple(array.shape[: array.rank])
        dtype = _library.DTYPES[array.dtype]
        memory = (ctypes.c_uint8 * array.bytes).from_address(array.data)
        if copies:
            memory = (ctypes.c_uint8 * array.bytes).from_buffer_copy(memory)
        else:
            memory.loan = loan  # lives as long as anything over this memory does
        if self._output == "dlpack" or dtype is None:
            return Tensor(ctypes.addressof(memory), dtype or "bfloat16", shape, memory)
        import numpy

        return numpy.frombuffer(memory, dtype=dtype).reshape(shape)

    # ---- position ----

    def state_dict(self):
        """Where the stream is: at the batch that the next step of the loop gets. Goes on with
        another batch size, number of ranks, threads or slots; with buckets of lengths in batches of
        the same batch_size * world_size."""
        state = library().ull_loader_get_state(self._stream.loader)
        return {"ullage": bytes(state).hex()}

    def load_state_dict(self, state):
        """Continues where state_dict was taken, at once."""
        try:
            raw = bytes.fromhex(state["ullage"])
        except (KeyError, TypeError, ValueError):
            raise ValueError("this is nothing that state_dict() gave") from None
        if len(raw) != ctypes.sizeof(_library.State):
            raise ValueError(f"a state of {len(raw)} bytes; {ctypes.sizeof(_library.State)} expected")
        value = _library.State.from_buffer_copy(raw)
        _check(library().ull_loader_set_state(self._stream.loader, ctypes.byref(value)))
        self._begun = False
