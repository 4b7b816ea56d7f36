"""The token file, and what a request must carry."""

import os
import stat
from pathlib import Path

import pytest

from ackwire.admin.tokens import is_authorised, load_token, token_path
from ackwire.config import Settings, with_setting
from ackwire.errors import ConfigError


def test_token_is_made_once_and_only_its_owner_can_read_it(tmp_path: Path) -> None:
    path = tmp_path / "data" / "http.token"
    token = load_token(path)
    assert len(token) >= 43
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert load_token(path) == token
    assert [entry.name for entry in path.parent.iterdir()] == ["http.token"]


def test_token_never_gets_into_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    token = load_token(tmp_path / "http.token")
    assert str(tmp_path / "http.token") in caplog.text
    assert token.decode() not in caplog.text


def test_token_file_of_the_operator_is_used_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("  0123456789abcdef\n")
    (tmp_path / "mine").chmod(0o600)
    assert load_token(tmp_path / "mine") == b"0123456789abcdef"


def test_token_file_that_others_can_read_is_warned_about(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "mine").write_text("0123456789abcdef")
    (tmp_path / "mine").chmod(0o644)
    load_token(tmp_path / "mine")
    assert "can be read by others" in caplog.text


@pytest.mark.parametrize("content", [b"", b"short", b"two words, which are long enough", b"\xff" * 20, b"x" * 5000])
def test_file_without_a_usable_token_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "bad").write_bytes(content)
    with pytest.raises(ConfigError, match=r"bad holds no token.*delete the file"):
        load_token(tmp_path / "bad")


def test_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    os.mkdir(tmp_path / "folder")
    with pytest.raises(ConfigError, match="folder cannot be used"):
        load_token(tmp_path / "folder")


def test_token_is_in_the_data_directory_unless_a_setting_says_otherwise() -> None:
    settings = with_setting(Settings(), "store", "data", "/srv/broker")
    assert token_path(settings) == Path("/srv/broker/http.token")
    assert token_path(with_setting(settings, "http", "token_file", "/run/token")) == Path("/run/token")


@pytest.mark.parametrize(
    ("header", "good"),
    [
        (b"Bearer sesame", True),
        (b"bearer   sesame ", True),
        (b"Bearer sesam", False),
        (b"Bearer sesamee", False),
        (b"Bearer", False),
        (b"Basic sesame", False),
        (b"sesame", False),
        (b"Bearer \xff\xfe", False),
        (b"", False),
    ],
)
def test_only_the_whole_token_is_good(header: bytes, good: bool) -> None:
    assert is_authorised(header, b"sesame") is good
