# generated from src/ackwire/client/aio/keeper.py by tools/async_to_sync.py; change that
"""`ConnectionKeeper`: one connection that is opened when it is needed, and again when it has failed.

With a `failover:` URL the connection looks after itself and is opened once. With a plain one, a user that notices
its loss calls `failed`, and the next user gets a new one.
"""

from typing import cast

from ackwire.client.errors import ConnectionFailedError, IllegalStateError, JMSError
from ackwire.client.sync.connection import Connection, ConnectionFactory
from ackwire.client.sync.workers import Lock


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

    def connection(self) -> Connection:
        """The connection, started. Raises what opening it raises, and `IllegalStateError` after `close`."""
        with self._lock:
            if self._closed:
                raise IllegalStateError("it is closed, and opens no connection any more")
            if self._connection is None or self._failed or self._connection.is_closed:
                self._drop()
                self._open()
            assert self._connection is not None
            return self._connection

    def failed(self, connection: Connection) -> None:
        """*connection* cannot be used any more: the next one who asks gets another."""
        if connection is self._connection:
            self._failed = True

    def close(self) -> None:
        """Close the connection that was opened here; without the lock, to wake up those who wait for it."""
        self._closed = True
        self._drop()

    def _open(self) -> None:
        connection = self._borrowed() if self.is_borrowed else self._new()
        self._connection, self._failed = connection, False
        if self._closed:  # while it was being opened
            self._drop()
            raise IllegalStateError("it was closed while the connection was being opened")

    def _new(self) -> Connection:
        connection = self._factory().create_connection()

        def on_error(error: JMSError) -> None:
            if isinstance(error, ConnectionFailedError):
                self.failed(connection)

        connection.on_error = on_error
        try:
            connection.start()
        except BaseException:
            connection.close()
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

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None and not self.is_borrowed:
            connection.close()
