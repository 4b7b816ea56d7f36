"""Staged batches: messages that become visible together, once (for Spark's sinks and other bulk writers).

How it works. A producer stages messages in parts, and one `commit` makes the parts of a batch visible, all of them or
none. The broker remembers the last batch of each producer, so a commit that is repeated after a crash changes nothing.
A staged message is in the place of its queue from the start, and a state record says that it is not visible yet. So a
commit writes a few state records, whatever the size of the batch. Messages for topics wait in a place of their own;
after the commit they are published, some in each iteration of the loop, and after a crash the rest of them.

Parts that are never committed are dropped: with the next batch of their producer, or after a while.

The sends of a large transaction are a part as well, while it is prepared or committed (`large_commits.py`). They wait
in a place of the broker's own, and are routed like any other message once the transaction has committed.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from typing import Final, final

from ackwire.broker.advisory import is_advisory
from ackwire.broker.committed_sends import CommittedSends
from ackwire.broker.limits import FlowControl
from ackwire.broker.live_settings import LiveSettings
from ackwire.broker.publishing import Publisher
from ackwire.broker.queue import Queue
from ackwire.broker.registry import Registry
from ackwire.broker.scheduler import mentions_scheduler
from ackwire.broker.staged_part import Part
from ackwire.errors import BrokerError, Conflict, InvalidDestination, ResourceLimit, StoreFailed, UnknownResource
from ackwire.jms.destinations import Destination, Kind, destination
from ackwire.jms.message import Message
from ackwire.store.contract import BatchRecord, Place, StagedRecord, Store, WaitingMessage
from ackwire.util.clock import Clock
from ackwire.util.plurals import agree, counted
from ackwire.util.sequence_runs import sequences_of

PRODUCERS_MAX: Final = 10_000
"""Producers of batches that are remembered; the one that has been silent for longest is forgotten for a new one."""

SET_ASIDE: Final = destination(Kind.TOPIC, "Ackwire.Transactions")
"""Where the sends of large transactions wait; no client can use a name like this."""
_TRANSACTIONS: Final = ""
"""Whose they are: no producer of batches has an empty name."""

_NAME_LENGTH_MAX: Final = 255
_PUBLISHED_PER_TURN: Final = 200
_RETRY_SECONDS: Final = 1.0
"""Between two tries to read messages: what fails, of want of memory or threads, may take a while to pass."""
_SWEEP_SECONDS: Final = 60.0

Failed = Callable[[BrokerError], None]


@dataclass(frozen=True, slots=True)
class ProducerInfo:
    """The state of a producer of batches."""

    producer: str
    last_batch: int | None
    parts: tuple[tuple[str, int, int], ...]
    """Those that are not committed: name, batch, messages."""


@final
class Staging:
    """The parts that are staged, and the last batch of each producer."""

    def __init__(
        self,
        *,
        clock: Clock,
        store: Store,
        settings: LiveSettings,
        flow: FlowControl,
        registry: Registry,
        publisher: Publisher,
        sends: CommittedSends,
    ) -> None:
        self._clock = clock
        self._store = store
        self._settings = settings
        self._flow = flow
        self._registry = registry
        self._publisher = publisher
        self._sends = sends
        registry.objections.append(self._why_needed)
        self._parts: dict[tuple[str, str], Part] = {}
        self._last: dict[str, BatchRecord] = {}
        """By producer, the longest silent first."""
        self.count = 0
        """Messages that are staged and not committed."""
        self._is_stopped = False

    def stop(self) -> None:
        """The store is about to close: what is to be published yet, the next run publishes."""
        self._is_stopped = True

    def start(self) -> None:
        """Everything is there: what an earlier run has committed is shown now."""
        self._last = dict(sorted(self._last.items(), key=lambda it: it[1].committed_ms))  # the longest silent first
        for part in list(self._parts.values()):
            if part.is_committed:
                self._show(part, at_start=True)
            elif part.producer == _TRANSACTIONS and not part.is_prepared:
                with self._store.atomically():
                    self.finish(part, part.count)
        self._clock.call_later(_SWEEP_SECONDS, self._sweep)

    # ---- staging -----------------------------------------------------------------------------------------------

    def next_sequences(self, count: int) -> int:
        """The first of *count* sequences that are taken from the broker's order, for messages to be staged."""
        return self._publisher.take_sequences(count)

    def stage(
        self,
        producer: str,
        batch: int,
        part: str,
        messages: list[Message],
        on_done: Callable[[], None],
        on_failed: Failed,
    ) -> None:
        """Add *messages*, which have their sequences, to a part of a batch. All of them, or an error."""
        self._check(producer, part, batch, messages)
        staged = self._parts.get((producer, part))
        with self._store.atomically():
            if staged is None:
                staged = self._parts[producer, part] = Part(producer, part, batch, 0)
            staged.since_ms = self._clock.now_ms()
            self._keep(staged, messages)
            self._store.put_state_record(staged.note())
        self._store.when_durable(on_done, on_failed)

    def _check(self, producer: str, part: str, batch: int, messages: list[Message]) -> None:
        for name in (producer, part):
            if not name or len(name) > _NAME_LENGTH_MAX or not name.isprintable():
                raise Conflict(
                    f"{name!r} cannot name a producer or a part: 1 to {_NAME_LENGTH_MAX} printable characters"
                )
        last = self._last.get(producer)
        if last is not None and batch <= last.batch:
            raise Conflict(f"batch {batch} of producer {producer} is committed already; its last one is {last.batch}")
        known = self._parts.get((producer, part))
        if known is not None and known.batch != batch:
            raise Conflict(f"{known!r} cannot become one of batch {batch}: name each part once")
        limit = self._settings.current.limits.staged_messages_max
        if self.count + len(messages) > limit:
            raise ResourceLimit(
                f"{counted(self.count, 'message')} {agree(self.count, 'is', 'are')} staged and not "
                f"committed, and the limit is {limit} "
                "(limits.staged_messages_max): commit, or wait until parts that were left behind are dropped"
            )
        full = self._flow.store_is_full() or (None if self._store.pages else self._flow.memory_is_full())
        if full is not None:
            raise ResourceLimit(f"nothing can be staged: {full}")
        for where in {message.destination for message in messages}:
            self._check_destination(where)
        if any(message.properties_offset and mentions_scheduler(message) for message in messages):
            raise Conflict("messages with AMQ_SCHEDULED_ properties cannot be staged: send them with a client")

    def _check_destination(self, where: Destination) -> None:
        if where.is_composite or where.is_wildcard or where.kind.is_temporary or is_advisory(where):
            raise InvalidDestination(
                f"{where!r} cannot be written to in batches: it is no single, lasting queue or topic"
            )
        self._registry.get_or_make(where)

    def _keep(self, part: Part, messages: list[Message]) -> None:
        if messages and all(it.producer_count == it.sequence for it in (messages[0], messages[-1])):
            part.producer_key = messages[0].origin.producer_key
        by_destination: dict[Destination, list[Message]] = {}
        for message in messages:
            by_destination.setdefault(message.destination, []).append(message)
        for where, its in by_destination.items():
            policy, places = self._registry.get_or_make(where).policy, (where,)
            for message in its:
                self._publisher.settle_expiration(message, policy)
                self._store.append(message, places)
            self._hold(
                part, where, [WaitingMessage(it.sequence, it.expiration, it.priority, it.size_bytes) for it in its]
            )

    def _hold(self, part: Part, place: Place, messages: list[WaitingMessage]) -> None:
        queue = None if place in part.messages else self._queue(place)
        if queue is not None:
            queue.reservations.holders[part] = partial(part.sequences, place)
        part.add(place, messages)
        self.count += len(messages)
        if not self._store.pages:
            self._flow.used_bytes += sum(it.size_bytes for it in messages)

    def _queue(self, place: Place) -> Queue | None:
        """The queue of that place; None for a topic."""
        if not isinstance(place, Destination) or not place.kind.is_queue:
            return None
        return self._registry.needed_queue(place)

    # ---- committing --------------------------------------------------------------------------------------------

    def commit(
        self, producer: str, batch: int, parts: Iterable[str], on_done: Callable[[bool], None], on_failed: Failed
    ) -> None:
        """Make *parts* visible, all of them at once. *on_done* is called with False if *batch* was committed before."""
        last = self._last.get(producer)
        if last is not None and batch <= last.batch:
            self._store.when_durable(lambda: on_done(False), on_failed)
            return
        committed = [self._part_to_commit(producer, batch, name) for name in dict.fromkeys(parts)]
        with self._store.atomically():
            self._remember(BatchRecord(producer, batch, self._clock.now_ms()))
            for part in committed:
                part.is_committed = True
                self._tell_stored(part)
                if self._has_topics(part):
                    self._store.put_state_record(part.note())
                else:
                    self._store.drop_state_record(part.note().key)
            for part in [it for it in self._parts.values() if it.producer == producer and it.batch <= batch]:
                if not part.is_committed:
                    self._drop(part)
        self._store.when_durable(partial(self._show_all, committed, on_done), on_failed)

    def _tell_stored(self, part: Part) -> None:
        """Let the audit know what is there from now on; what is for topics is sent when it is published."""
        for place, messages in part.messages.items():
            queue = self._queue(place)
            if queue is not None and queue.audit is not None:
                queue.audit.batch(queue, messages, part.producer_key)

    def _part_to_commit(self, producer: str, batch: int, name: str) -> Part:
        part = self._parts.get((producer, name))
        if part is None:
            seconds = self._settings.current.limits.staged_seconds_max
            raise Conflict(
                f"part {name} of producer {producer} is not here: it was never staged, or dropped after {seconds:g} s "
                "(limits.staged_seconds_max); write the batch again"
            )
        if part.batch != batch:
            raise Conflict(f"{part!r} cannot be committed with batch {batch}")
        return part

    def _has_topics(self, part: Part) -> bool:
        return any(self._queue(place) is None for place in part.messages)

    def _remember(self, note: BatchRecord) -> None:
        self._last.pop(note.producer, None)
        self._last[note.producer] = note
        self._store.put_state_record(note)
        if len(self._last) > PRODUCERS_MAX:
            forgotten = self._last.pop(next(iter(self._last)))
            self._store.drop_state_record(forgotten.key)

    def _show_all(self, parts: list[Part], on_done: Callable[[bool], None]) -> None:
        for part in parts:
            self._show(part)
        on_done(True)

    def _show(self, part: Part, *, at_start: bool = False) -> None:
        """Make the messages of *part* visible: in queues at once, to topics some in each iteration; the first ones at
        once, or after the start, which must cause no event such as the expiry of a message."""
        for place in list(part.messages):
            queue = self._queue(place)
            if queue is not None:
                messages = part.take(place, part.count)
                self.count -= len(messages)
                del queue.reservations.holders[part]
                queue.reservations.show(messages)
        if not part.messages:
            del self._parts[part.producer, part.name]
            return
        with suppress(StoreFailed):  # the next run goes on with it
            self._store.put_state_record(part.note())  # what is in queues may be reserved from now on
        if at_start:
            self._publish_later(part, 0)
        else:
            self._publish_on(part)

    def _publish_on(self, part: Part) -> None:
        """Read some of the messages for topics, which are published when they have arrived."""
        if self._is_stopped:
            return
        place = next(iter(part.messages))
        sequences = [it.sequence for it in part.messages[place][:_PUBLISHED_PER_TURN]]
        with suppress(StoreFailed):  # the next run goes on with it
            self._store.fetch(
                place,
                sequences,
                partial(self._publish_loaded, part, place),
                lambda: self._publish_later(part, _RETRY_SECONDS),
            )

    def _publish_later(self, part: Part, seconds: float) -> None:
        self._clock.call_later(seconds, partial(self._publish_on, part))

    def _publish_loaded(self, part: Part, place: Place, messages: list[Message | None]) -> None:
        """Publish *messages*, the first ones of *part*, then let others have their turn."""
        if self._is_stopped:
            return
        now = part.take(place, len(messages))
        with suppress(StoreFailed):  # the next run goes on with it
            with self._store.atomically():
                for message in messages:
                    if message is not None and place == SET_ASIDE:
                        self._sends.route(None, message)
                    elif message is not None:
                        self._publisher.publish_staged(message)
                self._let_go(place, now)
                self._put_or_drop(part)
            if part.messages:
                self._publish_later(part, 0)
            else:
                del self._parts[part.producer, part.name]
                for callback in part.on_shown:
                    callback()

    def _put_or_drop(self, part: Part) -> None:
        if part.messages:
            self._store.put_state_record(part.note())
        else:
            self._store.drop_state_record(part.note().key)

    # ---- dropping ----------------------------------------------------------------------------------------------

    def drop(self, producer: str, part: str) -> None:
        """Forget a part that is not committed."""
        staged = self._parts.get((producer, part))
        if staged is None or staged.is_committed:
            raise UnknownResource(f"part {part} of producer {producer} is not staged")
        with self._store.atomically():
            self._drop(staged)

    def _drop(self, part: Part) -> None:
        for place, messages in part.messages.items():
            queue = self._queue(place)
            if queue is not None:
                del queue.reservations.holders[part]
            self._let_go(place, messages)
        self._store.drop_state_record(part.note().key)
        del self._parts[part.producer, part.name]

    def _let_go(self, place: Place, messages: list[WaitingMessage]) -> None:
        self._store.remove_many(place, [it.sequence for it in messages])
        self.count -= len(messages)
        if not self._store.pages:
            self._flow.used_bytes -= sum(it.size_bytes for it in messages)

    def _sweep(self) -> None:
        """Drop what was left behind."""
        self._clock.call_later(_SWEEP_SECONDS, self._sweep)
        oldest_ms = self._clock.now_ms() - self._settings.current.limits.staged_seconds_max * 1000
        with suppress(StoreFailed):
            for part in [it for it in self._parts.values() if not it.is_committed and it.since_ms < oldest_ms]:
                if part.producer != _TRANSACTIONS:  # which ends otherwise
                    with self._store.atomically():
                        self._drop(part)

    # ---- sends of large transactions ---------------------------------------------------------------------------

    def set_aside(self, transaction_id: Hashable, part: Part | None, messages: list[WaitingMessage]) -> Part:
        """*messages*, which are recorded in their place, belong to a transaction, with what is in *part* already."""
        if part is None:
            name = f"{messages[0].sequence} {_digest(transaction_id)}"
            part = self._parts[_TRANSACTIONS, name] = Part(_TRANSACTIONS, name, 0, self._clock.now_ms())
        self._hold(part, SET_ASIDE, messages)
        self._store.put_state_record(part.note())
        return part

    def decide(self, part: Part) -> None:
        """The transaction commits: what is in *part* will be routed, at the latest by the next start."""
        part.is_committed = True
        self._store.put_state_record(part.note())

    def finish(self, part: Part, count: int) -> None:
        """The first *count* messages in *part* are routed, or not needed any more."""
        if not count or not part.messages:
            return
        self._let_go(SET_ASIDE, part.take(SET_ASIDE, count))
        self._put_or_drop(part)
        if not part.messages:
            del self._parts[part.producer, part.name]
            if self._why_needed(SET_ASIDE) is None:
                self._store.remove_place(SET_ASIDE)

    def restore_prepared(self, transaction_id: Hashable) -> tuple[Part, list[Message]] | None:
        """The part that an earlier run had stored for a large prepared transaction, if any."""
        parts = self._parts_of(transaction_id)
        if not parts:
            return None
        part = max(parts, key=lambda it: it.sequences(SET_ASIDE))  # an older one was rolled back, and is to be dropped
        part.is_prepared = True
        messages = self._store.load(SET_ASIDE, part.sequences(SET_ASIDE))
        return part, [it for it in messages if it is not None]

    def _parts_of(self, transaction_id: Hashable) -> list[Part]:
        end = f" {_digest(transaction_id)}"
        return [it for it in self._parts.values() if it.producer == _TRANSACTIONS and it.name.endswith(end)]

    def when_shown(self, transaction_id: Hashable, callback: Callable[[], None]) -> bool:
        """Call *callback* when all sends of a large transaction are visible that an earlier run has committed; False if
        none is left to be shown."""
        part = next((it for it in self._parts_of(transaction_id) if it.is_committed), None)
        if part is None:
            return False
        part.on_shown.append(callback)
        return True

    # ---- how they stand ----------------------------------------------------------------------------------------

    def places_of(self, producer: str, part: str) -> list[Place]:
        """Where the messages of a part go; none if it is not here."""
        staged = self._parts.get((producer, part))
        return [] if staged is None else list(staged.messages)

    def info(self, producer: str) -> ProducerInfo:
        last = self._last.get(producer)
        parts = [it for it in self._parts.values() if it.producer == producer and not it.is_committed]
        return ProducerInfo(
            producer, None if last is None else last.batch, tuple((it.name, it.batch, it.count) for it in parts)
        )

    def _why_needed(self, where: Destination) -> str | None:
        """Why *where* cannot be removed: messages for it are staged."""
        part = next((it for it in self._parts.values() if where in it.messages), None)
        return None if part is None else f"messages for it are staged in {part!r}"

    @property
    def part_count(self) -> int:
        return len(self._parts)

    # ---- after a restart ---------------------------------------------------------------------------------------

    def restore_batch(self, note: BatchRecord) -> None:
        self._last[note.producer] = note

    def restore_part(
        self, note: StagedRecord, kept: Mapping[Place, Mapping[int, WaitingMessage]], untold: str | None
    ) -> None:
        """A part of an earlier run; *kept* is what the store has of its messages, which may be *untold*."""
        part = Part(note.producer, note.part, note.batch, note.since_ms, note.committed)
        self._parts[note.producer, note.part] = part
        for place, runs in note.held:
            there = kept.get(place, {})
            self._hold(part, place, [there[it] for it in sequences_of(runs) if it in there])
        if part.is_committed:
            for place in part.messages if untold is not None else ():
                queue = self._queue(place)
                if queue is not None:
                    queue.restart.tell_restored(part.sequences(place), untold or "")


def _digest(transaction_id: Hashable) -> str:
    """Stands for a transaction, whose id may be of any length, in the name of its part."""
    return blake2b(repr(transaction_id).encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
