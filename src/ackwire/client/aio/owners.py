"""What sessions use of their connection, and producers, consumers and browsers of their session.

The classes are in `connection.py` and `session.py`, which import the modules of what they make. These protocols let the
parts refer to their owners without importing them back.
"""

from collections.abc import Callable
from typing import Any, Protocol

from ackwire.client.aio.runtime import Guard, Runtime, Waiter
from ackwire.client.aio.session_listeners import SessionListeners
from ackwire.client.core.consumer import ConsumerCore
from ackwire.client.core.modes import AckMode
from ackwire.client.core.reply import Reply
from ackwire.client.core.session import SessionCore
from ackwire.client.engine import Engine
from ackwire.client.errors import JMSError
from ackwire.client.options import ConnectionOptions, RedeliveryPolicy
from ackwire.client.transform import MessageTransformer
from ackwire.jms.destinations import Destination
from ackwire.wire.openwire.structures import Structure


class OwningConnection(Protocol):
    """The connection of a session: a `Connection`."""

    options: ConnectionOptions
    use_async_send: bool
    redelivery_policies: dict[Destination | str, RedeliveryPolicy]
    transformer: MessageTransformer | None
    on_error: Callable[[JMSError], object] | None
    on_interrupted: Callable[[], object] | None
    on_resumed: Callable[[], object] | None
    _runtime: Runtime
    _guard: Guard
    _engine: Engine

    @property
    def client_id(self) -> str | None: ...

    @property
    def is_started(self) -> bool: ...

    @property
    def is_closed(self) -> bool: ...

    @property
    def is_connected(self) -> bool: ...

    @property
    def peer(self) -> str: ...

    @property
    def address(self) -> str: ...

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    async def delete_temporary(self, destination: Destination) -> None: ...

    async def destroy_destination(self, destination: Destination | str) -> None: ...

    async def close(self) -> None: ...

    @property
    def _close_timeout(self) -> float: ...

    async def _answer(self, reply: Reply[Structure], what: str) -> Structure: ...

    async def _answer_or_not(self, reply: Reply[Any], what: str) -> None: ...

    async def _settle(
        self, reply: Reply[Any], what: str, timeout_ms: int, option: str, *, is_kept: bool = False
    ) -> Any: ...

    async def _await_sendable(self, can_send: Callable[[], bool], what: str, timeout_ms: int) -> None: ...

    def _is_congested(self) -> bool: ...

    def _on_writable(self) -> None: ...

    def _forget_session(self, core: SessionCore) -> None: ...


class OwningSession(Protocol):
    """The session of a producer, consumer or browser: a `Session`."""

    _core: SessionCore
    _runtime: Runtime
    _guard: Guard
    _waiter: Waiter
    _listeners: SessionListeners

    @property
    def connection(self) -> OwningConnection: ...

    @property
    def ack_mode(self) -> AckMode: ...

    @property
    def transacted(self) -> bool: ...

    @property
    def is_closed(self) -> bool: ...

    async def acknowledge(self) -> None: ...

    async def recover(self, cause: BaseException | None = None) -> None: ...

    async def commit(self) -> None: ...

    async def rollback(self, cause: BaseException | None = None) -> None: ...

    async def close(self) -> None: ...

    async def _answer(self, reply: Reply[Structure], what: str) -> Structure: ...

    async def _decided(self) -> None: ...

    def _forget_consumer(self, core: ConsumerCore) -> None: ...
