"""What the client raises, named as in JMS.

    AckwireError
    └── JMSError                          anything that goes wrong in the client or is reported by the broker
        ├── ConnectionFailedError             the broker cannot be reached, or the connection to it was lost
        ├── IllegalArgumentError              a name or header value that cannot be (also a ValueError)
        ├── IllegalStateError                 not now: closed, wrong mode, wrong order
        ├── InvalidClientIdError              client id missing, or in use by another connection
        ├── InvalidDestinationError           the destination cannot be used that way
        │   └── DestinationGoneError              a temporary destination that was deleted or never made
        ├── InvalidSelectorError              a selector that does not parse
        ├── JMSSecurityError                  wrong credentials, or no right to do this
        ├── MessageEOFError                   the end of a stream or bytes body (also an EOFError)
        ├── MessageFormatError                a value of a type that it cannot have here, or a body that is none
        │   └── NumberFormatError                 text, or no value at all, read as a number (also a ValueError)
        ├── MessageNotReadableError           the body is being written
        ├── MessageNotWriteableError          body or properties are read-only
        ├── RequestTimedOutError              no answer in time (also a TimeoutError)
        ├── ResourceAllocationError           a limit of the broker is reached
        ├── TransactionInDoubtError           a commit whose answer was lost: it may have happened or not
        ├── TransactionInProgressError        not allowed inside a transaction
        ├── TransactionRolledBackError        commit was asked for, and everything was undone
        ├── UnconfirmedMessagesError          messages sent without confirmation may be lost with a connection
        ├── UnsupportedError                  understood, and not offered
        └── XAError                           a distributed transaction cannot do that; `code` is XA's number

The broker reports a Java class name and a text. The name is looked up in a fixed table and nowhere else: received
names never choose a class by themselves.
"""

from typing import Final

from ackwire.errors import AckwireError
from ackwire.wire.openwire.structures import Throwable

CAUSES_MAX: Final = 32
"""How many causes of causes are kept; the wire allows no more either."""


class JMSError(AckwireError):
    """The root of what the client raises; JMS's JMSException."""

    java_class: str | None = None
    """The exception's name as the broker reported it; None for what arose here."""


class ConnectionFailedError(JMSError):
    """The broker cannot be reached, or the connection to it was lost."""


class IllegalArgumentError(JMSError, ValueError):
    """A name or a header value that cannot be."""


class IllegalStateError(JMSError):
    """Not now: closed, in the wrong mode or in the wrong order."""


class InvalidClientIdError(JMSError):
    """The client id is missing or belongs to another connection."""


class InvalidDestinationError(JMSError):
    """The destination does not exist or cannot be used that way."""


class DestinationGoneError(InvalidDestinationError):
    """A temporary destination that was deleted, or never made."""


class InvalidSelectorError(JMSError):
    """The selector does not parse."""


class JMSSecurityError(JMSError):
    """Wrong credentials, or no right to do this."""


class MessageEOFError(JMSError, EOFError):
    """The end of a stream or bytes body was reached."""


class MessageFormatError(JMSError):
    """A value of a type that it cannot have here, or a received body that is none."""


class NumberFormatError(MessageFormatError, ValueError):
    """Text that is no number, or no value at all, was read as a number."""


class MessageNotReadableError(JMSError):
    """The body is being written; `reset` makes it readable."""


class MessageNotWriteableError(JMSError):
    """Body or properties are read-only; clearing them makes them writeable."""


class RequestTimedOutError(JMSError, TimeoutError):
    """No answer came in time."""


class ResourceAllocationError(JMSError):
    """A limit of the broker is reached."""


class TransactionInDoubtError(JMSError):
    """A commit was asked for and its answer was lost: it may have happened or not. Repeating the work may double it."""


class TransactionInProgressError(JMSError):
    """Not allowed inside a transaction."""


class TransactionRolledBackError(JMSError):
    """A commit was asked for, and everything was undone."""


class UnconfirmedMessagesError(JMSError):
    """Messages that were sent without confirmation may be lost with a connection that was (N3); told to `on_error`."""


class UnsupportedError(JMSError):
    """Understood, and not offered."""


class XAError(JMSError):
    """A distributed transaction cannot do what was asked; `code` is XA's number for the reason."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


_JMS_CLASSES: Final[dict[str, type[JMSError]]] = {
    "JMSException": JMSError,
    "IllegalStateException": IllegalStateError,
    "InvalidClientIDException": InvalidClientIdError,
    "InvalidDestinationException": InvalidDestinationError,
    "InvalidSelectorException": InvalidSelectorError,
    "JMSSecurityException": JMSSecurityError,
    "MessageEOFException": MessageEOFError,
    "MessageFormatException": MessageFormatError,
    "MessageNotReadableException": MessageNotReadableError,
    "MessageNotWriteableException": MessageNotWriteableError,
    "ResourceAllocationException": ResourceAllocationError,
    "TransactionInProgressException": TransactionInProgressError,
    "TransactionRolledBackException": TransactionRolledBackError,
}
_JAVA_CLASSES: Final[dict[str, type[JMSError]]] = {
    **{f"javax.jms.{name}": error for name, error in _JMS_CLASSES.items()},
    **{f"jakarta.jms.{name}": error for name, error in _JMS_CLASSES.items()},
    "java.io.EOFException": ConnectionFailedError,
    "java.io.InterruptedIOException": ConnectionFailedError,
    "java.lang.IllegalArgumentException": IllegalArgumentError,
    "java.lang.IllegalStateException": IllegalStateError,
    "java.lang.NumberFormatException": NumberFormatError,
    "java.lang.SecurityException": JMSSecurityError,
    "java.lang.UnsupportedOperationException": UnsupportedError,
    "java.util.concurrent.TimeoutException": RequestTimedOutError,
    "javax.security.auth.login.FailedLoginException": JMSSecurityError,
    "javax.security.auth.login.LoginException": JMSSecurityError,
    "org.apache.activemq.AlreadyClosedException": IllegalStateError,
    "org.apache.activemq.ConnectionClosedException": IllegalStateError,
    "org.apache.activemq.ConnectionFailedException": ConnectionFailedError,
    "org.apache.activemq.DestinationDoesNotExistException": DestinationGoneError,
    "org.apache.activemq.RequestTimedOutIOException": RequestTimedOutError,
    "org.apache.activemq.broker.BrokerStoppedException": ConnectionFailedError,
    "org.apache.activemq.transport.InactivityIOException": ConnectionFailedError,
}


def error_from_wire(throwable: Throwable | None) -> JMSError:
    """The exception for what a broker reported; `JMSError` itself for names that are not in the table.

    Its cause is the reported cause, if there is one.
    """
    reported = _reported(throwable)
    top = error = _error(reported[0]) if reported else JMSError("the broker reported an error and did not say which")
    for cause in reported[1:]:
        error.__cause__ = _error(cause)
        error = error.__cause__
    return top


def refused_consumer(error: BaseException, selector: str | None) -> BaseException:
    """What it means that a broker refused a consumer.

    ActiveMQ hides a bad selector of a topic's subscriber behind this text: its own client has parsed it before.
    """
    if selector is None or type(error) is not JMSError or "Couldn't create TopicSubscription" not in str(error):
        return error
    return InvalidSelectorError(f"{error}: the broker cannot read the selector {selector!r}")


def was_refused(error: BaseException) -> bool:
    """Whether *error* is the broker's answer, so that nothing of what was asked for is there."""
    return isinstance(error, JMSError) and not isinstance(error, RequestTimedOutError | ConnectionFailedError)


def _reported(throwable: Throwable | None) -> list[Throwable]:
    chain: list[Throwable] = []
    while throwable is not None and len(chain) <= CAUSES_MAX:
        chain.append(throwable)
        throwable = throwable.cause
    return chain


def _error(throwable: Throwable) -> JMSError:
    text = throwable.message or throwable.class_name or "the broker reported an error without a name"
    error = _JAVA_CLASSES.get(throwable.class_name or "", JMSError)(text)
    error.java_class = throwable.class_name
    return error
