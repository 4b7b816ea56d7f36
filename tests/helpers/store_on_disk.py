"""Journal stores in real files, for the tests of what looks at them from outside.

    disk = StoreOnDisk(tmp_path / "data")
    with disk:
        disk.send("queue://orders", "hello")
    # closed: a clean stop
    path, offset = disk.record_with(b"hello")
    flip(path, offset + 40)

Messages are made as clients make them. Time is a `ManualClock`, and nothing happens beside the test.
"""

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import mkdtemp
from types import TracebackType
from typing import Any, Final, Self

import pytest

from ackwire.jms.destinations import parse_destination
from ackwire.jms.message import Message
from ackwire.jms.types import Value
from ackwire.store.background import OnTheSpot
from ackwire.store.check import CheckReport, check
from ackwire.store.contract import (
    DurableKey,
    DurableRecord,
    Place,
    PreparedTransaction,
    ScheduledJob,
)
from ackwire.store.files import OsFiles
from ackwire.store.index_files import IndexKind, content_files
from ackwire.store.indexes import open_index
from ackwire.store.journal.journal_store import JournalStore
from ackwire.store.journal.options import JournalOptions
from ackwire.store.journal.record import HEADER, MARKER, record_bytes
from ackwire.store.offline import OfflineStore
from ackwire.util.clock import ManualClock
from ackwire.wire.openwire import commands
from ackwire.wire.openwire.bodies import encode_text
from ackwire.wire.openwire.codec_fast import destination_to_wire, stamp
from ackwire.wire.openwire.primitives import encode_map
from ackwire.wire.openwire.stored import OpenWireStoredForm
from tests.helpers.broker_rig import make_message, text_of

SMALL_SEGMENT_BYTES: Final = 4096
START_MS: Final = 1_700_000_000_000
STORE_ID: Final = bytes(range(16))


def where(text: str) -> Place:
    """`queue://orders`, or `client/name` for a durable subscription."""
    if "://" in text:
        return parse_destination(text)
    client_id, _, name = text.partition("/")
    return DurableKey(client_id, name)


@pytest.fixture(params=IndexKind, ids=lambda kind: kind.value)
def every_index(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> IndexKind:
    """A test that uses this runs once with each kind of index."""
    kind: IndexKind = request.param
    monkeypatch.setattr(StoreOnDisk, "default_index", kind)
    return kind


class StoreOnDisk:
    """A store that is open inside a `with`, and can be opened again."""

    default_index = IndexKind.LMDB

    def __init__(self, data: Path, *, segment_bytes: int = SMALL_SEGMENT_BYTES, index: IndexKind | None = None) -> None:
        self.data = data
        self.index_kind = index or self.default_index
        self.clock = ManualClock(START_MS)
        self.options = JournalOptions(segment_bytes=segment_bytes, free_bytes_min=0)
        self._producer = commands.ProducerId("ID:tests-1", 1, 1)
        self._count = 0
        self._store: JournalStore | None = None

    @property
    def store(self) -> JournalStore:
        assert self._store is not None, "it is not open"
        return self._store

    def __enter__(self) -> Self:
        self._store = JournalStore.open(
            OsFiles(),
            self.data,
            form=OpenWireStoredForm(),
            clock=self.clock,
            open_index=lambda fresh: open_index(self.index_kind, self.data / "index", fresh=fresh),
            options=self.options,
            writing=OnTheSpot(),
            indexing=OnTheSpot(),
            new_id=lambda: STORE_ID,
            holder="the tests",
            on_failed=lambda _: None,
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.store.close()

    # ---- what happens ------------------------------------------------------------------------------------------

    def message(self, destination: str, text: str = "x", **headers: Any) -> Message:
        """A stamped message: the next in the store's order."""
        message = self.unstamped(destination, text, **headers)
        stamp(message, self.store.last_sequence() + 1, self.clock.now_ms())
        return message

    def unstamped(
        self, destination: str, text: str = "x", *, properties: Mapping[str, Value] | None = None, **headers: Any
    ) -> Message:
        self._count += 1
        command = commands.ActiveMQTextMessage(
            producer_id=self._producer,
            destination=destination_to_wire(parse_destination(destination)),
            message_id=commands.MessageId(None, self._producer, self._count),
            content=encode_text(text),
            marshalled_properties=encode_map(properties) if properties else None,
            persistent=True,
            timestamp=self.clock.now_ms(),
            **{"priority": 4, **headers},
        )
        return make_message(command)

    def send(self, destination: str, text: str = "x", *, places: Sequence[str] = (), **headers: Any) -> Message:
        """Append a message; it is written when this returns."""
        message = self.message(destination, text, **headers)
        self.store.append(message, [where(it) for it in places or (destination,)])
        self.settle()
        return message

    def remove(self, place: str, message: Message) -> None:
        self.store.remove(where(place), message)
        self.settle()

    def subscribe(self, client_id: str, name: str, topic: str, selector: str | None = None) -> DurableRecord:
        record = DurableRecord(DurableKey(client_id, name), parse_destination(topic), selector, no_local=False)
        self.store.add_durable(record)
        self.settle()
        return record

    def schedule(self, job_id: str, destination: str, text: str = "later") -> ScheduledJob:
        message = self.message(destination, text)
        now = self.clock.now_ms()
        job = ScheduledJob(job_id, message, now, now + 60_000, 60_000, 0, 0, "", fresh_ids=False)
        self.store.add_job(job)
        self.settle()
        return job

    def prepare(self, number: int, sends: Sequence[Message], acks: Sequence[tuple[str, Message]]) -> None:
        xid = commands.XATransactionId(number, b"global", b"branch")
        self.store.prepare(PreparedTransaction(xid, tuple(sends), tuple((where(it), m) for it, m in acks)))
        self.settle()

    def settle(self) -> None:
        """Everything recorded so far is on the medium."""
        self.store.when_durable(lambda: None)
        self.clock.advance(0)

    def crash(self) -> None:
        """The process is gone: what was synced stays, nobody says goodbye. The index is as of its last checkpoint."""
        self.store.abandon()

    def fill(self) -> list[Message]:
        """Something of everything, over several segments; the answer is what was sent to queue://orders."""
        messages = [self.send("queue://orders", f"m{number:03}" * 12) for number in range(24)]
        for client_id in ("c", "d"):
            self.subscribe(client_id, "s", "topic://t", "n > 1" if client_id == "d" else None)
        self.send("topic://t", "for both", places=["c/s", "d/s"], properties={"n": 2})
        for message in messages[::3]:
            self.remove("queue://orders", message)
        self.schedule("job-1", "queue://later")
        self.schedule("job-2", "queue://later")
        self.store.remove_job("job-2")
        self.prepare(1, [self.unstamped("queue://paid")], [("queue://orders", messages[1])])
        self.store.committed(commands.LocalTransactionId(3, commands.ConnectionId("c")))
        self.send("queue://last", "the last one")
        self.send("queue://last", "and one more")
        return messages

    # ---- what is there -----------------------------------------------------------------------------------------

    def texts(self) -> dict[str, list[str | None]]:
        """What waits, by place."""
        found: dict[str, list[str | None]] = {}
        for place in self.store.places():
            loaded = self.store.load(place, [it.sequence for it in self.store.waiting(place)])
            texts = [None if it is None else text_of(it) for it in loaded]
            if texts:
                found[repr(place)] = texts
        return found

    # ---- damage ------------------------------------------------------------------------------------------------

    def lose_index(self) -> None:
        shutil.rmtree(self.data / "index")
        (self.data / "index.sum").unlink()

    def index_file(self) -> Path:
        """The largest file of the index: of LMDB the only one, of LevelDB one with rows in it."""
        return max(content_files(self.data / "index"), key=lambda it: (it.stat().st_size, it.name))

    def segment_path(self, number: int) -> Path:
        return self.data / "journal" / f"{number:010}.log"

    def segments(self) -> list[Path]:
        return sorted((self.data / "journal").glob("*.log"))

    def records(self, path: Path) -> list[int]:
        """Where the records of a segment begin."""
        data = path.read_bytes()
        return [at for at in range(64, len(data) - 32, 8) if data[at : at + 2] == MARKER]

    def end(self, path: Path) -> int:
        """Where the next record would begin."""
        last = self.records(path)[-1]
        return last + record_bytes(HEADER.unpack_from(path.read_bytes(), last)[3])

    def record_with(self, what: bytes) -> tuple[Path, int]:
        """Segment and offset of the record that holds *what*."""
        for path in self.segments():
            at = path.read_bytes().find(what)
            if at >= 0:
                return path, max(it for it in self.records(path) if it < at)
        raise AssertionError(f"{what!r} is in no segment")


def flip(path: Path, at: int, bit: int = 1) -> None:
    """Change one bit of a file."""
    with path.open("r+b") as file:
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes((byte ^ bit,)))


def offline_store(data: Path, scratch: Path) -> OfflineStore:
    """What tools use. Nobody else does while a test runs, so it is not locked."""
    scratch.mkdir(exist_ok=True)
    return OfflineStore(
        OsFiles(),
        data,
        form=OpenWireStoredForm(),
        now_ms=lambda: START_MS,
        new_id=lambda: STORE_ID,
        scratch=Path(mkdtemp(dir=scratch)),
    )


def checked(offline: OfflineStore) -> CheckReport:
    """What the checker says."""
    with offline.inspect() as inspection:
        return check(inspection)


def snapshot(directory: Path) -> dict[str, bytes]:
    """Every file below *directory* but the lock, to see that nothing has changed."""
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in sorted(directory.rglob("*"))
        if path.is_file() and path.name != "lock" and not path.is_symlink()
    }
