"""Sockets whose peer keeps silent are shut down, so that the thread that waits comes back."""

import socket
from collections.abc import Iterator

import pytest

from ackwire.util.socket_watchdog import NoAnswer, SocketWatchdog, WatchedSocket

Pair = tuple[socket.socket, socket.socket]


@pytest.fixture
def pair() -> Iterator[Pair]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


def ask(watched: WatchedSocket, connection: socket.socket) -> bytes:
    """Wait for one byte, as a driver does: the end of the connection is an error."""
    with watched:
        received = connection.recv(1)
        if not received:
            raise ConnectionError("lost")
        return received


def test_K7_a_silent_peer_is_given_up(pair: Pair) -> None:
    watched = SocketWatchdog(0.05).watch(pair[0].fileno())
    with pytest.raises(NoAnswer, match=r"no answer for 0\.05 s"):
        ask(watched, pair[0])
    watched.release()


def test_K7_the_limit_can_be_lowered_for_a_wait_under_way(pair: Pair) -> None:
    watchdog = SocketWatchdog(3600)
    watched = watchdog.watch(pair[0].fileno())
    watchdog.limit(0.05)
    with pytest.raises(NoAnswer):
        ask(watched, pair[0])
    watchdog.limit(3600)
    assert watchdog.seconds_max == 0.05, "a limit is never raised"
    watched.release()


def test_a_socket_may_have_a_lower_limit_of_its_own(pair: Pair) -> None:
    watched = SocketWatchdog(3600).watch(pair[0].fileno())
    watched.seconds_max = 0.05
    with pytest.raises(NoAnswer):
        ask(watched, pair[0])
    watched.release()


def test_a_peer_that_answers_is_left_alone(pair: Pair) -> None:
    ours, theirs = pair
    watched = SocketWatchdog(3600).watch(ours.fileno())
    for _ in range(3):
        theirs.send(b"x")
        assert ask(watched, ours) == b"x"
    theirs.close()
    with pytest.raises(ConnectionError, match="lost"):
        ask(watched, ours)
    watched.release()


def test_what_has_come_and_an_end_are_seen_without_reading(pair: Pair) -> None:
    ours, theirs = pair
    watched = SocketWatchdog(3600).watch(ours.fileno())
    seen = [watched.is_quiet]
    theirs.send(b"x")
    seen.append(watched.is_quiet)
    assert ours.recv(1) == b"x"
    seen.append(watched.is_quiet)
    theirs.close()
    seen.append(watched.is_quiet)
    assert seen == [True, False, True, False]
    watched.release()
