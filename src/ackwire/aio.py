"""The client for asyncio; the names are those of `ackwire`, where the blocking one is."""

from ackwire.client import aio as _aio
from ackwire.client import names as _names
from ackwire.client.aio import *  # noqa: F403
from ackwire.client.names import *  # noqa: F403

__all__ = [*_names.__all__, *_aio.__all__]
