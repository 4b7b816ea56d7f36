"""Cursors, staged batches and browsing on behalf of a principal: each operation is permitted first, then carried out.

`cursors.py`, `staging.py` and `queue.py` do the work and know no principals. Code that reads and writes in bulk for
others, such as the HTTP port, uses this module.
"""

from collections.abc import Callable, Sequence
from typing import final

from ackwire.broker.cursors import CursorInfo, Cursors, Row
from ackwire.broker.fetching import Fetch
from ackwire.broker.permissions import Action, Permissions, Principal
from ackwire.broker.queue import Queue
from ackwire.broker.queue_view import OnRows
from ackwire.broker.registry import Registry
from ackwire.broker.staging import ProducerInfo, Staging
from ackwire.errors import BrokerError, UnknownResource
from ackwire.jms.destinations import Destination
from ackwire.jms.message import Message

Failed = Callable[[BrokerError], None]


@final
class CursorAccess:
    """The cursors, for one principal."""

    def __init__(self, principal: Principal, permissions: Permissions, cursors: Cursors) -> None:
        self._principal = principal
        self._permissions = permissions
        self._cursors = cursors

    def _ask(self, name: str, action: Action = Action.CONSUME) -> None:
        self._permissions.permit(self._principal, action, self._cursors.destination_of(name))

    def open(self, name: str, destination: Destination, selector: str | None, *, create: bool) -> CursorInfo:
        self._permissions.permit(self._principal, Action.CONSUME, destination)
        return self._cursors.open(name, destination, selector, create=create)

    def info(self, name: str) -> CursorInfo:
        self._ask(name, Action.INSPECT)
        return self._cursors.info(name)

    def all(self) -> list[CursorInfo]:
        self._permissions.permit(self._principal, Action.INSPECT)
        return self._cursors.all()

    def latest(self, name: str, after: int, limit: int, on_done: Callable[[int], None], on_failed: Failed) -> None:
        self._ask(name)
        self._cursors.latest(name, after, limit, on_done, on_failed)

    def oldest(self, name: str) -> Fetch:
        self._ask(name, Action.INSPECT)
        return self._cursors.oldest(name)

    def rows(self, name: str, after: int, to: int, on_done: Callable[[list[Row]], None], on_failed: Failed) -> None:
        self._ask(name)
        self._cursors.rows(name, after, to, on_done, on_failed)

    def commit(self, name: str, to: int, on_done: Callable[[int], None], on_failed: Failed) -> None:
        self._ask(name)
        self._cursors.commit(name, to, on_done, on_failed)

    def close(self, name: str, on_done: Callable[[], None], on_failed: Failed) -> None:
        self._ask(name)
        self._cursors.close(name, on_done, on_failed)


@final
class StagingAccess:
    """Staged batches, for one principal."""

    def __init__(self, principal: Principal, permissions: Permissions, staging: Staging) -> None:
        self._principal = principal
        self._permissions = permissions
        self._staging = staging

    def _ask(self, producer: str, parts: Sequence[str]) -> None:
        places = dict.fromkeys(it for part in parts for it in self._staging.places_of(producer, part))
        for where in places or [None]:
            self._permissions.permit(self._principal, Action.SEND, where if isinstance(where, Destination) else None)

    def next_sequences(self, count: int) -> int:
        return self._staging.next_sequences(count)

    def stage(
        self,
        producer: str,
        batch: int,
        part: str,
        messages: list[Message],
        on_done: Callable[[], None],
        on_failed: Failed,
    ) -> None:
        for where in dict.fromkeys(message.destination for message in messages) or (None,):
            self._permissions.permit(self._principal, Action.SEND, where)
        self._staging.stage(producer, batch, part, messages, on_done, on_failed)

    def commit(
        self, producer: str, batch: int, parts: Sequence[str], on_done: Callable[[bool], None], on_failed: Failed
    ) -> None:
        self._ask(producer, parts)
        self._staging.commit(producer, batch, parts, on_done, on_failed)

    def drop(self, producer: str, part: str) -> None:
        self._ask(producer, [part])
        self._staging.drop(producer, part)

    def info(self, producer: str) -> ProducerInfo:
        self._permissions.permit(self._principal, Action.INSPECT)
        return self._staging.info(producer)


@final
class BulkAccess:
    """All that can be read and written in bulk, for one principal."""

    def __init__(
        self,
        principal: Principal,
        permissions: Permissions,
        registry: Registry,
        cursors: Cursors,
        staging: Staging,
    ) -> None:
        self._principal = principal
        self._permissions = permissions
        self._registry = registry
        self.cursors = CursorAccess(principal, permissions, cursors)
        self.staging = StagingAccess(principal, permissions, staging)

    def inspect(self) -> None:
        """Ask whether it may see how the broker stands. Raises `NotAuthorised`."""
        self._permissions.permit(self._principal, Action.INSPECT)

    def operate(self) -> None:
        """Ask whether it may do what operators do with the broker as a whole. Raises `NotAuthorised`."""
        self._permissions.permit(self._principal, Action.OPERATE)

    def browse_rows(self, where: Destination, after: int, to: int, limit: int, on_rows: OnRows) -> None:
        """Read up to *limit* messages of a queue with sequences behind *after*, up to *to*, without taking them."""
        self._queue(where).view.rows(after, to, limit, on_rows)

    def browse_sequences(self, where: Destination) -> list[int]:
        """The sequences of all that `browse_rows` would show now, in order."""
        return self._queue(where).view.sequences()

    def _queue(self, where: Destination) -> Queue:
        self._permissions.permit(self._principal, Action.BROWSE, where)
        queue = self._registry.router.get(where)
        if not isinstance(queue, Queue):
            raise UnknownResource(f"{where!r} does not exist, or is no queue")
        return queue
