"""The link of a connection to its broker: how far it is open, its wire protocol, and what is written to it.

`epoch` counts the links. A message belongs to the epoch in which it came: acknowledging it later would be taken for
the acknowledgement of another delivery. Commands that are written here have no answer, or it is awaited in
`requests.py`; what becomes of them when the link is lost is decided in `connection.py`.
"""

import itertools
from enum import Enum
from typing import Final

from ackwire.client.core.hooks import EngineHooks
from ackwire.client.core.reply import Reply, settled
from ackwire.client.errors import ConnectionFailedError, IllegalStateError, JMSError
from ackwire.client.uri import TcpUri, VmUri
from ackwire.wire.openwire import commands
from ackwire.wire.openwire.client_decode import Dispatch
from ackwire.wire.openwire.client_encode import AckTemplate
from ackwire.wire.openwire.client_protocol import ClientProtocol
from ackwire.wire.openwire.frame_builder import OutgoingMessage
from ackwire.wire.openwire.limits import DEFAULT_LIMITS, WireLimits
from ackwire.wire.openwire.negotiation import Agreement, Preferences
from ackwire.wire.openwire.structures import Structure

FRAME_BYTES_MAX: Final = DEFAULT_LIMITS.frame_bytes_max
"""The largest frame that is taken, whatever the URL allows: a length that a broker made up must not cost memory."""

MUCH_OUTPUT_BYTES: Final = 64 * 1024
"""So much is worth a write of its own: the broker begins to work while the application goes on sending."""
MUCH_ACK_BYTES: Final = 32 * 1024
"""The same for acks, which make the broker send more: some 200, as many messages as ActiveMQ sends at a time."""

_COMMAND_IDS: Final = 2**31 - 1
_OUR_BROKER: Final = "Ackwire"


class LinkState(Enum):
    """How far the way to the broker is open."""

    DOWN = "there is no connection"
    NEGOTIATING = "the wire format is being settled"
    GREETED = "connected, not logged in"
    LOGGING_IN = "waiting for the login"
    UP = "up"
    FAILED = "the connection is lost for good"
    CLOSED = "closed"


_UP: Final = LinkState.UP  # members of an enumeration take time to look up


class WireLink:
    """The state of the link, over all the links that a connection has one after the other."""

    def __init__(self, engine: EngineHooks, *, inflated_bytes_max: int, provider_version: str) -> None:
        self._engine = engine
        self._limits = WireLimits(inflated_bytes_max=inflated_bytes_max)
        self._provider_version = provider_version
        self.state = LinkState.DOWN
        self.epoch = 0
        self.protocol: ClientProtocol | None = None
        self.failure: JMSError | None = None
        """Why it is lost for good."""
        self.last_error: JMSError | None = None
        """What the broker last reported on this link."""
        self.peer = ""
        """What the broker says about itself."""
        self.address = ""
        """Where the broker is."""
        self.frame_bytes_max = FRAME_BYTES_MAX
        """As agreed with the broker."""
        self.unconfirmed = 0
        """Messages sent without confirmation since the broker last answered: if the link is lost, they may be (N3)."""
        self.unconfirmed_number = 0
        """The number of the last of them."""
        self._command_ids = itertools.count(1)
        self._up_waiters: list[Reply[None]] = []

    # ---- state -------------------------------------------------------------------------------------------------

    @property
    def is_up(self) -> bool:
        return self.state is _UP

    @property
    def is_over(self) -> bool:
        """Whether there will be no other link: the connection is closed, or lost for good."""
        return self.state is LinkState.CLOSED or self.state is LinkState.FAILED

    @property
    def is_closed(self) -> bool:
        """Whether that is over because the application said so."""
        return self.state is LinkState.CLOSED

    @property
    def is_our_broker(self) -> bool:
        """Whether the broker recognises repetitions of what it has done, over its own restart too."""
        return self.peer.startswith(_OUR_BROKER)

    def check_usable(self) -> None:
        if self.state is LinkState.CLOSED:
            raise IllegalStateError("the connection is closed")
        if self.state is LinkState.FAILED:
            assert self.failure is not None
            raise lost(self.failure)

    def when_up(self) -> Reply[None]:
        """Answered when one-way commands can be sent; at once if they can."""
        if self.is_up:
            return settled(None)
        self.check_usable()
        reply: Reply[None] = Reply()
        self._up_waiters.append(reply)
        return reply

    def release_waiters(self, error: JMSError | None) -> None:
        """Answer `when_up`: the link is up, or *error* says why it will not be."""
        waiters, self._up_waiters = self._up_waiters, []
        for waiter in waiters:
            if error is None:
                waiter.settle(None)
            else:
                waiter.fail(error)

    # ---- its life ----------------------------------------------------------------------------------------------

    def connect(self, uri: TcpUri | VmUri) -> None:
        """There is a way to a broker: say hello."""
        self.epoch += 1
        self.address = uri.address
        self.last_error = None
        self.protocol = ClientProtocol(
            _preferences(uri, self._provider_version), self._limits, handshake_frame_bytes_max=FRAME_BYTES_MAX
        )
        self.state = LinkState.NEGOTIATING
        self._engine.on_output()

    def agree(self, agreement: Agreement) -> None:
        """The wire format is settled."""
        assert self.protocol is not None
        self.peer = agreement.peer
        self.frame_bytes_max = agreement.frame_bytes_max
        self.protocol.login_finished()
        self.state = LinkState.GREETED

    def cause_of_loss(self, error: JMSError) -> JMSError:
        """Why the link was lost: *error*, and the broker's own words if it had any."""
        if self.last_error is None:
            return error
        told = ConnectionFailedError(f"{error}; it said: {self.last_error}")
        told.__cause__ = self.last_error
        return told

    # ---- writing -----------------------------------------------------------------------------------------------

    def next_number(self) -> int:
        """The number of the next command."""
        return next(self._command_ids) % _COMMAND_IDS

    def write(self, command: Structure) -> None:
        if self.protocol is not None:
            self.protocol.send(command)
            self._engine.on_output()

    def one_way(self, command: commands.BaseCommand, *, response_required: bool = False, always: bool = False) -> bool:
        """Send *command* and forget it; whether the link took it."""
        if self.state is not _UP and not (always and self.protocol is not None):
            return False
        command.command_id = self.next_number()
        command.response_required = response_required
        self.write(command)
        return True

    def write_message(self, message: OutgoingMessage, number: int, response_required: bool) -> None:
        protocol = self.protocol
        assert protocol is not None
        protocol.send_message(message, number, response_required)
        if protocol.waiting_bytes < MUCH_OUTPUT_BYTES:
            self._engine.on_output()
        else:
            self._engine.on_much_output()

    def send_message(self, message: OutgoingMessage, *, in_transaction: bool) -> None:
        """Send a message without asking for confirmation; only while the link is up."""
        number = next(self._command_ids) % _COMMAND_IDS
        if not in_transaction:
            self.unconfirmed_number = number
            self.unconfirmed += 1
        self.write_message(message, number, False)

    def acknowledge(self, ack_type: int, dispatch: Dispatch) -> None:
        """Acknowledge one message, without an answer; without a link there is nothing to acknowledge."""
        if self.state is _UP:
            message_id = dispatch.encoded_id
            self.write_ack(dispatch.channel.ack_template, ack_type, message_id, message_id, 1)

    def write_ack(
        self, template: AckTemplate, ack_type: int, first_id: bytes | None, last_id: bytes, count: int
    ) -> None:
        protocol = self.protocol
        assert protocol is not None
        protocol.send_ack(template, next(self._command_ids) % _COMMAND_IDS, ack_type, first_id, last_id, count)
        if protocol.waiting_bytes < MUCH_ACK_BYTES:
            self._engine.on_output()
        else:
            self._engine.on_much_output()


def lost(cause: JMSError) -> JMSError:
    """An error of its own for each that waited, so that tracebacks do not mix."""
    error = type(cause)(str(cause)) if isinstance(cause, ConnectionFailedError) else ConnectionFailedError(str(cause))
    error.__cause__ = cause
    return error


def _preferences(uri: TcpUri | VmUri, provider_version: str) -> Preferences:
    asked = uri.wire_format
    return Preferences(
        version=asked.version,
        tight=asked.tight_encoding_enabled,
        cache=asked.cache_enabled,
        cache_size=asked.cache_size or 1024,
        stack_traces=asked.stack_trace_enabled,
        tcp_no_delay=asked.tcp_no_delay_enabled,
        size_prefix_disabled=asked.size_prefix_disabled,
        frame_bytes_max=min(asked.frame_bytes_max, FRAME_BYTES_MAX)
        if asked.frame_bytes_max_enabled
        else FRAME_BYTES_MAX,
        inactivity_ms=asked.max_inactivity_duration_ms,
        inactivity_initial_delay_ms=asked.max_inactivity_initial_delay_ms,
        provider_version=provider_version,
    )
