"""Which protocols a listener speaks, and how a package adds one (J1)."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from ackwire.config.listener_uri import parse_listener_uri
from ackwire.errors import ConfigError, RemoteProtocolError
from ackwire.server.adapters.contract import ProtocolFactory
from ackwire.server.protocols import BUILT_IN, installed_protocols, served_by
from ackwire.wire.detect import FIRST_BYTES_MAX, detect
from ackwire.wire.openwire.negotiation import Preferences
from ackwire.wire.openwire.protocol import OpenWireProtocol
from tests.helpers.line_protocol import LINE
from tests.helpers.plugins import LINE_PLUGIN, install_protocol

OPENWIRE = b"".join(OpenWireProtocol(Preferences()).data_to_send())
BOTH: Sequence[ProtocolFactory] = (*BUILT_IN, LINE)


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install_protocol(tmp_path, "line", LINE_PLUGIN)
    monkeypatch.syspath_prepend(tmp_path)


def test_J1_without_plugins_there_is_openwire_alone() -> None:
    assert installed_protocols() == BUILT_IN
    assert [factory.name for factory in BUILT_IN] == ["OpenWire"]


@pytest.mark.usefixtures("plugin")
def test_J1_a_plugin_adds_a_protocol_and_its_schemes() -> None:
    assert installed_protocols() == BOTH
    for scheme in ("line", "line+nio"):
        uri = parse_listener_uri(f"{scheme}://127.0.0.1:0")
        assert served_by(uri, BOTH) == (LINE,)
        assert not uri.auto


@pytest.mark.usefixtures("plugin")
def test_J1_an_auto_listener_speaks_all_and_others_one() -> None:
    assert served_by(parse_listener_uri("auto://127.0.0.1:0"), BOTH) == BOTH
    for scheme in ("tcp", "nio"):
        assert served_by(parse_listener_uri(f"{scheme}://127.0.0.1:0"), BOTH) == BUILT_IN


def test_J1_an_unknown_scheme_is_an_error_that_names_those_of_plugins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ConfigError, match='unknown scheme "line"'):
        parse_listener_uri("line://127.0.0.1:0")
    install_protocol(tmp_path, "line", LINE_PLUGIN)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ConfigError, match=r'unknown scheme "lines"; did you mean "line"\?; known schemes: tcp, .*line'):
        parse_listener_uri("lines://127.0.0.1:0")


@pytest.mark.usefixtures("plugin")
def test_J1_options_of_openwire_are_refused_for_another_protocol() -> None:
    with pytest.raises(ConfigError, match=r"wireFormat\.cacheSize is not used by line listeners"):
        parse_listener_uri("line://127.0.0.1:0?wireFormat.cacheSize=1024")


@pytest.mark.parametrize(
    ("scheme", "value", "said"),
    [
        ("line", "no.such.module:LINE", "no.such.module:LINE for the protocol line cannot be used"),
        ("line", "tests.helpers.line_protocol:LINE_BYTES_MAX", "cannot be used"),
        ("other", LINE_PLUGIN, "is for other://, and its factory says line://"),
        ("tcp", LINE_PLUGIN, "adds the protocol tcp, which is a scheme of this broker"),
    ],
)
def test_J1_a_plugin_that_cannot_be_used_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scheme: str, value: str, said: str
) -> None:
    install_protocol(tmp_path, scheme, value)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ConfigError, match=said):
        installed_protocols()


@pytest.mark.parametrize(("first_bytes", "index"), [(OPENWIRE, 0), (b"LINE client\n", 1)])
def test_J1_the_first_bytes_decide_however_they_arrive(first_bytes: bytes, index: int) -> None:
    seen = [detect(first_bytes[:length], BOTH) for length in range(1, len(first_bytes) + 1)]
    decided = next(place for place, factory in enumerate(seen) if factory is not None)
    assert seen[:decided] == [None] * decided
    assert set(seen[decided:]) == {BOTH[index]}
    assert decided < FIRST_BYTES_MAX


def test_J1_bytes_of_no_protocol_are_refused() -> None:
    with pytest.raises(RemoteProtocolError, match="belong to no known protocol"):
        detect(b"LINO client\n", BOTH)


class _Undecided:
    name = "undecided"

    def recognises(self, first_bytes: bytes) -> bool | None:
        del first_bytes
        return None


def test_J1_a_protocol_that_does_not_decide_is_not_waited_for_without_end() -> None:
    assert detect(bytes(FIRST_BYTES_MAX - 1), [_Undecided()]) is None
    with pytest.raises(RemoteProtocolError, match="belong to no known protocol"):
        detect(bytes(FIRST_BYTES_MAX), [_Undecided()])
