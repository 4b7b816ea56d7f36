"""Ackwire: a message broker and client that speak ActiveMQ's language."""

from importlib.metadata import version as _version

__version__ = _version("ackwire")
