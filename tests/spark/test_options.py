"""Options are checked on the driver, and errors say what can be given instead."""

from itertools import pairwise
from pathlib import Path

import pytest

from ackwire.jms.destinations import parse_destination
from ackwire.spark.errors import BadOption
from ackwire.spark.offsets import ROWS_PER_PARTITION_MIN, Offset, read_offset, split_range
from ackwire.spark.options import Reading, Use, read_options

URL = {"url": "http://127.0.0.1:8161"}


def test_names_may_be_written_in_any_case() -> None:
    given = {**URL, "MAXMESSAGESPERTRIGGER": "5", "destination": "orders", "Cursor": "etl", "failondataloss": "False"}
    options = read_options(given, Use.READ_STREAM)
    assert (options.max_messages_per_trigger, options.cursor, options.fail_on_data_loss) == (5, "etl", False)
    assert options.destination == parse_destination("queue://orders")


def test_the_path_of_load_is_the_destination() -> None:
    assert read_options({**URL, "path": "queue://orders"}, Use.READ).destination == parse_destination("orders")


def test_several_addresses_are_separated_by_commas() -> None:
    options = read_options({"url": "http://a:1, http://b:2/", "destination": "orders"}, Use.READ)
    assert options.urls == ("http://a:1", "http://b:2")


def test_the_token_is_read_from_a_file_or_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "token").write_text("from-file\n")
    monkeypatch.setenv("ACKWIRE_TOKEN", "from-environment")
    base = {**URL, "destination": "orders"}
    assert read_options(base, Use.READ).token == "from-environment"
    options = read_options({**base, "tokenFile": str(tmp_path / "token")}, Use.READ)
    assert options.token == "from-file"
    assert "from-file" not in repr(options)
    with pytest.raises(BadOption, match=r"cannot read .*nothing: No such file"):
        read_options({**base, "tokenFile": str(tmp_path / "nothing")}, Use.READ)


def test_what_spark_means_for_itself_is_left_alone() -> None:
    read_options({**URL, "checkpointLocation": "/x", "queryName": "q", "destination": "orders"}, Use.WRITE_STREAM)


@pytest.mark.parametrize(
    ("use", "given", "problem"),
    [
        (Use.READ, {"url": None}, "option url is missing"),
        (Use.READ, {"url": "127.0.0.1:8161"}, "must be the broker's HTTP address"),
        (Use.READ, {"url": "http://:x"}, "must be an HTTP address like http://127.0.0.1:8161"),
        (Use.READ, {}, "option destination is missing"),
        (Use.READ, {"destination": "temp-queue://x"}, "temporary destinations belong to one connection"),
        (Use.READ, {"destination": "a", "read": "all"}, 'must be "queue" or "cursor" or "dead-letters", and is "all"'),
        (Use.READ, {"destination": "a", "cursor": "c"}, r'add .option\("read", "cursor"\)'),
        (Use.READ, {"read": "cursor"}, "option cursor is missing"),
        (Use.READ, {"read": "cursor", "cursor": "c", "after": "9", "to": "3"}, "after is 9, beyond option to"),
        (Use.READ, {"destination": "a", "maxMessagesPerTrigger": "5"}, "is for readStream, not for read, which"),
        (Use.READ, {"destination": "a", "token": "x", "tokenFile": "y"}, "give one of them"),
        (Use.READ_STREAM, {"destination": "a"}, "option cursor is missing: a stream reads through a named position"),
        (Use.READ_STREAM, {"maxMessagesPerTrigger": "0"}, "must be a whole number from 1 to"),
        (Use.READ_STREAM, {"maxMessagePerTrigger": "9"}, 'did you mean "maxMessagesPerTrigger"'),
        (Use.READ_STREAM, {"failOnDataLoss": "maybe"}, "must be true or false"),
        (Use.READ_STREAM, {"retryTimeout": "soon"}, 'must be a number of seconds, or text with a unit like "500 ms"'),
        (Use.READ_STREAM, {"cursor": "x" * 300}, "must have at most 200 characters, and has 300"),
        (Use.READ_STREAM, {"url": "tcp://a:1", "destination": "a", "cursor": "c"}, "which has no cursors"),
        (Use.READ_STREAM, {"url": "tcp://a:1", "destination": "topic://a"}, "Send to VirtualTopic"),
        (Use.READ, {"url": "tcp://a:1", "read": "dead-letters", "destination": "a"}, "give the dead-letter queue"),
        (Use.WRITE, {"username": "me"}, "over HTTP a token says who you are"),
        (Use.WRITE, {"producer": "me"}, "option producer is for writeStream"),
    ],
)  # fmt: skip
def test_what_cannot_be_used_is_refused(use: Use, given: dict[str, str | None], problem: str) -> None:
    merged = {name: value for name, value in {**URL, **given}.items() if value is not None}
    with pytest.raises(BadOption, match=problem):
        read_options(merged, use)


def test_reading_has_a_default() -> None:
    options = read_options({**URL, "destination": "orders"}, Use.READ)
    assert (options.read, options.partitions, options.retry_timeout_seconds) == (Reading.QUEUE, None, 60.0)


# ---- offsets -------------------------------------------------------------------------------------------------------


def test_an_offset_survives_a_checkpoint() -> None:
    for offset in (Offset("c", 5), Offset("c", 5, 3)):
        assert read_offset(offset.to_json(), "c") == offset


def test_a_range_is_divided_without_gaps_and_not_too_finely() -> None:
    assert split_range(0, 10, 4) == [(0, 10)]
    assert split_range(7, 7, 4) == []
    large = split_range(100, 100 + 10 * ROWS_PER_PARTITION_MIN, 4)
    assert len(large) == 4
    assert large[0][0] == 100
    assert large[-1][1] == 100 + 10 * ROWS_PER_PARTITION_MIN
    assert all(left[1] == right[0] for left, right in pairwise(large))
