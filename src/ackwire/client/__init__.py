"""JMS in Python, on the standard library alone: the blocking client. `ackwire.aio` is the one for asyncio."""

from ackwire.client import names as _names
from ackwire.client import sync as _sync
from ackwire.client.names import *  # noqa: F403
from ackwire.client.sync import *  # noqa: F403

__all__ = [*_names.__all__, *_sync.__all__]
