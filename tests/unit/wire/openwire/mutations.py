"""Frames that are almost right."""

import random
from typing import Final

from hypothesis import strategies as st

INTERESTING: Final = (0, 1, 2, 0x6E, 0x6F, 0x64, 0x78, 0x7B, 0x7F, 0x80, 0xC0, 0xC3, 0xED, 0xF0, 0xFF)
"""Flags, type ids, signs of lengths, and bytes that begin UTF-8 sequences."""

_FOREIGN: Final = (b"\0", b"\xc0\x80", b"\xf0\x9f\x98\x80", b"\xed\xa0\xbd\xed\xb8\x80", b"\xff", b"\xc3")
"""Text in the forms of other writers, and bytes that are no text."""


def mutated(frame: bytes, seed: int) -> bytes:
    """*frame* with one to three small changes, always the same for a *seed*."""
    choices = random.Random(seed)
    data = bytearray(frame)
    for _ in range(choices.choice((1, 1, 1, 2, 3))):
        _change(data, choices)
    return bytes(data)


def _change(data: bytearray, choices: random.Random) -> None:
    at = choices.randrange(len(data) + 1)
    length = choices.choice((1, 1, 2, 4, 8))
    match choices.randrange(6):
        case 0:
            data[at : at + 1] = bytes((choices.choice(INTERESTING),))
        case 1:
            data[at : at + 1] = bytes((choices.randrange(256),))
        case 2:
            del data[at : at + length]
        case 3:
            data[at:at] = bytes(choices.choice(INTERESTING) for _ in range(length))
        case 4:
            text = choices.choice(_FOREIGN)
            data[at : at + len(text)] = text
        case _:
            del data[at:]


def mutations_of(frames: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    return st.builds(mutated, frames, st.integers(0, 2**32))
