"""Finds out whether the client of a socket is still there, without its help.

A keep-alive is written. OpenWire has an echo of keep-alives, but Java's client must not be asked for one (ADR 16). So
anything that the client sends is an answer, and so is TCP's own confirmation: a system confirms bytes as long as its
process has the socket open, and resets the connection otherwise.
"""

import asyncio
import socket
from collections.abc import Callable
from struct import Struct
from typing import Final, final

from ackwire.util.clock import Clock

_FIRST_LOOK_SECONDS: Final = 0.05
"""Time for a confirmation on a quick network, and for the loop to read the end of a socket that was closed."""
_INTERVAL_SECONDS: Final = 0.1

_TCP_INFO: Final = Struct("=B23xI")
"""Of Linux's `struct tcp_info`: the state, and how many packets are sent and not confirmed."""
_ESTABLISHED: Final = 1


@final
class Challenge:
    """Looks again and again whether a client is there, until that is known or *grace_seconds* have passed."""

    def __init__(
        self,
        clock: Clock,
        *,
        grace_seconds: float,
        is_there: Callable[[], bool | None],
        on_verdict: Callable[[bool], None],
    ) -> None:
        self._clock = clock
        self._deadline = clock.monotonic() + grace_seconds
        self._is_there = is_there
        """True or False once that is known, None until then."""
        self._on_verdict = on_verdict
        clock.call_later(min(_FIRST_LOOK_SECONDS, grace_seconds), self._look)

    def _look(self) -> None:
        is_there = self._is_there()
        if is_there is None and self._clock.monotonic() < self._deadline:
            self._clock.call_later(_INTERVAL_SECONDS, self._look)
        else:
            self._on_verdict(is_there is True)


def system_confirms(transport: asyncio.Transport) -> bool | None:
    """Whether the client's system has confirmed all that is on its way to it; False if the client has closed.

    None if something is unconfirmed, or if this system does not tell. A client that does not read confirms too: what
    waits for it here is not on its way.
    """
    connected = transport.get_extra_info("socket")
    if connected is None:
        return None
    if connected.family not in (socket.AF_INET, socket.AF_INET6):
        return True  # a pair of sockets in this process
    option = getattr(socket, "TCP_INFO", None)
    if option is None:
        return None
    try:
        state, unconfirmed = _TCP_INFO.unpack_from(connected.getsockopt(socket.IPPROTO_TCP, option, _TCP_INFO.size))
    except OSError:
        return None
    if state != _ESTABLISHED:
        return False
    return True if unconfirmed == 0 else None
