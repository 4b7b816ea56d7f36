"""Ackwire: a message broker and client that speak ActiveMQ's language.

The blocking client is here, `ackwire.connect`; the one for asyncio has the same names in `ackwire.aio`.

    with ackwire.connect("tcp://localhost:61616") as connection, connection.session() as session:
        session.producer("orders").send("two apples")
        print(session.consumer("orders").receive(5))
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from ackwire.util.version import __version__ as __version__

if TYPE_CHECKING:
    # Not from ackwire.client: type checkers cannot tell what is in an __all__ that is put together.
    from ackwire.client.names import *  # noqa: F403
    from ackwire.client.sync import *  # noqa: F403

# Written out, because a broker that imports this package does not load the client.
__all__ = [  # noqa: F405
    "AckMode",
    "Browser",
    "BufferedProducer",
    "BytesMessage",
    "Connection",
    "ConnectionFactory",
    "ConnectionFailedError",
    "ConnectionOptions",
    "Consumer",
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
    "ListenerContainer",
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
    "PooledConsumer",
    "PrefetchPolicy",
    "Producer",
    "RedeliveryPolicy",
    "RequestTimedOutError",
    "ResourceAllocationError",
    "Session",
    "StreamMessage",
    "Template",
    "TextMessage",
    "TransactionInDoubtError",
    "TransactionInProgressError",
    "TransactionRolledBackError",
    "UnconfirmedMessagesError",
    "UnsupportedError",
    "XAError",
    "XAResource",
    "XASession",
    "Xid",
    "connect",
    "listener",
    "parse_destination",
]


def __dir__() -> list[str]:
    """What `dir(ackwire)` and completion show: the client's names, loaded or not."""
    return sorted({*globals(), *__all__})


def __getattr__(name: str) -> Any:
    """Load a name of the client when it is first asked for: a broker does not need the client."""
    if not Path(__file__).with_name(f"{name}.py").exists():  # `from ackwire import logs` asks here first
        import ackwire.client as client

        if name in client.__all__:
            return getattr(client, name)
    raise AttributeError(f"module 'ackwire' has no attribute {name!r}")
