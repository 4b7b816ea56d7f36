"""Our messages convert values as ActiveMQ's own classes do, in every cell of JMS's table (A4)."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from ackwire.client.conversions import as_double, as_float, as_string
from ackwire.client.errors import MessageFormatError, NumberFormatError
from ackwire.client.messages import MapMessage, Message, StreamMessage
from ackwire.jms.types import Byte, Char, Float, Int, Long, Short, Value
from tests.helpers.java import CLIENT_JARS, JVM_OPTIONS, classpath, compiled

VALUES: Final[dict[str, Value]] = {
    "boolean": True,
    "byte": Byte(5),
    "short": Short(5),
    "char": Char("5"),
    "int": Int(5),
    "long": Long(5),
    "float": Float(0.1),
    "double": 1.5e300,
    "bytes": b"\5",
}
TEXTS: Final = (
    *("5", "-128", "128", "32767", "32768", "2147483648", "-9223372036854775808", "9223372036854775808", "+7", "007"),
    *("1.5", "1e3", "1.5f", ".5", "5.", "1e", "NaN", "-Infinity", "inf", "0.00012", "12345678.5", "1e300", "0.1"),
    *("", " 1", "1 ", "1_0", "one", "true", "TRUE", "yes", "é"),
)


def test_A4_every_conversion_has_the_outcome_that_it_has_in_java(java_cache: Path) -> None:
    """A4: the same values, the same refusals; for map entries, stream values and properties."""
    outcomes = java_outcomes(java_cache)
    ours = {cell: our_outcome(*cell) for cell in outcomes}
    assert ours == outcomes
    assert len(outcomes) > 900


def java_outcomes(java_cache: Path) -> dict[tuple[str, str, str], str]:
    """What Java makes of each cell (where, written, read)."""
    classes = compiled(Path(__file__).parent / "java" / "conversions", CLIENT_JARS, java_cache)
    command = ["java", *JVM_OPTIONS, "-cp", classpath(CLIENT_JARS, classes), "Conversions", *TEXTS]
    in_utf8 = os.environ | {"LC_ALL": "C.UTF-8"}  # Java reads its arguments by it
    done = subprocess.run(command, capture_output=True, check=True, env=in_utf8)
    cells = (line.split("\t") for line in done.stdout.decode().splitlines())
    return {(where, written, read): shortened(read, outcome) for where, written, read, outcome in cells}


def shortened(read: str, outcome: str) -> str:
    """The same number in the fewest digits; Java before 19 sometimes prints one more."""
    if outcome.endswith("Exception") or read not in ("float", "double"):
        return outcome
    return str(as_string(Float(as_float(outcome)) if read == "float" else as_double(outcome)))


def our_outcome(where: str, written: str, read: str) -> str:
    """What our classes make of it, in Java's words."""
    kind, separator, text = written.partition(" ")
    try:
        result = reader(where, text if separator else VALUES[kind], read)()
    except NumberFormatError:
        return "NumberFormatException"
    except MessageFormatError:
        return "MessageFormatException"
    return str(as_string(Float(result) if read == "float" else result))


def reader(where: str, value: Value, read: str) -> Callable[[], Any]:
    if where == "stream":
        stream = StreamMessage([value])
        stream.reset()
        read_it: Callable[[], Any] = getattr(stream, f"read_{read}")
        return read_it
    entries = MapMessage().entries if where == "map" else Message().properties
    entries["x"] = value
    return lambda: getattr(entries, f"get_{read}")("x")
