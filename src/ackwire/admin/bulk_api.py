"""The interfaces of the broker's cursors and staged batches that the HTTP routes use.

Operations that are answered when durable take two callbacks, one of which is called later on the loop; `promised` turns
them into an awaitable. A client that disconnects meanwhile does not cancel the operation.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from ackwire.broker.cursors import CursorInfo, Row
from ackwire.broker.fetching import Fetch
from ackwire.broker.staging import ProducerInfo
from ackwire.errors import BrokerError
from ackwire.jms.destinations import Destination
from ackwire.jms.message import Message

OnFailed = Callable[[BrokerError], None]


class Cursors(Protocol):
    """`broker.cursors`."""

    def open(self, name: str, destination: Destination, selector: str | None, *, create: bool) -> CursorInfo: ...
    def info(self, name: str) -> CursorInfo: ...
    def all(self) -> Sequence[CursorInfo]: ...
    def latest(
        self, name: str, after: int, limit: int, on_done: Callable[[int], None], on_failed: OnFailed
    ) -> None: ...
    def oldest(self, name: str) -> Fetch: ...
    def rows(
        self, name: str, after: int, to: int, on_done: Callable[[list[Row]], None], on_failed: OnFailed
    ) -> None: ...
    def commit(self, name: str, to: int, on_done: Callable[[int], None], on_failed: OnFailed) -> None: ...
    def close(self, name: str, on_done: Callable[[], None], on_failed: OnFailed) -> None: ...


class Staging(Protocol):
    """`broker.staging`."""

    def next_sequences(self, count: int) -> int: ...
    def stage(
        self,
        producer: str,
        batch: int,
        part: str,
        messages: list[Message],
        on_done: Callable[[], None],
        on_failed: OnFailed,
    ) -> None: ...
    def commit(
        self, producer: str, batch: int, parts: Sequence[str], on_done: Callable[[bool], None], on_failed: OnFailed
    ) -> None: ...
    def drop(self, producer: str, part: str) -> None: ...
    def info(self, producer: str) -> ProducerInfo: ...


def promised(begin: Callable[[Callable[..., None], OnFailed], object]) -> "asyncio.Future[Any]":
    """Call *begin* with two callbacks, and wait for one of them. An exception of *begin* itself is raised here."""
    future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    future.add_done_callback(_look_at)

    def on_done(value: object = None) -> None:
        if not future.done():
            future.set_result(value)

    def on_failed(error: BrokerError) -> None:
        if not future.done():
            future.set_exception(error)

    begin(on_done, on_failed)
    return future


def _look_at(future: "asyncio.Future[Any]") -> None:
    """Mark the exception of a future that is not awaited any more as seen, so that asyncio does not log it."""
    if not future.cancelled():
        future.exception()
