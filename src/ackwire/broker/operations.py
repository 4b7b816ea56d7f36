"""The operations for operators: pause, resume, purge, move, copy, retry, delete, create, list, recall, checkpoint.

`operation_requests.py` calls these verbs for requests that arrive as messages, such as those of the command line. Each
verb checks permission first, returns how many messages or destinations were affected, and writes a line to the log and,
for messages, events to the audit. An operation on many messages works in steps: the caller serves other work between
them. If it fails half way, the completed steps stay, and the error says how many.

Only pending messages are moved, copied, retried and deleted. Messages in flight stay with their consumer; `recall`
takes them back first. A message leaves its old place and reaches the new one in one atomic write, so a crash neither
loses nor duplicates it.

A paused queue takes messages and gives none to its consumers, browsers aside. As in ActiveMQ a pause ends with the
broker: after a restart the queue delivers again.
"""

import logging
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from functools import partial
from heapq import nsmallest
from typing import Final, TypeAlias, final

from ackwire.broker.advisory import is_advisory
from ackwire.broker.auditing import Event
from ackwire.broker.clients import Clients
from ackwire.broker.connections import Connections
from ackwire.broker.dead_letters import DeadLetters
from ackwire.broker.fetching import Fetch
from ackwire.broker.limits import FlowControl
from ackwire.broker.live_settings import LiveSettings
from ackwire.broker.permissions import Action, Permissions, Principal
from ackwire.broker.publishing import Publisher
from ackwire.broker.queue import Queue
from ackwire.broker.redelivery import CAUSE_PROPERTY, ORIGINAL_DELIVERY_MODE_PROPERTY, ORIGINAL_EXPIRATION_PROPERTY
from ackwire.broker.registry import Registry
from ackwire.broker.reserved_names import is_reserved, refuse_reserved
from ackwire.errors import AckwireError, BrokerError, InvalidDestination, NotHere, ResourceLimit
from ackwire.jms.destinations import Destination, matches_pattern, parse_destination
from ackwire.jms.message import Message
from ackwire.jms.message_editor import MessageEditor
from ackwire.store.contract import Store
from ackwire.util.clock import Clock
from ackwire.util.plurals import counted

Counting: TypeAlias = Generator[Fetch | None, None, int]
"""A verb in steps, whose result is how many messages it concerned."""

LISTED_AT_ONCE: Final = 100
"""Destinations in one answer."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Selection:
    """Which messages of a queue: those with one of *ids*, those that *selector* matches, or both; else all."""

    queue: Destination
    ids: tuple[str, ...] = ()
    """JMSMessageIDs."""
    selector: str | None = None


@dataclass(frozen=True, slots=True)
class DestinationInfo:
    """The state of a queue or topic."""

    destination: Destination
    waiting: int
    in_flight: int
    consumers: int
    producers: int
    enqueued: int
    dequeued: int
    size_bytes: int
    is_paused: bool


@final
class Operations:
    """Carries out what operators ask for."""

    def __init__(
        self,
        *,
        clock: Clock,
        store: Store,
        editor: MessageEditor,
        settings: LiveSettings,
        flow: FlowControl,
        registry: Registry,
        publisher: Publisher,
        dead_letters: DeadLetters,
        clients: Clients,
        connections: Connections,
        permissions: Permissions,
    ) -> None:
        self._clock = clock
        self._store = store
        self._editor = editor
        self._settings = settings
        self._flow = flow
        self._registry = registry
        self._publisher = publisher
        self._dead_letters = dead_letters
        self._clients = clients
        self._connections = connections
        self._permissions = permissions

    def checkpoint(self, principal: Principal) -> int:
        """Have the store begin now what it otherwise does from time to time; returns 1."""
        self._permissions.permit(principal, Action.OPERATE)
        self._store.checkpoint()
        _log.info("a checkpoint was asked for by %s", principal)
        return 1

    # ---- destinations ------------------------------------------------------------------------------------------

    def list(
        self, principal: Principal, pattern: Destination, after: str = "", limit: int = LISTED_AT_ONCE
    ) -> list[DestinationInfo]:
        """The first *limit* queues or topics that match *pattern*, by name, behind the name *after*."""
        self._permissions.permit(principal, Action.INSPECT)
        names = (
            where
            for where in self._registry.router.names()
            if where.kind is pattern.kind
            and where.name > after
            and not is_advisory(where)
            and not is_reserved(where)
            and matches_pattern(pattern.name, where.name)
        )
        return [self._info(where) for where in nsmallest(limit, names, key=lambda it: it.name)]

    def _info(self, where: Destination) -> DestinationInfo:
        made = self._registry.router.get(where)
        producers = self._clients.producer_count(where)
        if not isinstance(made, Queue):
            consumers = 0 if made is None else made.consumer_count
            return DestinationInfo(where, 0, 0, consumers, producers, 0, 0, 0, is_paused=False)
        return DestinationInfo(
            where,
            waiting=made.view.pending_count,
            in_flight=made.view.in_flight_count,
            consumers=made.consumer_count,
            producers=producers,
            enqueued=made.contents.enqueued,
            dequeued=made.contents.dequeued,
            size_bytes=made.size_bytes,
            is_paused=made.dispatcher.is_paused,
        )

    def create(self, principal: Principal, where: Destination) -> int:
        """Make a queue or topic; 0 if it is there already."""
        self._begin(principal, Action.CREATE, where, "create")
        if where.kind.is_temporary or where.is_composite or is_advisory(where):
            raise InvalidDestination(f"{where!r} cannot be created: it is no single, lasting queue or topic")
        if self._registry.router.get(where) is not None:
            return 0
        self._registry.get_or_make(where)
        _log.info("%s has created %r", principal, where)
        return 1

    def delete_destination(self, principal: Principal, where: Destination) -> int:
        """Delete a queue or topic and all that is on it; how many messages that were. Refused while it is in use."""
        self._begin(principal, Action.DELETE, where, "delete")
        made = self._registry.router.get(where)
        if made is None:
            raise _not_here(where)
        count = made.view.pending_count if isinstance(made, Queue) else 0
        self._registry.remove(where, None)
        _log.info("%s has deleted %r with %s", principal, where, counted(count, "message"))
        return count

    def pause(self, principal: Principal, where: Destination) -> int:
        """Let the consumers of a queue have nothing until `resume`; 0 if it is paused already."""
        queue = self._queue(principal, where, "pause")
        if queue.dispatcher.is_paused:
            return 0
        queue.dispatcher.pause()
        _log.info(
            "%s has paused %r: its consumers get nothing until it is resumed or the broker ends", principal, where
        )
        return 1

    def resume(self, principal: Principal, where: Destination) -> int:
        """Let a paused queue deliver again; 0 if it was not paused."""
        queue = self._queue(principal, where, "resume")
        if not queue.dispatcher.is_paused:
            return 0
        queue.dispatcher.unpause()
        _log.info("%s has resumed %r", principal, where)
        return 1

    def recall(self, principal: Principal, where: Destination) -> int:
        """Bring back what the consumers of a queue hold, by ending their connections; how many messages that were.

        Nothing else is safe: a client that keeps its messages would go on with them while others have them. A client
        with failover connects again; what it may have seen is marked as redelivered.
        """
        queue = self._queue(principal, where, "recall messages of")
        count = queue.view.in_flight_count
        holders = dict.fromkeys(it.connection for it in queue.consumers if any(map(queue.owns, it.in_flight)))
        for connection in holders:
            self._connections.end(connection, f"an operator has recalled the messages of {where!r} that it held")
        _log.info("%s has recalled %s of %r", principal, counted(count, "message"), where)
        return count

    def purge(self, principal: Principal, where: Destination) -> Counting:
        """Delete all messages of a queue that wait when it begins; nothing is read for it."""
        return self._purged(principal, self._queue(principal, where, "purge"))

    def _purged(self, principal: Principal, queue: Queue) -> Counting:
        count = yield from queue.removal.purge()
        _log.info("%s has purged %r of %s", principal, queue.place, counted(count, "message"))
        return count

    # ---- messages ----------------------------------------------------------------------------------------------

    def count(self, principal: Principal, selection: Selection) -> Counting:
        """The number of messages that *selection* matches; changes nothing."""
        queue = self._queue(principal, selection.queue, "look through", Action.BROWSE)
        return self._counted(self._selected(queue, selection))

    def _counted(self, selected: Iterator[Message | Fetch | None]) -> Counting:
        found = 0
        for message in selected:
            found += isinstance(message, Message)
            yield message if isinstance(message, Fetch) else None
        return found

    def delete(self, principal: Principal, selection: Selection) -> Counting:
        """Delete messages."""
        queue = self._queue(principal, selection.queue, "delete messages of")
        cause = f"deleted by {principal}"
        return self._through(principal, queue, selection, "deleted", partial(self._remove, queue, cause))

    def move(self, principal: Principal, selection: Selection, target: Destination) -> Counting:
        """Move messages to the end of another destination."""
        queue = self._queue(principal, selection.queue, "move messages of")
        self._check_target(principal, queue, target)
        cause = f"moved to {target!r} by {principal}"

        def move(message: Message) -> bool:
            return self._transfer(queue, message, cause, lambda it: self._editor.readdressed(it, target))

        return self._through(principal, queue, selection, f"moved to {target!r}", move)

    def copy(self, principal: Principal, selection: Selection, target: Destination) -> Counting:
        """Put copies of messages at the end of another destination; they keep their ids."""
        queue = self._queue(principal, selection.queue, "copy messages of", Action.BROWSE)
        self._check_target(principal, queue, target)

        def copy(message: Message) -> bool:
            full = self._flow.is_full()
            if full is not None:
                raise ResourceLimit(f"there is no space for more copies: {full}")
            self._put(self._editor.readdressed(message, target))
            return True

        return self._through(principal, queue, selection, f"copied to {target!r}", copy)

    def retry(self, principal: Principal, selection: Selection) -> Counting:
        """Send dead letters back to where they came from; those that do not say so stay where they are.

        A dead letter of a topic's subscriber is published on the topic again: all its subscribers get it.
        """
        queue = self._queue(principal, selection.queue, "retry messages of")
        cause = f"sent back to its destination by {principal}"

        def retry(message: Message) -> bool:
            origin = self._origin(message)
            if origin is None or origin == queue.place or origin.kind.is_temporary:
                return False
            self._permissions.permit(principal, Action.SEND, origin)
            return self._transfer(queue, message, cause, partial(self._revived, origin))

        return self._through(principal, queue, selection, "sent back to their destinations", retry)

    def _origin(self, message: Message) -> Destination | None:
        origin = self._editor.lookup(message)("JMSDestination")
        return parse_destination(origin) if isinstance(origin, str) else None

    def _revived(self, origin: Destination, message: Message) -> Message:
        """A dead letter as it was, but for a time to live that is over: it would end at once."""
        properties = self._editor.properties(message)
        expiration = properties.get(ORIGINAL_EXPIRATION_PROPERTY)
        is_due = not isinstance(expiration, int) or expiration <= self._clock.now_ms()
        return self._editor.readdressed(
            message,
            origin,
            removed_properties=(CAUSE_PROPERTY, ORIGINAL_EXPIRATION_PROPERTY, ORIGINAL_DELIVERY_MODE_PROPERTY),
            expiration=0 if is_due or not isinstance(expiration, int) else expiration,
            persistent=False if properties.get(ORIGINAL_DELIVERY_MODE_PROPERTY) == "NON_PERSISTENT" else None,
        )

    # ---- one message -------------------------------------------------------------------------------------------

    def _remove(self, queue: Queue, cause: str, message: Message) -> bool:
        withdrawn = queue.withdraw(message)
        if withdrawn is None:
            return False
        if queue.audit is not None:
            queue.audit.happened(Event.PURGED, queue, withdrawn, None, cause)
        queue.drop(withdrawn)
        return True

    def _transfer(self, queue: Queue, message: Message, cause: str, make: Callable[[Message], Message]) -> bool:
        """Put what *make* makes of *message* in its place, and remove *message*; both or none after a crash."""
        withdrawn = queue.withdraw(message)
        if withdrawn is None:
            return False  # a consumer was quicker
        try:
            copy = make(withdrawn)
            with self._store.atomically():
                self._put(copy)
                if queue.audit is not None:
                    queue.audit.happened(Event.PURGED, queue, withdrawn, None, cause)
                queue.drop(withdrawn)
        except BrokerError:
            queue.put_back([withdrawn])
            raise
        return True

    def _put(self, copy: Message) -> None:
        self._dead_letters.forget(copy)  # if it fails again, it is a dead letter again
        self._publisher.put(None, copy)

    # ---- what the verbs share ----------------------------------------------------------------------------------

    def _begin(self, principal: Principal, action: Action, where: Destination, verb: str) -> None:
        refuse_reserved(where, verb)
        self._permissions.permit(principal, action, where)

    def _queue(self, principal: Principal, where: Destination, verb: str, action: Action = Action.OPERATE) -> Queue:
        self._begin(principal, action, where, verb)
        if not where.kind.is_queue:
            raise InvalidDestination(f"cannot {verb} {where!r}: it is no queue, and only queues keep messages")
        queue = self._registry.router.get(where)
        if not isinstance(queue, Queue):
            raise _not_here(where)
        return queue

    def _check_target(self, principal: Principal, queue: Queue, target: Destination) -> None:
        refuse_reserved(target, "move or copy messages to")
        self._permissions.permit(principal, Action.SEND, target)
        if target == queue.place:
            raise InvalidDestination(f"{target!r} is where the messages are: name another destination")
        if target.is_wildcard or target.is_composite or is_advisory(target):
            raise InvalidDestination(f"messages cannot go to {target!r}: it is no single queue or topic")
        self._registry.get_or_make(target)

    def _through(
        self,
        principal: Principal,
        queue: Queue,
        selection: Selection,
        done: str,
        act: Callable[[Message], bool],
    ) -> Counting:
        """Do *act* for each selected message that waits now; those that come later are left alone."""
        count = 0
        try:
            for message in self._selected(queue, selection):
                if isinstance(message, Fetch):
                    yield message
                    continue
                if message is not None and act(message):
                    count += 1
                yield None
        except AckwireError as error:
            if count:
                raise BrokerError(f"{error}; {counted(count, 'message')} {done} before that") from error
            raise
        finally:
            _log.info("%s: %s of %r %s", principal, counted(count, "message"), selection.queue, done)
        return count

    def _selected(self, queue: Queue, selection: Selection) -> Iterator[Message | Fetch | None]:
        """The messages of *selection* that wait, in order; None for one that is not meant, and a `Fetch` for messages
        that have yet to arrive."""
        selector = self._settings.compile_selector(selection.selector) if selection.selector else None
        ids = frozenset(selection.ids)
        for batch in queue.view.pending_batches():
            if isinstance(batch, Fetch):
                yield batch
                continue
            for message in batch:
                is_meant = (not ids or self._editor.message_id(message) in ids) and (
                    selector is None or selector.matches(self._editor.lookup(message))
                )
                yield message if is_meant else None


def _not_here(where: Destination) -> NotHere:
    return NotHere(f"{where!r} does not exist; `ackwire queue list` prints the queues there are")
