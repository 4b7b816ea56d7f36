"""Fuzzes the short ways for a cache against the plain codec: both accept the same frames and say the same about them.

Input: frames, each with a 16-bit length, over one connection, because it remembers slots. What comes as a message goes
out again, to two consumers.
"""

import sys

import atheris

with atheris.instrument_imports(include=["ackwire"]):
    from fuzz.fuzz_openwire_codec import frames_in
    from tests.unit.wire.openwire.side_by_side import SideBySide, stamped


def test_one_input(data: bytes) -> None:
    both = SideBySide(cache_size=110)
    for frame in frames_in(data):
        received = both.receive(frame)
        if received is None:
            return
        for message in received:
            stamped(message)
            for consumer in ("a", "b", "a"):
                both.dispatch(message, consumer)


if __name__ == "__main__":
    atheris.Setup(sys.argv, test_one_input)
    atheris.Fuzz()
