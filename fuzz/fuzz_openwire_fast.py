"""Fuzzes the fast path against the plain codec: both accept the same frames and say the same about them.

Input: frames, each with a 16-bit length, through one decoder, because it remembers what repeats.
"""

import sys

import atheris

with atheris.instrument_imports(include=["ackwire"]):
    from ackwire.wire.openwire.codec_fast import FastDecoder
    from ackwire.wire.openwire.layout import ACK_TYPE, MESSAGE_TYPES
    from fuzz.fuzz_openwire_codec import frames_in
    from tests.unit.wire.openwire.agreement import assert_ack_agrees, assert_message_agrees


def test_one_input(data: bytes) -> None:
    decoder = FastDecoder()
    for frame in frames_in(data):
        if frame[:1] and frame[0] in MESSAGE_TYPES:
            assert_message_agrees(decoder, frame)
        elif frame[:1] and frame[0] == ACK_TYPE:
            assert_ack_agrees(decoder, frame)


if __name__ == "__main__":
    atheris.Setup(sys.argv, test_one_input)
    atheris.Fuzz()
