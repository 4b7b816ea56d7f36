"""The two clients, for tests that run with both."""

from collections.abc import Callable
from typing import Any

from ackwire.client.aio import buffered as aio_buffered
from ackwire.client.aio import listeners as aio_listeners
from ackwire.client.aio import pooled as aio_pooled
from ackwire.client.aio import template as aio_template
from ackwire.client.sync import buffered, listeners, pooled, template
from tests.helpers.flavours import Async, Blocking, Flavour, Shell

FLAVOURS: dict[str, Callable[[], Flavour]] = {
    "sync": lambda: Blocking(buffered=buffered, listeners=listeners, pooled=pooled, template=template),
    "aio": lambda: Async(buffered=aio_buffered, listeners=aio_listeners, pooled=aio_pooled, template=aio_template),
}


def shelled(flavour: Flavour, thing: Any) -> Any:
    """A stand-in as this flavour sees it."""
    return thing if flavour.name == "sync" else Shell(thing)
