"""Questions to the operating system about a client's socket."""

import asyncio
import fcntl
import select
import socket
import sys
import termios
from typing import Final

_HUNG_UP: Final = getattr(select, "POLLRDHUP", 0) | select.POLLHUP | select.POLLERR


def bare_descriptor(transport: asyncio.Transport) -> int:
    """Of the transport's socket, if bytes of the protocol come from it as they are, and not those of TLS; or -1."""
    connected = transport.get_extra_info("socket")
    is_bare = connected is not None and transport.get_extra_info("sslcontext") is None
    return connected.fileno() if is_bare else -1


def has_hung_up(transport: asyncio.Transport | None) -> bool:
    """Whether the client has closed its end. What it has sent before may still be read."""
    connected = transport.get_extra_info("socket") if transport is not None else None
    if connected is None or connected.fileno() < 0:
        return False
    poll = select.poll()
    poll.register(connected.fileno(), _HUNG_UP)
    return bool(poll.poll(0))


def unread_bytes(descriptor: int) -> int:
    """What has arrived and was not read; the largest number where the system does not say, as with TLS."""
    if descriptor < 0:
        return sys.maxsize
    try:
        return int.from_bytes(fcntl.ioctl(descriptor, termios.FIONREAD, bytes(4)), sys.byteorder)
    except OSError:
        return 0


def has_unconfirmed(descriptor: int) -> bool:
    """Whether something was written that the client's system has not confirmed; True where this system cannot say."""
    try:
        return any(fcntl.ioctl(descriptor, termios.TIOCOUTQ, bytes(4)))
    except OSError:
        return True


def disable_no_delay(transport: asyncio.Transport | None) -> None:
    """Let the system gather small writes, as the client has asked for."""
    connected = transport.get_extra_info("socket") if transport is not None else None
    if connected is not None and connected.family in (socket.AF_INET, socket.AF_INET6):
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 0)


def printable(address: object) -> str:
    """A socket's address, for people."""
    if isinstance(address, tuple) and len(address) >= 2:
        return f"[{address[0]}]:{address[1]}" if ":" in str(address[0]) else f"{address[0]}:{address[1]}"
    return str(address)
