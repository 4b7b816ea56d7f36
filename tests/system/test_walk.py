"""The walk of one message, traced: a persistent send that its producer waits for, its dispatch and its ack.

Real sockets and a real journal, with the turns of the loop called one by one, so that every run makes the same calls.
`pytest -s` prints the walk; ARCHITECTURE.md names the same files.
"""

import asyncio
import re
import select
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from itertools import count
from pathlib import Path
from types import FrameType
from typing import Any, Final, cast

import pytest

import ackwire
from ackwire.broker.broker import Broker
from ackwire.config import Settings, StoreSettings
from ackwire.config.listener_uri import parse_listener_uri
from ackwire.server.listener import ConnectionGate
from ackwire.server.peer import Peer
from ackwire.server.protocols import BUILT_IN
from ackwire.server.turn import Turn
from ackwire.store.background import OnTheSpot
from ackwire.store.files import OsFiles
from ackwire.store.journal.journal_store import JournalStore
from ackwire.store.journal.options import JournalOptions
from ackwire.store.lmdb_index import LmdbIndex
from ackwire.util.clock import ManualClock
from ackwire.wire.openwire import commands
from ackwire.wire.openwire.bodies import encode_text
from ackwire.wire.openwire.editor import OpenWireEditor
from ackwire.wire.openwire.negotiation import Agreement
from ackwire.wire.openwire.protocol import Event, OpenWireProtocol
from ackwire.wire.openwire.stored import OpenWireStoredForm
from tests.helpers.background import ControlledBackground
from tests.helpers.compilation import pure_only
from tests.helpers.openwire_client import UNWATCHED

pytestmark = [pytest.mark.system, pure_only]

_LONG_AGO_MS: Final = 3_600_000
"""The journal's files are not new: those that have just changed are looked at more often."""
SOURCES: Final = Path(ackwire.__file__).parent
QUEUE: Final = commands.ActiveMQQueue("walk")
WARM_UP_MESSAGES: Final = 60
"""Enough for adaptive early dispatch to try (16 messages) and to be sure of quick acks (20 more)."""
STORED_CALLS_MAX: Final = 304
CONSUMED_CALLS_MAX: Final = 240
"""What the walk takes today and a little more: a change that makes it longer is noticed. On a busy machine a turn
takes so long that other sockets are postponed, which is three calls more. Compiled, most of these are direct calls in
C."""


class _Loop:
    """What a turn needs of its loop: the test calls the turns."""

    def __init__(self) -> None:
        self._due: list[Callable[[], None]] = []

    def take_part(self, turn: Turn) -> None:
        """The test calls `Turn.read`."""

    def call_soon(self, callback: Callable[[], None]) -> None:
        self._due.append(callback)

    def run_due(self) -> bool:
        """Run what was asked for; whether there was something."""
        due, self._due = self._due, []
        for callback in due:
            callback()
        return bool(due)

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        raise context["exception"]


class _Transport(asyncio.Transport):
    """Writes to the socket at once."""

    def __init__(self, sock: socket.socket) -> None:
        super().__init__({"socket": sock})
        self._socket = sock

    def write(self, data: Any) -> None:
        self._socket.sendall(data)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Nothing waits here."""

    def get_write_buffer_size(self) -> int:
        return 0

    def is_closing(self) -> bool:
        return False

    def is_reading(self) -> bool:
        return True

    def pause_reading(self) -> None:
        """The turns are called one by one."""

    def resume_reading(self) -> None:
        """The turns are called one by one."""


class _Client:
    """One client, and the broker's end of its connection."""

    def __init__(self, stage: "_Stage", name: str) -> None:
        self._stage = stage
        self.socket, self._accepted = socket.socketpair()
        self._accepted.setblocking(False)
        self.protocol = OpenWireProtocol(UNWATCHED)
        self._command_ids = count(1)
        self.connection_id = f"ID:{name}"
        self.session = commands.SessionId(self.connection_id, 1)
        stage.connect(_Transport(self._accepted))
        self.exchange()
        self.exchange()
        self.ask(commands.ConnectionInfo(connection_id=commands.ConnectionId(self.connection_id), client_id=name))
        self.ask(commands.SessionInfo(session_id=self.session))

    def put(self, command: Any, *, asks: bool = True) -> None:
        """Send *command*; the broker has not read it yet."""
        command.command_id, command.response_required = next(self._command_ids), asks
        self.protocol.send(command)
        self.socket.sendall(b"".join(self.protocol.data_to_send()))

    def read(self) -> list[Event]:
        """What the broker has written."""
        self.socket.setblocking(False)
        try:
            self.protocol.receive_data(self.socket.recv(1 << 16))
        except BlockingIOError:
            return []
        finally:
            self.socket.setblocking(True)
        events = []
        for event in self.protocol.events():
            if isinstance(event, Agreement):
                self.protocol.login_finished()
            events.append(event)
        return events

    def broker_reads(self) -> None:
        """One turn of the broker, in which this client's socket is readable."""
        self._stage.turn.read([(self._accepted.fileno(), select.EPOLLIN)])
        self._stage.end_turns()

    def exchange(self) -> list[Event]:
        """Send what waits, and read the answer."""
        self.socket.sendall(b"".join(self.protocol.data_to_send()))
        self.broker_reads()
        return self.read()

    def ask(self, command: Any) -> None:
        self.put(command)
        self.broker_reads()
        self._stage.settle()
        assert commands.Response in map(type, self.read())

    def close(self) -> None:
        self.socket.close()
        self._accepted.close()


class _Stage:
    """A broker with a journal, a producer and a consumer."""

    def __init__(self, folder: Path, policy: str) -> None:
        self.loop = _Loop()
        self.turn = Turn(cast("asyncio.AbstractEventLoop", self.loop))
        self._clock = ManualClock(start_ms=time.time_ns() // 1_000_000 + _LONG_AGO_MS)
        self._settings = Settings(store=StoreSettings(early_dispatch=policy))
        self._background = ControlledBackground()
        self._gate, self._peers = ConnectionGate(limit=10), set[Peer]()
        self.store = JournalStore.open(
            OsFiles(),
            folder / "data",
            form=OpenWireStoredForm(),
            clock=self._clock,
            at_turn_end=self.turn.at_end,
            open_index=lambda fresh: LmdbIndex(folder / "index", fresh=fresh),
            options=JournalOptions(segment_bytes=1 << 20, free_bytes_min=0),
            writing=self._background,
            indexing=OnTheSpot(),
            holder="walk",
            new_id=lambda: bytes(16),
            on_failed=lambda _: None,
        )
        self.broker = Broker(
            clock=self._clock,
            store=self.store,
            editor=OpenWireEditor("ID:walk", "walk", self._clock),
            settings=self._settings,
            turns=self.turn.turns,
        )
        self.broker.start()
        self.producer = _Client(self, "producer")
        self.consumer = _Client(self, "consumer")
        self._producer_id = commands.ProducerId(self.producer.connection_id, 1, 1)
        self._consumer_id = commands.ConsumerId(self.consumer.connection_id, 1, 1)
        self.producer.ask(commands.ProducerInfo(producer_id=self._producer_id, destination=QUEUE))
        self.consumer.ask(commands.ConsumerInfo(consumer_id=self._consumer_id, destination=QUEUE, prefetch_size=100))
        self._numbers = count(1)

    def connect(self, transport: asyncio.Transport) -> None:
        peer = Peer(
            broker=self.broker,
            clock=self._clock,
            settings=self._settings,
            uri=parse_listener_uri("tcp://127.0.0.1:0"),
            gate=self._gate,
            peers=self._peers,
            turn=self.turn,
            protocols=BUILT_IN,
        )
        peer.connection_made(transport)

    def end_turns(self) -> None:
        """What was read is acted upon: do what that asks for, turn by turn."""
        while self.turn.before_sleep() or self.loop.run_due():
            pass

    def settle(self) -> None:
        """Let the journal's thread do what it has to do."""
        self._background.run_all()
        self.end_turns()

    def walk(self, traced: "Callable[[Callable[[], None]], None]") -> None:
        """Send one message, dispatch it, acknowledge it; *traced* runs what the broker does for it."""
        message_id = commands.MessageId(producer_id=self._producer_id, producer_sequence_id=next(self._numbers))
        self.producer.put(
            commands.ActiveMQTextMessage(
                producer_id=self._producer_id,
                destination=QUEUE,
                message_id=message_id,
                persistent=True,
                priority=4,
                timestamp=1,
                content=encode_text("x" * 1000),
            )
        )
        traced(self.producer.broker_reads)
        dispatched = self.consumer.read()
        assert [type(it) for it in dispatched] == [commands.MessageDispatch]
        answers = self.producer.read()
        self.consumer.put(
            commands.MessageAck(
                destination=QUEUE,
                consumer_id=self._consumer_id,
                ack_type=2,
                last_message_id=message_id,
                message_count=1,
            ),
            asks=False,
        )
        traced(self.consumer.broker_reads)
        answers += self.producer.read()
        self.settle()
        answers += self.producer.read()
        assert [type(it) for it in answers] == [commands.Response]

    def close(self) -> None:
        self.producer.close()
        self.consumer.close()
        self.store.close()


class Trace:
    """The calls of our own functions, and the files in the order in which they are first entered."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def run(self, work: Callable[[], None]) -> None:
        sys.setprofile(self._profile)
        try:
            work()
        finally:
            sys.setprofile(None)

    def _profile(self, frame: FrameType, event: str, _argument: object) -> None:
        path = Path(frame.f_code.co_filename)
        if event == "call" and path.is_relative_to(SOURCES):
            self.calls.append(f"{path.relative_to(SOURCES)}:{frame.f_code.co_qualname}")

    @property
    def files(self) -> list[str]:
        return list(dict.fromkeys(call.partition(":")[0] for call in self.calls))


@contextmanager
def traced(folder: Path, policy: str) -> Iterator[Trace]:
    """The trace of one message in the steady state, printed."""
    trace = Trace()
    with closing(_Stage(folder, policy)) as made:
        for _ in range(WARM_UP_MESSAGES):
            made.walk(lambda work: work())
        made.walk(trace.run)
    print(f"\n{len(trace.calls)} calls in {len(trace.files)} files:", *trace.files, sep="\n  ")
    yield trace


def _walk_in_architecture() -> set[str]:
    """The files that ARCHITECTURE.md's walk names."""
    text = (SOURCES.parent.parent / "ARCHITECTURE.md").read_text()
    section = text.partition("## The walk of one message\n")[2].partition("\n## ")[0]
    return {it for it in re.findall(r"`([a-z_/]+\.py)`", section) if not it.startswith("tests/")}


def test_B1_the_walk_of_a_stored_message_is_the_one_in_the_architecture(tmp_path: Path) -> None:
    with traced(tmp_path, "off") as trace:
        assert set(trace.files) == _walk_in_architecture()
        assert len(trace.calls) <= STORED_CALLS_MAX


def test_B1_a_message_that_is_consumed_before_the_disk_has_it_is_not_written(tmp_path: Path) -> None:
    with traced(tmp_path, "adaptive") as trace:
        assert "store/journal/writer.py" not in trace.files
        assert set(trace.files) - {"server/sockets.py"} < _walk_in_architecture(), (
            "it asks what the sender has received"
        )
        assert len(trace.calls) <= CONSUMED_CALLS_MAX
