"""The end of connections: the last messages leave, and then the sockets close."""

import asyncio
import logging
from typing import Final

from ackwire.server.peer import Peer
from ackwire.util.clock import Clock
from ackwire.util.plurals import counted

_POLL_SECONDS: Final = 0.01
_TURNS_MAX: Final = 10
"""After so many turns of the loop sockets that are cut off have closed; a large commit may go on behind one."""

_log = logging.getLogger(__name__)


async def drain(peers: set[Peer], *, clock: Clock, timeout_seconds: float) -> None:
    """Shut all *peers* down; those that have not gone after *timeout_seconds* are cut off."""
    told: set[Peer] = set()
    deadline = clock.monotonic() + timeout_seconds
    while True:
        for peer in peers - told:  # one may still come that was accepted before
            peer.shut_down()
            told.add(peer)
        if not peers or clock.monotonic() >= deadline:
            break
        await asyncio.sleep(_POLL_SECONDS)
    if peers:
        _log.warning("%s did not take the last messages in %g s", counted(len(peers), "peer"), timeout_seconds)
    for peer in tuple(peers):
        peer.abort()
    await asyncio.sleep(0)  # lets the aborted sockets close before the loop does


async def cut_off(peers: set[Peer]) -> None:
    """Close all sockets without a word, so that clients which know other brokers go there and repeat what was not
    answered."""
    for peer in tuple(peers):
        peer.abort()
    for _ in range(_TURNS_MAX):
        if not peers:
            return
        await asyncio.sleep(0)
