"""What two WireFormatInfo frames come to: every row of the table in openwire.md §5."""

from collections.abc import Mapping

import pytest

from ackwire.errors import RemoteProtocolError
from ackwire.jms.types import Float, Int, Long, Value
from ackwire.wire.openwire.commands import WireFormatInfo
from ackwire.wire.openwire.marshal import WireFormat
from ackwire.wire.openwire.negotiation import Agreement, Preferences, negotiate, offer
from ackwire.wire.openwire.primitives import decode_map, encode_map

EVERYTHING = Preferences(
    tight=True, cache=True, cache_size=1024, stack_traces=True, tcp_no_delay=True, size_prefix_disabled=True
)

FLAGS = ("TightEncodingEnabled", "CacheEnabled", "StackTraceEnabled", "TcpNoDelayEnabled", "SizePrefixDisabled")

JAVA_5_17: dict[str, Value] = {
    "StackTraceEnabled": True,
    "CacheEnabled": True,
    "TcpNoDelayEnabled": True,
    "TightEncodingEnabled": True,
    "SizePrefixDisabled": False,
    "CacheSize": Int(1024),
    "MaxInactivityDuration": Long(30_000),
    "MaxInactivityDurationInitalDelay": Long(10_000),
    "MaxFrameSize": Long(2**63 - 1),
    "MaxFrameSizeEnabled": True,
    "Host": "broker",
    "ProviderName": "ActiveMQ",
    "ProviderVersion": "5.17.2",
    "PlatformDetails": "Java",
}


def info(properties: Mapping[str, Value] | None, version: int = 12) -> WireFormatInfo:
    marshalled = None if properties is None else encode_map(properties)
    return WireFormatInfo(version=version, marshalled_properties=marshalled)


def with_java(wants: Preferences, **changes: Value) -> Agreement:
    return negotiate(wants, info(JAVA_5_17 | changes))


def flags_of(agreement: Agreement) -> dict[str, bool]:
    wire_format = agreement.wire_format
    return {
        "TightEncodingEnabled": wire_format.tight,
        "CacheEnabled": wire_format.cache_size is not None,
        "StackTraceEnabled": wire_format.stack_traces,
        "TcpNoDelayEnabled": agreement.tcp_no_delay,
        "SizePrefixDisabled": not wire_format.size_prefix,
    }


# --- version -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ours", "theirs", "agreed"),
    [
        (12, 12, 12),
        (12, 13, 12),
        (12, 2**31 - 1, 12),
        (12, 11, 11),
        (12, 1, 1),
        (9, 12, 9),
        (12, 0, 12),
        (5, 0, 5),
        (12, -1, 12),
        (12, -(2**31), 12),
        (1, 1, 1),
    ],
)
def test_version_is_the_smaller_one_and_nothing_below_1_counts(ours: int, theirs: int, agreed: int) -> None:
    assert negotiate(Preferences(version=ours), info({}, theirs)).wire_format.version == agreed


# --- switches ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", FLAGS)
@pytest.mark.parametrize("ours", [True, False])
@pytest.mark.parametrize("theirs", [True, False, None])
def test_switch_is_on_if_both_sides_turn_it_on(key: str, ours: bool, theirs: bool | None) -> None:
    wants = Preferences(
        tight=ours, cache=ours, stack_traces=ours, tcp_no_delay=ours, size_prefix_disabled=ours
    )  # fmt: skip
    assert flags_of(negotiate(wants, info({key: theirs})))[key] is (ours and theirs is True)


def test_each_switch_stands_alone() -> None:
    for key in FLAGS:
        on = [name for name, value in flags_of(negotiate(EVERYTHING, info({key: True}))).items() if value]
        assert on == [key]


def test_default_server_and_java_client_speak_loose_without_cache() -> None:
    assert with_java(Preferences()).wire_format == WireFormat(version=12)


def test_server_that_wants_everything_and_java_client_speak_tight_with_cache() -> None:
    agreement = with_java(EVERYTHING)
    assert agreement.wire_format == WireFormat(version=12, tight=True, cache_size=1024, stack_traces=True)
    assert agreement.tcp_no_delay


# --- cache size ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ours", "theirs", "agreed"), [(1024, 1024, 1024), (1024, 500, 500), (100, 1024, 100), (0, 1024, 0), (1024, 0, 0)]
)
def test_cache_size_is_the_smaller_one_while_the_cache_is_on(ours: int, theirs: int, agreed: int) -> None:
    assert with_java(Preferences(cache=True, cache_size=ours), CacheSize=Int(theirs)).wire_format.cache_size == agreed


def test_cache_size_absent_counts_as_0() -> None:
    assert negotiate(EVERYTHING, info({"CacheEnabled": True})).wire_format.cache_size == 0


@pytest.mark.parametrize(("ours", "theirs"), [(False, True), (True, False), (False, False)])
def test_cache_size_means_nothing_while_the_cache_is_off(ours: bool, theirs: bool) -> None:
    assert with_java(Preferences(cache=ours), CacheEnabled=theirs).wire_format.cache_size is None


# --- frame size ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("theirs", "agreed"), [(2**63 - 1, 5000), (5001, 5000), (4999, 4999), (0, 5000), (-1, 5000), (-(2**63), 5000)]
)
def test_frame_size_is_the_smaller_one_and_nothing_below_1_counts(theirs: int, agreed: int) -> None:
    assert with_java(Preferences(frame_bytes_max=5000), MaxFrameSize=Long(theirs)).frame_bytes_max == agreed


def test_frame_size_absent_leaves_ours() -> None:
    assert negotiate(Preferences(frame_bytes_max=5000), info({})).frame_bytes_max == 5000


# --- inactivity ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ours", "theirs", "agreed"),
    [
        (30_000, 30_000, 30_000),
        (30_000, 3000, 3000),
        (3000, 30_000, 3000),
        (0, 30_000, 0),
        (30_000, 0, 0),
        (30_000, -1, 0),
    ],
)
def test_inactivity_times_are_the_smaller_ones_and_0_turns_the_monitor_off(ours: int, theirs: int, agreed: int) -> None:
    wants = Preferences(inactivity_ms=ours, inactivity_initial_delay_ms=ours)
    agreement = with_java(
        wants, MaxInactivityDuration=Long(theirs), MaxInactivityDurationInitalDelay=Long(theirs)
    )  # fmt: skip
    assert agreement.inactivity_ms == agreed
    assert agreement.inactivity_initial_delay_ms == agreed


@pytest.mark.parametrize("properties", [None, {}])
def test_peer_without_properties_gets_the_plainest_format_and_no_monitor(properties: dict[str, Value] | None) -> None:
    agreement = negotiate(EVERYTHING, info(properties))
    assert not any(flags_of(agreement).values())
    assert agreement.wire_format == WireFormat(version=12)
    assert agreement.inactivity_ms == 0
    assert agreement.inactivity_initial_delay_ms == 0


# --- what is refused -----------------------------------------------------------------------------------


def test_bad_magic_is_refused() -> None:
    with pytest.raises(RemoteProtocolError, match="magic"):
        negotiate(Preferences(), WireFormatInfo(magic=b"PassiveM", version=12))


@pytest.mark.parametrize("key", FLAGS)
@pytest.mark.parametrize("value", ["true", Int(1), Long(1), 1.0, b"\1"])
def test_switch_of_another_type_is_refused(key: str, value: Value) -> None:
    with pytest.raises(RemoteProtocolError, match=f"{key} in WireFormatInfo is a .*, not a boolean"):
        with_java(EVERYTHING, **{key: value})


@pytest.mark.parametrize(
    "key", ["CacheSize", "MaxFrameSize", "MaxInactivityDuration", "MaxInactivityDurationInitalDelay"]
)
@pytest.mark.parametrize("value", ["30000", True, 1.5, Float(1.5), b"\1"])
def test_number_of_another_type_is_refused(key: str, value: Value) -> None:
    with pytest.raises(RemoteProtocolError, match=f"{key} in WireFormatInfo is a .*, not a whole number"):
        with_java(EVERYTHING, **{key: value})


@pytest.mark.parametrize("key", ["CacheSize", "MaxFrameSize", "MaxInactivityDuration", *FLAGS])
def test_null_counts_as_absent(key: str) -> None:
    absent = {name: value for name, value in JAVA_5_17.items() if name != key}
    assert with_java(EVERYTHING, **{key: None}) == negotiate(EVERYTHING, info(absent))


@pytest.mark.parametrize(
    "properties",
    [
        pytest.param(b"\0", id="cut off"),
        pytest.param(b"\xff\xff\xff\x00", id="negative count"),
        pytest.param(b"\x7f\xff\xff\xff", id="huge count"),
        pytest.param(encode_map({}) + b"\0", id="something behind it"),
        pytest.param(encode_map({f"key {n}": True for n in range(4097)}), id="too many entries"),
        pytest.param(encode_map({"a": {"b": {"c": True}}}), id="nested"),
    ],
)
def test_properties_that_are_no_proper_map_are_refused(properties: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        negotiate(Preferences(), WireFormatInfo(version=12, marshalled_properties=properties))


def test_4096_properties_are_taken() -> None:
    assert negotiate(Preferences(), info({f"key {n}": True for n in range(4096)})).wire_format == WireFormat()


# --- the rest ------------------------------------------------------------------------------------------


def test_what_the_peer_says_about_itself_is_kept_short() -> None:
    assert with_java(Preferences()).peer == "ActiveMQ 5.17.2 Java"
    assert len(with_java(Preferences(), ProviderName="x" * 10_000).peer) < 200
    assert with_java(Preferences(), ProviderName=Int(5)).peer == "5.17.2 Java"


def test_offer_has_the_types_that_java_casts_to() -> None:
    sent = offer(Preferences(version=11, provider_version="0.1"))
    assert sent.version == 11
    assert sent.marshalled_properties is not None
    properties = decode_map(sent.marshalled_properties)
    assert {key: type(value) for key, value in properties.items()} == {
        "TightEncodingEnabled": bool,
        "CacheEnabled": bool,
        "CacheSize": Int,
        "StackTraceEnabled": bool,
        "TcpNoDelayEnabled": bool,
        "SizePrefixDisabled": bool,
        "MaxFrameSize": Long,
        "MaxFrameSizeEnabled": bool,
        "MaxInactivityDuration": Long,
        "MaxInactivityDurationInitalDelay": Long,
        "ProviderName": str,
        "ProviderVersion": str,
        "PlatformDetails": str,
    }


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (Preferences(), EVERYTHING),
        (EVERYTHING, EVERYTHING),
        (EVERYTHING, Preferences(version=3, tight=True, inactivity_ms=500)),
        (Preferences(version=9, cache=True, cache_size=200), Preferences(cache=True, frame_bytes_max=70_000)),
    ],
)
def test_both_sides_come_to_the_same_result(one: Preferences, other: Preferences) -> None:
    assert negotiate(one, offer(other)) == negotiate(other, offer(one))
