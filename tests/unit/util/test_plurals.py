"""Numbers with their nouns."""

import pytest

from ackwire.util.plurals import agree, counted


@pytest.mark.parametrize(
    ("count", "noun", "text"),
    [
        (0, "message", "0 messages"),
        (1, "message", "1 message"),
        (2, "durable subscription", "2 durable subscriptions"),
        (2, "batch", "2 batches"),
        (2, "producer of batches", "2 producers of batches"),
        (2, "staged part of a batch", "2 staged parts of a batch"),
        (2, "entry", "2 entries"),
        (2, "day", "2 days"),
        (1, "batch", "1 batch"),
    ],
)
def test_nouns_follow_their_number(count: int, noun: str, text: str) -> None:
    assert counted(count, noun) == text


def test_large_numbers_can_be_grouped() -> None:
    assert counted(12345, "event", ",") == "12,345 events"


def test_verbs_follow_too() -> None:
    assert [agree(count, "was", "were") for count in (0, 1, 2)] == ["were", "was", "were"]
