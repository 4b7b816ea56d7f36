"""Returns the memory of large frames to the system as soon as they are freed."""

import ctypes
from contextlib import suppress
from typing import Final

_M_MMAP_THRESHOLD: Final = -3
"""The name of the parameter in malloc.h."""

_LARGE_BYTES: Final = 4 * 1024 * 1024
"""Blocks of this size are mapped one by one. Mapping costs 0.1 ms for each MiB; smaller ones come from the heap."""


def return_large_blocks() -> None:
    """Have the C library map each large block by itself, for the whole process.

    The GNU C library raises the limit for that to 32 MiB as soon as blocks are freed. From then on frames of 16 MiB
    come from the heap, and leave holes there: with eight clients that sent such frames and left, a broker kept 100 MB.
    """
    with suppress(AttributeError, OSError):  # another C library, which has rules of its own
        ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, _LARGE_BYTES)
