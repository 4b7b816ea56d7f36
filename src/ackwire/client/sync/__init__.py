# generated from src/ackwire/client/aio/__init__.py by tools/async_to_sync.py; change that
"""The client for asyncio: `connect`, sessions, producers and consumers."""

from ackwire.client.sync.browser import Browser
from ackwire.client.sync.connection import Connection, ConnectionFactory, connect
from ackwire.client.sync.consumer import Consumer
from ackwire.client.sync.producer import Producer
from ackwire.client.sync.session import Session
from ackwire.client.sync.xa import XAResource, XASession

__all__ = [
    "Browser",
    "Connection",
    "ConnectionFactory",
    "Consumer",
    "Producer",
    "Session",
    "XAResource",
    "XASession",
    "connect",
]
