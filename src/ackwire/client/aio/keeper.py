"""`ConnectionKeeper`: one connection that is opened when it is needed, and again when it has failed.

With a `failover:` URL the connection looks after itself and is opened once. With a plain one, a user that notices
its loss calls `failed`, and the next user gets a new one.
"""

from typing import cast

from ackwire.client.aio.connection import Connection, ConnectionFactory
from ackwire.client.aio.workers import Lock
from ackwire.client.errors import ConnectionFailedError, IllegalStateError, JMSError


class ConnectionKeeper:
    """Opens connections of *source*, one at a time; a connection that is given is only used, not opened or closed."""

    def __init__(self, source: ConnectionFactory | Connection | str) -> None:
        self._source = source
        self._lock = Lock("the connection, which is being opened,")
        self._connection: Connection | None = None
        self._failed = False
        self._closed = False

    @property
    def is_borrowed(self) -> bool:
        """Whether the connection is the caller's own."""
        return not isinstance(self._source, str) and not hasattr(self._source, "create_connection")

    async def connection(self) -> Connection:
        """The connection, started. Raises what opening it raises, and `IllegalStateError` after `close`."""
        async with self._lock:
            if self._closed:
                raise IllegalStateError("it is closed, and opens no connection any more")
            if self._connection is None or self._failed or self._connection.is_closed:
                await self._drop()
                await self._open()
            assert self._connection is not None
            return self._connection

    def failed(self, connection: Connection) -> None:
        """*connection* cannot be used any more: the next one who asks gets another."""
        if connection is self._connection:
            self._failed = True

    async def close(self) -> None:
        """Close the connection that was opened here; without the lock, to wake up those who wait for it."""
        self._closed = True
        await self._drop()

    async def _open(self) -> None:
        connection = self._borrowed() if self.is_borrowed else await self._new()
        self._connection, self._failed = connection, False
        if self._closed:  # while it was being opened
            await self._drop()
            raise IllegalStateError("it was closed while the connection was being opened")

    async def _new(self) -> Connection:
        connection = await self._factory().create_connection()

        def on_error(error: JMSError) -> None:
            if isinstance(error, ConnectionFailedError):
                self.failed(connection)

        connection.on_error = on_error
        try:
            await connection.start()
        except BaseException:
            await connection.close()
            raise
        return connection

    def _factory(self) -> ConnectionFactory:
        if isinstance(self._source, str):
            self._source = ConnectionFactory(self._source)
        return cast(ConnectionFactory, self._source)

    def _borrowed(self) -> Connection:
        connection = cast(Connection, self._source)
        if connection.is_closed or self._failed:
            raise ConnectionFailedError("the connection that was given is closed or broken, and it is not ours to open")
        return connection

    async def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None and not self.is_borrowed:
            await connection.close()
