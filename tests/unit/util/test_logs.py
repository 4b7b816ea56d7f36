"""Log lines for people and for machines, and what a peer cannot do to them."""

import io
import json
import logging
import re
import sys
from collections.abc import Iterator

import pytest

from ackwire.config import LogSettings
from ackwire.util import logs


@pytest.fixture(autouse=True)
def root_logger_as_before() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


def text_lines(*, level: str = "info") -> io.StringIO:
    stream = io.StringIO()
    logs.set_up(LogSettings(level=level), stream)
    return stream


def json_lines() -> io.StringIO:
    stream = io.StringIO()
    logs.set_up(LogSettings(format="json"), stream)
    return stream


def fail(message: str) -> None:
    try:
        raise ValueError(message)
    except ValueError:
        logging.getLogger("ackwire.broker").exception("our bug")


def test_text_line_has_time_level_area_and_message() -> None:
    stream = text_lines()
    logging.getLogger("ackwire.server.peer").info("peer %s closed: %s", "127.0.0.1:50412", "done")
    assert re.fullmatch(
        r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} INFO  server  peer 127\.0\.0\.1:50412 closed: done\n",
        stream.getvalue(),
    )


@pytest.mark.parametrize(
    ("logger", "level", "columns"),
    [
        ("ackwire.app", logging.WARNING, "WARN  app     x"),
        ("ackwire", logging.ERROR, "ERROR ackwire  x"),
        ("asyncio", logging.CRITICAL, "FATAL asyncio  x"),
    ],
)
def test_text_columns_line_up(logger: str, level: int, columns: str) -> None:
    stream = text_lines()
    logging.getLogger(logger).log(level, "x")
    assert stream.getvalue().rstrip("\n").endswith(columns)


def test_records_below_the_level_are_not_written() -> None:
    stream = text_lines(level="warning")
    logging.getLogger("ackwire.app").info("quiet")
    logging.getLogger("ackwire.app").warning("loud")
    assert "quiet" not in stream.getvalue()
    assert "loud" in stream.getvalue()


@pytest.mark.parametrize(
    ("sent", "logged"),
    [
        ("a\nb", r"a\nb"),
        ("a\r\n2026-01-01 fake", r"a\r\n2026-01-01 fake"),
        ("\x1b[2Jgone", r"\x1b[2Jgone"),
        ("nul\x00 del\x7f c1\x9b", r"nul\x00 del\x7f c1\x9b"),
        ("\u2028line\u202ebidi", r"\u2028line\u202ebidi"),
        ("Grüße, 日本", "Grüße, 日本"),
    ],
)
def test_text_of_a_peer_cannot_break_out_of_its_line(sent: str, logged: str) -> None:
    stream = text_lines()
    logging.getLogger("ackwire.server").info("client id %s", sent)
    assert stream.getvalue().endswith(f"client id {logged}\n")
    assert stream.getvalue().count("\n") == 1


def test_bytes_that_were_no_text_are_escaped_too() -> None:
    assert logs.escape("a\udc80b") == r"a\udc80b"


def test_traceback_lines_are_indented_and_escaped() -> None:
    stream = text_lines()
    fail("bad\n2026-11-15 02:20:07.123 INFO  server  forged\x1b[0m\rmore")
    first, *rest = stream.getvalue().rstrip("\n").split("\n")
    assert first.endswith("ERROR broker  our bug")
    assert len(rest) >= 4
    assert all(line.startswith("    ") and line.isprintable() for line in rest)


def test_json_line_has_the_record_and_its_extra_fields() -> None:
    stream = json_lines()
    logging.getLogger("ackwire.server.peer").info("closed\n%s", "ü", extra={"peer": "1.2.3.4:5", "bytes": 7})
    assert stream.getvalue().count("\n") == 1
    entry = json.loads(stream.getvalue())
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}\+00:00", entry.pop("ts"))
    assert entry == {
        "level": "info",
        "logger": "ackwire.server.peer",
        "message": "closed\nü",
        "peer": "1.2.3.4:5",
        "bytes": 7,
    }


def test_json_extra_fields_of_any_type_are_written_and_never_replace_the_record() -> None:
    stream = json_lines()
    logging.getLogger("ackwire.app").info("real", extra={"level": "forged", "where": {1}})
    entry = json.loads(stream.getvalue())
    assert entry["level"] == "info"
    assert entry["where"] == "{1}"


def test_json_line_carries_the_traceback_in_one_field() -> None:
    stream = json_lines()
    fail("why")
    entry = json.loads(stream.getvalue())
    assert "ValueError: why" in entry["exception"]


def test_setting_up_again_replaces_the_format() -> None:
    first, second = text_lines(), json_lines()
    logging.getLogger("ackwire.app").info("once")
    assert first.getvalue() == ""
    assert json.loads(second.getvalue())["message"] == "once"


def test_standard_error_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    logs.set_up(LogSettings())
    logging.getLogger("ackwire.app").info("here")
    assert "here" in stream.getvalue()
