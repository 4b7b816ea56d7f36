"""Recognises messages that a client sends again after a reconnect (SEMANTICS J4).

Producers number their messages. The broker keeps the highest number of each: it has all up to that one, except:

* Messages that were refused while later ones were stored. The refusal may not have reached the client. If it sends the
  message again, the broker must store it. The entry's value is odd while the message is refused, even once it is
  stored.
* Gaps: numbers that were skipped. A message with such a number is new, whichever client skipped it.
* Numbers of another client that had the same connection id before, which is part of the producer's id: they say nothing
  about this client (ADR 15).

Each exception is stored under its own key, beside the counts. A wrong count can make a repeated message pass for new,
so that it is delivered twice. It can never make a new message pass for a repeated one.
"""

from hashlib import blake2b
from typing import Final, final

from ackwire.broker.session import Connection
from ackwire.jms.message import Message
from ackwire.store.contract import Store
from ackwire.util.lru import PRODUCERS_REMEMBERED, Recent

REFUSED_MAX: Final = 1024
"""Refused messages of one producer since its last stored one. Older ones are left to the gap that its next message
marks: they are new, too, when they come again."""
_PRODUCERS_REFUSED_MAX: Final = 1000
_REFUSED: Final = b"refused "
_GAP: Final = b"gap "
"""With a producer and the count that leapt: the first one that is missing before it."""
_GAPS_MAX: Final = 16
"""Of one producer; nothing is known any more of what is before the second when there are more."""
_FROM: Final = b"from "
"""From which count on the counts of a producer are known."""
_OWNER: Final = b"owner "
"""Whose a connection id is: how often it changed hands, and a digest of the client that has it."""
_SINCE: Final = b"since "
"""At which change of hands a producer's counts began anew."""
_OWNER_BITS: Final = 32
_REFRESH_CHANGES: Final = PRODUCERS_REMEMBERED // 5
"""Counts that are set before a mark is set again: the store must not forget it before the count that it is about."""


@final
class Duplicates:
    """What producers have counted to, and what of that they must send again."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._counts: Recent[bytes, int] = Recent(PRODUCERS_REMEMBERED)
        self._refused: Recent[bytes, dict[int, None]] = Recent(_PRODUCERS_REFUSED_MAX)
        """Refused, and nothing was taken from the same producer since: there is nothing yet to tell the store."""
        self._gaps: Recent[bytes, dict[int, int]] = Recent(PRODUCERS_REMEMBERED)
        """For each count that leapt, the first one that is missing before it."""
        self._marked: Recent[bytes, int] = Recent(PRODUCERS_REMEMBERED)
        """Producers with exceptions, and how many counts had been set when the store last heard of them."""
        self._refresh_changes = _REFRESH_CHANGES
        self._current_key = b""
        self._current_count = 0
        """What is being taken: that may let others go on that wait behind it, before it counts as taken."""

    def restore(self) -> None:
        """Know what an earlier run knew."""
        self._counts.update(self._store.last_counts())
        for key, count in list(self._counts.items()):
            if key.startswith(_FROM):
                self._marked[key[len(_FROM) :]] = 0
            elif key.startswith(_GAP):
                producer, leap = key[len(_GAP) : -8], int.from_bytes(key[-8:], signed=True)
                self._marked[producer] = 0
                if count < leap:
                    self._gaps_of(producer)[leap] = count
        self._forget_old_gaps()

    def _forget_old_gaps(self) -> None:
        """Leave out gaps before the count from which on a producer's counts are known: the store still has them."""
        for key, gaps in self._gaps.items():
            known_from = self._counts.get(_FROM + key) or 0
            for leap in [leap for leap in gaps if leap <= known_from]:
                del gaps[leap]

    def greet(self, connection: Connection) -> None:
        """A client has logged in: is it the one that had this connection id before?"""
        known = self._counts.get(_OWNER + connection.connection_id.encode())
        said = "\0".join((connection.client_id, connection.user or "")).encode()
        digest = int.from_bytes(blake2b(said, digest_size=_OWNER_BITS // 8).digest())
        changes = 0
        if known is not None:
            changes = (known >> _OWNER_BITS) + (known & (1 << _OWNER_BITS) - 1 != digest)
        connection.owner = changes << _OWNER_BITS | digest
        connection.owner_changes = changes

    def includes(self, connection: Connection, message: Message) -> bool:
        """Whether *message* is one that the broker has from the client of *connection*."""
        key, count = message.origin.producer_key, message.producer_count
        last = self._counts.get(key)
        if last is None or count > last or count < (self._counts.get(_FROM + key) or 0):
            return False
        if connection.owner_changes and self._counts.get(_SINCE + key) != connection.owner_changes:
            return False
        if self._is_missing(key, count):
            return False
        return not (self._counts.get(_key(key, count)) or 0) & 1

    def refused(self, message: Message) -> None:
        """*message* was not taken, and its client may not hear of it."""
        if message.origin.transaction is not None:
            return
        counts = self._refused.get(message.origin.producer_key)
        if counts is None:
            counts = self._refused[message.origin.producer_key] = {}
        counts[message.producer_count] = None
        if len(counts) > REFUSED_MAX:
            del counts[next(iter(counts))]

    def is_wanted_again(self, connection: Connection | None, message: Message) -> bool:
        """*message* is about to be stored: is it one that was refused or missing, while later ones were taken?

        What must be known as long as its count is known is told to the store now: what was refused before it, a gap in
        front of it, and whose the count is.
        """
        key, count = message.origin.producer_key, message.producer_count
        last = self._counts.get(key)
        missing = count - 1 if last is None else count - last - 1
        if self._refused:
            for refused in self._refused.pop(key) or ():
                if refused < count:
                    self._mark(key, refused, is_refused=True)
                    missing -= last is None or refused > last
        if connection is not None and (connection.owner_kept < message.persistent or connection.owner_changes):
            self._keep_owner(connection, message, last)
        if missing > 0 and not (key == self._current_key and count == self._current_count + 1):
            self._leave_out(key, 0 if last is None else last + 1, count)
        self._current_key, self._current_count = key, count
        if self._marked and key in self._marked:
            self._refresh(key)
            if self._is_missing(key, count):
                return True
        return last is not None and count <= last and bool((self._counts.get(_key(key, count)) or 0) & 1)

    def _keep_owner(self, connection: Connection, message: Message, last: int | None) -> None:
        """Remember whose the count of *message* is; counts of another client end here."""
        if connection.owner_kept < message.persistent:
            self._set(_OWNER + connection.connection_id.encode(), connection.owner, is_kept=message.persistent)
            connection.owner_kept = int(message.persistent)
        key = message.origin.producer_key
        if connection.owner_changes and self._counts.get(_SINCE + key) != connection.owner_changes:
            if last is not None:
                self._believe_from(key, last + 1)
            self._set(_SINCE + key, connection.owner_changes)

    def _gaps_of(self, key: bytes) -> dict[int, int]:
        gaps = self._gaps.get(key)
        if gaps is None:
            gaps = self._gaps[key] = {}
        return gaps

    def _is_missing(self, key: bytes, count: int) -> bool:
        gaps = self._gaps.get(key) if self._gaps else None
        return gaps is not None and any(first <= count < leap for leap, first in gaps.items())

    def _leave_out(self, key: bytes, first: int, leap: int) -> None:
        """The counts from *first* up to *leap*, which comes, are missing."""
        gaps = self._gaps_of(key)
        self._set_gap(key, gaps, first, leap)
        if len(gaps) > _GAPS_MAX:
            lowest = min(gaps)
            del gaps[lowest]
            self._believe_from(key, lowest)

    def _set_gap(self, key: bytes, gaps: dict[int, int], first: int, leap: int) -> None:
        self._set(_GAP + key + leap.to_bytes(8, signed=True), first)
        self._marked[key] = self._counts.changes
        if first < leap:
            gaps[leap] = first
        else:
            gaps.pop(leap, None)

    def _fill(self, key: bytes, count: int) -> None:
        """A count that was missing comes."""
        gaps = self._gaps_of(key)
        for leap, first in list(gaps.items()):
            if first <= count < leap:
                self._set_gap(key, gaps, count + 1, leap)
                if first < count:
                    self._leave_out(key, first, count)

    def _refresh(self, key: bytes) -> None:
        """Tell the store again of exceptions that it may have forgotten otherwise, and the count not."""
        if self._counts.changes - self._marked[key] <= self._refresh_changes:
            return
        for leap, first in list(self._gaps_of(key).items()):
            self._set_gap(key, self._gaps_of(key), first, leap)
        self._believe_from(key, self._counts.get(_FROM + key) or 0)

    def _believe_from(self, key: bytes, count: int) -> None:
        self._set(_FROM + key, count)
        self._marked[key] = self._counts.changes

    def _set(self, key: bytes, count: int, *, is_kept: bool = True) -> None:
        """Remember *count*, unless more is known; in the store too if it *is_kept*."""
        count = max(count, self._counts.get(key) or 0)
        self._counts[key] = count
        if is_kept:
            self._store.remember_count(key, count)

    def no_longer_wanted(self, message: Message) -> None:
        """*message*, which was refused or missing, is stored."""
        self._fill(message.origin.producer_key, message.producer_count)
        self._mark(message.origin.producer_key, message.producer_count, is_refused=False)

    def _mark(self, key: bytes, count: int, *, is_refused: bool) -> None:
        mark = _key(key, count)
        times = self._counts.get(mark) or 0
        if bool(times & 1) != is_refused:
            self._counts[mark] = times + 1
            self._store.remember_count(mark, times + 1)

    def committed(self, connection: Connection | None, message: Message) -> None:
        """*message* of a transaction is about to be stored. After a restart its count is known as any other is."""
        if self.is_wanted_again(connection, message):
            self.no_longer_wanted(message)
        self.taken(message)

    def taken(self, message: Message) -> None:
        """*message* is stored, or on its way there."""
        key, count = message.origin.producer_key, message.producer_count
        # Not less than is known: taking a message may let others go on that wait behind it, before this is said.
        last = self._counts.get(key)
        self._counts[key] = count if last is None or last < count else last


def _key(producer_key: bytes, count: int) -> bytes:
    return _REFUSED + producer_key + count.to_bytes(8, signed=True)
