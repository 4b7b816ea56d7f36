"""A proxy between client and broker that reads along: every command both ways, in order, as its structure.

A command is written down before it is passed on, so whatever a client knows the answer to is in the list. Answers of
the broker can be held back, to look at a client while it waits. It reads loose encoding without cache, which is what
our client speaks; a Java client needs `LOOSE` in its URL.
"""

import contextlib
import socket
import struct
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeVar

from ackwire.wire.buffer import FrameBuffer
from ackwire.wire.openwire import commands
from ackwire.wire.openwire.marshal import Codec, WireFormat
from ackwire.wire.openwire.structures import Structure
from tests.conformance.jms import with_options
from tests.conformance.proxy import CuttableProxy, shut

C = TypeVar("C", bound=Structure)

LOOSE: Final = {
    "wireFormat__tightEncodingEnabled": False,
    "wireFormat__cacheEnabled": False,
    "wireFormat__stackTraceEnabled": False,
}
WAIT_SECONDS: Final = 20.0  # for what should take milliseconds
_FRAME_BYTES_MAX: Final = 100 * 1024 * 1024
_SIZE: Final = struct.Struct(">I")

Rule = Callable[[Structure], bool]


@dataclass(frozen=True, slots=True)
class Record:
    """One command on the wire."""

    connection: int
    """0 for the first connection through the proxy, 1 for the second, …"""
    is_from_client: bool
    command: Structure


class _Wire:
    """Both directions of one connection: what is common to them is the version that they agree on."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.versions: list[int] = []
        self.buffers = {True: FrameBuffer(), False: FrameBuffer()}
        self.first = {True: True, False: True}

    def decode(self, frame: bytes, is_from_client: bool) -> Structure | None:
        if self.first[is_from_client]:
            self.first[is_from_client] = False
            info = Codec(WireFormat()).decode(frame)
            assert isinstance(info, commands.WireFormatInfo)
            self.versions.append(info.version)
            return info
        # A side that speaks already has the other's offer, or it could not know the version.
        return Codec(WireFormat(version=min(self.versions))).decode(frame)


class RecordingProxy(CuttableProxy):
    """Forwards connections to *target_port* and writes down what goes through."""

    def __init__(self, target_port: int) -> None:
        super().__init__(target_port)
        self._wires: dict[socket.socket, _Wire] = {}
        self._news = threading.Condition()
        self._order = threading.RLock()
        """Held while the broker's words are passed on: what is released keeps its place."""
        self._records: list[Record] = []
        self._rule: Rule | None = None
        self._held: list[tuple[socket.socket, bytes]] = []

    @property
    def url(self) -> str:
        return f"tcp://127.0.0.1:{self.port}"

    def url_with(self, **options: object) -> str:
        """The address with options; in their names `__` stands for a dot."""
        return with_options(self.url, **options)

    # ---- what went over the wire -------------------------------------------------------------------------------

    @property
    def records(self) -> list[Record]:
        """All commands, in the order in which they passed."""
        with self._news:
            return list(self._records)

    def sent(self, kind: type[C], connection: int | None = None) -> list[C]:
        """The commands of that *kind* that clients sent."""
        return self._select(kind, True, connection)

    def received(self, kind: type[C], connection: int | None = None) -> list[C]:
        """The commands of that *kind* that the broker sent, held back or not."""
        return self._select(kind, False, connection)

    def await_sent(self, kind: type[C], count: int = 1) -> list[C]:
        """The same as `sent`, once there are *count*."""
        return self._await(kind, True, count)

    def await_received(self, kind: type[C], count: int = 1) -> list[C]:
        """The same as `received`, once there are *count*."""
        return self._await(kind, False, count)

    def await_received_by(self, rule: Rule) -> None:
        """Return once the broker has said something of which *rule* is true, held back or not."""
        with self._news:
            there = self._news.wait_for(
                lambda: any(rule(record.command) for record in self._records if not record.is_from_client), WAIT_SECONDS
            )
        assert there, "the broker has not said it"

    def forget(self) -> None:
        """Start with an empty list."""
        with self._news:
            self._records.clear()

    def _select(self, kind: type[C], is_from_client: bool, connection: int | None = None) -> list[C]:
        with self._news:
            return [
                record.command
                for record in self._records
                if isinstance(record.command, kind)
                and record.is_from_client == is_from_client
                and connection in (None, record.connection)
            ]

    def _await(self, kind: type[C], is_from_client: bool, count: int) -> list[C]:
        with self._news:
            there = self._news.wait_for(lambda: len(self._select(kind, is_from_client)) >= count, WAIT_SECONDS)
            found = self._select(kind, is_from_client)
            assert there, f"{len(found)} of {count} {kind.__name__} passed"
            return found

    # ---- holding back ------------------------------------------------------------------------------------------

    def hold(self, rule: Rule) -> None:
        """Keep back what the broker says, as far as *rule* is true of it, until `release`."""
        with self._order:
            self._rule = rule

    def hold_answers(self) -> None:
        """Keep back all answers to requests; dispatches go through."""
        self.hold(lambda command: isinstance(command, commands.Response))

    def release(self) -> None:
        """Let through what was kept back, in order, and all that comes."""
        with self._order:
            self._rule = None
            self._let_out()

    def release_held(self) -> None:
        """Let through what was kept back, in order; what comes is kept back as before."""
        with self._order:
            self._let_out()

    def _let_out(self) -> None:
        held, self._held = self._held, []
        for target, frame in held:
            with contextlib.suppress(OSError):
                target.sendall(frame)

    # ---- pumping -----------------------------------------------------------------------------------------------

    def _pump(self, source: socket.socket, target: socket.socket) -> None:
        with self._lock:
            is_from_client = any(client is source for client, _ in self._pairs)
            wire = self._wires.setdefault(source if is_from_client else target, _Wire(len(self._wires)))
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                if source in self._muted:
                    continue
                if is_from_client:
                    target.sendall(b"".join(raw for raw, _ in self._read(wire, data, True)))
                else:
                    with self._order:
                        passing = [
                            raw
                            for raw, command in self._read(wire, data, False)
                            if not self._holds(target, raw, command)
                        ]
                        target.sendall(b"".join(passing))
        for side in (source, target):
            shut(side)

    def _read(self, wire: _Wire, data: bytes, is_from_client: bool) -> list[tuple[bytes, Structure | None]]:
        """Write down the commands that are complete; they come with their frames."""
        buffer = wire.buffers[is_from_client]
        buffer.append(data)
        read: list[tuple[bytes, Structure | None]] = []
        while (frame := buffer.next_frame(_FRAME_BYTES_MAX)) is not None:
            read.append((_SIZE.pack(len(frame)) + frame, wire.decode(frame, is_from_client)))
        with self._news:
            self._records += [Record(wire.number, is_from_client, command) for _, command in read if command]
            self._news.notify_all()
        return read

    def _holds(self, target: socket.socket, frame: bytes, command: Structure | None) -> bool:
        if command is None or self._rule is None or not self._rule(command):
            return False
        self._held.append((target, frame))
        return True
