"""Messages to send, from what the command line and standard input say."""

import argparse
import io
import os
from pathlib import Path

import pytest

from ackwire.cli.main import _parser
from ackwire.cli.message_json import BadMessage, Outgoing
from ackwire.cli.messages_in import lines_of, source_from_args
from ackwire.client.messages import BytesMessage, MapMessage, Message, TextMessage
from ackwire.errors import ConfigError
from ackwire.jms.types import Byte, Float, Int, Long, Short


def parsed(*arguments: str) -> argparse.Namespace:
    return _parser().parse_args(["send", "tcp://b", "orders", *arguments])


def messages(*arguments: str, stdin: bytes = b"") -> list[Outgoing]:
    return [it for it in source_from_args(parsed(*arguments), io.BytesIO(stdin)).messages if it is not None]


def texts(*arguments: str, stdin: bytes = b"") -> list[str | None]:
    return [text_of(outgoing.message) for outgoing in messages(*arguments, stdin=stdin)]


def text_of(message: Message) -> str | None:
    assert isinstance(message, TextMessage)
    return message.text


def bytes_of(message: Message) -> bytes:
    assert isinstance(message, BytesMessage)
    message.reset()
    return message.data


def test_each_argument_is_a_message_wherever_it_stands() -> None:
    assert texts("one", "--priority", "5", "two", "--", "--three") == ["one", "two", "--three"]
    assert texts("") == [""]


def test_a_count_repeats_everything_with_its_number_in_it() -> None:
    arguments = ("a{n}", "b", "--count", "2", "--property", "n:int={n}", "--header", "correlation_id=c{n}")
    found = messages(*arguments)
    assert [text_of(it.message) for it in found] == ["a1", "b", "a2", "b"]
    assert [it.message.properties["n"] for it in found] == [1, 1, 2, 2]
    assert [it.message.correlation_id for it in found] == ["c1", "c1", "c2", "c2"]
    assert source_from_args(parsed(*arguments)).total == 4
    assert bytes_of(messages("x{n}", "--type", "bytes", "--count", "1")[0].message) == b"x1"


def test_without_a_count_braces_are_just_text() -> None:
    assert texts("a{n}") == ["a{n}"]


def test_a_file_is_a_message_and_standard_input_too(tmp_path: Path) -> None:
    file = tmp_path / "body.txt"
    file.write_bytes("zwölf\n".encode())
    assert texts("--file", str(file), "--file", "-", stdin=b"in\n") == ["zwölf\n", "in\n"]


def test_bytes_are_sent_as_they_are(tmp_path: Path) -> None:
    file = tmp_path / "body.bin"
    file.write_bytes(b"\xff\0\r\n")
    (outgoing,) = messages("--file", str(file), "--type", "bytes")
    assert bytes_of(outgoing.message) == b"\xff\0\r\n"
    with pytest.raises(ConfigError, match="is not UTF-8: --type bytes"):
        messages("--file", str(file))


def test_lines_are_messages_without_their_ends() -> None:
    assert texts("--lines", stdin=b"one\r\n\n three \nlast") == ["one", "", " three ", "last"]
    assert texts("--lines", stdin=b"") == []


def test_a_line_is_a_message_as_soon_as_it_is_there_and_waiting_is_told() -> None:
    read_end, write_end = os.pipe()
    with open(read_end, "rb") as stdin, open(write_end, "wb", buffering=0) as pipe:
        lines = lines_of(stdin)
        assert next(lines) is None
        pipe.write(b"a\nb\nhal")
        assert [next(lines), next(lines), next(lines)] == [b"a\n", b"b\n", None]
        pipe.write(b"f")
        assert next(lines) is None
        pipe.write(b" of it\n" + b"x" * 5000)
        assert next(lines) == b"half of it\n"
        pipe.close()
        assert [line for line in lines if line is not None] == [b"x" * 5000]


def test_lines_can_be_maps_and_errors_name_the_line() -> None:
    (outgoing,) = messages("--lines", "--type", "map", stdin=b'{"a": {"short": 7}}\n')
    assert isinstance(outgoing.message, MapMessage)
    assert outgoing.message.entries["a"] == Short(7)
    with pytest.raises(BadMessage, match="line 2: it is not JSON"):
        messages("--lines", "--type", "map", stdin=b"{}\nx\n")
    with pytest.raises(BadMessage, match="line 1 is not UTF-8"):
        messages("--lines", stdin=b"\xff\n")


def test_json_lines_carry_their_own_headers_and_options_go_before_them() -> None:
    line = (
        b'{"text": "a", "headers": {"priority": 7, "persistent": false, "type": "t"}, "properties": {"a": 1, "b": 2}}\n'
    )
    (plain,) = messages("--jsonl", stdin=line + b"\n")
    assert (plain.priority, plain.persistent, plain.message.type) == (7, False, "t")
    (changed,) = messages(
        "--jsonl",
        "--priority",
        "1",
        "--persistent",
        "--header",
        "type=u",
        "--property",
        "b=x",
        "--delay",
        "2s",
        stdin=line,
    )
    assert (changed.priority, changed.persistent, changed.message.type) == (1, True, "u")
    assert dict(changed.message.properties) == {"a": 1, "b": "x", "AMQ_SCHEDULED_DELAY": 2000}
    with pytest.raises(BadMessage, match="line 2: unknown field"):
        messages("--jsonl", stdin=b'{"text": "a"}\n{"x": 1}\n')


def test_properties_have_the_types_that_are_asked_for() -> None:
    values = [
        "s=7",
        "i:int=7",
        "l:long=7",
        "h:short=-7",
        "y:byte=7",
        "f:float=1.5",
        "d:double=1e300",
        "b:boolean=true",
        "e=",
    ]
    (outgoing,) = messages("x", *(part for value in values for part in ("--property", value)))
    properties = dict(outgoing.message.properties)
    assert properties == {"s": "7", "i": 7, "l": 7, "h": -7, "y": 7, "f": 1.5, "d": 1e300, "b": True, "e": ""}
    expected = [str, Int, Long, Short, Byte, Float, float, bool, str]
    assert [type(properties[name]) for name in "silhyfdbe"] == expected


def test_headers_have_our_names_or_those_of_jms() -> None:
    (outgoing,) = messages(
        *("x", "--header", "JMSCorrelationID=a=b", "--header", "reply_to=topic://r", "--header", "group_sequence=-1"),
        *("--header", "JMSXGroupID=g", "--header", "type=t"),
    )
    message = outgoing.message
    assert (message.correlation_id, repr(message.reply_to), message.type) == ("a=b", "topic://r", "t")
    assert (message.group_id, message.group_sequence) == ("g", -1)


def test_times_become_milliseconds() -> None:
    (outgoing,) = messages("x", "--ttl", "1.5s", "--delay", "10s")
    assert outgoing.ttl_ms == 1500
    delay = outgoing.message.properties["AMQ_SCHEDULED_DELAY"]
    assert (type(delay), delay) == (Long, 10_000)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "there is nothing to send"),
        (("x", "--lines"), "do not go together"),
        (("--lines", "--jsonl"), "do not go together"),
        (("--lines", "--count", "3"), "--count repeats"),
        (("--jsonl", "--type", "bytes"), "with --jsonl each line says that itself"),
        (("--file", "-", "--file", "-"), "can be read once"),
        (("--file", "/nowhere/x"), "/nowhere/x: No such file"),
        (("x", "--type", "map"), "'x': it is not JSON"),
        (("[]", "--type", "map"), "is a JSON object"),
        (("x", "--property", "n:int={n}"), "--property n:int={n}: the text '{n}' is no int"),
        (("x", "--property", "b:boolean=yes"), "--property b:boolean=yes"),
        (("x", "--property", "a-b=1"), "selectors could not name it"),
        (("x", "--property", "JMSType=1"), "is a header"),
        (("x", "--header", "group_sequence=x"), "--header group_sequence=x"),
        (("x", "--header", "reply_to="), "--header reply_to=: a queue needs a name"),
        (("\udcff",), "is not UTF-8"),
    ],
)
def test_what_cannot_be_sent_is_refused_before_anything_is(arguments: tuple[str, ...], said: str) -> None:
    with pytest.raises(ConfigError) as refused:
        source_from_args(parsed(*arguments), io.BytesIO())
    assert said in str(refused.value)
