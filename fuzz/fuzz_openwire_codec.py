"""Fuzzes the plain codec: any bytes, in any wire format, decode or raise `RemoteProtocolError`.

Input: version, settings, then frames, each with a 16-bit length; they share one pair of codecs, so the cache is fuzzed
too. What decodes must encode, and decode to the same again.
"""

import sys
from collections.abc import Iterator
from typing import Final

import atheris

with atheris.instrument_imports(include=["ackwire"]):
    from ackwire.errors import RemoteProtocolError
    from ackwire.wire.openwire.limits import WireLimits
    from ackwire.wire.openwire.marshal import Codec, WireFormat

LIMITS: Final = WireLimits(frame_bytes_max=1 << 20, cache_bytes_max=1 << 16, nesting_max=16)
CACHE_SIZES: Final = (None, 100, 1024, 0)


def wire_format_from(version: int, settings: int) -> WireFormat:
    return WireFormat(
        version=1 + version % 12,
        tight=bool(settings & 1),
        stack_traces=bool(settings & 2),
        cache_size=CACHE_SIZES[settings >> 2 & 3],
    )


def frames_in(data: bytes) -> Iterator[bytes]:
    while len(data) > 2:
        length = int.from_bytes(data[:2])
        yield data[2 : 2 + length]
        data = data[2 + length :]


def test_one_input(data: bytes) -> None:
    if len(data) < 3:
        return
    wire_format = wire_format_from(data[0], data[1])
    codec = Codec(wire_format, LIMITS)
    uncached = Codec(WireFormat(wire_format.version, stack_traces=wire_format.stack_traces), LIMITS)
    for frame in frames_in(data[2:]):
        try:
            command = codec.decode(frame)
        except RemoteProtocolError:
            continue
        assert uncached.decode(uncached.encode(command)[4:]) == command


if __name__ == "__main__":
    atheris.Setup(sys.argv, test_one_input)
    atheris.Fuzz()
