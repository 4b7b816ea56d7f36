"""The client for asyncio: `connect`, sessions, producers and consumers."""

from ackwire.client.aio.browser import Browser
from ackwire.client.aio.buffered import BufferedProducer
from ackwire.client.aio.connection import Connection, ConnectionFactory, connect
from ackwire.client.aio.consumer import Consumer
from ackwire.client.aio.listeners import ListenerContainer
from ackwire.client.aio.pooled import PooledConsumer
from ackwire.client.aio.producer import Producer
from ackwire.client.aio.session import Session
from ackwire.client.aio.template import Template
from ackwire.client.aio.xa import XAResource, XASession

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
