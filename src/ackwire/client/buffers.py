"""What a `BufferedProducer` keeps its messages in until the broker has confirmed them (M2).

A buffer holds entries in order, each with a sequence of its own, and knows nothing of connections. `MemoryBuffer` is
gone with the process; `DiskBuffer` (disk_buffer.py) is not. Buffers may be used from several threads.

A message is kept as the OpenWire frame that it will be: it is checked when it is handed over, later changes to the
object do not reach it, and its size is known to the byte.
"""

import threading
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Protocol, cast

from ackwire.client.errors import MessageFormatError
from ackwire.client.message import Message
from ackwire.client.message_headers import DeliveryMode
from ackwire.client.messages import message_from_command
from ackwire.errors import LocalProtocolError, RemoteProtocolError
from ackwire.jms.destinations import Destination
from ackwire.wire.openwire import commands
from ackwire.wire.openwire.codec_fast import CANONICAL, destination_to_wire
from ackwire.wire.openwire.marshal import Codec

MEMORY_BYTES_MAX: Final = 64 * 1024 * 1024
"""What waits in memory unless told otherwise: minutes of an outage for most, and no danger to the process."""

ENTRY_BYTES: Final = 20
"""What an entry counts for beyond its data: the head of its record on disk."""

_SIZE_PREFIX_BYTES: Final = 4


@dataclass(frozen=True, slots=True)
class Entry:
    """A message that waits."""

    sequence: int
    sent_ms: int
    """When the application sent it, in milliseconds since 1970."""
    data: bytes


class BufferFull(Exception):
    """There is no room for another entry; the producer says it in more words."""

    def __init__(self, cause: OSError | None = None) -> None:
        super().__init__("the buffer is full" if cause is None else str(cause))
        self.cause = cause
        """What the disk says, where that is the reason."""


class MessageBuffer(Protocol):
    """Entries in order, up to a limit."""

    bytes_max: int
    waits_for_disk: bool
    """Whether `append` takes so long that an event loop should not wait for it."""

    @property
    def where(self) -> str:
        """For people: `in memory`, or the folder."""
        ...

    @property
    def survives(self) -> bool:
        """Whether what is left is there for the next process."""
        ...

    @property
    def count(self) -> int: ...

    @property
    def size_bytes(self) -> int: ...

    @property
    def oldest_ms(self) -> int | None:
        """When the first entry was sent; None if there is none."""
        ...

    def append(self, data: bytes, sent_ms: int) -> None:
        """Keep *data* behind all others. Raises `BufferFull`, and then has kept nothing."""
        ...

    def first(self, count_max: int, bytes_max: int) -> list[Entry]:
        """The first entries, one at least if there is one, and no more than these."""
        ...

    def remove(self, sequences: Iterable[int]) -> None:
        """Forget these entries: they have arrived."""
        ...

    def close(self) -> None:
        """Let go of files; entries stay where they are."""
        ...


def first_of(entries: Iterable[Entry], count_max: int, bytes_max: int) -> list[Entry]:
    """What `MessageBuffer.first` returns, from all *entries* in order; no more of them are read than needed."""
    found: list[Entry] = []
    room = bytes_max
    for entry in entries:
        room -= len(entry.data)
        if found and (len(found) == count_max or room < 0):
            break
        found.append(entry)
    return found


class MemoryBuffer:
    """Implements `MessageBuffer` in memory."""

    waits_for_disk = False
    where = "in memory"
    survives = False

    def __init__(self, bytes_max: int = MEMORY_BYTES_MAX) -> None:
        self.bytes_max = bytes_max
        self._lock = threading.Lock()
        self._entries: dict[int, Entry] = {}
        self._size_bytes = 0
        self._next_sequence = 0

    @property
    def count(self) -> int:
        return len(self._entries)

    @property
    def size_bytes(self) -> int:
        return self._size_bytes

    @property
    def oldest_ms(self) -> int | None:
        with self._lock:
            return next((entry.sent_ms for entry in self._entries.values()), None)

    def append(self, data: bytes, sent_ms: int) -> None:
        with self._lock:
            if self._size_bytes + len(data) + ENTRY_BYTES > self.bytes_max:
                raise BufferFull
            self._entries[self._next_sequence] = Entry(self._next_sequence, sent_ms, data)
            self._next_sequence += 1
            self._size_bytes += len(data) + ENTRY_BYTES

    def first(self, count_max: int, bytes_max: int) -> list[Entry]:
        with self._lock:
            return first_of(self._entries.values(), count_max, bytes_max)

    def remove(self, sequences: Iterable[int]) -> None:
        with self._lock:
            for sequence in sequences:
                entry = self._entries.pop(sequence, None)
                if entry is not None:
                    self._size_bytes -= len(entry.data) + ENTRY_BYTES

    def close(self) -> None:
        """Nothing to let go of; what is left can still be read."""


# ---- messages --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Sending:
    """With what a message is sent, apart from its own headers."""

    destination: Destination
    delivery_mode: DeliveryMode
    priority: int
    expires_ms: int
    """When it expires, in milliseconds since 1970; 0 is never. Time in the buffer counts."""

    def time_to_live_ms(self, now_ms: int) -> int:
        """What is left of it. One that has expired is sent all the same: what to do with it is the broker's policy."""
        return max(1, self.expires_ms - now_ms) if self.expires_ms else 0


def message_to_bytes(message: Message, sending: Sending) -> bytes:
    """What a buffer keeps. Raises `MessageFormatError` for what cannot be sent at all."""
    command = message.to_command()
    command.destination = destination_to_wire(sending.destination)
    command.persistent = sending.delivery_mode is DeliveryMode.PERSISTENT
    command.priority = sending.priority
    command.expiration = sending.expires_ms
    command.message_id = command.producer_id = None  # a new message, whatever it was before
    try:
        return Codec(CANONICAL).encode(command)[_SIZE_PREFIX_BYTES:]
    except LocalProtocolError as error:
        raise MessageFormatError(str(error)) from error


def message_from_bytes(data: bytes) -> tuple[Message, Sending]:
    """The message that was kept; its body and properties are as they were, and not decoded."""
    try:
        command = Codec(CANONICAL).decode(data)
    except RemoteProtocolError as error:
        raise MessageFormatError(f"what was kept is no message: {error}") from error
    if not isinstance(command, commands.Message):
        raise MessageFormatError(f"what was kept is a {type(command).__name__} and no message")
    message = message_from_command(command)
    target = cast(Destination, message.destination)
    return message, Sending(target, message.delivery_mode, message.priority, message.expiration)
