"""Records the broker's events about messages (`broker/auditing.py`).

All of it runs on the broker's loop, so all of it is short: an event becomes a record, or less (`pending_records.py`).
Records go to the spool (`spool.py`) before the journal writes what the events are about, several times a second in any
case, and when they are many. Texts become numbers; a text is
defined in each chunk of the spool before the first record that names it.
"""

import logging
import re
from collections.abc import Callable, Hashable, Iterable
from typing import TYPE_CHECKING, Final, final

from ackwire.audit.pending_records import MESSAGES_MAX, Unwritten
from ackwire.audit.records import ACK_OF_CURSOR, HOT, NO_ACK, NONE, RECORD, UNKNOWN, definition
from ackwire.audit.spool import Spool
from ackwire.broker.auditing import Audit, AuditedPlace, Copy, Event
from ackwire.broker.in_flight import AckKind
from ackwire.jms.message import Message, Origin
from ackwire.store.contract import WaitingMessage
from ackwire.util.clock import Clock, Timer, Turns

if TYPE_CHECKING:
    from ackwire.broker.subscription import Subscription

FLUSH_SECONDS: Final = 0.2
"""How long an event may be in memory only."""

_TIME_USES_MAX: Final = 32
"""Messages in a row that have one time: what happens to them takes about 0.1 ms."""

_TEXTS_MAX: Final = 100_000
"""Texts that one chunk defines; then the next one begins."""

_TEXT_LENGTH_MAX: Final = 4096
"""Characters of one text; causes are whatever a client wrote."""

_ADVISORY: Final = "topic://ActiveMQ.Advisory."

_hot: Final = HOT.pack
_full: Final = RECORD.pack
_NO_COUNT: Final = bytes(8)
_SENT: Final = int(Event.SENT)
_STORED: Final = int(Event.STORED)
_DISPATCHED: Final = int(Event.DISPATCHED)
_STORED_NOW: Final = _SENT | _STORED
_GOES_ON: Final = _STORED | _DISPATCHED
_GOES_ON_NOW: Final = _SENT | _STORED | _DISPATCHED
_ACKED: Final = int(Event.ACKED)

_log = logging.getLogger(__name__)


def run_name(broker: str, start_ms: int) -> str:
    """The name of one run of a broker; it is part of file names."""
    return f"{re.sub('[^A-Za-z0-9._-]', '_', broker)}-{start_ms}"


class _Numbers(dict[object, int]):
    """The texts of this chunk and their numbers; a new text is defined in the spool."""

    def __init__(self, define: Callable[[object, int], int]) -> None:
        super().__init__()
        self._define = define
        self.defined = 0

    def __missing__(self, key: object) -> int:
        number = self[key] = self._define(key, self.defined + 1)
        if number > self.defined:
            self.defined = number
        return number

    def restart(self) -> None:
        self.clear()
        self.defined = 0


@final
class AuditLog(Audit):
    """Records the events that the broker reports."""

    def __init__(
        self,
        spool: Spool,
        *,
        clock: Clock,
        now_ns: Callable[[], int],
        turns: Turns | None = None,
        producer_text: Callable[[bytes], str],
        transaction_text: Callable[[Hashable], str],
    ) -> None:
        """With *turns* the time is asked for only now and then in each of them."""
        super().__init__()
        self._spool = spool
        self._clock = clock
        self._now_ns = now_ns
        self._turns = turns
        self._turn = 0
        """In which the time was asked for."""
        self._time_ns = 0
        self._time_uses = 0
        """How many more messages may have that time, if the turn is the same."""
        self._producer_text = producer_text
        self._transaction_text = transaction_text
        self._unwritten = Unwritten()
        self._definitions: list[bytes] = []
        self._places = _Numbers(self._define_place)
        self._origins = _Numbers(self._define_origin)
        self._consumers = _Numbers(self._define_consumer)
        self._words = _Numbers(self._define_word)
        self._contents: dict[tuple[bytes, str, str | None], int] = {}
        """Origins by what they say: others of the same content come and go."""
        self._last_place: AuditedPlace | None = None
        self._last_place_number = NONE
        self._last_origin: Origin | None = None
        self._last_origin_number = NONE
        self._last_consumer: Subscription | None = None
        self._last_consumer_number = NONE
        self._tables = (self._places, self._origins, self._consumers, self._words)
        self._advisories: set[int] = set()
        """Origins whose messages are the broker's own."""
        self._timer: Timer | None = None
        self._is_closed = False
        self._durable = 0
        """The last event that is known to be durable, or tells only that others are."""
        self._define_anew()

    def join(self, on_full: Callable[[str | None], None]) -> None:
        """Tell *on_full* why producers should wait, whenever they should, and None when they need not any more."""
        self._spool.on_full = on_full

    # ---- what happens ------------------------------------------------------------------------------------------

    def arrived(self, place: AuditedPlace, message: Message, subscription: "Subscription") -> None:
        if message.is_send_unaudited:
            message.is_send_unaudited = False
            self._one(3, _GOES_ON_NOW, self._place(place), message, self._consumer(subscription))
        else:
            self._one(2, _GOES_ON, self._place(place), message, self._consumer(subscription))

    def acked(self, place: AuditedPlace, message: Message, subscription: "Subscription") -> None:
        self._one(1, _ACKED, self._place(place), message, self._consumer(subscription))

    def sent(self, message: Message) -> None:
        message.is_send_unaudited = False
        self._one(1, _SENT, NONE, message, NONE)

    def stored(self, place: AuditedPlace, message: Message) -> None:
        if message.is_send_unaudited:
            message.is_send_unaudited = False
            self._one(2, _STORED_NOW, self._place(place), message, NONE)
        else:
            self._one(1, _STORED, self._place(place), message, NONE)

    def dispatched(self, place: AuditedPlace, message: Message, subscription: "Subscription") -> None:
        self._one(1, _DISPATCHED, self._place(place), message, self._consumer(subscription))

    def published(self, message: Message, subscription: "Subscription") -> None:
        if self._origin(message.origin) not in self._advisories:
            self._one(1, _DISPATCHED, NONE, message, self._consumer(subscription))

    def _one(self, events: int, kind: int, place: int, message: Message, consumer: int) -> None:
        origin = self._origin(message.origin)
        self._unwritten.tell(events, kind, place, message, origin, consumer, self._recent_ns())
        if self._unwritten.messages >= MESSAGES_MAX:
            self.flush()

    def _recent_ns(self) -> int:
        """The time, or what it was a few messages ago in the same turn."""
        if self._time_uses == 0 or self._turns is None or self._turns.number != self._turn:
            return self._asked_ns()
        self._time_uses -= 1
        return self._time_ns

    def _asked_ns(self) -> int:
        """The time, which the next messages may have, too: so times go up with the numbers."""
        self._time_ns = self._now_ns()
        self._time_uses = _TIME_USES_MAX - 1
        if self._turns is not None:
            self._turn = self._turns.number
        return self._time_ns

    # What one message has, the next one has too, nearly always.

    def _place(self, place: AuditedPlace) -> int:
        if place is not self._last_place:
            self._last_place_number = self._places[place]
            self._last_place = place
        return self._last_place_number

    def _origin(self, origin: Origin) -> int:
        if origin is not self._last_origin:
            self._last_origin_number = self._origins[origin]
            self._last_origin = origin
        return self._last_origin_number

    def _consumer(self, subscription: "Subscription") -> int:
        if subscription is not self._last_consumer:
            self._last_consumer_number = self._consumers[subscription]
            self._last_consumer = subscription
        return self._last_consumer_number

    def acked_all(
        self,
        place: AuditedPlace,
        messages: Iterable[Message],
        subscription: "Subscription | None",
        kind: AckKind,
        transaction: Hashable | None,
    ) -> None:
        for message in messages:
            consumer = NONE if subscription is None else self._consumer(subscription)
            word = NONE if transaction is None else self._word(self._transaction_text(transaction))
            self._details(_ACKED, place, message, consumer, ack=kind, transaction=word)

    def copies_acked(self, copies: Iterable[Copy], subscription: "Subscription") -> None:
        now_ns = self._asked_ns()
        for origin, key, sequence in copies:
            number = self._origins[origin]
            if number not in self._advisories:
                consumer = self._consumers[subscription]
                fields = (0, NONE, number, consumer, 0, 0, NONE, NONE, key[-8:], sequence, 0, now_ns)
                self._add(_full(1, _ACKED, AckKind.STANDARD, UNKNOWN, *fields))

    def happened(
        self,
        event: Event,
        place: AuditedPlace,
        message: Message,
        subscription: "Subscription | None" = None,
        cause: str | None = None,
    ) -> None:
        consumer = NONE if subscription is None else self._consumer(subscription)
        self._details(event, place, message, consumer, cause=NONE if cause is None else self._word(cause))

    def happened_to(self, event: Event, place: AuditedPlace, sequences: Iterable[int], cause: str | None) -> None:
        now_ns = self._asked_ns()
        for sequence in sequences:
            word = NONE if cause is None else self._word(cause)
            self._bare(event, self._places[place], word, sequence, now_ns)

    def cursor(
        self, event: Event, place: AuditedPlace, sequences: Iterable[int], name: str, cause: str | None = None
    ) -> None:
        now_ns = self._asked_ns()
        ack = ACK_OF_CURSOR if event is Event.ACKED else NO_ACK
        for sequence in sequences:
            word = NONE if cause is None else self._word(cause)
            texts = (self._places[place], NONE, self._consumers[f"cursor:{name}"])
            self._add(_full(1, event, ack, UNKNOWN, 0, *texts, 0, 0, NONE, word, _NO_COUNT, sequence, 0, now_ns))

    def batch(self, place: AuditedPlace, messages: Iterable[WaitingMessage], producer_key: bytes | None) -> None:
        now_ns = self._asked_ns()
        origin = (None if producer_key is None else self._producer_text(producer_key), place.audit_name)
        for it in messages:
            texts = (self._places[place], self._origins[origin], NONE)
            count = it.sequence.to_bytes(8)
            fields = (True, it.priority, 0, *texts, it.size_bytes, 0, count, it.sequence, 0, now_ns)
            self._add(_hot(2, _STORED_NOW, *fields), 2)

    def census(self, place: AuditedPlace, count: int) -> None:
        self._bare(Event.CENSUS, self._places[place], NONE, count, self._asked_ns())

    def _bare(self, event: Event, place: int, cause: int, sequence: int, now_ns: int) -> None:
        fields = (0, place, NONE, NONE, 0, 0, NONE, cause, _NO_COUNT, sequence, 0, now_ns)
        self._add(_full(1, event, NO_ACK, UNKNOWN, *fields))

    def _details(
        self,
        event: int,
        place: AuditedPlace,
        message: Message,
        consumer: int,
        *,
        ack: int = NO_ACK,
        transaction: int = NONE,
        cause: int = NONE,
    ) -> None:
        record = _full(
            1,
            event,
            ack,
            message.persistent,
            message.priority,
            self._place(place),
            self._origin(message.origin),
            consumer,
            len(message.frame),
            message.redelivery_counter,
            transaction,
            cause,
            message.key[-8:],
            message.sequence,
            message.timestamp,
            self._asked_ns(),
        )
        self._add(record)

    def _add(self, record: bytes, events: int = 1) -> None:
        self._unwritten.add(record, events)
        if self._unwritten.messages >= MESSAGES_MAX:
            self.flush()

    # ---- texts -------------------------------------------------------------------------------------------------

    def _word(self, text: str) -> int:
        return self._words[text[:_TEXT_LENGTH_MAX]]

    def _define_place(self, place: object, number: int) -> int:
        self._definitions.append(definition("p", number, place.audit_name))  # type: ignore[attr-defined]
        return number

    def _define_consumer(self, subscription: object, number: int) -> int:
        if isinstance(subscription, str):  # a cursor
            self._definitions.append(definition("c", number, subscription, None, None))
            return number
        consumer: Subscription = subscription  # type: ignore[assignment]
        connection = consumer.connection
        facts = (consumer.consumer_id, connection.connection_id, connection.client_id)
        self._definitions.append(definition("c", number, *facts))
        return number

    def _define_word(self, word: object, number: int) -> int:
        self._definitions.append(definition("w", number, word))
        return number

    def _define_origin(self, key: object, number: int) -> int:
        if isinstance(key, tuple):  # of a batch
            self._definitions.append(definition("o", number, *key, None, None))
            return number
        origin: Origin = key  # type: ignore[assignment]
        destination = repr(origin.destination)
        transaction = None if origin.transaction is None else self._transaction_text(origin.transaction)
        content = (origin.producer_key, destination, transaction)
        known = self._contents.setdefault(content, number)
        if known == number:
            facts = (self._producer_text(origin.producer_key), destination, transaction, origin.connection_id)
            self._definitions.append(definition("o", number, *facts))
            if destination.startswith(_ADVISORY):
                self._advisories.add(number)
        return known

    def _define_anew(self) -> None:
        """A new chunk, or a part of the last one was lost: nothing is known there, and all that was told is written."""
        assert not self._unwritten.messages
        self._last_place = self._last_origin = self._last_consumer = None
        for table in self._tables:
            table.restart()
        self._contents.clear()
        self._advisories.clear()
        self._definitions = [definition("r", 0)]

    # ---- writing -----------------------------------------------------------------------------------------------

    def durable(self, number: int) -> None:
        """All up to that event is durable: those who wait for it may be answered. Written at once, so
        that a reader knows after a crash which changes cannot have been confirmed to a client."""
        if number > self._durable and not self._is_closed:
            self._durable = self._spool.number  # this mark itself needs none
            self._bare(Event.DURABLE, NONE, NONE, number, self._asked_ns())
            self.flush()

    def flush(self) -> int:
        """Flush buffered events to the spool and return the number of the last one. Called before the journal
        writes, too."""
        self._time_uses = 0  # who calls may be about to write, which takes long
        if not self._unwritten.messages:
            return self._spool.number - 1
        is_written = self._spool.write(b"".join(self._definitions), self._unwritten.take())
        self._definitions = []
        if self._spool.is_due or sum(map(len, self._tables)) > _TEXTS_MAX:
            self._spool.roll()
            self._define_anew()
        elif not is_written:
            self._define_anew()
        return self._spool.number - 1

    def _tick(self) -> None:
        self._spool.look()  # it may let producers go on, whose messages belong to this chunk, too
        self.flush()
        if self._spool.is_due:
            self._spool.roll()
            self._define_anew()
        self._timer = self._clock.call_later(FLUSH_SECONDS, self._tick)

    # ---- the run -----------------------------------------------------------------------------------------------

    def started(self, last_sequence: int) -> str | None:
        untold = self._spool.why_unknown(last_sequence)
        self._bare(Event.STARTED, NONE, NONE, 0, self._asked_ns())
        self._tick()
        return untold

    def stopped(self, last_sequence: int) -> None:
        self._bare(Event.STOPPED, NONE, NONE, 0, self._asked_ns())
        self.flush()
        self._spool.note_clean_stop(last_sequence)

    def close(self) -> None:
        """Write what there is, after a stop of any kind; later events are lost."""
        if self._timer is not None:
            self._timer.cancel()
        self.flush()
        self._is_closed = True
        self._spool.close()
