"""Ullage's data loader for Python.

    import ullage

    loader = ullage.DataLoader("photos/", batch_size=64, size=224, seed=0)
    for epoch in range(10):
        for images, labels in loader:            # NumPy arrays, float32 [64, 3, 224, 224]
            step(torch.from_numpy(images), torch.from_numpy(labels))

Decoding runs on threads of the C library, in a memory bound known beforehand; order, pixels and
random crops depend on the seed alone. Nothing has to be built for Python: the shared library
libullage.so is opened with ctypes.
"""

from .dlpack import Tensor
from .loader import Batch, DataLoader, UllageError

__all__ = ["Batch", "DataLoader", "Tensor", "UllageError", "version"]


def version():
    """The version of the C library."""
    from .loader import library

    return library().ull_version().decode()
