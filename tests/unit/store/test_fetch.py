"""Messages that are read beside the loop, from segments that go meanwhile."""

import pytest

from ackwire.jms.message import Message
from ackwire.store.journal import reads
from ackwire.store.journal.options import JournalOptions
from tests.helpers.journal import JournalFactory
from tests.helpers.stored import Messages, Q, R, facts


def test_K2_what_compaction_moves_while_it_is_fetched_is_read_where_it_is_now() -> None:
    factory, messages = JournalFactory(), Messages()
    store = factory.open()
    survivor = messages.make(R, "the only one that stays")
    store.append(survivor, [R])
    others = [messages.make(Q, "x" * 1000) for _ in range(60)]
    for message in others:
        store.append(message, [Q])
    factory.wait(2)
    assert factory.store is not None
    first = min(factory.store.journal.catalog.segments)
    results: list[list[Message | None]] = []
    store.fetch(R, [survivor.sequence], results.append)
    for message in others:
        store.remove(Q, message)
    store.when_durable(lambda: None)
    for _ in range(8):  # everything but the read goes on
        factory.clock.advance(1)
        while not (factory.writing.is_idle and factory.indexing.is_idle):
            factory.writing.run_all()
            factory.indexing.run_all()
            factory.clock.advance(0)
    assert first not in factory.store.journal.catalog.segments
    assert results == []
    factory.settle()
    assert [[it and facts(it) for it in result] for result in results] == [[facts(survivor)]]
    assert not factory.damages()


def test_K7_damage_that_a_fetch_finds_is_reported_once() -> None:
    factory, messages = JournalFactory(), Messages()
    store = factory.open()
    message = messages.make(Q, "to be damaged")
    store.append(message, [Q])
    factory.wait(2)
    assert factory.store is not None
    info = factory.store.journal.catalog.places[Q]
    entry = factory.store.journal.catalog.find(info, message.sequence)
    assert entry is not None
    file = factory.store.journal.writer.file(entry.segment)
    file.write(b"?", entry.offset + 60)
    results: list[list[Message | None]] = []
    store.fetch(Q, [message.sequence], results.append)
    factory.settle()
    assert results == [[None]]
    assert len(factory.damages()) == 1


def test_K7_a_store_that_has_failed_meanwhile_gives_nothing() -> None:
    factory, messages = JournalFactory(), Messages()
    store = factory.open()
    message = messages.make(Q)
    store.append(message, [Q])
    factory.settle()
    results: list[list[Message | None]] = []
    store.fetch(Q, [message.sequence], results.append)
    assert factory.store is not None
    factory.store.fail("sync", OSError("broken"))
    factory.settle()
    assert results == []


def test_B6_small_messages_in_the_cache_are_read_at_once_and_large_ones_beside_the_loop() -> None:
    factory, messages = JournalFactory(options=JournalOptions(free_bytes_min=0)), Messages()
    store = factory.open()
    small, large = messages.make(Q, "small"), messages.make(Q, "x" * 300_000)
    for message in (small, large):
        store.append(message, [Q])
    factory.settle()
    factory.disk.has_cache = True
    results: list[list[Message | None]] = []
    store.fetch(Q, [small.sequence], results.append)
    assert [[it and facts(it) for it in result] for result in results] == [[facts(small)]]
    store.fetch(Q, [large.sequence], results.append)
    assert len(results) == 1
    factory.settle()
    assert [it and facts(it) for it in results[1]] == [facts(large)]


def test_B6_small_messages_out_of_the_cache_are_read_beside_the_loop() -> None:
    factory, messages = JournalFactory(), Messages()
    store = factory.open()
    message = messages.make(Q, "small")
    store.append(message, [Q])
    factory.settle()
    results: list[list[Message | None]] = []
    store.fetch(Q, [message.sequence], results.append)
    assert results == []
    factory.settle()
    assert [it and facts(it) for it in results[0]] == [facts(message)]


def test_K7_damage_in_a_large_message_is_found() -> None:
    factory, messages = JournalFactory(options=JournalOptions(free_bytes_min=0)), Messages()
    store = factory.open()
    large = [messages.make(Q, "x" * 300_000) for _ in range(2)]
    for message in large:
        store.append(message, [Q, R])
    factory.settle()
    assert factory.store is not None
    info = factory.store.journal.catalog.places[Q]
    entry = factory.store.journal.catalog.find(info, large[0].sequence)
    assert entry is not None
    factory.store.journal.writer.file(entry.segment).write(b"?", entry.offset + 200_000)
    results: list[list[Message | None]] = []
    store.fetch(R, [it.sequence for it in large], results.append)
    factory.settle()
    assert [it and facts(it) for it in results[0]] == [None, facts(large[1])]
    assert len(factory.damages()) == 1


def test_B6_a_fetch_that_fails_for_another_reason_than_the_messages_is_reported_and_may_be_tried_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    factory, messages = JournalFactory(), Messages()
    store = factory.open()
    message = messages.make(Q, "small")
    store.append(message, [Q])
    factory.settle()
    results: list[list[Message | None]] = []
    failures: list[bool] = []

    def no_memory(*_: object) -> Message:
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(reads, "read_message", no_memory)
        store.fetch(Q, [message.sequence], results.append, lambda: failures.append(True))
        factory.settle()
    assert (results, failures) == ([], [True])
    store.fetch(Q, [message.sequence], results.append, lambda: failures.append(True))
    factory.settle()
    assert [it and facts(it) for it in results[0]] == [facts(message)]
    assert (factory.damages(), failures) == ([], [True])
