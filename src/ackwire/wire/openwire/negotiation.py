"""WireFormatInfo: what each side wants, and what both get (openwire.md §5).

Both sides send theirs unprompted and compute the result from the two frames alone, so there is no answer to wait for.
"""

from dataclasses import dataclass
from typing import Final

from ackwire.errors import RemoteProtocolError
from ackwire.jms.types import Int, Long, Value
from ackwire.wire.openwire.commands import MAGIC, WireFormatInfo
from ackwire.wire.openwire.limits import WireLimits
from ackwire.wire.openwire.marshal import WireFormat
from ackwire.wire.openwire.primitives import decode_map, encode_map
from ackwire.wire.openwire.structures import VERSION_MAX, VERSION_MIN

_INFO_LIMITS: Final = WireLimits(entries_max=4096, nesting_max=1)
"""ActiveMQ 5 takes up to 4096 entries here; nothing in them is nested."""


@dataclass(frozen=True, slots=True)
class Preferences:
    """The wire format that this side prefers."""

    version: int = VERSION_MAX
    tight: bool = False
    cache: bool = False
    cache_size: int = 1024
    stack_traces: bool = False
    tcp_no_delay: bool = True
    size_prefix_disabled: bool = False
    frame_bytes_max: int = 100 * 1024 * 1024
    inactivity_ms: int = 30_000
    inactivity_initial_delay_ms: int = 10_000
    provider_version: str = ""


@dataclass(frozen=True, slots=True)
class Agreement:
    """The negotiated wire format."""

    wire_format: WireFormat
    frame_bytes_max: int
    tcp_no_delay: bool
    inactivity_ms: int
    """0: no inactivity monitor."""
    inactivity_initial_delay_ms: int
    peer: str
    """The peer's own words about itself, for logs and the console."""


def offer(wants: Preferences) -> WireFormatInfo:
    """The frame that states *wants*. The types matter: Java casts them."""
    properties: dict[str, Value] = {
        "TightEncodingEnabled": wants.tight,
        "CacheEnabled": wants.cache,
        "CacheSize": Int(wants.cache_size),
        "StackTraceEnabled": wants.stack_traces,
        "TcpNoDelayEnabled": wants.tcp_no_delay,
        "SizePrefixDisabled": wants.size_prefix_disabled,
        "MaxFrameSize": Long(wants.frame_bytes_max),
        "MaxFrameSizeEnabled": True,
        "MaxInactivityDuration": Long(wants.inactivity_ms),
        "MaxInactivityDurationInitalDelay": Long(wants.inactivity_initial_delay_ms),  # ActiveMQ's spelling
        "ProviderName": "Ackwire",
        "ProviderVersion": wants.provider_version,
        "PlatformDetails": "Python",
    }
    return WireFormatInfo(version=wants.version, marshalled_properties=encode_map(properties))


def negotiate(wants: Preferences, info: WireFormatInfo) -> Agreement:
    """Negotiate between *wants* and the peer's frame. Raises `RemoteProtocolError` if they have no common format."""
    if info.magic != MAGIC:
        raise RemoteProtocolError(f"the first frame's magic is {info.magic!r}, not {MAGIC!r}")
    peer = decode_map(info.marshalled_properties, _INFO_LIMITS) if info.marshalled_properties else {}
    cache = wants.cache and _flag(peer, "CacheEnabled")
    return Agreement(
        wire_format=WireFormat(
            version=_version(wants.version, info.version),
            tight=wants.tight and _flag(peer, "TightEncodingEnabled"),
            cache_size=min(wants.cache_size, _number(peer, "CacheSize")) if cache else None,
            stack_traces=wants.stack_traces and _flag(peer, "StackTraceEnabled"),
            size_prefix=not (wants.size_prefix_disabled and _flag(peer, "SizePrefixDisabled")),
        ),
        frame_bytes_max=_smaller_positive(wants.frame_bytes_max, _number(peer, "MaxFrameSize")),
        tcp_no_delay=wants.tcp_no_delay and _flag(peer, "TcpNoDelayEnabled"),
        inactivity_ms=_shorter(wants.inactivity_ms, _number(peer, "MaxInactivityDuration")),
        inactivity_initial_delay_ms=_shorter(
            wants.inactivity_initial_delay_ms, _number(peer, "MaxInactivityDurationInitalDelay")
        ),
        peer=_self_description(peer),
    )


def _version(ours: int, theirs: int) -> int:
    version = min(ours, theirs) if theirs > 0 else ours
    return max(version, VERSION_MIN)


def _smaller_positive(ours: int, theirs: int) -> int:
    return min(ours, theirs) if theirs > 0 else ours


def _shorter(ours: int, theirs: int) -> int:
    return max(0, min(ours, theirs))


def _flag(properties: dict[str, Value], key: str) -> bool:
    value = properties.get(key)
    if not isinstance(value, bool | None):
        raise RemoteProtocolError(f"{key} in WireFormatInfo is a {type(value).__name__}, not a boolean")
    return value is True


def _number(properties: dict[str, Value], key: str) -> int:
    value = properties.get(key)
    if value is None:
        return 0
    if not isinstance(value, int) or isinstance(value, bool):
        raise RemoteProtocolError(f"{key} in WireFormatInfo is a {type(value).__name__}, not a whole number")
    return int(value)


def _self_description(properties: dict[str, Value]) -> str:
    words = (properties.get(key) for key in ("ProviderName", "ProviderVersion", "PlatformDetails"))
    return " ".join(word[:64] for word in words if isinstance(word, str))
