"""Commands that make no sense, and a broker without sockets that hears them through the real protocol and adapter.

`commands_from` draws one command of valid form whose ids are known, unknown, used before or somebody else's. `Line` is
a client's connection in this process: bytes of the real codec there and back, so that a case costs no socket.
"""

import itertools
from collections.abc import Callable
from typing import Any, Final

from hypothesis import strategies as st

from ackwire.errors import RemoteProtocolError
from ackwire.jms.types import Value
from ackwire.server.adapters.openwire import OpenWireAdapter
from ackwire.wire.openwire import commands
from ackwire.wire.openwire.bodies import encode_text
from ackwire.wire.openwire.commands import TransactionType
from ackwire.wire.openwire.negotiation import Agreement, Preferences
from ackwire.wire.openwire.primitives import encode_map
from ackwire.wire.openwire.protocol import Event, OpenWireProtocol
from ackwire.wire.openwire.structures import Structure, Throwable
from tests.helpers.broker_rig import BrokerRig

STATE: Final = "java.lang.IllegalStateException"
SECURITY: Final = "java.lang.SecurityException"
JMS: Final = "javax.jms.JMSException"
DESTINATION: Final = "javax.jms.InvalidDestinationException"
GONE: Final = "org.apache.activemq.DestinationDoesNotExistException"
LIMIT: Final = "javax.jms.ResourceAllocationException"
SELECTOR: Final = "javax.jms.InvalidSelectorException"
CLIENT_ID: Final = "javax.jms.InvalidClientIDException"
XA: Final = "javax.transaction.xa.XAException"
ROLLED_BACK: Final = "javax.jms.TransactionRolledBackException"

KNOWN_CLASSES: Final = {STATE, SECURITY, JMS, DESTINATION, GONE, LIMIT, SELECTOR, CLIENT_ID, XA, ROLLED_BACK}
"""What a refusal may be called: the Java client has all of these."""

LONG_EXTREMES: Final = (-(2**63), -(2**31), -1, 0, 1, 2**31, 2**63 - 1)


def transaction_info(connection_id: str, transaction_id: commands.TransactionId | None, kind: int) -> Structure:
    return commands.TransactionInfo(
        connection_id=commands.ConnectionId(connection_id), transaction_id=transaction_id, type=kind
    )


def local(connection_id: str, number: int = 1) -> commands.LocalTransactionId:
    return commands.LocalTransactionId(number, commands.ConnectionId(connection_id))


def xid(number: int = 1) -> commands.XATransactionId:
    return commands.XATransactionId(1, b"global %d" % number, b"branch")


BEGIN: Final = TransactionType.BEGIN
PREPARE: Final = TransactionType.PREPARE
COMMIT: Final = TransactionType.COMMIT_ONE_PHASE
COMMIT_PREPARED: Final = TransactionType.COMMIT_TWO_PHASE
ROLL_BACK: Final = TransactionType.ROLLBACK
FORGET: Final = TransactionType.FORGET


# ---- a connection in this process --------------------------------------------------------------------------------


class _Peer:
    """The server's end of the socket, without one."""

    def __init__(self) -> None:
        self.is_ready = True
        self.closed: str | None = None

    def handshake_finished(self, inactivity_ms: int, initial_delay_ms: int, tcp_no_delay: bool) -> None:
        """Timers would start here."""

    def login_finished(self) -> None:
        """Larger frames would be allowed from here on."""

    def output_waits(self) -> None:
        """The line takes it when it looks."""

    def wait_for_command(self) -> None:
        """Nothing more would be read until the command has been carried out."""

    def command_done(self) -> None:
        """What came behind it would be carried out now."""

    def hold(self, held: bool) -> None:
        """It reads only when told to."""

    def challenge(self, on_verdict: Callable[[bool], None]) -> None:
        """Nobody is there who could answer."""
        on_verdict(False)

    def close(self, reason: str) -> None:
        self.closed = reason

    def close_quietly(self, reason: str) -> None:
        self.closed = reason

    def close_later(self, seconds: float, reason: str) -> None:
        del seconds
        self.closed = reason


class Line:
    """A client of *rig*'s broker. Errors of the broker come out as they are; so do breaches of the protocol."""

    def __init__(self, rig: BrokerRig, connection_id: str, client_id: str | None = None) -> None:
        wants = Preferences(inactivity_ms=0, inactivity_initial_delay_ms=0)
        self._rig = rig
        self.connection_id = connection_id
        self.peer = _Peer()
        self.events: list[Event] = []
        self._numbers = itertools.count(1)
        self._client = OpenWireProtocol(wants)
        self._server = OpenWireProtocol(wants)
        peer: Any = self.peer
        self._adapter = OpenWireAdapter(
            peer=peer,
            protocol=self._server,
            broker=rig.broker,
            clock=rig.clock,
            settings=rig.settings,
            address=connection_id,
        )
        self._exchange()
        self._server.login_finished()
        self._exchange()
        info = commands.ConnectionInfo(
            connection_id=commands.ConnectionId(connection_id), client_id=client_id or f"client {connection_id}"
        )
        assert type(self.ask(info)) is commands.Response
        self.events.clear()

    def _exchange(self) -> None:
        self._server.receive_data(b"".join(self._client.data_to_send()))
        for event in self._server.events():
            self._adapter.handle(event)
        while self._rig.broker.slices:  # a long selector is read in slices of the loop
            self._rig.clock.advance(0)
        self.read()

    def read(self) -> None:
        """Take what the broker has sent."""
        self._client.receive_data(b"".join(self._server.data_to_send()))
        for event in self._client.events():
            if isinstance(event, Agreement):
                self._client.login_finished()
            self.events.append(event)

    def tell(self, command: Any, *, wants_answer: bool = False) -> int:
        command.command_id = next(self._numbers)
        command.response_required = wants_answer
        self._client.send(command)
        self._exchange()
        return int(command.command_id)

    def ask(self, command: Structure) -> commands.Response:
        """The one answer to *command*."""
        number = self.tell(command, wants_answer=True)
        answers = [e for e in self.events if isinstance(e, commands.Response) and e.correlation_id == number]
        assert len(answers) == 1, f"{command!r} was answered {len(answers)} times"
        self.events.remove(answers[0])
        return answers[0]

    def request(self, command: Structure) -> commands.Response:
        answer = self.ask(command)
        assert not isinstance(answer, commands.ExceptionResponse), answer
        return answer

    def refused(self, command: Structure) -> Throwable:
        answer = self.ask(command)
        assert isinstance(answer, commands.ExceptionResponse), answer
        assert answer.exception is not None
        return answer.exception

    def consumer_info(self, where: commands.ActiveMQDestination, number: int, **fields: Any) -> commands.ConsumerInfo:
        consumer_id = commands.ConsumerId(self.connection_id, -1, number)
        given: dict[str, Any] = {"consumer_id": consumer_id, "destination": where, "prefetch_size": 1000}
        return commands.ConsumerInfo(**(given | fields))

    def subscribe(self, where: commands.ActiveMQDestination, number: int, **fields: Any) -> commands.ConsumerId:
        """A consumer of that *number*, in the session that is always there."""
        info = self.consumer_info(where, number, **fields)
        self.request(info)
        assert info.consumer_id is not None
        return info.consumer_id

    def held(self) -> list[commands.MessageDispatch]:
        """The messages it was sent, acknowledged or not."""
        return [e for e in self.events if isinstance(e, commands.MessageDispatch) and e.message is not None]

    def lose(self) -> None:
        """The socket breaks."""
        self._adapter.connection_lost()

    def breaks(self, command: Structure) -> bool:
        """Whether *command* is a breach of the protocol."""
        try:
            self.tell(command)
        except RemoteProtocolError:
            return True
        return False


# ---- commands at random ------------------------------------------------------------------------------------------

_NAMES: Final = (
    *("a", "b", "a.b", "a.*", "a.>", "a,b", "a,topic://b", "b,a.*"),
    *("VirtualTopic.v", "Consumer.x.VirtualTopic.v"),
)
_QUEUES: Final = tuple(map(commands.ActiveMQQueue, (*_NAMES, "Ackwire.Why", "ActiveMQ.DLQ")))
_TOPICS: Final = tuple(
    map(
        commands.ActiveMQTopic,
        (*_NAMES, "ActiveMQ.Advisory.Connection", "ActiveMQ.Advisory.Consumer.Queue.a", "ActiveMQ.Advisory.Queue"),
    )
)
_SELECTORS: Final = (None, None, None, None, "", "n = 1", "n IN (1, ", "JMSPriority > 4 OR n IS NULL", "'")
_PROPERTIES: Final[tuple[dict[str, Value], ...]] = (
    {"n": 1},
    {"AMQ_SCHEDULED_DELAY": 5},
    {"AMQ_SCHEDULED_DELAY": "soon"},
    {"AMQ_SCHEDULED_CRON": "* * *"},
    {"subject": "queue", "name": "a"},
    {"subject": 7, "name": None},
)

_small = st.integers(0, 3)
_sessions = st.sampled_from((1, 1, 1, -1, -1, -1, 2, 99))
_counts = st.sampled_from((-(2**31), -1, 0, 1, 2, 3, 2**31 - 1))
_longs = st.sampled_from(LONG_EXTREMES)


Maker = Callable[[list[commands.MessageDispatch]], Structure]
"""Makes a command, given what its sender was sent. Not the command: sending changes it, and it may be sent twice."""


def commands_from(own: str, others: tuple[str, ...]) -> st.SearchStrategy[Maker]:
    """How to make a command that the connection *own* may send. *others* are connection ids that are not its own."""
    connections = st.sampled_from((own,) * 8 + (*others, "nobody"))
    temporaries = tuple(
        kind(f"{owner}:{number}")
        for kind in (commands.ActiveMQTempQueue, commands.ActiveMQTempTopic)
        for owner in (own, *others)
        for number in (1, 2)
    )
    destinations = st.one_of(
        st.sampled_from((_QUEUES[0], _QUEUES[2], _QUEUES[5], _TOPICS[1])),
        st.sampled_from((*_QUEUES, *_TOPICS, *temporaries)),
    )
    consumers = st.builds(commands.ConsumerId, connections, _sessions, _small)
    producers = st.builds(commands.ProducerId, connections, _small, _sessions)
    transactions = st.one_of(st.builds(local, connections, st.integers(1, 2)), st.builds(xid, st.integers(1, 2)))
    maybe_transaction = st.one_of(st.none(), st.none(), st.none(), transactions)
    message_ids = st.builds(
        lambda owner, number: commands.MessageId(None, commands.ProducerId(owner, 1, 1), number),
        connections,
        st.integers(1, 12),
    )
    named = st.builds(commands.ConnectionId, connections)

    def makers(cls: type[Structure], **fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Maker]:
        return st.fixed_dictionaries(fields).map(lambda drawn: lambda _held: cls(**drawn))

    messages = makers(
        commands.ActiveMQTextMessage,
        producer_id=producers,
        destination=destinations,
        transaction_id=maybe_transaction,
        message_id=message_ids,
        persistent=st.booleans(),
        priority=st.sampled_from((-128, -1, 0, 4, 9, 127)),
        expiration=st.one_of(st.just(0), _longs),
        timestamp=_longs,
        group_id=st.sampled_from((None, None, "g", "h")),
        group_sequence=_counts,
        redelivery_counter=_counts,
        reply_to=st.sampled_from((None, *_QUEUES[:6], *temporaries)),
        content=st.just(encode_text("x")),
        marshalled_properties=st.one_of(
            st.none(), st.none(), st.sampled_from(_PROPERTIES).map(encode_map), st.just(b"\0\0\0\x09no map")
        ),
    )
    acks = makers(
        commands.MessageAck,
        consumer_id=consumers,
        destination=st.one_of(st.none(), destinations),
        ack_type=st.integers(-1, 7),
        first_message_id=st.one_of(st.none(), message_ids),
        last_message_id=message_ids,
        message_count=_counts,
        transaction_id=maybe_transaction,
    )
    acks_of_held = st.builds(
        lambda first, last, kind, count, transaction: lambda held: _ack_of(held, first, last, kind, count, transaction),
        st.one_of(st.none(), st.integers(0, 20)),
        st.integers(0, 20),
        st.integers(0, 6),
        st.one_of(st.just(1), st.just(1), _counts),
        maybe_transaction,
    )
    subscribing = makers(
        commands.ConsumerInfo,
        consumer_id=consumers,
        destination=destinations,
        prefetch_size=st.sampled_from((-1, 0, 1, 2, 1000, 2**31 - 1)),
        maximum_pending_message_limit=_counts,
        selector=st.sampled_from(_SELECTORS),
        subscription_name=st.sampled_from((None, None, None, "", "s", "t")),
        browser=st.sampled_from((False, False, True)),
        exclusive=st.booleans(),
        no_local=st.booleans(),
        retroactive=st.booleans(),
        priority=st.sampled_from((-128, 0, 127)),
    )
    sessions = st.builds(commands.SessionId, connections, _sessions)
    the_rest = st.one_of(
        makers(commands.SessionInfo, session_id=sessions),
        makers(commands.ProducerInfo, producer_id=producers, destination=destinations, window_size=_counts),
        makers(
            commands.RemoveInfo,
            object_id=st.one_of(consumers, consumers, producers, sessions),
            last_delivered_sequence_id=_longs,
        ),
        makers(
            commands.DestinationInfo, connection_id=named, destination=destinations, operation_type=st.integers(0, 2)
        ),
        makers(
            commands.RemoveSubscriptionInfo,
            connection_id=named,
            client_id=connections.map(lambda c: f"client {c}"),
            subscription_name=st.sampled_from(("", "s", "t", "u")),
        ),
        makers(commands.MessagePull, consumer_id=consumers, timeout=_longs),
        makers(commands.ConsumerControl, consumer_id=consumers, prefetch=_counts, close=st.booleans()),
        makers(commands.FlushCommand),
        makers(commands.ReplayCommand),
    )
    transacting = makers(
        commands.TransactionInfo,
        connection_id=named,
        transaction_id=transactions,
        type=st.one_of(st.sampled_from((BEGIN, COMMIT)), st.integers(0, 8)),
    )
    # Strategies of one_of inside one_of would each count as much as a message: `map` makes them one.
    usual = st.one_of(messages, messages, messages, acks_of_held, acks_of_held, subscribing, transacting)
    return st.one_of(usual.map(_same), usual.map(_same), acks, the_rest.map(_same))


def _same(maker: Maker) -> Maker:
    return maker


def _ack_of(
    held: list[commands.MessageDispatch],
    first: int | None,
    last: int,
    kind: int,
    count: int,
    transaction_id: commands.TransactionId | None,
) -> Structure:
    """An ack of what its sender may hold, in ranges that run forwards or backwards or over several consumers."""
    if not held:
        return commands.FlushCommand()
    begin, end = held[(first or 0) % len(held)], held[last % len(held)]
    assert begin.message is not None
    assert end.message is not None
    return commands.MessageAck(
        consumer_id=end.consumer_id,
        destination=end.destination,
        ack_type=kind,
        first_message_id=None if first is None else begin.message.message_id,
        last_message_id=end.message.message_id,
        message_count=count,
        transaction_id=transaction_id,
    )
