"""Every structure of OpenWire 1 to 12, declared once.

Names are ActiveMQ's; fields are in wire order, in Python's spelling. `structures.py` explains the declarations.
"""

from enum import IntEnum
from typing import Annotated, Final

from ackwire.wire.openwire.structures import (
    ARRAY,
    CACHED,
    NESTED,
    Bool,
    Byte,
    Bytes,
    Cause,
    Int,
    Long,
    Magic,
    Since,
    String,
    Structure,
    Until,
    base_structure,
    structure,
)

MAGIC: Final = b"ActiveMQ"


class AckType(IntEnum):
    """What a MessageAck says about its messages (SEMANTICS E)."""

    DELIVERED = 0
    POISON = 1
    STANDARD = 2
    REDELIVERED = 3
    INDIVIDUAL = 4
    UNMATCHED = 5
    EXPIRED = 6


class TransactionType(IntEnum):
    """What a TransactionInfo asks for (SEMANTICS G)."""

    BEGIN = 0
    PREPARE = 1
    COMMIT_ONE_PHASE = 2
    COMMIT_TWO_PHASE = 3
    ROLLBACK = 4
    RECOVER = 5
    FORGET = 6
    END = 7


class DestinationOperation(IntEnum):
    """What a DestinationInfo asks for."""

    ADD = 0
    REMOVE = 1


LAST_DELIVERED_UNKNOWN: Final = -2
"""RemoveInfo: it is not known what the consumer saw; every message in flight counts as delivered."""

LAST_DELIVERED_NOTHING: Final = -1
"""RemoveInfo: the consumer saw none of the messages in flight."""


# ---- ids and destinations: values ------------------------------------------------------------------------------


@base_structure(frozen=True)
class ActiveMQDestination(Structure):
    physical_name: String = None


@structure(100, frozen=True)
class ActiveMQQueue(ActiveMQDestination):
    pass


@structure(101, frozen=True)
class ActiveMQTopic(ActiveMQDestination):
    pass


@base_structure(frozen=True)
class ActiveMQTempDestination(ActiveMQDestination):
    pass


@structure(102, frozen=True)
class ActiveMQTempQueue(ActiveMQTempDestination):
    pass


@structure(103, frozen=True)
class ActiveMQTempTopic(ActiveMQTempDestination):
    pass


@structure(120, frozen=True)
class ConnectionId(Structure):
    value: String = None

    def __str__(self) -> str:
        return f"{self.value}"


@structure(121, frozen=True)
class SessionId(Structure):
    connection_id: String = None
    value: Long = 0

    def __str__(self) -> str:
        return f"{self.connection_id}:{self.value}"


@structure(122, frozen=True)
class ConsumerId(Structure):
    connection_id: String = None
    session_id: Long = 0
    value: Long = 0

    def __str__(self) -> str:
        return f"{self.connection_id}:{self.session_id}:{self.value}"


@structure(123, frozen=True)
class ProducerId(Structure):
    connection_id: String = None
    value: Long = 0
    session_id: Long = 0

    def __str__(self) -> str:
        return f"{self.connection_id}:{self.session_id}:{self.value}"


@structure(124, frozen=True)
class BrokerId(Structure):
    value: String = None


@structure(110, frozen=True)
class MessageId(Structure):
    text_view: Annotated[String, Since(10)] = None
    producer_id: Annotated[ProducerId | None, CACHED] = None
    producer_sequence_id: Long = 0
    broker_sequence_id: Long = 0

    def __str__(self) -> str:
        """JMSMessageID. A foreign id (`text_view`) stands in for ours."""
        if self.text_view is None:
            return f"{self.producer_id}:{self.producer_sequence_id}"
        return self.text_view if self.text_view.startswith("ID:") else f"ID:{self.text_view}"


@base_structure(frozen=True)
class TransactionId(Structure):
    pass


@structure(111, frozen=True)
class LocalTransactionId(TransactionId):
    value: Long = 0
    connection_id: Annotated[ConnectionId | None, CACHED] = None


@structure(112, frozen=True)
class XATransactionId(TransactionId):
    format_id: Int = 0
    global_transaction_id: Bytes = None
    branch_qualifier: Bytes = None


# ---- commands --------------------------------------------------------------------------------------------------


@structure(1)
class WireFormatInfo(Structure):
    magic: Magic = MAGIC
    version: Int = 0
    marshalled_properties: Bytes = None


WireFormatInfo.MARSHALL_AWARE = True


@base_structure()
class BaseCommand(Structure):
    command_id: Int = 0
    response_required: Bool = False


@structure(2)
class BrokerInfo(BaseCommand):
    broker_id: Annotated[BrokerId | None, CACHED] = None
    broker_url: String = None
    peer_broker_infos: Annotated["tuple[BrokerInfo | None, ...] | None", ARRAY] = None
    broker_name: String = None
    slave_broker: Bool = False
    master_broker: Bool = False
    fault_tolerant_configuration: Bool = False
    duplex_connection: Annotated[Bool, Since(2)] = False
    network_connection: Annotated[Bool, Since(2)] = False
    connection_id: Annotated[Long, Since(2)] = 0
    broker_upload_url: Annotated[String, Since(3)] = None
    network_properties: Annotated[String, Since(3)] = None


BrokerPath = Annotated[tuple[BrokerId | None, ...] | None, ARRAY]


@structure(3)
class ConnectionInfo(BaseCommand):
    connection_id: Annotated[ConnectionId | None, CACHED] = None
    client_id: String = None
    password: String = None
    user_name: String = None
    broker_path: BrokerPath = None
    broker_master_connector: Bool = False
    manageable: Bool = False
    client_master: Annotated[Bool, Since(2)] = True
    fault_tolerant: Annotated[Bool, Since(6)] = False
    failover_reconnect: Annotated[Bool, Since(6)] = False
    client_ip: Annotated[String, Since(8)] = None


@structure(4)
class SessionInfo(BaseCommand):
    session_id: Annotated[SessionId | None, CACHED] = None


@base_structure()
class BooleanExpression(Structure):
    pass


@structure(91)
class NetworkBridgeFilter(BooleanExpression):
    network_ttl: Annotated[Int, Until(9)] = 0
    network_broker_id: Annotated[BrokerId | None, CACHED] = None
    message_ttl: Annotated[Int, Since(10)] = 0
    consumer_ttl: Annotated[Int, Since(10)] = 0


@structure(5)
class ConsumerInfo(BaseCommand):
    consumer_id: Annotated[ConsumerId | None, CACHED] = None
    browser: Bool = False
    destination: Annotated[ActiveMQDestination | None, CACHED] = None
    prefetch_size: Int = 0
    maximum_pending_message_limit: Int = 0
    dispatch_async: Bool = False
    selector: String = None
    client_id: Annotated[String, Since(10)] = None
    subscription_name: String = None
    no_local: Bool = False
    exclusive: Bool = False
    retroactive: Bool = False
    priority: Byte = 0
    broker_path: BrokerPath = None
    additional_predicate: Annotated[BooleanExpression | None, NESTED] = None
    network_subscription: Bool = False
    optimized_acknowledge: Bool = False
    no_range_acks: Bool = False
    network_consumer_path: Annotated[tuple[ConsumerId | None, ...] | None, ARRAY, Since(4)] = None


@structure(6)
class ProducerInfo(BaseCommand):
    producer_id: Annotated[ProducerId | None, CACHED] = None
    destination: Annotated[ActiveMQDestination | None, CACHED] = None
    broker_path: BrokerPath = None
    dispatch_async: Annotated[Bool, Since(2)] = False
    window_size: Annotated[Int, Since(3)] = 0


@structure(7)
class TransactionInfo(BaseCommand):
    connection_id: Annotated[ConnectionId | None, CACHED] = None
    transaction_id: Annotated[TransactionId | None, CACHED] = None
    type: Byte = 0


@structure(8)
class DestinationInfo(BaseCommand):
    connection_id: Annotated[ConnectionId | None, CACHED] = None
    destination: Annotated[ActiveMQDestination | None, CACHED] = None
    operation_type: Byte = 0
    timeout: Long = 0
    broker_path: BrokerPath = None


@structure(9)
class RemoveSubscriptionInfo(BaseCommand):
    connection_id: Annotated[ConnectionId | None, CACHED] = None
    subscription_name: String = None
    client_id: String = None


@structure(10)
class KeepAliveInfo(BaseCommand):
    pass


@structure(11)
class ShutdownInfo(BaseCommand):
    pass


@structure(12)
class RemoveInfo(BaseCommand):
    object_id: Annotated[Structure | None, CACHED] = None
    last_delivered_sequence_id: Annotated[Long, Since(5)] = LAST_DELIVERED_UNKNOWN


@structure(14)
class ControlCommand(BaseCommand):
    command: String = None


@structure(15)
class FlushCommand(BaseCommand):
    pass


@structure(16)
class ConnectionError(BaseCommand):
    exception: Cause = None
    connection_id: Annotated[ConnectionId | None, NESTED] = None


@structure(17)
class ConsumerControl(BaseCommand):
    destination: Annotated[ActiveMQDestination | None, NESTED, Since(6)] = None
    close: Bool = False
    consumer_id: Annotated[ConsumerId | None, NESTED] = None
    prefetch: Int = 0
    flush: Annotated[Bool, Since(2)] = False
    start: Annotated[Bool, Since(2)] = False
    stop: Annotated[Bool, Since(2)] = False


@structure(18)
class ConnectionControl(BaseCommand):
    close: Bool = False
    exit: Bool = False
    fault_tolerant: Bool = False
    resume: Bool = False
    suspend: Bool = False
    connected_brokers: Annotated[String, Since(6)] = ""
    reconnect_to: Annotated[String, Since(6)] = ""
    rebalance_connection: Annotated[Bool, Since(6)] = False
    token: Annotated[Bytes, Since(8)] = None


@structure(19, since=3)
class ProducerAck(BaseCommand):
    producer_id: Annotated[ProducerId | None, NESTED] = None
    size: Int = 0


@structure(20, since=2)
class MessagePull(BaseCommand):
    consumer_id: Annotated[ConsumerId | None, CACHED] = None
    destination: Annotated[ActiveMQDestination | None, CACHED] = None
    timeout: Long = 0
    correlation_id: Annotated[String, Since(3)] = None
    message_id: Annotated[MessageId | None, NESTED, Since(3)] = None


# ---- messages --------------------------------------------------------------------------------------------------


@base_structure()
class Message(BaseCommand):
    producer_id: Annotated[ProducerId | None, CACHED] = None
    destination: Annotated[ActiveMQDestination | None, CACHED] = None
    transaction_id: Annotated[TransactionId | None, CACHED] = None
    original_destination: Annotated[ActiveMQDestination | None, CACHED] = None
    message_id: Annotated[MessageId | None, NESTED] = None
    original_transaction_id: Annotated[TransactionId | None, CACHED] = None
    group_id: String = None
    group_sequence: Int = 0
    correlation_id: String = None
    persistent: Bool = False
    expiration: Long = 0
    priority: Byte = 0
    reply_to: Annotated[ActiveMQDestination | None, NESTED] = None
    timestamp: Long = 0
    type: String = None
    content: Bytes = None
    marshalled_properties: Bytes = None
    data_structure: Annotated[Structure | None, NESTED] = None
    target_consumer_id: Annotated[ConsumerId | None, CACHED] = None
    compressed: Bool = False
    redelivery_counter: Int = 0
    broker_path: BrokerPath = None
    arrival: Long = 0
    user_id: String = None
    received_by_df_bridge: Bool = False
    droppable: Annotated[Bool, Since(2)] = False
    cluster: Annotated[BrokerPath, Since(3)] = None
    broker_in_time: Annotated[Long, Since(3)] = 0
    broker_out_time: Annotated[Long, Since(3)] = 0
    group_first_for_consumer: Annotated[Bool, Since(10)] = False


Message.MARSHALL_AWARE = True


@structure(23)
class ActiveMQMessage(Message):
    pass


@structure(24)
class ActiveMQBytesMessage(ActiveMQMessage):
    pass


@structure(25)
class ActiveMQMapMessage(ActiveMQMessage):
    pass


@structure(26)
class ActiveMQObjectMessage(ActiveMQMessage):
    pass


@structure(27)
class ActiveMQStreamMessage(ActiveMQMessage):
    pass


@structure(28)
class ActiveMQTextMessage(ActiveMQMessage):
    pass


@structure(29, since=3)
class ActiveMQBlobMessage(ActiveMQMessage):
    remote_blob_url: Annotated[String, Since(3)] = None
    mime_type: Annotated[String, Since(3)] = "application/octet-stream"
    deleted_by_broker: Annotated[Bool, Since(3)] = False


@structure(21)
class MessageDispatch(BaseCommand):
    consumer_id: Annotated[ConsumerId | None, CACHED] = None
    destination: Annotated[ActiveMQDestination | None, CACHED] = None
    message: Annotated[Message | None, NESTED] = None
    redelivery_counter: Int = 0


@structure(22)
class MessageAck(BaseCommand):
    destination: Annotated[ActiveMQDestination | None, CACHED] = None
    transaction_id: Annotated[TransactionId | None, CACHED] = None
    consumer_id: Annotated[ConsumerId | None, CACHED] = None
    ack_type: Byte = 0
    first_message_id: Annotated[MessageId | None, NESTED] = None
    last_message_id: Annotated[MessageId | None, NESTED] = None
    message_count: Int = 0
    poison_cause: Annotated[Cause, Since(7)] = None


# ---- responses -------------------------------------------------------------------------------------------------


@structure(30)
class Response(BaseCommand):
    correlation_id: Int = 0


@structure(31)
class ExceptionResponse(Response):
    exception: Cause = None


@structure(32)
class DataResponse(Response):
    data: Annotated[Structure | None, NESTED] = None


@structure(33)
class DataArrayResponse(Response):
    data: Annotated[tuple[Structure | None, ...] | None, ARRAY] = None


@structure(34)
class IntegerResponse(Response):
    result: Int = 0


# ---- brokers among themselves, discovery, store ----------------------------------------------------------------


@structure(40)
class DiscoveryEvent(Structure):
    service_name: String = None
    broker_name: String = None


@structure(50)
class JournalTopicAck(Structure):
    destination: Annotated[ActiveMQDestination | None, NESTED] = None
    message_id: Annotated[MessageId | None, NESTED] = None
    message_sequence_id: Long = 0
    subscription_name: String = None
    client_id: String = None
    transaction_id: Annotated[TransactionId | None, NESTED] = None


@structure(52)
class JournalQueueAck(Structure):
    destination: Annotated[ActiveMQDestination | None, NESTED] = None
    message_ack: Annotated[MessageAck | None, NESTED] = None


@structure(53)
class JournalTrace(Structure):
    message: String = None


@structure(54)
class JournalTransaction(Structure):
    transaction_id: Annotated[TransactionId | None, NESTED] = None
    type: Byte = 0
    was_prepared: Bool = False


@structure(55)
class SubscriptionInfo(Structure):
    client_id: String = None
    destination: Annotated[ActiveMQDestination | None, CACHED] = None
    selector: String = None
    subscription_name: String = None
    subscribed_destination: Annotated[ActiveMQDestination | None, NESTED, Since(3)] = None
    no_local: Annotated[Bool, Since(11)] = False


@structure(60)
class PartialCommand(Structure):
    command_id: Int = 0
    data: Bytes = None


@structure(61)
class LastPartialCommand(PartialCommand):
    pass


@structure(65)
class ReplayCommand(BaseCommand):
    first_nak_number: Int = 0
    last_nak_number: Int = 0


@structure(90)
class MessageDispatchNotification(BaseCommand):
    consumer_id: Annotated[ConsumerId | None, CACHED] = None
    destination: Annotated[ActiveMQDestination | None, CACHED] = None
    delivery_sequence_id: Long = 0
    message_id: Annotated[MessageId | None, NESTED] = None


@structure(92, since=12)
class BrokerSubscriptionInfo(BaseCommand):
    broker_id: Annotated[BrokerId | None, NESTED] = None
    broker_name: String = None
    subscription_infos: Annotated[tuple[ConsumerInfo | None, ...] | None, ARRAY] = None
