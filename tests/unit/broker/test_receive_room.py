"""Room for frames that have arrived in part: who has it can finish, and who stalls gives it up for others."""

import pytest

from ackwire.broker.receive_room import SMALL_BYTES, ReceiveRoom
from ackwire.util.clock import ManualClock

MIB = 1024 * 1024


class User:
    """A connection: counts what it is told, and leaves the room when it is closed."""

    def __init__(self, room: ReceiveRoom) -> None:
        self._room = room
        self.goes_on = 0
        self.closed = ""

    def go_on(self) -> None:
        self.goes_on += 1

    def give_room_up(self, reason: str) -> None:
        self.closed = reason
        self._room.leave(self)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def room(clock: ManualClock) -> ReceiveRoom:
    return ReceiveRoom(clock, bytes_max=40 * MIB, strangers_bytes_max=100_000, timeout_seconds=10)


def users(room: ReceiveRoom, count: int) -> list[User]:
    return [User(room) for _ in range(count)]


def test_frames_have_room_up_to_the_bound_and_the_next_waits(room: ReceiveRoom) -> None:
    first, second, third = users(room, 3)
    assert room.ask(first, 15 * MIB)
    assert room.ask(second, 15 * MIB)
    assert not room.ask(third, 2 * MIB)
    assert (room.used_bytes, room.waiting_count) == (30 * MIB, 1)
    room.leave(first)
    assert (third.goes_on, room.used_bytes, room.waiting_count) == (1, 17 * MIB, 0)


def test_who_asked_first_is_served_first(room: ReceiveRoom) -> None:
    holder, large, small = users(room, 3)
    room.ask(holder, 20 * MIB)
    assert not room.ask(large, 25 * MIB)
    assert not room.ask(small, 2 * MIB), "it would fit, and the one before it would wait for ever"
    room.leave(holder)
    assert (large.goes_on, small.goes_on) == (1, 1)


def test_one_frame_has_room_however_large_it_is(room: ReceiveRoom) -> None:
    first, second = users(room, 2)
    assert room.ask(first, 100 * MIB)
    assert not room.ask(second, 2 * MIB)
    room.leave(first)
    assert second.goes_on == 1


def test_large_frames_do_not_hold_up_smaller_ones(room: ReceiveRoom) -> None:
    large, waiting, small = users(room, 3)
    room.ask(large, 30 * MIB)
    room.ask(waiting, 30 * MIB)
    assert room.ask(small, SMALL_BYTES)


def test_strangers_take_no_room_from_clients(room: ReceiveRoom) -> None:
    first, second, client = users(room, 3)
    assert room.ask(first, 60_000, is_stranger=True)
    assert not room.ask(second, 60_000, is_stranger=True)
    assert room.ask(client, 30 * MIB)


def test_a_frame_may_take_any_time_while_no_other_waits(room: ReceiveRoom, clock: ManualClock) -> None:
    (alone,) = users(room, 1)
    room.ask(alone, 20 * MIB)
    clock.advance(3600)
    assert alone.closed == ""


def test_a_frame_that_stalls_while_others_wait_loses_its_connection(room: ReceiveRoom, clock: ManualClock) -> None:
    stalled, waiting = users(room, 2)
    room.ask(stalled, 20 * MIB)
    room.ask(waiting, 20 * MIB)
    clock.advance(29)
    assert stalled.closed == ""
    clock.advance(2)
    assert "20971520 bytes was not complete after 30 s (connection.frame_timeout_seconds" in stalled.closed
    assert "limits.receive_bytes_max" in stalled.closed
    assert waiting.goes_on == 1
    clock.advance(3600)
    assert waiting.closed == "", "it has its own time, and no other waits"


def test_no_more_is_ended_than_others_need(room: ReceiveRoom, clock: ManualClock) -> None:
    first, second, waiting = users(room, 3)
    room.ask(first, 15 * MIB)
    room.ask(second, 15 * MIB)
    room.ask(waiting, 15 * MIB)
    clock.advance(3600)
    assert (bool(first.closed), bool(second.closed), waiting.goes_on) == (True, False, 1)


def test_a_closed_room_serves_nobody_but_what_is_urgent(room: ReceiveRoom, clock: ManualClock) -> None:
    holder, waiting, urgent = users(room, 3)
    room.ask(holder, 5 * MIB)
    room.close(True)
    assert not room.ask(waiting, 2 * MIB)
    assert not room.ask(urgent, 2 * MIB)
    assert room.ask(urgent, 2 * MIB, is_urgent=True)
    clock.advance(3600)
    assert holder.closed == "", "those who wait, wait for something else"
    room.close(False)
    assert waiting.goes_on == 1


def test_a_frame_that_turns_out_larger_asks_for_the_rest(room: ReceiveRoom) -> None:
    user, other = users(room, 2)
    assert room.ask(user, 2 * MIB)
    assert room.ask(user, 3 * MIB)
    assert room.used_bytes == 3 * MIB
    assert room.ask(other, 27 * MIB)
    assert not room.ask(user, 4 * MIB)
    room.leave(other)
    assert user.goes_on == 1
    room.leave(user)
    assert room.used_bytes == 0


def test_who_leaves_while_it_waits_is_forgotten(room: ReceiveRoom) -> None:
    holder, waiting = users(room, 2)
    room.ask(holder, 30 * MIB)
    room.ask(waiting, 30 * MIB)
    room.leave(waiting)
    room.leave(holder)
    assert (waiting.goes_on, room.used_bytes, room.waiting_count) == (0, 0, 0)


def test_a_room_is_crowded_while_very_many_wait(room: ReceiveRoom) -> None:
    first, *others = users(room, 66)
    assert room.ask(first, 40 * MIB)
    for number, user in enumerate(others):
        assert not room.is_crowded, number
        assert not room.ask(user, 20 * MIB)
    assert room.is_crowded
    room.leave(others[0])
    assert not room.is_crowded
