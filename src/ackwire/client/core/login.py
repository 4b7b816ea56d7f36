"""The login of a connection: the client's name, and the commands that each new link begins with."""

from collections.abc import Callable

from ackwire.client.core.hooks import EngineHooks, Hooks
from ackwire.client.core.ids import new_id
from ackwire.client.core.reply import Reply
from ackwire.client.core.requests import Requests
from ackwire.client.core.wire_link import LinkState, WireLink
from ackwire.client.errors import ConnectionFailedError, IllegalStateError, InvalidClientIdError, JMSError
from ackwire.client.options import ConnectionOptions
from ackwire.util.clock import Clock
from ackwire.wire.openwire import commands
from ackwire.wire.openwire.structures import Structure


class Login:
    """Introduces the client, once the application asks for it, and after each reconnect."""

    def __init__(
        self,
        link: WireLink,
        requests: Requests,
        hooks: Hooks,
        engine: EngineHooks,
        *,
        options: ConnectionOptions,
        clock: Clock,
        connection_id: commands.ConnectionId,
        is_failover: bool,
        restore: Callable[[], None],
    ) -> None:
        """*restore* is called when the broker has agreed, before anything else is sent."""
        self._link = link
        self._requests = requests
        self._hooks = hooks
        self._engine = engine
        self._options = options
        self._clock = clock
        self._connection_id = connection_id
        self._is_failover = is_failover
        self._restore = restore
        self._client_id = options.client_id
        self._is_named = options.client_id is not None
        self._reply: Reply[None] | None = None

    @property
    def has_begun(self) -> bool:
        """Whether the application has asked for it, and it was not refused."""
        return self._reply is not None

    @property
    def client_id(self) -> str | None:
        return self._client_id

    @client_id.setter
    def client_id(self, value: str) -> None:
        if self._client_id is not None:
            raise IllegalStateError(f"the client id is {self._client_id!r} already")
        if self._reply is not None:
            raise IllegalStateError("the client id is set before anything else is done with a connection")
        if not value:
            raise InvalidClientIdError("a client id cannot be empty")
        self._client_id = value
        self._is_named = True

    def check_named(self) -> None:
        """Durable subscriptions belong to a name that is known again next time."""
        if not self._is_named:
            raise InvalidClientIdError(
                "a durable subscription belongs to a client id: give one to the connection (client_id=…, jms.clientID)"
            )

    def begin(self) -> Reply[None]:
        """Introduce this client, once; answered when the broker has agreed."""
        if self._reply is None:
            self._reply = Reply()
            if self._client_id is None:
                self._client_id = new_id(self._clock, self._options.client_id_prefix)
            self.go_on()
        return self._reply

    def go_on(self) -> None:
        """The wire format is agreed, or the login was asked for: introduce the client when both have happened."""
        if self._reply is None or self._link.state is not LinkState.GREETED:
            return
        self._link.state = LinkState.LOGGING_IN
        info = commands.ConnectionInfo(
            connection_id=self._connection_id,
            client_id=self._client_id,
            user_name=self._options.user_name,
            password=self._options.password,
            manageable=self._is_failover,  # wants to know the other brokers
            fault_tolerant=self._is_failover,
            failover_reconnect=self._reply.is_done,
        )
        self._requests.request_login(info).then(self._answered)

    def _answered(self, reply: Reply[Structure]) -> None:
        if self._link.state is not LinkState.LOGGING_IN:
            return
        login = self._reply
        assert login is not None
        if isinstance(reply.error, JMSError):
            self._link.state = LinkState.GREETED
            if not login.is_done and not isinstance(reply.error, ConnectionFailedError):
                self._reply = None
                login.fail(reply.error)
            self._engine.on_login_refused(reply.error)
            return
        self._link.state = LinkState.UP
        is_back = login.is_done
        self._restore()
        self._engine.on_restored()
        login.settle(None)
        self._link.release_waiters(None)
        if is_back:
            self._hooks.resumed()

    def fail(self, error: JMSError) -> None:
        """The connection is over."""
        if self._reply is not None:
            self._reply.fail(error)
