"""Which messages a client has sent before: it repeats what it got no answer for when it comes back (J4).

A producer counts its messages, so its last count says what the broker has: everything up to it. Except what was
refused while later ones were taken: of that the client may not have heard, and if it repeats one, it must not be told
that it is stored. The store keeps such exceptions among the counts, each under a key of its own; the count there is
odd while the message is refused, and even after it came again and was taken.
"""

from typing import Final, final

from ackwire.broker.session import Connection
from ackwire.message import Message
from ackwire.recent import PRODUCERS_REMEMBERED, Recent
from ackwire.store.contract import Store

REFUSED_MAX: Final = 1024
"""Of one producer, while it sends nothing else: the oldest are forgotten first, and then pass for stored."""
_PRODUCERS_REFUSED_MAX: Final = 1000
_MARK: Final = b"refused "
_BACK_WITHIN_SECONDS: Final = 3600
"""So long after a crash its clients may come back although the broker was stopped and started in between."""


@final
class Repetitions:
    """What producers have counted to, and what of that they must send again."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._counts: Recent[bytes, int] = Recent(PRODUCERS_REMEMBERED)
        self._refused: Recent[bytes, dict[int, None]] = Recent(_PRODUCERS_REFUSED_MAX)
        """Refused, and nothing was taken from the same producer since: there is nothing yet to tell the store."""
        self._is_after_crash = False
        self._settled: Recent[bytes, None] = Recent(PRODUCERS_REMEMBERED)
        """Producers that have come back after a crash and repeated what they waited for, if there was something."""

    def restore(self) -> None:
        """Know what an earlier run knew."""
        self._counts.update(self._store.last_counts())
        self._is_after_crash = self._store.has_crashed(_BACK_WITHIN_SECONDS)

    def includes(self, message: Message) -> bool:
        """Whether *message* is one that the broker has."""
        key, count = message.origin.producer_key, message.producer_count
        last = self._counts.get(key)
        if last is None or count > last:
            return False
        return not (self._counts.get(_key(key, count)) or 0) & 1

    def may_have_left(self, connection: Connection, message: Message) -> bool:
        """Whether *message*, of a client that has come back and waits for it, left ahead of a crash (`Desk.ahead`).

        At most one of its connection did, and it is not stored. A client repeats what it waits for before it sends
        anything new, so it is the first that its producer waits for, and that producer was there when the repeating
        began.
        """
        if not self._is_after_crash:
            return False
        if connection.producers_back < 0:
            connection.producers_back = len(connection.producers)
        return connection.producers_back > 0 and message.origin.producer_key not in self._settled

    def settled(self, connection: Connection, message: Message) -> None:
        """*message*, which may have left ahead of a crash, was taken; its producer has no other."""
        connection.producers_back -= 1
        self._settled[message.origin.producer_key] = None

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

    def is_wanted_again(self, message: Message) -> bool:
        """*message* is about to be stored: is it one that was refused, while later ones were taken?

        What was refused before it is told to the store now, to be known as long as *message* is.
        """
        key, count = message.origin.producer_key, message.producer_count
        if self._refused:
            for refused in self._refused.pop(key) or ():
                if refused < count:
                    self._mark(key, refused, is_refused=True)
        last = self._counts.get(key)
        return last is not None and count <= last and bool((self._counts.get(_key(key, count)) or 0) & 1)

    def no_longer_refused(self, message: Message) -> None:
        self._mark(message.origin.producer_key, message.producer_count, is_refused=False)

    def _mark(self, key: bytes, count: int, *, is_refused: bool) -> None:
        mark = _key(key, count)
        times = self._counts.get(mark) or 0
        if bool(times & 1) != is_refused:
            self._counts[mark] = times + 1
            self._store.remember_count(mark, times + 1)

    def taken(self, message: Message) -> None:
        """*message* is stored, or on its way there."""
        key, count = message.origin.producer_key, message.producer_count
        # Not less than is known: taking a message may let others go on that wait behind it, before this is said.
        last = self._counts.get(key)
        self._counts[key] = count if last is None or last < count else last


def _key(producer_key: bytes, count: int) -> bytes:
    return _MARK + producer_key + count.to_bytes(8, signed=True)
