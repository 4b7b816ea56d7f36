"""Every option of the client, with ActiveMQ's name, default and unit, declared once (SEMANTICS B, C, F, J4).

Times are in milliseconds and sizes in bytes, as in ActiveMQ. `tests/conformance/test_client_options.py` compares the
defaults with the real Java client's, and docs/guide/client-uris.md is made from these declarations. A field that is
None was not given: take the value of the level above, or leave the system's.

Here the options are only values; the modules that use the groups give them effect.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeVar

from ackwire.config.fields import Option, option
from ackwire.config.listener_uri import CACHE_SIZE_HIGHEST, FRAME_BYTES_LOWEST, read_cache_size
from ackwire.config.queries import Section
from ackwire.config.types import Factor, Number, Own, Refused, Switch, Text, Texts, quoted, read_whole

INT_LOWEST: Final = -(2**31)
INT_HIGHEST: Final = 2**31 - 1
LONG_HIGHEST: Final = 2**63 - 1
TEXT: Final = Text(4096, must_print=False)
"""The wire format takes 32 767 bytes; no written option needs that many."""

_Switch = TypeVar("_Switch", bool, bool | None)
_Number = TypeVar("_Number", int, int | None)


def switch(name: str, default: _Switch, reason: str, *, aliases: tuple[str, ...] = ()) -> _Switch:
    return option(default, Option(Switch(), reason, name, aliases))


def number(
    name: str,
    default: _Number,
    reason: str,
    *,
    unit: str = "number",
    lowest: int = INT_LOWEST,
    highest: int = INT_HIGHEST,
    clamped: bool = False,
    aliases: tuple[str, ...] = (),
) -> _Number:
    """A whole number; one above *highest* is an error, or taken for *highest* with a warning if *clamped*."""
    return option(default, Option(Number(lowest, highest, unit, name if clamped else ""), reason, name, aliases))


def milliseconds(name: str, default: int, reason: str, *, lowest: int = -1, aliases: tuple[str, ...] = ()) -> int:
    return number(name, default, reason, unit="ms", lowest=lowest, highest=LONG_HIGHEST, aliases=aliases)


def fraction(name: str, default: float, reason: str, *, aliases: tuple[str, ...] = ()) -> float:
    return option(default, Option(Factor(), reason, name, aliases))


def text(name: str, reason: str) -> str | None:
    return option(None, Option(TEXT, reason, name))


def secret(name: str, reason: str) -> str | None:
    """A text that neither messages nor `repr` show."""
    return option(None, Option(TEXT, reason, name, is_secret=True))


def texts(name: str, reason: str, *, aliases: tuple[str, ...] = ()) -> tuple[str, ...]:
    return option((), Option(Texts(TEXT), reason, name, aliases))


def special(name: str, default: int, takes: str, read: Callable[[str], int], reason: str) -> int:
    """A number with rules of its own."""
    return option(default, Option(Own(takes, read), reason, name))


PREFETCH_HIGHEST: Final = 32_767
"""ActiveMQ's ceiling for the prefetch policy: more is taken for this much."""

DSCP_NAMES: Final = {
    **{f"CS{n}": 8 * n for n in range(8)},
    **{f"AF{n}{drop}": 8 * n + 2 * drop for n in range(1, 5) for drop in range(1, 4)},
    "EF": 46,
}
"""Differentiated services by name (RFC 2474, RFC 2597, RFC 3246)."""


def _read_dscp(value: str) -> int:
    code = DSCP_NAMES.get(value.upper(), read_whole(value))
    if code is None or not 0 <= code <= 63:
        raise Refused(f"must be a number from 0 to 63 or a name such as EF, CS1 or AF11, and is {quoted(value)}")
    return code


# ---- the connection: jms. --------------------------------------------------------------------------------------


def _prefetch(name: str, default: int, meaning: str) -> int:
    return number(name, default, meaning, unit="messages", lowest=0, highest=PREFETCH_HIGHEST, clamped=True)


@dataclass(frozen=True, slots=True)
class PrefetchPolicy:
    """How many messages a broker may push ahead (C2); 0 is pull (C3)."""

    queue_prefetch: int = _prefetch("queuePrefetch", 1000, "Consumers of queues.")
    queue_browser_prefetch: int = _prefetch("queueBrowserPrefetch", 500, "Queue browsers.")
    topic_prefetch: int = _prefetch("topicPrefetch", 32_767, "Subscribers of topics.")
    durable_topic_prefetch: int = _prefetch("durableTopicPrefetch", 100, "Durable subscribers.")
    optimize_durable_topic_prefetch: int = _prefetch(
        "optimizeDurableTopicPrefetch", 1000, "Durable subscribers with optimizeAcknowledge."
    )
    pending_message_limit_max: int = number(
        "maximumPendingMessageLimit",
        0,
        "What the broker keeps for a slow topic subscriber beyond prefetch; 0: its own.",
    )


@dataclass(frozen=True, slots=True)
class PrefetchForAll:
    """One figure for every kind of consumer; a kind that has its own keeps it."""

    prefetch: int | None = number(
        "all",
        None,
        "Every kind of consumer; one given by name wins.",
        unit="messages",
        lowest=0,
        highest=PREFETCH_HIGHEST,
        clamped=True,
    )


@dataclass(frozen=True, slots=True)
class RedeliveryPolicy:
    """When and how often a message comes again (F2)."""

    redeliveries_max: int = number("maximumRedeliveries", 6, "Then the message is a dead letter; -1: never.", lowest=-1)
    initial_redelivery_delay_ms: int = milliseconds("initialRedeliveryDelay", 1000, "Before the first redelivery.")
    redelivery_delay_ms: int = milliseconds("redeliveryDelay", 1000, "Before the others, unless back-off lengthens it.")
    redelivery_delay_ms_max: int = milliseconds("maximumRedeliveryDelay", -1, "Ceiling of the back-off; -1: none.")
    use_exponential_back_off: bool = switch("useExponentialBackOff", False, "Each delay is a multiple of the last.")
    back_off_multiplier: float = fraction("backOffMultiplier", 5.0, "That multiple.")
    use_collision_avoidance: bool = switch("useCollisionAvoidance", False, "Delays vary at random.")
    collision_avoidance_percent: int = number(
        "collisionAvoidancePercent", 15, "By how much.", unit="percent", lowest=0, highest=100
    )
    pre_dispatch_check: bool = switch(
        "preDispatchCheck", True, "Check the count before a message is given to the application, too."
    )


@dataclass(frozen=True, slots=True)
class ConnectionOptions:
    """What a connection does, for all its sessions, producers and consumers."""

    user_name: str | None = text("userName", "Who connects.")
    password: str | None = secret("password", "The password; never shown.")
    client_id: str | None = text("clientID", "Identity of the connection; durable subscriptions belong to it.")
    client_id_prefix: str | None = text("clientIDPrefix", "Begins client ids that are made up.")
    connection_id_prefix: str | None = text("connectionIDPrefix", "Begins connection ids.")
    use_async_send: bool = switch("useAsyncSend", False, "Persistent sends do not wait for the broker (B1).")
    always_sync_send: bool = switch("alwaysSyncSend", False, "Every send waits for the broker (B1).")
    send_timeout_ms: int = milliseconds("sendTimeout", 0, "How long a send waits for the broker; 0: 60 s.")
    request_timeout_ms: int = milliseconds("requestTimeout", 0, "The same for other requests; 0: 60 s.")
    producer_window_bytes: int = number(
        "producerWindowSize", 0, "Bytes sent and not yet acknowledged by the broker (B4); 0: no limit.", unit="bytes"
    )
    send_acks_async: bool = switch("sendAcksAsync", True, "Acknowledgements do not wait for the broker.")
    optimize_acknowledge: bool = switch("optimizeAcknowledge", False, "AUTO sessions acknowledge in ranges (D2).")
    optimize_acknowledge_timeout_ms: int = milliseconds(
        "optimizeAcknowledgeTimeOut", 300, "A range is sent after this time at the latest, with the next message."
    )
    optimized_ack_interval_ms: int = milliseconds(
        "optimizedAckScheduledAckInterval", 0, "And at this interval without one; 0: not."
    )
    use_compression: bool = switch("useCompression", False, "Bodies are sent compressed.")
    inflated_size_ratio_max: float = fraction(
        "maxInflatedDataSizeRatio", 10.0, "A compressed body may become this many times the largest frame."
    )
    copy_message_on_send: bool = switch(
        "copyMessageOnSend", True, "Sent messages can be changed; they always can here."
    )
    dispatch_async: bool = switch("dispatchAsync", True, "The broker may hand messages over in its own time.")
    always_session_async: bool = switch("alwaysSessionAsync", True, "Each session has a task; it always has here.")
    exclusive_consumer: bool = switch("exclusiveConsumer", False, "Every consumer asks to be the only one (H2).")
    use_retroactive_consumer: bool = switch("useRetroactiveConsumer", False, "Topic subscribers ask for old messages.")
    message_priority_supported: bool = switch("messagePrioritySupported", False, "Consumers sort by priority (C6).")
    non_blocking_redelivery: bool = switch(
        "nonBlockingRedelivery", False, "A message that waits for its redelivery does not hold up others."
    )
    transacted_individual_ack: bool = switch(
        "transactedIndividualAck", False, "Transacted sessions acknowledge one message at a time."
    )
    consumer_failover_redelivery_wait_ms: int = milliseconds(
        "consumerFailoverRedeliveryWaitPeriod",
        0,
        "After a failover inside a transaction: how long to wait for messages to come again.",
    )
    consumer_expiry_check_enabled: bool = switch(
        "consumerExpiryCheckEnabled", True, "Consumers drop messages that have expired."
    )
    check_for_duplicates: bool = switch("checkForDuplicates", True, "Messages that come twice are recognised.")
    audit_depth: int = number("auditDepth", 2048, "How many of a producer's ids are remembered for that.", lowest=1)
    audit_producers_max: int = number("auditMaximumProducerNumber", 64, "Of how many producers.", lowest=1)
    watch_topic_advisories: bool = switch(
        "watchTopicAdvisories", True, "Learn from the broker which temporary destinations are gone."
    )
    disable_timestamps: bool = switch("disableTimeStampsByDefault", False, "Producers do not stamp messages.")
    nested_map_and_list_enabled: bool = switch(
        "nestedMapAndListEnabled", True, "Properties and map messages may hold maps and lists. They always may here."
    )
    strict_compliance: bool = switch("strictCompliance", False, "Jakarta Messaging to the letter; no effect.")
    close_timeout_ms: int = milliseconds("closeTimeout", 15_000, "How long closing waits for the broker.")
    connect_response_timeout_ms: int = milliseconds(
        "connectResponseTimeout", 0, "How long the login waits for the broker; 0: 60 s."
    )
    warn_about_unstarted_connection_ms: int = milliseconds(
        "warnAboutUnstartedConnectionTimeout", 500, "Warn of a consumer on a connection that is not started; 0: never."
    )
    xa_ack_mode: int = number("xaAckMode", -1, "Ack mode of XA sessions outside a transaction; -1: theirs.", lowest=-1)
    prefetch: PrefetchPolicy = PrefetchPolicy()
    redelivery: RedeliveryPolicy = RedeliveryPolicy()


_BLOBS: Final = "blob messages are not offered"
_THREADS: Final = "it steers the threads of a JVM"
_STORES: Final = "Java key stores are not read: use caFile, certFile and keyFile (PEM) of the ssl:// URI"
_OBJECTS: Final = "object messages are never deserialised here"

_JMS_IGNORED: Final = {
    "blobTransferPolicy.brokerUploadUrl": _BLOBS,
    "blobTransferPolicy.bufferSize": _BLOBS,
    "blobTransferPolicy.defaultUploadUrl": _BLOBS,
    "blobTransferPolicy.uploadUrl": _BLOBS,
    "maxThreadPoolSize": _THREADS,
    "useDedicatedTaskRunner": _THREADS,
    "useVirtualThreadTaskRunner": _THREADS,
    "optimizedMessageDispatch": "nothing reads it, in ActiveMQ neither",
    "objectMessageSerializationDefered": _OBJECTS,
    "trustAllPackages": _OBJECTS,
    "statsEnabled": "it feeds JMX beans",
    "rmIdFromConnectionId": "it serves Java transaction managers",
    "keyStore": _STORES,
    "keyStorePassword": _STORES,
    "keyStoreKeyPassword": _STORES,
    "keyStoreType": _STORES,
    "trustStore": _STORES,
    "trustStorePassword": _STORES,
    "trustStoreType": _STORES,
}

_FOR_ONE: Final = "a policy for one destination is set in the program"
_REDELIVERY_IGNORED: Final = {"queue": _FOR_ONE, "topic": _FOR_ONE, "tempQueue": _FOR_ONE, "tempTopic": _FOR_ONE}


# ---- one broker address ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class WireFormatOptions:
    """What the client offers in its WireFormatInfo (J2); what holds is settled with the broker.

    Three switches are off that Java's client has on: only without them the fast path of `wire/openwire` is taken, which
    reads a dispatch in 2 µs instead of 35 (bench/client_codec.py).
    """

    version: int = number("version", 12, "The highest OpenWire version.", lowest=1, highest=12)
    tight_encoding_enabled: bool = switch("tightEncodingEnabled", False, "Smaller frames, and slower here.")
    cache_enabled: bool = switch("cacheEnabled", False, "Names are sent once and then by number; slower here.")
    cache_size: int = special(
        "cacheSize", 1024, "number", read_cache_size, f"How many; 0 stands for {CACHE_SIZE_HIGHEST}."
    )
    stack_trace_enabled: bool = switch("stackTraceEnabled", False, "Exceptions carry their stack traces.")
    tcp_no_delay_enabled: bool = switch("tcpNoDelayEnabled", True, "Small packets are not held back.")
    size_prefix_disabled: bool = switch("sizePrefixDisabled", False, "Frames do not begin with their size.")
    frame_bytes_max: int = number(
        "maxFrameSize",
        LONG_HIGHEST,
        "The largest frame; 100 MiB in any case. A message that does not fit is refused when it is sent.",
        unit="bytes",
        lowest=FRAME_BYTES_LOWEST,
        highest=LONG_HIGHEST,
    )
    frame_bytes_max_enabled: bool = switch("maxFrameSizeEnabled", True, "false: 100 MiB it is.")
    max_inactivity_duration_ms: int = milliseconds(
        "maxInactivityDuration", 30_000, "A peer silent for longer is gone (J3); 0: no check, no keep-alives."
    )
    max_inactivity_initial_delay_ms: int = milliseconds(
        "maxInactivityDurationInitalDelay",
        10_000,
        "Before the first check.",
        aliases=("maxInactivityDurationInitialDelay",),
    )
    host: str | None = text("host", "The host that the broker is given; not given: the one of the URI.")


_TRUTH: Final = "the client says what it is"
_WIRE_FORMAT_IGNORED: Final = dict.fromkeys(
    ("includePlatformDetails", "platformDetails", "providerName", "providerVersion"), _TRUTH
)


@dataclass(frozen=True, slots=True)
class TransportOptions:
    """The connection over TCP, with or without TLS."""

    connection_timeout_ms: int = milliseconds("connectionTimeout", 30_000, "How long connecting may take; 0: for ever.")
    connect_attempt_timeout_ms: int = milliseconds(
        "connectAttemptTimeout", 30_000, "How long the first answer of the broker may take; 0: for ever."
    )
    negotiate_timeout_ms: int = milliseconds("negotiateTimeout", 10_000, "How long the wire format may take to settle.")
    so_timeout_ms: int = milliseconds("soTimeout", 0, "For a read; no effect, as in ActiveMQ.")
    so_write_timeout_ms: int = milliseconds("soWriteTimeout", 0, "How long a write may take; 0: for ever.")
    so_linger_seconds: int | None = number("soLinger", None, "How long closing waits for unsent data.", unit="seconds")
    keep_alive: bool | None = switch("keepAlive", None, "TCP keep-alive.")
    tcp_no_delay: bool | None = switch("tcpNoDelay", None, "Small packets are not held back.")
    socket_buffer_bytes: int = number(
        "socketBufferSize", 65_536, "Buffers of the system, for each direction.", unit="bytes", lowest=1
    )
    diff_serv: int = special(
        "diffServ", 0, "0 to 63, or a name", _read_dscp, "Differentiated services of the packets: EF, CS1, AF11, …"
    )
    type_of_service: int = number("typeOfService", 0, "The older way to say that.", lowest=0, highest=255)
    use_inactivity_monitor: bool = switch("useInactivityMonitor", True, "Check that the broker is alive (J3).")
    use_keep_alive: bool = switch("useKeepAlive", True, "Send keep-alives when idle.")
    keep_alive_response_required: bool = switch("keepAliveResponseRequired", False, "And ask for an answer.")
    wire_version_min: int = number(
        "minmumWireFormatVersion",
        0,
        "Refuse a broker that speaks an older OpenWire.",
        lowest=0,
        highest=12,
        aliases=("minimumWireFormatVersion",),
    )
    use_local_host: bool = switch("useLocalHost", False, "Replace this machine's name by localhost.")
    trace: bool = switch("trace", False, "Log every command.")


_COMPUTED: Final = "it follows from wireFormat.maxInactivityDuration"
_TRACE: Final = "trace uses the logging module; set its level there"
_TRANSPORT_IGNORED: Final = {
    "daemon": _THREADS,
    "stackSize": _THREADS,
    "closeAsync": "closing never blocks here",
    "ioBufferSize": "reads and writes do not pass through a buffer of fixed size",
    "dynamicManagement": "there is no JMX",
    "jmxPort": "there is no JMX",
    "logWriterName": _TRACE,
    "startLogging": _TRACE,
    "readCheckTime": _COMPUTED,
    "writeCheckTime": _COMPUTED,
    "initialDelayTime": _COMPUTED,
    "syncOnCommand": _THREADS,
    "ignoreAllWireFormatInfo": "the wire format is always negotiated",
    "ignoreRemoteWireFormat": "the wire format is always negotiated",
}


@dataclass(frozen=True, slots=True)
class SocketOptions:
    """Set on the socket itself; they win over their namesakes of the transport."""

    keep_alive: bool | None = switch("keepAlive", None, "SO_KEEPALIVE.")
    tcp_no_delay: bool | None = switch("tcpNoDelay", None, "TCP_NODELAY.")
    reuse_address: bool | None = switch("reuseAddress", None, "SO_REUSEADDR.")
    receive_buffer_bytes: int | None = number("receiveBufferSize", None, "SO_RCVBUF.", unit="bytes", lowest=1)
    send_buffer_bytes: int | None = number("sendBufferSize", None, "SO_SNDBUF.", unit="bytes", lowest=1)
    so_timeout_ms: int | None = number(
        "soTimeout", None, "How long a read may take; 0: for ever.", unit="ms", lowest=0, highest=INT_HIGHEST
    )
    traffic_class: int | None = number("trafficClass", None, "IP_TOS.", lowest=0, highest=255)


_SOCKET_IGNORED: Final = {"oOBInline": "urgent data is not used"}


@dataclass(frozen=True, slots=True)
class TlsOptions:
    """TLS of the schemes that end in ssl."""

    verify_host_name: bool = switch(
        "verifyHostName", True, "The certificate must name the host.", aliases=("socket.verifyHostName",)
    )
    enabled_protocols: tuple[str, ...] = texts(
        "socket.enabledProtocols", "TLS versions, such as TLSv1.3.", aliases=("enabledProtocols",)
    )
    enabled_cipher_suites: tuple[str, ...] = texts(
        "socket.enabledCipherSuites", "Cipher suites by name.", aliases=("enabledCipherSuites",)
    )
    ca_file: str | None = text("caFile", "Whose certificates to accept (PEM); not given: those the system trusts.")
    cert_file: str | None = text("certFile", "The client's own certificate (PEM).")
    key_file: str | None = text("keyFile", "Its key, if certFile does not hold it (PEM).")
    key_password: str | None = secret("keyPassword", "The password of the key; never shown.")


_SERVER_SIDE: Final = "the broker decides that"
_TLS_IGNORED: Final = {
    "needClientAuth": _SERVER_SIDE,
    "wantClientAuth": _SERVER_SIDE,
    "socket.needClientAuth": _SERVER_SIDE,
    "socket.wantClientAuth": _SERVER_SIDE,
    "socket.useClientMode": "a client is always one",
    "socket.enableSessionCreation": "a connection needs a session",
}


@dataclass(frozen=True, slots=True)
class VmOptions:
    """A broker in the same process."""

    create: bool = switch("create", True, "Start the broker if there is none of that name.")
    wait_for_start_ms: int = milliseconds("waitForStart", -1, "How long to wait for it to start; -1: not.")
    broker_config: str | None = text("brokerConfig", "Where the broker finds its settings.")


_VM_IGNORED: Final = {
    "marshal": "commands are never shared between the two sides",
    "async": _THREADS,
    "asyncQueueDepth": _THREADS,
}


# ---- failover --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FailoverOptions:
    """How `failover:` finds a broker and comes back to one (J4)."""

    initial_reconnect_delay_ms: int = milliseconds("initialReconnectDelay", 10, "Before the first new attempt.")
    reconnect_delay_ms_max: int = milliseconds("maxReconnectDelay", 30_000, "Ceiling of the delay.")
    use_exponential_back_off: bool = switch("useExponentialBackOff", True, "Each delay is a multiple of the last.")
    reconnect_delay_exponent: float = fraction(
        "reconnectDelayExponent", 2.0, "That multiple.", aliases=("backOffMultiplier",)
    )
    reconnect_attempts_max: int = number(
        "maxReconnectAttempts", -1, "Then the connection fails; -1: for ever; 0: one attempt only.", lowest=-1
    )
    startup_reconnect_attempts_max: int = number(
        "startupMaxReconnectAttempts", -1, "The same for the first connection; -1: as maxReconnectAttempts.", lowest=-1
    )
    timeout_ms: int = milliseconds("timeout", -1, "How long to wait for a connection; -1: 60 s.")
    randomize: bool = switch("randomize", True, "Take the URIs in random order.")
    backup: bool = switch("backup", False, "Hold a second connection ready.")
    backup_pool_size: int = number("backupPoolSize", 1, "How many of them.", lowest=0, highest=1000)
    priority_backup: bool = switch("priorityBackup", False, "Return to a preferred broker when it is back.")
    priority_uris: tuple[str, ...] = texts("priorityURIs", "Which ones are preferred; empty: the first.")
    track_messages: bool = switch("trackMessages", False, "Keep messages under way, to send them again.")
    track_transaction_producers: bool = switch(
        "trackTransactionProducers", True, "Restore producers inside a transaction. They always are here."
    )
    cache_bytes_max: int = number(
        "maxCacheSize",
        131_072,
        "Bytes kept for that; here always 64 MiB.",
        unit="bytes",
        lowest=0,
    )
    update_uris_supported: bool = switch("updateURIsSupported", True, "Take new URIs from the broker.")
    update_uris_url: str | None = text("updateURIsURL", "A file or URL with more URIs, separated by commas.")
    rebalance_update_uris: bool = switch("rebalanceUpdateURIs", True, "Connect anew when the broker sends URIs.")
    reconnect_supported: bool = switch("reconnectSupported", True, "Follow a broker that asks to reconnect.")
    warn_after_reconnect_attempts: int = number(
        "warnAfterReconnectAttempts", 10, "Log a warning each so many attempts; 0: never.", lowest=-1
    )


_FAILOVER_IGNORED: Final = {"reconnectDelay": "it is the running delay; set initialReconnectDelay"}


# ---- in a destination's name -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ConsumerOptions:
    """For consumers of the destination; they win over the connection's."""

    prefetch_size: int | None = number("prefetchSize", None, "As the prefetch policy.", unit="messages", lowest=0)
    pending_message_limit_max: int | None = number(
        "maximumPendingMessageLimit", None, "As in the prefetch policy.", unit="messages"
    )
    exclusive: bool | None = switch("exclusive", None, "The only consumer of a queue (H2).")
    priority: int | None = number("priority", None, "Higher ones get messages first (H2).", lowest=-128, highest=127)
    no_local: bool | None = switch("noLocal", None, "Not what this connection sends.")
    retroactive: bool | None = switch("retroactive", None, "Topic messages from before the subscription.")
    dispatch_async: bool | None = switch("dispatchAsync", None, "As on the connection.")
    selector: str | None = text("selector", "Only messages that match (A7).")


_INTERNAL: Final = "it belongs to the protocol, not to applications"
_CONSUMER_IGNORED: Final = dict.fromkeys(
    (
        "browser",
        "clientId",
        "commandId",
        "currentPrefetchSize",
        "lastDeliveredSequenceId",
        "networkSubscription",
        "noRangeAcks",
        "optimizedAcknowledge",
        "responseRequired",
        "subscriptionName",
    ),
    _INTERNAL,
)


@dataclass(frozen=True, slots=True)
class ProducerOptions:
    """For producers to the destination; they win over the connection's."""

    window_bytes: int | None = number("windowSize", None, "As jms.producerWindowSize (B4).", unit="bytes")
    dispatch_async: bool | None = switch("dispatchAsync", None, "As on the connection.")


_PRODUCER_IGNORED: Final = dict.fromkeys(("commandId", "responseRequired"), _INTERNAL)

# ---- where they stand ------------------------------------------------------------------------------------------

CONNECTION: Final = Section("Connection", "jms.", ConnectionOptions, _JMS_IGNORED)
PREFETCH: Final = Section("Prefetch", "jms.prefetchPolicy.", PrefetchPolicy)
PREFETCH_FOR_ALL: Final = Section("Prefetch of all kinds", "jms.prefetchPolicy.", PrefetchForAll)
REDELIVERY: Final = Section("Redelivery", "jms.redeliveryPolicy.", RedeliveryPolicy, _REDELIVERY_IGNORED)
WIRE_FORMAT: Final = Section("Wire format", "wireFormat.", WireFormatOptions, _WIRE_FORMAT_IGNORED)
TRANSPORT: Final = Section("Transport", "", TransportOptions, _TRANSPORT_IGNORED)
SOCKET: Final = Section("Socket", "socket.", SocketOptions, _SOCKET_IGNORED)
TLS: Final = Section(
    "TLS", "", TlsOptions, _TLS_IGNORED, own=frozenset(("caFile", "certFile", "keyFile", "keyPassword"))
)
VM: Final = Section("In-process broker", "", VmOptions, _VM_IGNORED)
FAILOVER: Final = Section("Failover", "", FailoverOptions, _FAILOVER_IGNORED)
CONSUMER: Final = Section("Consumers, in a destination's name", "consumer.", ConsumerOptions, _CONSUMER_IGNORED)
PRODUCER: Final = Section("Producers, in a destination's name", "producer.", ProducerOptions, _PRODUCER_IGNORED)

SECTIONS: Final = (
    CONNECTION,
    PREFETCH,
    PREFETCH_FOR_ALL,
    REDELIVERY,
    FAILOVER,
    TRANSPORT,
    SOCKET,
    TLS,
    WIRE_FORMAT,
    VM,
    CONSUMER,
    PRODUCER,
)
