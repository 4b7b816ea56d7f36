"""The public names that both clients have in common."""

from ackwire.client.buffers import MemoryBuffer
from ackwire.client.core.modes import AckMode
from ackwire.client.disk_buffer import DiskBuffer
from ackwire.client.errors import (
    ConnectionFailedError,
    DestinationGoneError,
    IllegalArgumentError,
    IllegalStateError,
    InvalidClientIdError,
    InvalidDestinationError,
    InvalidSelectorError,
    JMSError,
    JMSSecurityError,
    MessageEOFError,
    MessageFormatError,
    MessageNotReadableError,
    MessageNotWriteableError,
    NumberFormatError,
    RequestTimedOutError,
    ResourceAllocationError,
    TransactionInDoubtError,
    TransactionInProgressError,
    TransactionRolledBackError,
    UnconfirmedMessagesError,
    UnsupportedError,
    XAError,
)
from ackwire.client.listening import listener
from ackwire.client.message import Message
from ackwire.client.message_headers import DeliveryMode
from ackwire.client.messages import BytesMessage, MapMessage, ObjectMessage, StreamMessage, TextMessage
from ackwire.client.options import ConnectionOptions, PrefetchPolicy, RedeliveryPolicy
from ackwire.client.transform import MessageTransformer
from ackwire.client.xid import Xid
from ackwire.jms.destinations import Destination, Kind
from ackwire.jms.destinations import parse_written_destination as parse_destination

__all__ = [
    "AckMode",
    "BytesMessage",
    "ConnectionFailedError",
    "ConnectionOptions",
    "DeliveryMode",
    "Destination",
    "DestinationGoneError",
    "DiskBuffer",
    "IllegalArgumentError",
    "IllegalStateError",
    "InvalidClientIdError",
    "InvalidDestinationError",
    "InvalidSelectorError",
    "JMSError",
    "JMSSecurityError",
    "Kind",
    "MapMessage",
    "MemoryBuffer",
    "Message",
    "MessageEOFError",
    "MessageFormatError",
    "MessageNotReadableError",
    "MessageNotWriteableError",
    "MessageTransformer",
    "NumberFormatError",
    "ObjectMessage",
    "PrefetchPolicy",
    "RedeliveryPolicy",
    "RequestTimedOutError",
    "ResourceAllocationError",
    "StreamMessage",
    "TextMessage",
    "TransactionInDoubtError",
    "TransactionInProgressError",
    "TransactionRolledBackError",
    "UnconfirmedMessagesError",
    "UnsupportedError",
    "XAError",
    "Xid",
    "listener",
    "parse_destination",
]
