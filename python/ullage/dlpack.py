"""DLPack capsules over memory that something else owns (the protocol of dmlc/dlpack, version 0).

NumPy is not needed: a Tensor goes to anything with from_dlpack, such as torch.from_dlpack."""

import ctypes
from ctypes import c_char_p, c_int32, c_int64, c_uint8, c_uint16, c_uint64, c_void_p

CPU = 1
CODES = {  # type code and bits of each of ull_dtype's names
    "float64": (2, 64),
    "float32": (2, 32),
    "float16": (2, 16),
    "bfloat16": (4, 16),
    "int64": (0, 64),
    "int32": (0, 32),
    "uint8": (1, 8),
    "bool": (6, 8),
}


class _Device(ctypes.Structure):
    _fields_ = [("kind", c_int32), ("number", c_int32)]


class _Type(ctypes.Structure):
    _fields_ = [("code", c_uint8), ("bits", c_uint8), ("lanes", c_uint16)]


class _Tensor(ctypes.Structure):
    _fields_ = [
        ("data", c_void_p),
        ("device", _Device),
        ("rank", c_int32),
        ("dtype", _Type),
        ("shape", ctypes.POINTER(c_int64)),
        ("strides", ctypes.POINTER(c_int64)),
        ("byte_offset", c_uint64),
    ]


class _Managed(ctypes.Structure):
    pass


_Deleter = ctypes.CFUNCTYPE(None, ctypes.POINTER(_Managed))
_Managed._fields_ = [("tensor", _Tensor), ("context", c_void_p), ("deleter", _Deleter)]

_lent = {}  # address of a _Managed -> everything that has to live as long as it does


@_Deleter
def _delete(managed):
    _lent.pop(ctypes.addressof(managed.contents), None)


_CapsuleDestructor = ctypes.CFUNCTYPE(None, c_void_p)
_api = ctypes.pythonapi
_api.PyCapsule_New.restype = ctypes.py_object
_api.PyCapsule_New.argtypes = [c_void_p, c_char_p, _CapsuleDestructor]
_api.PyCapsule_IsValid.argtypes = [c_void_p, c_char_p]
_api.PyCapsule_GetPointer.restype = c_void_p
_api.PyCapsule_GetPointer.argtypes = [c_void_p, c_char_p]


@_CapsuleDestructor
def _forget(capsule):
    """A capsule that nobody took: one that was taken has another name by now."""
    if _api.PyCapsule_IsValid(capsule, b"dltensor"):
        _lent.pop(_api.PyCapsule_GetPointer(capsule, b"dltensor"), None)


class Tensor:
    """An array in the memory of `owner`, a ctypes array that has all of it and nothing else."""

    def __init__(self, address, dtype, shape, owner):
        self.dtype, self.shape = dtype, tuple(shape)
        self._address, self._owner = address, owner

    def __dlpack_device__(self):
        return (CPU, 0)

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        if stream is not None:
            raise BufferError("there is no stream on a CPU")
        if dl_device not in (None, (CPU, 0)):
            raise BufferError("the memory is the CPU's")
        if copy:
            return self._copy().__dlpack__()
        code, bits = CODES[self.dtype]
        shape = (c_int64 * len(self.shape))(*self.shape)
        tensor = _Tensor(
            self._address, _Device(CPU, 0), len(self.shape), _Type(code, bits, 1), shape, None, 0
        )
        managed = _Managed(tensor, None, _delete)
        address = ctypes.addressof(managed)
        _lent[address] = (managed, shape, self._owner)
        return _api.PyCapsule_New(address, b"dltensor", _forget)

    def _copy(self):
        memory = type(self._owner).from_buffer_copy(self._owner)
        return Tensor(ctypes.addressof(memory), self.dtype, self.shape, memory)

    def __repr__(self):
        return f"ullage.Tensor({self.dtype}, {list(self.shape)})"
