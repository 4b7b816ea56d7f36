"""Records that the spool does not have yet.

Packing a record is most of the cost of an event, and most events repeat the last one for the next message. Such a
message becomes a follower of the last record (`records.py`); if possible, only the number of followers is raised.
"""

from struct import Struct
from typing import Final, NamedTuple, final

from ackwire.audit.records import DELAY_NS_MAX, HOT, OFFSET_MAX
from ackwire.jms.message import Message, Origin

MESSAGES_MAX: Final = 4096
"""So many should be written."""

_pack: Final = HOT.pack


class Taken(NamedTuple):
    """Records and their followers, and of how many events and messages they tell."""

    records: bytes
    followers: bytes
    events: int
    messages: int


@final
class Unwritten:
    """Records in the order in which they were added."""

    def __init__(self) -> None:
        self.messages = 0
        """Records and their followers: each is about one message."""
        self._events = 0
        self._records: list[bytes] = []
        self._followers: list[int] = []
        """Three numbers each."""
        # The last record, as long as it may have more followers.
        self._origin: Origin | None = None
        self._origin_number = 0
        self._kind = 0
        self._events_each = 0
        self._place = 0
        self._consumer = 0
        self._persistent = False
        self._priority = 0
        self._size = 0
        self._redeliveries = 0
        self._key = b""
        self._count = 0
        self._sequence = 0
        self._timestamp = 0
        self._time_ns = 0
        self._followers_before = 0
        # The last followers, as long as there may be one more of them. (With 0 messages: those before them.)
        self._last_messages = 0
        self._last_size = 0
        self._last_offset = 0
        self._last_delay_ns = 0
        self._last_consumer = 0

    def add(self, record: bytes, events: int = 1) -> None:
        """A record that has no followers."""
        self._end_record()
        self._records.append(record)
        self._events += events
        self.messages += 1

    def tell(
        self, events: int, kind: int, place: int, message: Message, origin_number: int, consumer: int, time_ns: int
    ) -> None:
        """*kind*, which is always that many *events*, happened to *message*."""
        offset = message.sequence - self._sequence
        delay_ns = time_ns - self._time_ns
        if (
            message.origin is self._origin
            and kind == self._kind
            and place == self._place
            and message.producer_count - self._count == offset
            and message.timestamp == self._timestamp
            and message.persistent == self._persistent
            and message.priority == self._priority
            and message.redelivery_counter == self._redeliveries
            and -OFFSET_MAX <= offset <= OFFSET_MAX
            and 0 <= delay_ns <= DELAY_NS_MAX
        ):
            self._follow(len(message.frame), offset, delay_ns, consumer)
        else:
            self._end_record()
            self._begin_record(events, kind, place, message, origin_number, consumer, time_ns)
        self._events += events
        self.messages += 1

    def _follow(self, size: int, offset: int, delay_ns: int, consumer: int) -> None:
        if (
            offset == self._last_offset + self._last_messages
            and size == self._last_size
            and delay_ns == self._last_delay_ns
            and consumer == self._last_consumer
        ):
            self._last_messages += 1
            return
        self._end_followers()
        self._last_messages = 1
        self._last_size = size
        self._last_offset = offset
        self._last_delay_ns = delay_ns
        self._last_consumer = consumer

    def _end_followers(self) -> None:
        if self._last_messages:
            self._followers.append(self._last_offset << 32 | self._last_size)
            self._followers.append(self._last_consumer << 32 | self._last_delay_ns)
            self._followers.append(self._last_messages)
            self._last_messages = 0

    def _begin_record(
        self, events: int, kind: int, place: int, message: Message, origin_number: int, consumer: int, time_ns: int
    ) -> None:
        self._origin = message.origin
        self._origin_number = origin_number
        self._kind = kind
        self._events_each = events
        self._place = place
        self._consumer = consumer
        self._persistent = message.persistent
        self._priority = message.priority
        self._size = len(message.frame)
        self._redeliveries = message.redelivery_counter
        self._key = message.key
        self._count = message.producer_count
        self._sequence = message.sequence
        self._timestamp = message.timestamp
        self._time_ns = time_ns
        self._followers_before = len(self._followers)

    def _end_record(self) -> None:
        if self._origin is None:
            return
        self._end_followers()
        self._origin = None
        self._records.append(
            _pack(
                self._events_each,
                self._kind,
                self._persistent,
                self._priority,
                (len(self._followers) - self._followers_before) // 3,
                self._place,
                self._origin_number,
                self._consumer,
                self._size,
                self._redeliveries,
                self._key[-8:],
                self._sequence,
                self._timestamp,
                self._time_ns,
            )
        )

    def take(self) -> Taken:
        """All of them; then there are none."""
        self._end_record()
        followers = Struct(f"<{len(self._followers)}q").pack(*self._followers)
        taken = Taken(b"".join(self._records), followers, self._events, self.messages)
        self._records.clear()
        self._followers.clear()
        self._events = self.messages = 0
        return taken
