"""Errors of the broker in the words of OpenWire: the Java exceptions that a client expects."""

from typing import Final

from ackwire.broker.transactions import XA_ROLLED_BACK, TransactionError
from ackwire.errors import (
    AckwireError,
    DestinationGone,
    InvalidClientId,
    InvalidDestination,
    InvalidSelector,
    NotAuthorised,
    RemoteProtocolError,
    ResourceLimit,
    StoreFailed,
    UnknownResource,
)
from ackwire.wire.openwire.structures import Throwable

_JAVA_CLASSES: Final[tuple[tuple[type[AckwireError], str], ...]] = (
    (InvalidClientId, "javax.jms.InvalidClientIDException"),
    (DestinationGone, "org.apache.activemq.DestinationDoesNotExistException"),
    (InvalidDestination, "javax.jms.InvalidDestinationException"),
    (InvalidSelector, "javax.jms.InvalidSelectorException"),
    (NotAuthorised, "java.lang.SecurityException"),
    (ResourceLimit, "javax.jms.ResourceAllocationException"),
    (UnknownResource, "java.lang.IllegalStateException"),
    (RemoteProtocolError, "java.io.IOException"),
    # As when the broker is stopped, which it is about to be: a client with failover asks another, and nothing is lost.
    (StoreFailed, "org.apache.activemq.broker.BrokerStoppedException"),
    (AckwireError, "javax.jms.JMSException"),
)
"""What each error is called on the wire; the first that fits (openwire.md §10)."""

_ERROR_TEXT_MAX: Final = 1024
"""Characters of an error text on the wire and in the log; Java's own writers cut there too."""


def throwable(error: AckwireError) -> Throwable:
    """*error* as a Java exception."""
    if isinstance(error, TransactionError):
        return _transaction_throwable(error)
    java_class = next(name for cls, name in _JAVA_CLASSES if isinstance(error, cls))
    return Throwable(java_class, cut(str(error)))


def cut(text: str) -> str:
    """Error texts quote the peer's own words, which may be of any length."""
    return text if len(text) <= _ERROR_TEXT_MAX else text[:_ERROR_TEXT_MAX] + "…"


def _transaction_throwable(error: TransactionError) -> Throwable:
    """The Java client reads XA's code from the end of the text (openwire.md §8)."""
    if error.is_xa:
        return Throwable("javax.transaction.xa.XAException", f"{cut(str(error))} xaErrorCode:{error.xa_code}")
    if error.xa_code == XA_ROLLED_BACK:
        return Throwable("javax.jms.TransactionRolledBackException", cut(str(error)))
    return Throwable("javax.jms.JMSException", cut(str(error)))


def one_line(throwable: Throwable | None) -> str | None:
    """A Java exception in one line, as Java prints it."""
    if throwable is None:
        return None
    return throwable.class_name if throwable.message is None else f"{throwable.class_name}: {throwable.message}"
