"""Reading messages back: from what is not committed yet, else from the database, in a thread or on the spot."""

import logging
import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import Final, final

from ackwire.errors import AckwireError
from ackwire.jms.message import Message
from ackwire.store.contract import Place
from ackwire.store.sql.catalog import Catalog, PlaceInfo
from ackwire.store.sql.changes import ExtraKey, PendingRow, pending_row
from ackwire.store.sql.commit import Commit
from ackwire.store.sql.driver import Driver, Row, Session
from ackwire.store.sql.errors import Diagnosis, Trouble
from ackwire.store.sql.frames import Frames, frame_size
from ackwire.store.sql.row_form import RowForm
from ackwire.store.sql.statements import Statements
from ackwire.store.sql.writer import Attempts

_log = logging.getLogger(__name__)

Query = tuple[str, list[object]]

_INLINE_BYTES_MAX: Final = 256 * 1024
"""A fetch of so much is read on the loop if it is in the system's cache, in about 0.2 ms: a thread takes as long."""


@final
class ReadingSession:
    """A session that reads, for the loop and a thread in turn; reconnects as the writer does."""

    def __init__(self, driver: Driver, session: Session, attempts: Attempts) -> None:
        self._driver = driver
        self._session: Session | None = session
        self._attempts = attempts
        self._lock = threading.Lock()

    def select(self, sql: str, values: Row = ()) -> list[Row]:
        with self._lock:
            return self._attempts.run(lambda: self._open().select(sql, values), self._on_error)

    def _open(self) -> Session:
        if self._session is None:
            self._session = self._driver.connect(is_writer=False)
            self._attempts.reconnects += 1
        return self._session

    def _on_error(self, diagnosis: Diagnosis) -> None:
        if self._session is not None and diagnosis.trouble is Trouble.LOST:
            session, self._session = self._session, None
            with suppress(Exception):
                session.close()

    def close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            with suppress(Exception):
                session.close()


@final
class Fetch:
    """A read under way: what was asked, and what has changed since."""

    __slots__ = ("found", "frames", "gone", "info", "pending", "queries", "sequences")

    def __init__(self, info: PlaceInfo, sequences: Sequence[int]) -> None:
        self.info = info
        self.sequences = sequences
        self.pending: dict[int, PendingRow] = {}
        """Those that were not committed when it began, or came since."""
        self.frames: dict[int, tuple[PendingRow, bytes]] = {}
        """The bytes of those that are not in memory, as far as they were read."""
        self.queries: list[Query] = []
        self.found: dict[int, Message] = {}
        self.gone: set[int] = set()
        """Those that have left the place since it began."""


@final
class Reads:
    """`load`, `fetch` and `read`."""

    def __init__(
        self,
        catalog: Catalog,
        commit: Commit,
        session: ReadingSession,
        statements: Statements,
        form: RowForm,
        frames: Frames,
    ) -> None:
        self._catalog = catalog
        self._commit = commit
        self._session = session
        self._statements = statements
        self._form = form
        self._frames = frames
        """Used on the loop."""
        self.under_way: list[Fetch] = []

    # ---- what changes meanwhile ------------------------------------------------------------------------------------

    def on_append(self, info: PlaceInfo, message: Message) -> None:
        """A message has come to a place, maybe instead of another."""
        for fetch in self.under_way:
            if fetch.info is info and message.sequence in fetch.sequences:
                fetch.gone.discard(message.sequence)
                fetch.pending[message.sequence] = pending_row(message, "", "", is_new=False)

    def on_remove(self, info: PlaceInfo, sequence: int) -> None:
        """A message has left a place."""
        for fetch in self.under_way:
            if fetch.info is info:
                fetch.gone.add(sequence)

    def on_clear(self, info: PlaceInfo, last: int, kept: frozenset[int]) -> None:
        """Messages up to *last* have left a place, but for those *kept*."""
        for fetch in self.under_way:
            if fetch.info is info:
                fetch.gone.update(it for it in fetch.sequences if it <= last and it not in kept)

    # ---- reading ---------------------------------------------------------------------------------------------------

    def begin(self, place: Place, sequences: Sequence[int]) -> Fetch | None:
        """A read of what is there now; None for an unknown place."""
        info = self._catalog.places.get(place)
        if info is None:
            return None
        fetch = Fetch(info, sequences)
        shared: dict[str, list[int]] = {}
        extra: list[int] = []
        for sequence in dict.fromkeys(sequences):
            container = self._container(info, sequence)
            row = False if container is None else self.row(container, sequence)
            extra_row = self.extra_row(info, sequence) if info.has_extra else False
            if isinstance(row, PendingRow):
                fetch.pending[sequence] = row
            elif isinstance(extra_row, PendingRow):
                fetch.pending[sequence] = extra_row
            else:
                if row is None and container is not None:
                    shared.setdefault(container, []).append(sequence)
                if extra_row is None:
                    extra.append(sequence)
        for container, ids in shared.items():
            fetch.queries += self._statements.select_messages(container, ids)
        fetch.queries += self._statements.select_extra(info.place_id, extra)
        return fetch

    def _container(self, info: PlaceInfo, sequence: int) -> str | None:
        """The container whose row may be a message of the place; None if there is none."""
        if info.container is not None:
            return info.container
        return next((it for it, progress in info.progress.items() if sequence in progress.pending), None)

    def row(self, container: str, sequence: int) -> PendingRow | bool | None:
        """A row that is not committed; False for one that has gone, None if the database knows."""
        known = self._commit.filling.row_of(container, sequence)
        if known is None and self._commit.in_flight is not None:
            known = self._commit.in_flight.row_of(container, sequence)
        return known

    def extra_row(self, info: PlaceInfo, sequence: int) -> PendingRow | bool | None:
        key = ExtraKey(info.place_id, sequence)
        known = self._commit.filling.extra_of(key)
        if known is None and self._commit.in_flight is not None:
            known = self._commit.in_flight.extra_of(key)
        return known

    @property
    def are_all_committed(self) -> bool:
        """Whether the database has everything."""
        return self._commit.in_flight is None and not self._commit.filling.row_count

    def pending_of(self, container: str) -> list[tuple[int, PendingRow]]:
        """Rows of a container that are not committed, in order."""
        found: dict[int, PendingRow] = {}
        for changes in (self._commit.in_flight, self._commit.filling):
            rows = {} if changes is None else changes.rows
            found.update((it, row) for it, row in rows.items() if row.container == container and row.xid is None)
        return sorted((it, row) for it, row in found.items() if self.row(container, it) is row)

    def pending_extra(self, info: PlaceInfo) -> list[tuple[int, PendingRow]]:
        """The same for `ACKWIRE_MSGS`."""
        found: dict[int, PendingRow] = {}
        for changes in (self._commit.in_flight, self._commit.filling):
            rows = {} if changes is None else changes.extra
            found.update((key.sequence, row) for key, row in rows.items() if row and key.place_id == info.place_id)
        return sorted((it, row) for it, row in found.items() if self.extra_row(info, it) is row)

    def is_at_hand(self, fetch: Fetch) -> bool:
        """Whether everything can be read on the loop in no time."""
        elsewhere = [(it, row) for it, row in fetch.pending.items() if not isinstance(row.frame, bytes)]
        if fetch.queries or sum(frame_size(row.frame) for _, row in elsewhere) > _INLINE_BYTES_MAX:
            return False
        for sequence, row in elsewhere:
            data = self._frames.read_cached(row.frame)
            if data is None:
                return False
            fetch.frames[sequence] = row, data
        return True

    def run(self, fetch: Fetch, form: RowForm, frames: Frames) -> None:
        """Read what is not in memory, and ask the database; beside the loop, or on it."""
        try:
            for sequence, row in list(fetch.pending.items()):
                if not isinstance(row.frame, bytes):
                    fetch.frames[sequence] = row, frames.read(row.frame)
        finally:
            frames.release()
        for sql, values in fetch.queries:
            for sequence, data in self._session.select(sql, tuple(values)):
                try:
                    message = form.unpack(bytes(data), sequence)
                except AckwireError as error:
                    _log.error("message %d of %r cannot be read: %s", sequence, fetch.info.place, error)
                    continue
                if sequence <= fetch.info.dispatched_before and not message.redelivery_counter:
                    message.redelivery_counter = 1
                fetch.found[sequence] = message

    def end(self, fetch: Fetch) -> list[Message | None]:
        """What was read, as far as it is still true."""
        try:
            return [None if it in fetch.gone else self._result(fetch, it) for it in fetch.sequences]
        finally:
            self._frames.release()

    def _result(self, fetch: Fetch, sequence: int) -> Message | None:
        row = fetch.pending.get(sequence)
        if row is None:
            return fetch.found.get(sequence)
        known, data = fetch.frames.get(sequence, (None, b""))
        message = self._form.message(data if known is row else self._frames.read(row.frame))
        message.redelivery_counter = row.redeliveries
        return message

    def load(self, place: Place, sequences: Sequence[int]) -> list[Message | None]:
        fetch = self.begin(place, sequences)
        if fetch is None:
            return [None] * len(sequences)
        self.run(fetch, self._form, self._frames)
        return self.end(fetch)
