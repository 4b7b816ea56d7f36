"""Identities that no other client has: of connections, and through them of everything else."""

import itertools
import os
import re
import socket
from typing import Final

from ackwire.util.clock import Clock

_counter: Final = itertools.count(1)
"""Shared by all connections of the process."""


def new_id(clock: Clock, prefix: str | None = None) -> str:
    """`ID:host-process-milliseconds-number`, as ActiveMQ's clients look too."""
    host = re.sub(r"[^A-Za-z0-9.]", "_", socket.gethostname())[:64] or "localhost"
    return f"{prefix or 'ID:'}{host}-{os.getpid()}-{clock.now_ms()}-{next(_counter)}"
