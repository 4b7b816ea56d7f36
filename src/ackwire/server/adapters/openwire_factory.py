"""OpenWire for listeners: how it is recognised, and what a connection is opened with."""

from dataclasses import replace
from typing import Any, Final, final

from ackwire import __version__
from ackwire.config import Settings
from ackwire.config.listener_uri import ListenerUri
from ackwire.server.adapters.contract import Adapter, ConnectionContext
from ackwire.server.adapters.openwire import OpenWireAdapter
from ackwire.wire.openwire.limits import WireLimits
from ackwire.wire.openwire.negotiation import Preferences
from ackwire.wire.openwire.protocol import OpenWireProtocol

_MAGIC: Final = b"\x01ActiveMQ"
_MAGIC_AT: Final = 4
"""OpenWire starts with the size of its first frame, a WireFormatInfo."""

_CACHE_SLOTS: Final = 256
"""Of a connection's marshalling cache, unless its listener says otherwise, or the client 0, which stands for more.
Most use a dozen; who opens a producer for every message fills all of them, and they stay."""


@final
class OpenWireFactory:
    """Implements `ProtocolFactory`."""

    name: Final = "OpenWire"
    scheme: Final = "tcp"
    first_command: Final = "WireFormatInfo"
    login_command: Final = "ConnectionInfo"

    def recognises(self, first_bytes: bytes) -> bool | None:
        """By the type and the magic of a WireFormatInfo, whatever its size."""
        seen = first_bytes[_MAGIC_AT : _MAGIC_AT + len(_MAGIC)]
        if not _MAGIC.startswith(seen):
            return False
        return True if seen == _MAGIC else None

    def open(self, context: ConnectionContext) -> Adapter:
        """The broker's WireFormatInfo waits to be sent."""
        settings = context.settings
        protocol = OpenWireProtocol(
            _preferences(context.uri, settings), wire_limits(settings), settings.handshake.frame_bytes_max
        )
        return OpenWireAdapter(
            peer=context.peer,
            protocol=protocol,
            broker=context.broker,
            clock=context.broker.clock,
            settings=settings,
            address=context.address,
        )


def _preferences(uri: ListenerUri, settings: Settings) -> Preferences:
    """What the settings say, with what the listener's URI says in its place."""
    connection, asked = settings.connection, uri.wire_format
    from_settings = Preferences(
        cache=True,
        cache_size=_CACHE_SLOTS,
        frame_bytes_max=settings.wire.frame_bytes_max,
        inactivity_ms=round(connection.max_inactivity_duration_seconds * 1000),
        inactivity_initial_delay_ms=round(connection.max_inactivity_initial_delay_seconds * 1000),
        provider_version=__version__,
    )
    from_uri: dict[str, Any] = {
        "version": asked.version,
        "tight": asked.tight_encoding_enabled,
        "cache": asked.cache_enabled,
        "cache_size": asked.cache_size,
        "stack_traces": asked.stack_trace_enabled,
        "tcp_no_delay": asked.tcp_no_delay_enabled,
        "size_prefix_disabled": asked.size_prefix_disabled,
        "frame_bytes_max": asked.frame_bytes_max,
        "inactivity_ms": asked.max_inactivity_duration_ms,
        "inactivity_initial_delay_ms": asked.max_inactivity_initial_delay_ms,
    }
    return replace(from_settings, **{name: value for name, value in from_uri.items() if value is not None})


def wire_limits(settings: Settings) -> WireLimits:
    """What the settings allow a peer to ask for."""
    wire = settings.wire
    return WireLimits(
        frame_bytes_max=wire.frame_bytes_max,
        entries_max=wire.map_entries_max,
        nesting_max=wire.nesting_max,
        inflated_bytes_max=wire.inflated_bytes_max,
        cache_bytes_max=wire.cache_bytes_max,
    )
