"""Ackwire: a message broker and client that speak ActiveMQ's language.

The blocking client is here, `ackwire.connect`; the one for asyncio has the same names in `ackwire.aio`.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0.dev0"

if TYPE_CHECKING:
    # Not from ackwire.client: type checkers cannot tell what is in an __all__ that is put together.
    from ackwire.client.names import *  # noqa: F403
    from ackwire.client.sync import *  # noqa: F403


def __getattr__(name: str) -> Any:
    """The client's names, loaded when first asked for: a broker does not need them."""
    if not Path(__file__).with_name(f"{name}.py").exists():  # `from ackwire import logs` asks here first
        import ackwire.client as client

        if name in client.__all__:
            return getattr(client, name)
    raise AttributeError(f"module 'ackwire' has no attribute {name!r}")
