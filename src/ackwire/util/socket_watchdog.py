"""Ends connections whose peer keeps silent while it is waited for, for libraries that wait without a limit.

A peer that is stopped, or behind a network that drops packets, keeps its socket open: reading from it never ends. A
thread looks at all sockets that are waited for, and shuts down those that have waited too long. The library then sees
the end of the connection, in the thread that waits.
"""

import math
import os
import socket
import threading
from contextlib import suppress
from types import TracebackType
from typing import Final, final

from ackwire.errors import AckwireError
from ackwire.util.clock import SystemClock

_LOOKS: Final = 20
"""How often the thread looks within the time that is allowed: a peer is found silent 5 % late at most."""

_LOOK_SECONDS_MIN: Final = 0.02
_LOOK_SECONDS_MAX: Final = 1.0
"""Between two looks: no busy loop for short times, and a change of the limit is noticed soon."""

_USER_TIMEOUT_MS: Final = 20_000
"""How long sent bytes may stay without an acknowledgement of the peer's machine before the kernel gives up."""

_clock = SystemClock()


class NoAnswer(AckwireError):
    """A peer has not answered for too long, so its connection was ended."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"no answer for {seconds:g} s")


@final
class WatchedSocket:
    """A context in which the peer must answer. Raises `NoAnswer` in place of the error that the library then meets."""

    __slots__ = ("_watchdog", "began", "seconds_max", "silent_seconds", "socket")

    def __init__(self, watchdog: "SocketWatchdog", copy: socket.socket) -> None:
        self._watchdog = watchdog
        self.socket = copy
        """A descriptor of its own: its number is not used again while the thread may shut it down."""
        self.began = 0.0
        """When the wait under way began; 0: nothing is waited for."""
        self.seconds_max = math.inf
        """A limit of its own, where it is lower than that of the watchdog."""
        self.silent_seconds = 0.0
        """How long the peer was allowed to be silent when its connection was ended; 0: it was not ended."""

    def __enter__(self) -> None:
        self.began = _clock.monotonic()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.began = 0.0
        if self.silent_seconds and isinstance(error, Exception):
            raise NoAnswer(self.silent_seconds) from error

    @property
    def is_quiet(self) -> bool:
        """Whether nothing has come that was not read, neither bytes nor the end of the connection."""
        try:
            self.socket.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except BlockingIOError:
            return True
        except OSError:
            return False
        return False

    def release(self) -> None:
        """Watch it no longer. The connection itself is not closed."""
        self._watchdog.forget(self)


@final
class SocketWatchdog:
    """Watches sockets by one thread, which lives as long as there are any."""

    def __init__(self, seconds_max: float) -> None:
        self._seconds_max = seconds_max
        self._watched: set[WatchedSocket] = set()
        self._lock = threading.Lock()
        self._changed = threading.Event()
        self._has_thread = False

    @property
    def seconds_max(self) -> float:
        return self._seconds_max

    def limit(self, seconds_max: float) -> None:
        """Allow no more than *seconds_max* from now on; this is true for waits under way, too."""
        self._seconds_max = min(self._seconds_max, seconds_max)
        self._changed.set()

    def watch(self, descriptor: int) -> WatchedSocket:
        """Watch the socket with that *descriptor*, until it is released."""
        watched = WatchedSocket(self, socket.socket(fileno=os.dup(descriptor)))
        with self._lock:
            self._watched.add(watched)
            if not self._has_thread:
                self._has_thread = True
                threading.Thread(target=self._run, name="socket watchdog", daemon=True).start()
        return watched

    def forget(self, watched: WatchedSocket) -> None:
        with self._lock:
            self._watched.discard(watched)
            watched.socket.close()
            if not self._watched:
                self._changed.set()

    def _run(self) -> None:
        while True:
            pause = min(max(self._seconds_max / _LOOKS, _LOOK_SECONDS_MIN), _LOOK_SECONDS_MAX)
            self._changed.wait(pause)
            self._changed.clear()
            with self._lock:
                if not self._watched:
                    self._has_thread = False
                    return
                self._look()

    def _look(self) -> None:
        now = _clock.monotonic()
        for watched in self._watched:
            began = watched.began
            allowed = min(self._seconds_max, watched.seconds_max)
            if began and now - began > allowed and not watched.silent_seconds:
                watched.silent_seconds = allowed
                with suppress(OSError):  # it is at its end already
                    watched.socket.shutdown(socket.SHUT_RDWR)


def connected_unix_socket(path: str, seconds_max: float) -> socket.socket:
    """A connection to a server on this machine. Raises `OSError`."""
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.settimeout(seconds_max)
        connection.connect(path)
    except OSError:
        connection.close()
        raise
    return connection


def connected_socket(host: str, port: int, seconds_max: float) -> socket.socket:
    """A TCP connection that notices soon when the peer's machine is gone. Raises `OSError`."""
    connection = socket.create_connection((host, port), seconds_max)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (("TCP_KEEPIDLE", 5), ("TCP_KEEPINTVL", 5), ("TCP_USER_TIMEOUT", _USER_TIMEOUT_MS)):
        if hasattr(socket, name):  # not on every system
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    return connection
