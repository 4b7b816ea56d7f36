"""Every setting, once: type, unit, default, range and reason.

A table of the file is a frozen dataclass here, and a key has the same name in both, so one search finds it everywhere.
The tables `[[policy]]` are `DestinationPolicy` (`config/policy.py`), one for each pattern.
"""

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, replace
from dataclasses import fields as fields_of
from typing import Any, Final

from ackwire.config import fields
from ackwire.config.fields import Option
from ackwire.config.listener_uri import FRAME_BYTES_HIGHEST, INACTIVITY_MS_HIGHEST, parse_address, parse_listener_uri
from ackwire.config.member_uri import check_bind, check_member
from ackwire.config.memory import memory_bytes
from ackwire.config.policy import DestinationPolicy
from ackwire.config.store_uri import JOURNAL, MEMORY, REPLICATED, check_store, check_table_prefix, parse_store
from ackwire.config.types import GIB, KIB, MIB, Bytes, Share, Text, Uris, Whole
from ackwire.config.wholes import DEFAULT_DATA, disk_bytes

_MEMORY_PERCENT: Final = 20
_STORE_PERCENT: Final = 80
_TEMP_PERCENT: Final = 10


@dataclass(frozen=True, slots=True)
class BrokerSettings:
    """The broker as a whole."""

    name: str = fields.text(
        "localhost", length_max=255, reason="Clients see it as the broker's name; ActiveMQ's default is the same."
    )
    operator: str = fields.option(
        "",
        Option(
            Text(255, may_be_empty=True),
            "The user who may list and decide the prepared XA transactions of all users; everyone else sees their own. "
            "Empty: no user. Names of users are not verified yet.",
        ),
    )


@dataclass(frozen=True, slots=True)
class ListenSettings:
    """Where clients connect."""

    uris: tuple[str, ...] = fields.option(
        ("tcp://127.0.0.1:61616",),
        Option(
            Uris(64, parse_listener_uri, "tcp://127.0.0.1:61616"),
            "Loopback until told otherwise, because there is no authentication yet. Schemes: tcp, nio, ssl, "
            "auto and their combinations; options follow a question mark.",
        ),
    )


@dataclass(frozen=True, slots=True)
class StoreSettings:
    """Where messages are kept."""

    kind: str = fields.option(
        JOURNAL,
        Option(
            Text(1024, check=check_store, what='"journal", "replicated", "memory", or the URI of a database'),
            "journal: in files, kept over a restart and a crash. memory: everything is forgotten when the broker "
            "stops. sqlite:///file, postgresql://user@host/database, mariadb://user@host/database: in the tables of "
            "ActiveMQ's JDBC store, so that a database can change hands. journal+ in front of such a URI: a journal "
            "answers, and what is not consumed soon moves to the database. replicated: a journal with copies on other "
            "brokers, of which a majority has a message on disk before it is answered; see the table replication.",
        ),
    )
    data: str = fields.option(
        DEFAULT_DATA,
        Option(
            Text(what="directory"),
            "The directory of the journal; made if it is not there. Only one broker can use it at a time. Messages "
            "that spill out of memory go there too.",
        ),
    )
    index: str = fields.choice(
        "lmdb",
        "leveldb",
        reason="What the journal's index is written with; leveldb needs the extra of that name. After a change the "
        "next start makes the index anew from the journal.",
    )
    sync: str = fields.choice(
        "always",
        "periodic",
        "never",
        reason="always: a producer is answered when its message is on the medium, or consumed. periodic, never: "
        "when the operating system has it; then a crash of the broker loses nothing, and a loss of power what came "
        "since the last sync.",
    )
    sync_interval_seconds: float = fields.seconds(
        1, lowest=0.01, highest=3600, reason="How often a journal is synced whose sync is periodic."
    )
    early_dispatch: str = fields.choice(
        "adaptive",
        "idle",
        "off",
        reason="Whether a consumer may get a persistent message before it is on disk; what is consumed by then need "
        "not be stored. adaptive: when the broker is idle, and where consumers acknowledge faster than the disk syncs. "
        "idle: only when the broker is idle. off: never, as with ActiveMQ's concurrentStoreAndDispatchQueues=false.",
    )
    segment_bytes: int = fields.size(
        32 * MIB,
        lowest=64 * KIB,
        highest=GIB,
        reason="The size of the journal's files, taken at once; one is always made ahead. ActiveMQ's figure.",
    )
    free_bytes_min: int = fields.size(
        256 * MIB,
        lowest=0,
        highest=1024 * GIB,
        reason="Producers of persistent messages wait when the disk has less than this left, so that consumers can go "
        "on and make space.",
    )
    shared: bool = fields.switch(
        False,
        reason="true: other brokers use this store too, one at a time: those that find it in use wait as slaves, and "
        "one of them takes over. The folder of data, the file or the database must be shared. false: a broker that "
        "finds the store in use does not start.",
    )
    checkpoint_seconds: float = fields.seconds(
        30,
        lowest=0.1,
        highest=86_400,
        reason="How often a journal in front of a database moves to it what is still there. What is consumed sooner "
        "never reaches the database.",
    )
    checkpoint_bytes: int = fields.size(
        256 * MIB,
        lowest=MIB,
        highest=1024 * GIB,
        reason="The same, when so much was written to that journal since the last time.",
    )

    def resolved(self) -> "StoreSettings":
        """These settings with what a URI in `kind` says about the journal in its own setting."""
        choice = parse_store(self.kind)
        if choice.kind not in (JOURNAL, REPLICATED):
            return self if choice.kind != MEMORY else replace(self, kind=MEMORY)
        return replace(self, kind=choice.kind, index=choice.index or self.index, data=choice.data or self.data)


@dataclass(frozen=True, slots=True)
class SqlSettings:
    """How a database is used, if store.kind names one."""

    password_file: str = fields.option(
        "",
        Option(
            Text(may_be_empty=True, what="file"),
            "The file whose first line is the password of the database, unless the URI names another with "
            "?password_file=. Empty: that of the environment variable ACKWIRE_STORE_PASSWORD, or none.",
        ),
    )
    table_prefix: str = fields.option(
        "",
        Option(
            Text(32, may_be_empty=True, check=check_table_prefix, what="prefix"),
            "In front of the names of all tables: ActiveMQ's tablePrefix.",
        ),
    )
    create_tables: bool = fields.switch(
        True, reason="false: missing tables are an error, for databases where only an administrator creates tables."
    )
    answer_seconds_max: float = fields.seconds(
        60,
        lowest=0.1,
        highest=86_400,
        reason="How long a database server may take to answer. After that the connection counts as lost: a server that "
        "is stopped, or behind a network that drops packets, keeps its connections open for ever.",
    )
    reconnect_seconds_max: float = fields.seconds(
        60,
        lowest=0,
        highest=86_400,
        reason="How long the database may be away, counted from the lost connection. Meanwhile producers of persistent "
        "messages wait, and all else goes on; after that the broker ends, so that a supervisor notices.",
    )


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """Several brokers of which one is the master: on a shared store (store.shared), or with copies of the journal."""

    uri: str = fields.option(
        "",
        Option(
            Text(1024, may_be_empty=True, check=check_member, what="URI"),
            "Where clients reach this broker, for slaves to name it. Empty: the first of listen.uris, with the name of "
            "this machine where it says 0.0.0.0.",
        ),
    )
    members: tuple[str, ...] = fields.option(
        (),
        Option(
            Uris(64, check_member, "tcp://host:61616", count_min=0),
            "Where clients reach each broker of the group, this one included. Clients with failover: are told when "
            "they connect, so that one who knows a single broker finds the others. Empty: they are not told.",
        ),
    )
    rebalance: bool = fields.switch(
        False,
        reason="Whether clients whose list of brokers changes connect anew, to any of them: ActiveMQ's "
        "rebalanceClusterClients. Of these brokers only one takes clients, so it only costs a connection.",
    )
    refuse_clients: bool = fields.switch(
        False,
        reason="true: a slave listens, and refuses clients with the name of the master. false: its ports are closed, "
        "as with ActiveMQ.",
    )
    lease_seconds: float = fields.seconds(
        10,
        lowest=1,
        highest=600,
        reason="How long a broker is the master of a shared database without renewing that. After a crash of its "
        "machine another one takes over when this is over; a clean stop gives it back at once. ActiveMQ's default.",
    )


@dataclass(frozen=True, slots=True)
class ReplicationSettings:
    """The group of brokers that have copies of one journal, if store.kind is replicated."""

    node: str = fields.option(
        "",
        Option(
            Text(128, may_be_empty=True),
            "The name of this node, which no other one of the group has. Empty: broker.name.",
        ),
    )
    replicas: int = fields.count(
        3,
        highest=9,
        reason="The nodes of the group. More than half of them have a message on disk before it is answered: with 3 "
        "one may fail, with 5 two.",
    )
    zk_address: str = fields.option(
        "127.0.0.1:2181",
        Option(Text(1024), "The servers of ZooKeeper, which elects the master: host:port, separated by commas."),
    )
    zk_path: str = fields.option(
        "/ackwire", Option(Text(512), "What the group keeps there is below this path. Another group has another one.")
    )
    zk_password_file: str = fields.option(
        "",
        Option(
            Text(may_be_empty=True, what="file"),
            "The file whose first line is a password: then only nodes that know it can read or change what is below "
            "zk_path. All nodes have the same. Empty: everyone can.",
        ),
    )
    zk_session_timeout_seconds: float = fields.seconds(
        4,
        lowest=1,
        highest=120,
        reason="After so long without a word from the master another node is elected. A master that was not heard for "
        "less goes on. ZooKeeper allows 2 to 20 of its ticks.",
    )
    bind: str = fields.option(
        "tcp://127.0.0.1:61619",
        Option(
            Text(256, check=check_bind, what="address"),
            "Where other nodes connect. Any other than a loopback address needs secret_file.",
        ),
    )
    advertise: str = fields.option(
        "",
        Option(
            Text(256, may_be_empty=True),
            "host:port where other nodes reach this one. Empty: that of bind, with the name of this machine where it "
            "says 0.0.0.0.",
        ),
    )
    weight: int = fields.count(
        1, lowest=0, highest=1000, reason="Among nodes whose logs go equally far the one with the highest is elected."
    )
    sync: str = fields.choice(
        "quorum_disk",
        "quorum_mem",
        "local_disk",
        reason="When a message is answered. quorum_disk: a majority of the nodes has it on disk. quorum_mem: the "
        "master has it on disk, and enough others in memory; a power cut of all may lose it. local_disk: the master "
        "has it on disk; a change of masters may lose it.",
    )
    secret_file: str = fields.option(
        "",
        Option(
            Text(may_be_empty=True, what="file"),
            "The file with what nodes prove to each other that they know, 16 bytes or more; the same for all.",
        ),
    )
    tls_certificate: str = fields.option(
        "",
        Option(
            Text(may_be_empty=True, what="file"),
            "PEM: this node's certificate. With it, tls_key and tls_ca, nodes speak TLS, and check each other's.",
        ),
    )
    tls_key: str = fields.option("", Option(Text(may_be_empty=True, what="file"), "PEM: the key of tls_certificate."))
    tls_ca: str = fields.option(
        "", Option(Text(may_be_empty=True, what="file"), "PEM: who has signed the certificates of the nodes.")
    )


@dataclass(frozen=True, slots=True)
class HandshakeSettings:
    """Limits for a peer that has not logged in."""

    frame_bytes_max: int = fields.size(
        64 * KIB,
        lowest=4 * KIB,
        highest=MIB,
        reason="The largest frame before login; a real client's handshake commands are below 1 KiB each.",
    )
    receive_bytes_max: int = fields.size(
        16 * MIB,
        lowest=64 * KIB,
        highest=GIB,
        reason="Frames above 4 KiB that have arrived in part, of all peers that have not logged in; a peer whose frame "
        "has no room is not read from. Real handshakes never ask for any.",
    )
    wire_format_timeout_seconds: float = fields.seconds(
        10,
        lowest=0.1,
        highest=600,
        reason="A peer must have sent its WireFormatInfo by then; clients send it at once.",
    )
    login_timeout_seconds: float = fields.seconds(
        60,
        lowest=0.1,
        highest=3600,
        reason="A peer must have finished its ConnectionInfo by then. The Java client sends it lazily, at "
        "start() or createSession(), so a short limit would break programs that work with ActiveMQ.",
    )
    tls_timeout_seconds: float = fields.seconds(
        10,
        lowest=0.1,
        highest=600,
        reason="The TLS handshake must be over by then, on listeners that use TLS.",
    )
    tls_handshakes_max: int = fields.count(
        256,
        highest=100_000,
        reason="TLS handshakes at once on one listener, at least 256 KiB of memory each; more are closed.",
    )


@dataclass(frozen=True, slots=True)
class WireSettings:
    """Limits on what is decoded, checked before memory is taken; a peer beyond them is closed."""

    frame_bytes_max: int = fields.size(
        100 * MIB,
        lowest=64 * KIB,
        highest=FRAME_BYTES_HIGHEST,
        reason="The largest frame, so the largest message; ActiveMQ's shipped configuration says the same.",
    )
    inflated_bytes_max: int = fields.size(
        100 * MIB,
        lowest=64 * KIB,
        highest=FRAME_BYTES_HIGHEST,
        reason="The largest body after decompression; a small frame can inflate a thousandfold.",
    )
    map_entries_max: int = fields.count(
        65_536,
        highest=16_777_216,
        reason="Entries of one map, list or stream of values, nested ones included: properties and bodies.",
    )
    nesting_max: int = fields.count(
        32, highest=100, reason="How deep maps and lists may nest; deeper ones are an attack on the stack."
    )
    cache_bytes_max: int = fields.size(
        4 * MIB,
        lowest=64 * KIB,
        highest=GIB,
        reason="What the marshalling cache of one peer may hold: some hundred ids and names of destinations.",
    )


@dataclass(frozen=True, slots=True)
class ConnectionSettings:
    """Limits for each connection."""

    connections_max: int = fields.count(
        10_000,
        highest=1_000_000,
        reason="Connections at once on one listener; more are closed. Its URI may say maximumConnections.",
    )
    write_pause_bytes: int = fields.size(
        MIB,
        lowest=4 * KIB,
        highest=GIB,
        reason="Output waiting for a peer above which no more messages are dispatched to it.",
    )
    read_pause_bytes: int = fields.size(
        4 * MIB,
        lowest=4 * KIB,
        highest=GIB,
        reason="Output waiting for a peer above which nothing more is read from it: its requests would only "
        "add answers.",
    )
    frame_timeout_seconds: float = fields.seconds(
        10,
        lowest=0.1,
        highest=3600,
        reason="While others wait for room to receive (limits.receive_bytes_max), a frame must be complete after this "
        "long, and 1 s more for each MiB of it; then its connection is closed. While no other waits, it may take any "
        "time.",
    )
    max_inactivity_duration_seconds: float = fields.seconds(
        30,
        lowest=0,
        highest=INACTIVITY_MS_HIGHEST / 1000,
        reason="A peer silent for longer is taken for dead; the smaller value of both sides counts, 0 turns "
        "the check off. ActiveMQ's default.",
    )
    max_inactivity_initial_delay_seconds: float = fields.seconds(
        10,
        lowest=0,
        highest=INACTIVITY_MS_HIGHEST / 1000,
        reason="When the first inactivity check is due; the smaller value of both sides counts. ActiveMQ's default.",
    )
    takeover_grace_seconds: float = fields.seconds(
        2,
        lowest=0,
        highest=60,
        reason="How long an old connection has to confirm a probe when its client logs in again with the same "
        "connection id, as after a failover. One that confirms stays, and the login is refused; another is replaced.",
    )
    sessions_max: int = fields.count(10_000, highest=1_000_000, reason="Sessions of one connection.")
    producers_max: int = fields.count(10_000, highest=1_000_000, reason="Producers of one connection.")
    consumers_max: int = fields.count(10_000, highest=1_000_000, reason="Consumers of one connection.")
    destinations_max: int = fields.count(
        25_000,
        highest=10_000_000,
        reason="Destinations, and durable subscriptions, that one connection has made and that still exist; more are "
        "refused. A quarter of destinations.count_max: one client cannot take all.",
    )


@dataclass(frozen=True, slots=True)
class DestinationSettings:
    """Limits for queues and topics."""

    count_max: int = fields.count(
        100_000,
        highest=10_000_000,
        reason="Destinations in all, temporary ones included; clients create them by name, and by mistake.",
    )
    topic_pending_bytes_max: int = fields.size(
        64 * MIB,
        lowest=64 * KIB,
        highest=64 * GIB,
        reason="Messages waiting for one slow non-durable subscriber; beyond it the oldest are dropped.",
    )
    expiry_sweep_seconds: float = fields.seconds(
        30,
        lowest=0.01,
        highest=3600,
        reason="How often queues are looked through for messages whose time is over; ActiveMQ's figure. An expired "
        "message is never dispatched, however long the sweep is away.",
    )
    inactive_sweep_seconds: float = fields.seconds(
        0,
        lowest=0,
        highest=86_400,
        reason="How often destinations are looked through for those that are empty and unused, and are to be removed "
        "by their policy (remove_inactive); 0: never. ActiveMQ's schedulePeriodForDestinationPurge and its default.",
    )


@dataclass(frozen=True, slots=True)
class SelectorSettings:
    """What selectors may ask for, beyond headers and properties."""

    xpath: bool = fields.switch(
        False,
        reason="Offer XPATH '...' in selectors, which reads bodies as XML: a message then takes a millisecond for each "
        "such consumer instead of some microseconds. Otherwise it is refused.",
    )
    xpath_body_bytes_max: int = fields.size(
        32 * KIB, lowest=1 * KIB, highest=1 * MIB, reason="A message with a longer body matches no XPATH."
    )
    xpath_nodes_max: int = fields.count(
        1_000,
        lowest=10,
        highest=100_000,
        reason="Elements, attributes and texts of one body; with more it matches no XPATH. 1000 are read in 2 ms.",
    )
    xpath_steps_max: int = fields.count(
        5_000,
        lowest=100,
        highest=1_000_000,
        reason="Nodes that one XPATH may look at in one message; if it needs more, the message does not match. 5000 "
        "take some 3 ms, in which the broker does nothing else.",
    )


@dataclass(frozen=True, slots=True)
class LimitSettings:
    """Limits of memory and disk, and how producers are blocked when they are reached."""

    memory_bytes_max: int = fields.computed(
        lambda: Share(_MEMORY_PERCENT, memory_bytes()),
        Option(
            Bytes(16 * KIB, 1024 * GIB, _MEMORY_PERCENT),
            "Bytes of messages in memory. From 70 % of it on, what waits is left to the store or spilled to the temp "
            "store; where that cannot be, producers wait at 100 %, and consumers go on. Only what came over the wire "
            "is counted: the smallest messages take nearly five times as much, and at 20 % they too fit into a small "
            "machine. The percentage is that of the machine's memory, or of the container's if that is less.",
        ),
    )
    store_bytes_max: int = fields.computed(
        lambda: Share(_STORE_PERCENT, disk_bytes(DEFAULT_DATA)),
        Option(
            Bytes(MIB, 1024 * 1024 * GIB, _STORE_PERCENT, Whole.DISK),
            "Bytes of the store's files; beyond it producers of persistent messages wait, and consumers go on. The "
            "percentage is that of the whole disk that holds the data directory.",
        ),
    )
    temp_bytes_max: int = fields.computed(
        lambda: Share(_TEMP_PERCENT, disk_bytes(DEFAULT_DATA)),
        Option(
            Bytes(0, 1024 * 1024 * GIB, _TEMP_PERCENT, Whole.DISK),
            "Bytes of files for non-persistent messages that memory has no room for; beyond it their producers wait "
            "for memory. 0: nothing is spilled. The percentage is that of the whole disk that holds the data "
            "directory; beside the store's 80 % it leaves a tenth free.",
        ),
    )
    when_full: str = fields.choice(
        "block", "fail", reason="block: a send waits for space. fail: it gets an error at once."
    )
    block_timeout_seconds: float = fields.seconds(
        0,
        lowest=0,
        highest=86_400,
        reason="A blocked send gets an error after this long; 0: it waits as long as it takes, as in ActiveMQ.",
    )
    receive_bytes_max: int = fields.size(
        256 * MIB,
        lowest=MIB,
        highest=64 * GIB,
        reason="Frames that have arrived in part, of all connections: two of the largest, and a quarter of it for "
        "those up to 1 MiB. A connection whose frame has no room is not read from until there is. Frames up to 64 KiB "
        "need none: every connection has the space of one read. One frame is received however large it is.",
    )
    blocked_bytes_max: int = fields.size(
        32 * MIB,
        lowest=0,
        highest=64 * GIB,
        reason="Sends of all connections that may wait for space. Once it is reached, a connection whose send has to "
        "wait is not read from, and no large frame is received while the broker is full; at twice as much sends are "
        "refused. A client that leaves has its sends taken until memory, store or queue is so far above its limit; the "
        "rest is dropped.",
    )
    held_bytes_max: int = fields.size(
        MIB,
        lowest=0,
        highest=GIB,
        reason="Sends of one connection that may wait for space before the broker stops reading from it.",
    )
    cursors_max: int = fields.count(
        1000, highest=100_000, reason="Cursors at once; each reserves its messages until it commits."
    )
    cursor_messages_max: int = fields.count(
        10_000_000,
        highest=1_000_000_000,
        reason="Messages that one cursor may have without having committed them, 21 bytes of memory each; it is given "
        "no more until its reader commits.",
    )
    staged_messages_max: int = fields.count(
        10_000_000,
        highest=1_000_000_000,
        reason="Messages in batches that are not committed, of all producers; more are refused.",
    )
    staged_seconds_max: float = fields.seconds(
        3600,
        lowest=1,
        highest=30 * 86_400,
        reason="A part of a batch to which nothing is added for this long, and which is not committed, was left behind "
        "by a writer that is gone: it is dropped.",
    )


@dataclass(frozen=True, slots=True)
class SchedulerSettings:
    """How much may be scheduled for later; beyond it a send is refused."""

    jobs_max: int = fields.count(
        1_000_000, highest=100_000_000, reason="Jobs at once: each takes about 1 KB of memory besides its message."
    )
    job_bytes_max: int = fields.size(
        GIB, lowest=0, highest=1024 * GIB, reason="Bytes of the messages that wait for their time; they are in memory."
    )
    connection_jobs_max: int = fields.count(
        250_000,
        highest=100_000_000,
        reason="Jobs of one connection, while it is there. A quarter of jobs_max: one client cannot take all.",
    )
    connection_bytes_max: int = fields.size(
        256 * MIB,
        lowest=0,
        highest=1024 * GIB,
        reason="Bytes of the messages that one connection has scheduled, while it is there; a quarter of "
        "job_bytes_max.",
    )


@dataclass(frozen=True, slots=True)
class ClockSettings:
    """What happens to messages with a time to live if the producer's clock is not the broker's."""

    correction: str = fields.choice(
        "extend",
        "both",
        "off",
        reason="extend: what comes from a clock that is behind gets its whole time to live from its arrival on, "
        "because it would expire too early and be lost; a message that was long on its way looks the same. both: what "
        "comes from a clock that is ahead is corrected too (ActiveMQ's TimeStampPlugin). off: the producer's times "
        "are taken as they are (ActiveMQ without the plugin).",
    )
    tolerance_seconds: float = fields.seconds(
        1,
        lowest=0,
        highest=3600,
        reason="Clocks that differ by no more than this, or than a tenth of the time to live if that is less, count as "
        "equal: the message keeps its JMSTimestamp and JMSExpiration.",
    )


@dataclass(frozen=True, slots=True)
class HttpSettings:
    """The HTTP port: health, metrics, and messages as Arrow streams for data pipelines."""

    listen: str = fields.option(
        "",
        Option(
            Text(300, may_be_empty=True, check=parse_address, what="host and port"),
            "Host and port, like 127.0.0.1:8161; empty: there is no HTTP port. Port 0 takes any free port. There is no "
            "TLS here: beyond this machine the token can be read on its way.",
        ),
    )
    token_file: str = fields.option(
        "",
        Option(
            Text(may_be_empty=True, what="file"),
            "The file with the token that requests must carry; made, readable for its owner only, if it is not there. "
            "Empty: http.token in the data directory.",
        ),
    )
    connections_max: int = fields.count(
        200, highest=10_000, reason="Connections at once on the HTTP port; more are closed."
    )
    part_bytes_max: int = fields.size(
        64 * MIB,
        lowest=64 * KIB,
        highest=GIB,
        reason="The largest body of one request with messages; a part may come in several requests.",
    )
    bodies_bytes_max: int = fields.size(
        256 * MIB,
        lowest=64 * KIB,
        highest=64 * GIB,
        reason="Bodies with messages in memory at once; further requests wait until one of them is done.",
    )
    idle_timeout_seconds: float = fields.seconds(
        75, lowest=0.1, highest=3600, reason="A connection without a request is closed after this long."
    )
    request_timeout_seconds: float = fields.seconds(
        30,
        lowest=0.1,
        highest=3600,
        reason="The head of a request must have come by then, and each further MiB of its body.",
    )
    answer_timeout_seconds: float = fields.seconds(
        600,
        lowest=0.1,
        highest=86_400,
        reason="A client that takes nothing of its answer for this long is cut off. A reader of messages may be busy "
        "with those it has.",
    )


@dataclass(frozen=True, slots=True)
class AuditSettings:
    """The audit: the life of every message as Parquet files."""

    directory: str = fields.option(
        "",
        Option(
            Text(may_be_empty=True, what="directory"),
            "Where the events go; made if it is not there. Empty: nothing is written down. Only one broker can use it "
            "at a time, and nothing in it is ever deleted by the broker.",
        ),
    )
    roll_seconds: float = fields.seconds(
        5, lowest=0.1, highest=3600, reason="A file ends after this long, and then others can read it."
    )
    roll_bytes: int = fields.size(
        32 * MIB,
        lowest=64 * KIB,
        highest=GIB,
        reason="A file ends when its events took this much of the spool, or are a million.",
    )
    census_seconds: float = fields.seconds(
        60, lowest=1, highest=86_400, reason="How often the messages of every place are counted, to compare with."
    )
    buffer_bytes_max: int = fields.size(
        64 * MIB,
        lowest=MIB,
        highest=16 * GIB,
        reason="Events that wait in memory while the disk takes none; beyond it they are dropped and counted.",
    )
    free_bytes_min: int = fields.size(
        256 * MIB,
        lowest=0,
        highest=1024 * GIB,
        reason="The disk of the audit counts as full when it has less than this left.",
    )
    when_full: str = fields.choice(
        "block",
        "drop",
        reason="What happens when the disk of the audit is full or fails. block: sends wait, as for a full store, and "
        "what consumers do is kept in memory. drop: everything goes on, and events that memory has no room for are "
        "lost; their numbers are missing.",
    )


@dataclass(frozen=True, slots=True)
class ShutdownSettings:
    """How the broker stops."""

    drain_timeout_seconds: float = fields.seconds(
        5, lowest=0, highest=3600, reason="Peers get this long to take what was sent; then they are cut off."
    )


@dataclass(frozen=True, slots=True)
class LogSettings:
    """What is logged, to standard error."""

    format: str = fields.choice("text", "json", reason="text for people, json for machines: one object per line.")
    level: str = fields.choice(
        "debug",
        "info",
        "warning",
        "error",
        default="info",
        reason="The least important records that are written.",
    )


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings; `Settings()` is the default configuration."""

    broker: BrokerSettings = field(default_factory=BrokerSettings)
    listen: ListenSettings = field(default_factory=ListenSettings)
    store: StoreSettings = field(default_factory=StoreSettings)
    sql: SqlSettings = field(default_factory=SqlSettings)
    cluster: ClusterSettings = field(default_factory=ClusterSettings)
    replication: ReplicationSettings = field(default_factory=ReplicationSettings)
    handshake: HandshakeSettings = field(default_factory=HandshakeSettings)
    wire: WireSettings = field(default_factory=WireSettings)
    connection: ConnectionSettings = field(default_factory=ConnectionSettings)
    destinations: DestinationSettings = field(default_factory=DestinationSettings)
    selectors: SelectorSettings = field(default_factory=SelectorSettings)
    limits: LimitSettings = field(default_factory=LimitSettings)
    scheduler: SchedulerSettings = field(default_factory=SchedulerSettings)
    clocks: ClockSettings = field(default_factory=ClockSettings)
    http: HttpSettings = field(default_factory=HttpSettings)
    audit: AuditSettings = field(default_factory=AuditSettings)
    shutdown: ShutdownSettings = field(default_factory=ShutdownSettings)
    log: LogSettings = field(default_factory=LogSettings)
    policies: tuple[DestinationPolicy, ...] = ()
    """The `[[policy]]` tables, in the order of the file."""


POLICY: Final = "policy"
"""What the tables of `Settings.policies` are called in a file."""

TABLES: Final[Mapping[str, type[Any]]] = {
    table.name: type(table.default_factory()) for table in fields_of(Settings) if table.default_factory is not MISSING
}
"""The tables that occur once, by their name in the file and in `Settings`."""

ORDERED: Final[Mapping[str, tuple[tuple[str, str], ...]]] = {
    "handshake": (("wire_format_timeout_seconds", "login_timeout_seconds"),),
    "connection": (("write_pause_bytes", "read_pause_bytes"),),
    "http": (("part_bytes_max", "bodies_bytes_max"),),
    POLICY: (("redelivery_delay_seconds", "redelivery_delay_seconds_max"),),
}
"""Pairs of keys by table: the first must not be above the second, or the second has no effect."""
