"""What a broker reports becomes the exception of that name, and no other class can be asked for."""

import subprocess
import sys

import pytest

from ackwire.client import errors
from ackwire.client.errors import JMSError, error_from_wire
from ackwire.errors import AckwireError
from ackwire.wire.openwire.structures import Throwable
from tests.helpers.compilation import IS_COMPILED

JMS_NAMES = {
    "JMSException": errors.JMSError,
    "IllegalStateException": errors.IllegalStateError,
    "InvalidClientIDException": errors.InvalidClientIdError,
    "InvalidDestinationException": errors.InvalidDestinationError,
    "InvalidSelectorException": errors.InvalidSelectorError,
    "JMSSecurityException": errors.JMSSecurityError,
    "MessageEOFException": errors.MessageEOFError,
    "MessageFormatException": errors.MessageFormatError,
    "MessageNotReadableException": errors.MessageNotReadableError,
    "MessageNotWriteableException": errors.MessageNotWriteableError,
    "ResourceAllocationException": errors.ResourceAllocationError,
    "TransactionInProgressException": errors.TransactionInProgressError,
    "TransactionRolledBackException": errors.TransactionRolledBackError,
}
OTHER_NAMES = {
    "java.lang.SecurityException": errors.JMSSecurityError,
    "java.lang.IllegalStateException": errors.IllegalStateError,
    "java.io.IOException": errors.JMSError,
    "org.apache.activemq.DestinationDoesNotExistException": errors.DestinationGoneError,
    "org.apache.activemq.RequestTimedOutIOException": errors.RequestTimedOutError,
}


@pytest.mark.parametrize("package", ["javax.jms", "jakarta.jms"])
@pytest.mark.parametrize("name", JMS_NAMES)
def test_every_exception_of_jms_has_a_class(package: str, name: str) -> None:
    error = error_from_wire(Throwable(f"{package}.{name}", "why"))
    assert type(error) is JMS_NAMES[name]
    assert str(error) == "why"
    assert error.java_class == f"{package}.{name}"


@pytest.mark.parametrize("name", OTHER_NAMES)
def test_what_brokers_report_besides_has_a_class(name: str) -> None:
    assert type(error_from_wire(Throwable(name, "why"))) is OTHER_NAMES[name]


@pytest.mark.parametrize(
    "name", ["builtins.SystemExit", "ackwire.client.errors.JMSError", "JMSException", "MessageEOFError", "", None]
)
def test_names_outside_the_table_are_the_root_and_choose_no_class(name: str | None) -> None:
    error = error_from_wire(Throwable(name, "why"))
    assert type(error) is JMSError
    assert error.java_class == name


def test_exception_without_text_is_called_by_its_name() -> None:
    assert str(error_from_wire(Throwable("com.example.Odd", None))) == "com.example.Odd"
    assert str(error_from_wire(Throwable(None, None)))
    assert str(error_from_wire(None))


def test_causes_follow_and_end_somewhere() -> None:
    chain: Throwable | None = None
    for number in range(1000):
        chain = Throwable("javax.jms.JMSException", str(number), cause=chain)
    error: BaseException | None = error_from_wire(chain)
    texts = []
    while error is not None:
        texts.append(str(error))
        error = error.__cause__
    assert texts == [str(number) for number in range(999, 999 - errors.CAUSES_MAX - 1, -1)]


def test_all_are_ackwire_errors_and_some_are_what_python_calls_them() -> None:
    assert issubclass(JMSError, AckwireError)
    assert issubclass(errors.MessageEOFError, EOFError)
    assert issubclass(errors.NumberFormatError, ValueError)
    assert issubclass(errors.IllegalArgumentError, ValueError)
    assert issubclass(errors.RequestTimedOutError, TimeoutError)
    named = [
        value for value in vars(errors).values() if isinstance(value, type) and value.__module__ == errors.__name__
    ]
    assert all(issubclass(cls, JMSError) for cls in named)
    assert all(cls.__name__ in (errors.__doc__ or "") for cls in named)


def test_client_imports_nothing_beyond_the_standard_library() -> None:
    program = (
        "import sys; before = set(sys.modules); import ackwire.client.messages;"
        "new = {name.partition('.')[0] for name in set(sys.modules) - before};"
        "print(sorted(new - set(sys.stdlib_module_names)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == ("['ackwire', 'ackwire__mypyc']\n" if IS_COMPILED else "['ackwire']\n")


def test_a_bad_selector_is_recognised_behind_what_activemq_says_of_a_topic() -> None:
    hidden = JMSError("Couldn't create TopicSubscription")
    found = errors.refused_consumer(hidden, "color =")
    assert type(found) is errors.InvalidSelectorError
    assert "'color ='" in str(found)
    assert errors.refused_consumer(hidden, None) is hidden
    for other in (JMSError("full"), errors.JMSSecurityError("Couldn't create TopicSubscription")):
        assert errors.refused_consumer(other, "color =") is other
