"""The client for asyncio: `connect`, sessions, producers and consumers."""

from ackwire.client.aio.browser import Browser
from ackwire.client.aio.connection import Connection, ConnectionFactory, connect
from ackwire.client.aio.consumer import Consumer
from ackwire.client.aio.producer import Producer
from ackwire.client.aio.session import Session
from ackwire.client.aio.xa import XAResource, XASession

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
