"""The end of a turn: after all that was read, once, on a loop that knows its turns and on any other."""

import asyncio
import select
import socket
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

from ackwire.server.loop import TurnLoop
from ackwire.server.loop_monitor import LoopMonitor
from ackwire.server.turn import Turn
from tests.helpers.turns import run_turns

LOOPS = (TurnLoop, asyncio.new_event_loop)


@pytest.fixture(params=LOOPS, ids=["TurnLoop", "any loop"])
def loop(request: pytest.FixtureRequest) -> Iterator[asyncio.AbstractEventLoop]:
    made: asyncio.AbstractEventLoop = request.param()
    yield made
    made.close()


@pytest.fixture
def turn_loop() -> Iterator[TurnLoop]:
    made = TurnLoop()
    yield made
    made.close()


def readable(loop: asyncio.AbstractEventLoop, on_bytes: Callable[[], None]) -> tuple[socket.socket, socket.socket]:
    """A pair of sockets, the first of which has a byte and is read once."""
    ours, theirs = socket.socketpair()
    ours.setblocking(False)

    def read() -> None:
        with suppress(BlockingIOError):
            ours.recv(1)
            on_bytes()

    loop.add_reader(ours, read)
    theirs.send(b"x")
    return ours, theirs


def close_all(loop: asyncio.AbstractEventLoop, *pairs: tuple[socket.socket, socket.socket]) -> None:
    for ours, theirs in pairs:
        loop.remove_reader(ours)
        ours.close()
        theirs.close()


def test_all_that_can_be_read_is_read_before_the_end(loop: asyncio.AbstractEventLoop) -> None:
    turn, seen = Turn(loop), list[str]()

    def read(name: str) -> None:
        seen.append(name)
        turn.at_end(lambda: seen.append(f"end of {name}"))

    pairs = [readable(loop, lambda name=name: read(name)) for name in ("a", "b")]  # type: ignore[misc]
    run_turns(loop)
    close_all(loop, *pairs)
    assert sorted(seen[:2]) == ["a", "b"]
    assert sorted(seen[2:]) == ["end of a", "end of b"]


def test_turns_are_counted_where_the_loop_knows_them(turn_loop: TurnLoop) -> None:
    turns = Turn(turn_loop).turns
    assert turns is not None
    numbers: list[int] = []

    def count() -> None:
        numbers.append(turns.number)
        if len(numbers) < 3:
            turn_loop.call_later(0.001, count)  # a later turn, with nothing to read
        else:
            turn_loop.stop()

    pair = readable(turn_loop, count)
    turn_loop.run_forever()
    close_all(turn_loop, pair)
    assert len(set(numbers)) == 3


def test_the_end_is_part_of_the_turn_that_has_read(turn_loop: TurnLoop) -> None:
    turn, seen = Turn(turn_loop), list[str]()

    def read() -> None:
        turn_loop.call_soon(seen.append, "the next turn")
        turn.at_end(lambda: seen.append("the end"))

    pair = readable(turn_loop, read)
    run_turns(turn_loop)
    close_all(turn_loop, pair)
    assert seen == ["the end", "the next turn"]


def test_what_is_asked_for_at_the_end_is_done_in_it(loop: asyncio.AbstractEventLoop) -> None:
    turn, seen = Turn(loop), list[str]()

    def sync() -> None:
        seen.append("sync")
        turn.at_end(lambda: seen.append("the answer"))
        turn.at_end(let_go)
        loop.call_soon(seen.append, "the next turn")

    def let_go() -> None:
        turn.at_end(lambda: seen.append("the message"))

    turn.at_end(sync)
    run_turns(loop)
    assert seen == ["sync", "the answer", "the message", "the next turn"]


@pytest.mark.parametrize(("after_pause", "order"), [(True, ["write", "sync"]), (False, ["sync", "write"])])
def test_what_was_sent_leaves_before_its_sender_is_answered_only_after_a_pause(
    turn_loop: TurnLoop, after_pause: bool, order: list[str]
) -> None:
    turn, seen = Turn(turn_loop), list[str]()

    def read() -> bool:
        turn.at_end(lambda: seen.append("write"))
        turn.at_end(lambda: seen.append("sync"))
        return True

    turn.read_from(7, read)
    turn.read([(7, 1)], after_pause=after_pause)
    turn.read([(7, 1)])
    assert seen == [*order, "sync", "write"]


def test_what_is_let_go_to_consumers_waits_for_senders_in_a_hurry(turn_loop: TurnLoop) -> None:
    turn, seen = Turn(turn_loop), list[str]()

    def read() -> bool:
        turn.at_end(sync)
        return True

    def sync() -> None:
        turn.at_end(lambda: seen.append("the answer"), can_wait=True)
        turn.at_end(let_go)

    def let_go() -> None:
        turn.at_end(lambda: seen.append("the message"), can_wait=True)
        turn.at_end(lambda: seen.append("what cannot wait"))

    turn.read_from(7, read)
    turn.read([(7, 1)], after_pause=True)
    assert seen == ["the answer", "the message", "what cannot wait"]
    seen.clear()
    turn.read([(7, 1)])
    assert seen == ["the answer", "what cannot wait"]
    turn.read([(7, 1)])
    assert seen[2:] == ["the answer", "the message", "what cannot wait"], "the message of the turn before"
    assert turn.catch_up()
    assert seen[5:] == ["the message"]
    assert not turn.catch_up()
    assert len(seen) == 6


def test_who_asks_again_and_again_does_not_keep_the_turn_from_ending(loop: asyncio.AbstractEventLoop) -> None:
    turn, seen = Turn(loop), list[str]()

    def again() -> None:
        seen.append("again")
        if len(seen) < 20:
            turn.at_end(again)

    turn.at_end(again)
    loop.call_soon(seen.append, "somebody else")
    run_turns(loop, turns=20)
    assert seen.index("somebody else") == 3
    assert seen.count("again") == 19


def test_what_was_taken_back_is_not_done(loop: asyncio.AbstractEventLoop) -> None:
    turn, seen = Turn(loop), list[str]()
    turn.at_end(lambda: seen.append("taken back")).cancel()
    turn.at_end(lambda: seen.append("kept"))
    run_turns(loop)
    assert seen == ["kept"]


def test_a_timer_has_an_end_of_turn_too(loop: asyncio.AbstractEventLoop) -> None:
    turn, done = Turn(loop), loop.create_future()
    loop.call_later(0, turn.at_end, lambda: done.set_result(None))
    loop.run_until_complete(asyncio.wait_for(done, 60))


def test_an_error_at_the_end_is_reported_and_the_others_are_served(loop: asyncio.AbstractEventLoop) -> None:
    turn, seen, reported = Turn(loop), list[str](), list[dict[str, Any]]()
    loop.set_exception_handler(lambda _, context: reported.append(context))

    def fail() -> None:
        raise ValueError("a bug")

    turn.at_end(fail)
    turn.at_end(lambda: seen.append("served"))
    run_turns(loop)
    assert seen == ["served"]
    assert [str(it["exception"]) for it in reported] == ["a bug"]
    assert "fail" in reported[0]["message"]


def test_a_cancellation_at_the_end_is_an_error_like_others(loop: asyncio.AbstractEventLoop) -> None:
    turn, seen, reported = Turn(loop), list[str](), list[dict[str, Any]]()
    loop.set_exception_handler(lambda _, context: reported.append(context))

    def cancelled() -> None:
        raise asyncio.CancelledError

    turn.at_end(lambda: seen.append("served"))
    turn.at_end(cancelled)
    run_turns(loop)
    turn.at_end(lambda: seen.append("served later"))
    run_turns(loop)
    assert seen == ["served", "served later"]
    assert len(reported) == 1


def test_a_loop_that_was_closed_has_given_back_its_files(turn_loop: TurnLoop) -> None:
    markers = turn_loop._markers
    turn_loop.close()
    assert [it.fileno() for it in markers] == [-1, -1]


def test_senders_are_written_to_before_their_messages_leave(loop: asyncio.AbstractEventLoop) -> None:
    """Whether nobody waits for the store, and the answer is asked for last, or the store answers, senders first."""
    turn, written = Turn(loop), list[str]()

    def store_answers() -> None:
        turn.at_end(lambda: written.append("stored: sender"))
        turn.at_end(lambda: written.append("stored: consumer"))

    turn.at_end(store_answers)
    turn.at_end(lambda: written.append("at once: consumer"))
    turn.at_end(lambda: written.append("at once: sender"))
    run_turns(loop)
    assert written == ["at once: sender", "at once: consumer", "stored: sender", "stored: consumer"]


class Sockets:
    """A pair of sockets, the first of which asyncio watches and a turn reads from."""

    def __init__(self, loop: TurnLoop, turn: Turn, read: Callable[[bytes], bool]) -> None:
        self.ours, self.theirs = socket.socketpair()
        self.ours.setblocking(False)
        self.asyncio_saw: list[bytes] = []
        loop.add_reader(self.ours, lambda: self.asyncio_saw.append(self.ours.recv(10)))
        turn.read_from(self.ours.fileno(), lambda: read(self.ours.recv(10)))

    def close(self) -> None:
        self.ours.close()
        self.theirs.close()


def test_what_a_turn_reads_from_is_read_and_ended_without_asyncio(turn_loop: TurnLoop) -> None:
    turn, seen = Turn(turn_loop), list[object]()

    def read(data: bytes) -> bool:
        seen.append(data)
        turn.at_end(lambda: seen.append("the end"))
        turn_loop.call_soon(seen.append, "asyncio")
        return True

    sockets = Sockets(turn_loop, turn, read)
    sockets.theirs.send(b"one")
    run_turns(turn_loop)
    turn.forget(sockets.ours.fileno())
    sockets.theirs.send(b"two")
    run_turns(turn_loop)
    turn_loop.remove_reader(sockets.ours)
    sockets.close()
    assert seen == [b"one", "the end", "asyncio"]
    assert sockets.asyncio_saw == [b"two"]


def test_what_a_reader_leaves_is_for_asyncio_and_the_end_comes_behind_it(turn_loop: TurnLoop) -> None:
    turn, seen = Turn(turn_loop), list[str]()
    ours, theirs = socket.socketpair()

    def see(name: str) -> None:
        seen.append(name)
        turn.at_end(lambda: seen.append(f"end of {name}"))

    def read() -> bool:
        see("reader")
        return False

    def transport() -> None:
        ours.recv(10)
        see("asyncio")

    turn_loop.add_reader(ours, transport)
    turn.read_from(ours.fileno(), read)
    theirs.send(b"x")
    run_turns(turn_loop)
    turn_loop.remove_reader(ours)
    ours.close()
    theirs.close()
    assert seen == ["reader", "asyncio", "end of asyncio", "end of reader"]


def test_what_a_reader_has_closed_is_not_reported(turn_loop: TurnLoop) -> None:
    """Epoll has reported both; the other one is asyncio's."""
    turn, seen = Turn(turn_loop), list[str]()
    turn.monitor = LoopMonitor(lambda: 0.0, lambda: 0.0)  # no turn is so long that reading is postponed
    ours, theirs = readable(turn_loop, lambda: seen.append("the other one"))

    def read(_: bytes) -> bool:
        turn_loop.remove_reader(ours)
        turn.at_end(lambda: seen.append("the end"))
        return True

    sockets = Sockets(turn_loop, turn, read)
    sockets.theirs.send(b"x")
    run_turns(turn_loop)
    close_all(turn_loop, (ours, theirs))
    turn_loop.remove_reader(sockets.ours)
    sockets.close()
    assert seen == ["the end"]


def test_an_error_of_a_reader_is_reported_and_left_to_asyncio(turn_loop: TurnLoop) -> None:
    turn, reported = Turn(turn_loop), list[dict[str, Any]]()
    turn_loop.set_exception_handler(lambda _, context: reported.append(context))
    sockets = Sockets(turn_loop, turn, lambda _: True)

    def fail() -> bool:
        raise ValueError("a bug")

    turn.read_from(sockets.ours.fileno(), fail)
    sockets.theirs.send(b"x")
    run_turns(turn_loop)
    turn_loop.remove_reader(sockets.ours)
    sockets.close()
    assert [str(it["exception"]) for it in reported] == ["a bug"]
    assert sockets.asyncio_saw == [b"x"]


def test_others_wait_when_another_socket_can_be_read(turn_loop: TurnLoop) -> None:
    turn = Turn(turn_loop)
    first, second = (Sockets(turn_loop, turn, lambda _: True) for _ in range(2))
    run_turns(turn_loop)
    assert not turn.others_wait()
    first.theirs.send(b"x")
    assert turn.others_wait()
    assert not turn.others_wait(first.ours.fileno()), "what a client has sent itself is no reason to end its turn"
    second.theirs.send(b"y")
    assert turn.others_wait(first.ours.fileno())
    assert turn.others_wait(second.ours.fileno())
    run_turns(turn_loop)
    assert not turn.others_wait(), "they were read"
    for sockets in (first, second):
        turn_loop.remove_reader(sockets.ours)
        sockets.close()


def test_others_wait_when_output_waits_for_the_next_turn(turn_loop: TurnLoop) -> None:
    turn = Turn(turn_loop)
    seen: list[bool] = []

    def later(callback: Callable[[], None], *, can_wait: bool = False) -> Callable[[], None]:
        def ask() -> None:
            turn.at_end(callback, can_wait=can_wait)

        return ask

    turn.at_end(later(later(lambda: None, can_wait=True)))
    turn.end()
    seen.append(turn.others_wait())
    turn.catch_up()
    seen.append(turn.others_wait())
    assert seen == [True, False]


def test_a_loop_that_does_not_know_its_turns_tells_of_nobody_who_waits() -> None:
    loop = asyncio.new_event_loop()
    try:
        pair = readable(loop, lambda: None)
        assert not Turn(loop).others_wait()
        close_all(loop, pair)
    finally:
        loop.close()


def test_a_wait_that_looked_around_before_it_slept_sees_what_comes_later(turn_loop: TurnLoop) -> None:
    """Events at once, after a while awake, and after a sleep: none is missed."""
    turn, seen, arrived = Turn(turn_loop), list[bytes](), asyncio.Event()

    def read(data: bytes) -> bool:
        seen.append(data)
        arrived.set()
        return True

    async def next_arrival() -> None:
        await asyncio.wait_for(arrived.wait(), 60)
        arrived.clear()

    sockets = Sockets(turn_loop, turn, read)
    for delay in (0, 0.000_03, 0.02, 0, 0.02):
        turn_loop.call_later(delay, sockets.theirs.send, b"x")
        turn_loop.run_until_complete(next_arrival())
    turn_loop.remove_reader(sockets.ours)
    sockets.close()
    assert seen == [b"x"] * 5


def test_a_turn_that_is_long_already_reads_no_more_and_begins_with_the_others_next_time(turn_loop: TurnLoop) -> None:
    turn, seen, now = Turn(turn_loop), list[int](), [0.0]
    turn.monitor = LoopMonitor(lambda: now[0], lambda: 0.0)

    def reader(number: int) -> Callable[[], bool]:
        def read() -> bool:
            seen.append(number)
            now[0] += 0.004
            return True

        return read

    for number in range(5):
        turn.read_from(number, reader(number))
    events = [(number, select.EPOLLIN) for number in range(5)]
    turn.monitor.begin()
    assert turn.read(events) == []
    assert seen == [0, 1, 2], "12 ms are enough"
    turn.monitor.begin()
    assert turn.read([*events, (9, select.EPOLLIN)]) == [(9, select.EPOLLIN)], "what is asyncio's never waits"
    assert seen == [0, 1, 2, 3, 4, 0]
    turn.monitor.begin()
    turn.read(events)
    assert seen[6:8] == [1, 2], "they had to wait"
