# generated from src/ackwire/client/aio/__init__.py by tools/async_to_sync.py; change that
"""The client for asyncio: `connect`, sessions, producers and consumers."""

from ackwire.client.sync.browser import Browser
from ackwire.client.sync.buffered import BufferedProducer
from ackwire.client.sync.connection import Connection, ConnectionFactory, connect
from ackwire.client.sync.consumer import Consumer
from ackwire.client.sync.listeners import ListenerContainer
from ackwire.client.sync.pooled import PooledConsumer
from ackwire.client.sync.producer import Producer
from ackwire.client.sync.session import Session
from ackwire.client.sync.template import Template
from ackwire.client.sync.xa import XAResource, XASession

__all__ = [
    "Browser",
    "BufferedProducer",
    "Connection",
    "ConnectionFactory",
    "Consumer",
    "ListenerContainer",
    "PooledConsumer",
    "Producer",
    "Session",
    "Template",
    "XAResource",
    "XASession",
    "connect",
]
