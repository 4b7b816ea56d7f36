"""Destination names: kinds, text forms, composites, wildcards."""

import re

import pytest

from ackwire.errors import InvalidDestination
from ackwire.jms.destinations import (
    NAME_LENGTH_MAX,
    Destination,
    Kind,
    destination,
    parse_destination,
    parse_written_destination,
)


def test_same_kind_and_name_is_the_same_object() -> None:
    assert destination(Kind.QUEUE, "a") is destination(Kind.QUEUE, "a")


def test_equality_is_by_kind_and_name() -> None:
    assert Destination(Kind.QUEUE, "a") == destination(Kind.QUEUE, "a")
    assert hash(Destination(Kind.QUEUE, "a")) == hash(destination(Kind.QUEUE, "a"))
    different: list[object] = [destination(Kind.TOPIC, "a"), destination(Kind.QUEUE, "b"), "queue://a"]
    assert destination(Kind.QUEUE, "a") not in different


@pytest.mark.parametrize(
    ("text", "kind", "name"),
    [
        ("orders", Kind.QUEUE, "orders"),
        ("queue://orders", Kind.QUEUE, "orders"),
        ("topic://prices.*", Kind.TOPIC, "prices.*"),
        ("temp-queue://ID:a-1:1", Kind.TEMP_QUEUE, "ID:a-1:1"),
        ("temp-topic://ID:a-1:1", Kind.TEMP_TOPIC, "ID:a-1:1"),
        ("http://orders", Kind.QUEUE, "http://orders"),
        ("queue:/orders", Kind.QUEUE, "queue:/orders"),
    ],
)
def test_text_names_a_destination(text: str, kind: Kind, name: str) -> None:
    assert parse_destination(text) is destination(kind, name)


@pytest.mark.parametrize("kind", Kind)
def test_text_form_reads_back(kind: Kind) -> None:
    value = destination(kind, "a.b")
    assert repr(value) == f"{kind.value}://a.b"
    assert parse_destination(repr(value), default=Kind.TEMP_TOPIC) is value


def test_bare_name_takes_the_default_kind() -> None:
    assert parse_destination("a", default=Kind.TOPIC) is destination(Kind.TOPIC, "a")


@pytest.mark.parametrize("text", ["", "queue://", "topic://"])
def test_empty_name_is_refused(text: str) -> None:
    with pytest.raises(InvalidDestination, match="this one is empty"):
        parse_destination(text)


def test_oversized_name_is_refused() -> None:
    assert destination(Kind.QUEUE, "x" * NAME_LENGTH_MAX).name == "x" * NAME_LENGTH_MAX
    with pytest.raises(InvalidDestination, match="queue name of 4097 characters is too long: the limit is 4096"):
        destination(Kind.QUEUE, "x" * (NAME_LENGTH_MAX + 1))


@pytest.mark.parametrize(
    ("name", "is_wildcard"),
    [("a.*.c", True), ("a.>", True), (">", True), ("*", True), ("a.b", False), ("a*.b", False), ("a>b", False)],
)
def test_wildcard_stands_alone_in_its_level(name: str, is_wildcard: bool) -> None:
    assert destination(Kind.QUEUE, name).is_wildcard is is_wildcard


def test_composite_stands_for_its_parts_whose_prefix_may_change_the_kind() -> None:
    composite = destination(Kind.QUEUE, "a, b,topic://c")
    assert composite.is_composite
    assert composite.parts() == (
        destination(Kind.QUEUE, "a"),
        destination(Kind.QUEUE, "b"),
        destination(Kind.TOPIC, "c"),
    )


def test_composite_without_a_part_is_refused() -> None:
    with pytest.raises(InvalidDestination):
        destination(Kind.QUEUE, "a,,b").parts()


def test_simple_destination_is_its_only_part() -> None:
    simple = destination(Kind.TOPIC, "a")
    assert not simple.is_composite
    assert simple.parts() == (simple,)


@pytest.mark.parametrize(
    ("kind", "is_queue", "is_temporary"),
    [
        (Kind.QUEUE, True, False),
        (Kind.TOPIC, False, False),
        (Kind.TEMP_QUEUE, True, True),
        (Kind.TEMP_TOPIC, False, True),
    ],
)
def test_kinds(kind: Kind, is_queue: bool, is_temporary: bool) -> None:
    assert (kind.is_queue, kind.is_temporary) == (is_queue, is_temporary)


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("kueue://q", 'unknown prefix "kueue"; did you mean "queue"?'),
        ("Topic://prices", 'did you mean "topic://prices"?'),
        ("topic:prices", 'did you mean "topic://prices"?'),
        ("queue:/orders", 'did you mean "queue://orders"?'),
        ("tempqueue://x", 'did you mean "temp-queue"?'),
        ("http://orders", "known prefixes: queue://, topic://, temp-queue://, temp-topic://"),
        ("orders,topic:prices", 'did you mean "topic://prices"?'),
        ("queue://orders,topc://prices", 'did you mean "topic"?'),
    ],
)
def test_a_mistyped_prefix_is_an_error_for_those_who_write_it(text: str, hint: str) -> None:
    with pytest.raises(InvalidDestination, match=re.escape(hint)):
        parse_written_destination(text)


@pytest.mark.parametrize(
    "text", ["orders", "app:orders", "ID:host-1:1", "queue://http://orders", "queue://a:b,topic://c", "topic://a.>"]
)
def test_what_has_a_prefix_or_none_is_read_as_before(text: str) -> None:
    assert parse_written_destination(text) is parse_destination(text)


def test_a_bare_name_that_was_written_takes_the_default_kind() -> None:
    assert parse_written_destination("a", default=Kind.TOPIC) is destination(Kind.TOPIC, "a")
