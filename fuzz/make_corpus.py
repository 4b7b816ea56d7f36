"""Writes the seeds of every fuzz target into `fuzz/corpus/`, from the golden vectors.

    python -m fuzz.make_corpus

A seed is named by its vector. Run it again when vectors are added; findings of the fuzzer that are worth keeping are
added by hand and stay.
"""

import zlib
from pathlib import Path
from typing import Final

from ackwire.wire.openwire import commands
from ackwire.wire.openwire.codec_fast import CANONICAL
from ackwire.wire.openwire.marshal import Codec, WireFormat
from ackwire.wire.openwire.negotiation import Preferences, offer
from ackwire.wire.openwire.structures import Structure
from tests.unit.wire.openwire.vectors import Vector, cache_sequences, vectors

CORPUS: Final = Path(__file__).parent / "corpus"
SEED_BYTES_MAX: Final = 2000
"""Longer inputs slow the fuzzer down and show it nothing new."""

BODY_CHOICES: Final[dict[type[Structure], int]] = {
    commands.ActiveMQTextMessage: 0,
    commands.ActiveMQMapMessage: 1,
    commands.ActiveMQStreamMessage: 2,
    commands.ActiveMQObjectMessage: 3,
    commands.ActiveMQBytesMessage: 4,
}


def with_length(frame: bytes) -> bytes:
    return len(frame).to_bytes(2) + frame


def codec_seeds(vector: Vector) -> dict[str, bytes]:
    """Alternating encodings keep the corpus small; the fuzzer flips the setting itself."""
    tight = len(vector.name) % 2 == 1
    settings = tight | vector.stack_traces << 1
    return {vector.name: bytes((vector.version - 1, settings)) + with_length(vector.data(tight=tight)[4:])}


def sequence_seeds() -> dict[str, bytes]:
    return {
        sequence.name: bytes((11, 8 | sequence.wire_format.tight))
        + b"".join(with_length(frame[4:]) for frame, _ in sequence.frames)
        for sequence in cache_sequences()
    }


def fast_seeds(vector: Vector) -> dict[str, bytes]:
    if not isinstance(vector.command, commands.Message | commands.MessageAck):
        return {}
    frame = with_length(Codec(CANONICAL).encode(vector.command)[4:])
    return {vector.name: frame + frame}


def slot_seeds(vector: Vector) -> dict[str, bytes]:
    """Three times: the first fills slots, the next ones name them."""
    if not isinstance(vector.command, commands.Message | commands.MessageAck):
        return {}
    sender = Codec(WireFormat(cache_size=110))
    return {vector.name: b"".join(with_length(sender.encode(vector.command)[4:]) for _ in range(3))}


def primitive_seeds(vector: Vector) -> dict[str, bytes]:
    command = vector.command
    seeds: dict[str, bytes] = {}
    if isinstance(command, commands.Message | commands.WireFormatInfo) and command.marshalled_properties:
        seeds[f"{vector.name}-properties"] = b"\x80" + command.marshalled_properties
    if isinstance(command, commands.Message) and command.content and type(command) in BODY_CHOICES:
        choice = BODY_CHOICES[type(command)]
        seeds[f"{vector.name}-body"] = bytes((choice | command.compressed << 6,)) + command.content
        if not command.compressed:
            packed = zlib.compress(command.content)
            length = len(command.content).to_bytes(4) if choice == 4 else b""
            seeds[f"{vector.name}-body-compressed"] = bytes((choice | 0x40,)) + length + packed
    return seeds


def protocol_seeds(vector: Vector) -> dict[str, bytes]:
    """A handshake that agrees on the vector's format, then the vector."""
    if isinstance(vector.command, commands.WireFormatInfo):
        return {vector.name: b"\x00\x07" + vector.loose}
    tight = len(vector.name) % 2 == 0
    peer = Preferences(version=vector.version, tight=tight, stack_traces=vector.stack_traces)
    settings = tight | vector.stack_traces << 2
    hello = Codec(WireFormat()).encode(offer(peer))
    return {vector.name: bytes((settings, 40)) + hello + vector.data(tight=tight)}


def write(target: str, seeds: dict[str, bytes]) -> None:
    folder = CORPUS / target
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in seeds.items():
        if len(data) <= SEED_BYTES_MAX:
            (folder / name).write_bytes(data)


def main() -> None:
    write("fuzz_openwire_codec", sequence_seeds())
    for vector in vectors():
        write("fuzz_openwire_codec", codec_seeds(vector))
        write("fuzz_openwire_fast", fast_seeds(vector))
        write("fuzz_openwire_slots", slot_seeds(vector))
        write("fuzz_primitives", primitive_seeds(vector))
        write("fuzz_openwire_protocol", protocol_seeds(vector))
    files = [path for path in CORPUS.rglob("*") if path.is_file()]
    print(f"{len(files)} seeds, {sum(path.stat().st_size for path in files)} bytes")


if __name__ == "__main__":
    main()
