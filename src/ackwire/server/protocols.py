"""The protocols that listeners speak: those of this package, and those that installed packages add.

A package adds one with an entry point in the group "ackwire.protocols" (J1). The name of the entry point is the scheme
of listener URIs; the object that it refers to is a `ProtocolFactory` (`server/adapters/contract.py`). The operator
decides which packages are installed. Nothing that a peer sends chooses a class: the factories compare its first bytes.
"""

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from ackwire.config.listener_uri import SCHEMES, ListenerUri, protocol_entry_points
from ackwire.errors import ConfigError
from ackwire.server.adapters.contract import ProtocolFactory
from ackwire.server.adapters.openwire_factory import OpenWireFactory

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

BUILT_IN: Final[tuple[ProtocolFactory, ...]] = (OpenWireFactory(),)

_log = logging.getLogger(__name__)


def installed_protocols() -> tuple[ProtocolFactory, ...]:
    """Those of this package first, then those of others. Raises `ConfigError` for one that cannot be used."""
    found = list(BUILT_IN)
    for entry in protocol_entry_points():
        factory = _loaded(entry)
        _log.info("protocol %s, for %s:// listeners, comes from %s", factory.name, factory.scheme, entry.value)
        found.append(factory)
    return tuple(found)


def _loaded(entry: "EntryPoint") -> ProtocolFactory:
    if entry.name in SCHEMES:
        raise ConfigError(f"the plugin {entry.value} adds the protocol {entry.name}, which is a scheme of this broker")
    try:
        factory: ProtocolFactory = entry.load()
        scheme = factory.scheme
    except Exception as error:  # whatever a foreign module raises
        raise ConfigError(f"the plugin {entry.value} for the protocol {entry.name} cannot be used: {error}") from error
    if scheme != entry.name:
        raise ConfigError(f"the plugin {entry.value} is for {entry.name}://, and its factory says {scheme}://")
    return factory


def served_by(uri: ListenerUri, protocols: Sequence[ProtocolFactory]) -> tuple[ProtocolFactory, ...]:
    """Those of *protocols* that a listener speaks: all where the first bytes decide, and one otherwise."""
    if uri.auto:
        return tuple(protocols)
    return tuple(factory for factory in protocols if factory.scheme == uri.protocol)
