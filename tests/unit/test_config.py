"""Settings: what a file may say, what is said about its mistakes, and the file that explains itself."""

import tomllib
from dataclasses import fields, replace
from pathlib import Path

import hypothesis
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ackwire.config import (
    MIB,
    ConnectionSettings,
    HandshakeSettings,
    ListenSettings,
    Problem,
    Settings,
    StoreSettings,
    load,
    problems,
    render,
    with_setting,
)
from ackwire.config.fields import Option
from ackwire.config.policy import DestinationPolicy
from ackwire.config.settings import TABLES
from ackwire.config.types import Bytes, Factor, Number, Seconds
from ackwire.errors import ConfigError


def only_problem(text: str) -> Problem:
    (problem,) = problems(text)
    return problem


def loaded(tmp_path: Path, text: str) -> Settings:
    (tmp_path / "ackwire.toml").write_text(text)
    return load(tmp_path / "ackwire.toml")


def every_setting() -> list[tuple[str, str, Option, object]]:
    return [
        (table, key.name, key.metadata["option"], key.default)
        for table, section in {**TABLES, "policy": DestinationPolicy}.items()
        for key in fields(section)
    ]


# --- the declarations ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("table", "key", "option", "default"), every_setting())
def test_every_setting_has_a_reason_and_a_default_within_its_range(
    table: str, key: str, option: Option, default: object
) -> None:
    assert option.reason.endswith("."), f"{table}.{key}"
    if isinstance(default, int | float) and isinstance(option.type, Number | Factor | Seconds | Bytes):
        assert option.type.lowest <= default <= option.type.highest


@pytest.mark.parametrize(("table", "key", "option", "default"), every_setting())
def test_names_end_in_their_unit(table: str, key: str, option: Option, default: object) -> None:
    base = key.removesuffix("_max").removesuffix("_min")
    assert base.endswith("_seconds") is isinstance(option.type, Seconds), f"{table}.{key} = {default}"
    assert base.endswith("_bytes") is isinstance(option.type, Bytes), f"{table}.{key} = {default}"


def test_default_settings_listen_on_loopback_only() -> None:
    assert Settings().listen.uris == ("tcp://127.0.0.1:61616",)


def test_settings_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        Settings().broker.name = "other"  # type: ignore[misc]


# --- loading -------------------------------------------------------------------------------------------


def test_empty_file_means_the_defaults(tmp_path: Path) -> None:
    assert loaded(tmp_path, "") == Settings()


def test_values_of_a_file_replace_defaults_and_leave_the_rest(tmp_path: Path) -> None:
    settings = loaded(
        tmp_path,
        '[listen]\nuris = ["tcp://0.0.0.0:0", "auto://[::1]:1"]\n[store]\ndata = "/srv/ackwire"\n'
        '[handshake]\nlogin_timeout_seconds = "90 s"\n[log]\nformat = "json"\n',
    )
    assert settings.listen.uris == ("tcp://0.0.0.0:0", "auto://[::1]:1")
    assert settings.store == StoreSettings(data="/srv/ackwire")
    assert settings.handshake == HandshakeSettings(login_timeout_seconds=90.0)
    assert settings.log.format == "json"
    assert settings.connection == ConnectionSettings()


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ('"30 s"', 30),
        ('"500 ms"', 0.5),
        ('"2min"', 120),
        ('"1 h"', 3600),
        ("45", 45),
        ("1.5", 1.5),
        ('" 70 ms "', 0.07),
    ],
)
def test_durations_have_units_or_are_seconds(tmp_path: Path, text: str, seconds: float) -> None:
    settings = loaded(tmp_path, f"[shutdown]\ndrain_timeout_seconds = {text}")
    assert settings.shutdown.drain_timeout_seconds == seconds
    assert isinstance(settings.shutdown.drain_timeout_seconds, float)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ('"100 MiB"', 100 * MIB),
        ('"1 GB"', 10**9),
        ('"1GiB"', 2**30),
        ('"1.5 MiB"', 1_572_864),
        ('"70000 B"', 70_000),
        ('"128 KB"', 128_000),
        ("65_536", 65_536),
    ],
)
def test_sizes_have_units_or_are_bytes(tmp_path: Path, text: str, size: int) -> None:
    settings = loaded(tmp_path, f"[wire]\nframe_bytes_max = {text}")
    assert settings.wire.frame_bytes_max == size
    assert isinstance(settings.wire.frame_bytes_max, int)


def test_load_names_file_line_and_first_problem_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        loaded(tmp_path, '[broker]\nname = 1\n[log]\nlevel = "loud"\n')
    message = str(caught.value)
    assert message.startswith(f"{tmp_path}/ackwire.toml:2: broker.name: must be text, and is 1 (and 1 more: ")
    assert "\n" not in message


def test_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.toml: cannot be read: no such file"):
        load(tmp_path / "none.toml")
    with pytest.raises(ConfigError, match="cannot be read: is a directory"):
        load(tmp_path)


def test_file_that_is_not_utf8_is_named_with_the_line(tmp_path: Path) -> None:
    (tmp_path / "latin.toml").write_bytes(b'[broker]\nname = "caf\xe9"\n')
    with pytest.raises(ConfigError, match=r"latin\.toml:2: not UTF-8"):
        load(tmp_path / "latin.toml")


def test_byte_order_mark_and_windows_line_ends_do_no_harm(tmp_path: Path) -> None:
    (tmp_path / "windows.toml").write_bytes(b'\xef\xbb\xbf[broker]\r\nname = "x"\r\n')
    assert load(tmp_path / "windows.toml").broker.name == "x"


# --- problems ------------------------------------------------------------------------------------------


def test_every_problem_is_named_with_its_line() -> None:
    text = """\
nmae = "x"
[broker]
name = ""
nickname = "y"

[conection]
sessions_max = 1

[connection]
sessions_max = 0
producers_max = "many"
read_pause_bytes = "4 Mib"  # wrong case
[listen]
uris = [
  "tcp://127.0.0.1:61616",   # fine
  "tpc://localhost",
  "tcp://localhost?keyFile=x", 5 ]
"""
    assert [(problem.line, problem.key) for problem in problems(text)] == [
        (1, "nmae"),
        (3, "broker.name"),
        (4, "broker.nickname"),
        (6, "conection"),
        (10, "connection.sessions_max"),
        (11, "connection.producers_max"),
        (12, "connection.read_pause_bytes"),
        (16, "listen.uris[1]"),
        (17, "listen.uris[2]"),
        (17, "listen.uris[3]"),
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[conection]\n", 'unknown table; did you mean "connection"?'),
        ("[zzz]\n", "unknown table; known tables: broker, listen, store, "),
        ("[handshake]\nlogin_timeout = 1\n", 'did you mean "login_timeout_seconds"?'),
        ("[handshake]\nsessions_max = 1\n", "it belongs into [connection]"),
        ("[shutdown]\nzzz = 1\n", "known in [shutdown]: drain_timeout_seconds"),
        ("name = 1\n", "it belongs into [broker]"),
        ("zzz = 1\n", "settings stand in tables"),
        ("broker = 1\n", "must be a table: [broker]"),
        ("[[broker]]\n", "must be a table: [broker]"),
        ("[policy]\n", "must be written [[policy]], a table for each pattern"),
        ("policy = [1]\n", "must be a table: [[policy]]"),
        ("[[polices]]\n", 'unknown table; did you mean "policy"?'),
        ("[[policy]]\nprefetch = 1\n", 'did you mean "prefetch_max"?'),
        ("[[policy]]\nsessions_max = 1\n", "it belongs into [connection]"),
        ("[log]\neviction = 'oldest'\n", "it belongs into [[policy]]"),
        ("[[policy]]\nzzz = 1\n", "known in [[policy]]: match, prefetch_max, "),
    ],
)
def test_unknown_names_get_a_suggestion(text: str, message: str) -> None:
    assert message in only_problem(text).message


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("wire.nesting_max = true", "must be a whole number from 1 to 100, and is true"),
        ("wire.nesting_max = 3.0", "must be a whole number from 1 to 100, and is 3.0"),
        ("wire.nesting_max = '3'", 'must be a whole number from 1 to 100, and is "3"'),
        ("wire.nesting_max = 101", "must be a whole number from 1 to 100, and is 101"),
        pytest.param("wire.nesting_max = 0x" + "f" * 9000, "and is a very long number", id="long number"),
        ("wire.frame_bytes_max = 1.5", "must be from 64 KiB to 2147483647 B, and is 1.5"),
        ("wire.frame_bytes_max = 70000.5", "must be a whole number of bytes, and is 70000.5"),
        ("wire.frame_bytes_max = '70000.5 B'", "must be a whole number of bytes"),
        ("wire.frame_bytes_max = '3 GiB'", 'must be from 64 KiB to 2147483647 B, and is "3 GiB"'),
        ("wire.frame_bytes_max = '64 kib'", 'unknown unit "kib" in "64 kib"; known units: B, KB, MB'),
        ("wire.frame_bytes_max = '70000'", 'unit is missing in "70000"; known units: B, KB, MB'),
        ("wire.frame_bytes_max = 'lots'", 'or text with a unit like "64 KiB" or "100 MiB", and is "lots"'),
        ("wire.frame_bytes_max = []", "must be a number of bytes"),
        ("wire.frame_bytes_max = {}", "and is a table"),
        ("shutdown.drain_timeout_seconds = -1", "must be from 0 s to 1 h, and is -1"),
        ("shutdown.drain_timeout_seconds = '-1 ms'", "must be from 0 s to 1 h"),
        ("shutdown.drain_timeout_seconds = nan", "must be from 0 s to 1 h, and is nan"),
        ("shutdown.drain_timeout_seconds = inf", "must be from 0 s to 1 h, and is inf"),
        ("shutdown.drain_timeout_seconds = '1 KiB'", 'unknown unit "KiB"'),
        ("shutdown.drain_timeout_seconds = 2026-11-15", "must be a number of seconds"),
        ("handshake.login_timeout_seconds = '50 ms'", 'must be from 100 ms to 1 h, and is "50 ms"'),
        ("log.level = 'loud'", 'must be "debug" or "info" or "warning" or "error", and is "loud"'),
        ("log.format = 1", 'must be "text" or "json", and is 1'),
        (
            "store.kind = 'kahadb'",
            'must be "journal", "replicated", "memory" or the URI of a database, and is "kahadb"',
        ),
        ("store.kind = 'postgres://a@b/c'", 'did you mean "postgresql"?'),
        ("store.kind = 'postgresql://a@b/c?password=secret'", "with ?password_file="),
        ("store.kind = 'postgresql://a@b'", "a URI like postgresql://user@host/database is needed"),
        ("sql.table_prefix = 'a b'", 'must begin with a letter and have letters, digits and "_" only'),
        ("store.data = ''", "must be printable text"),
        ('broker.name = "a\\nb"', 'must be printable text, and is "a\\nb"'),
        pytest.param(f"broker.name = '{'x' * 256}'", "must have at most 255 characters, and has 256", id="long name"),
        ("listen.uris = 'tcp://localhost'", 'must be a list like ["tcp://127.0.0.1:61616"]'),
        ("listen.uris = []", "must list from 1 to 64 URIs, and lists 0"),
        ("http.listen = 8161", "must be text, and is 8161"),
        ("http.listen = '8161'", "the port is missing"),
        ("http.listen = 'http://h:1'", "is no address like 127.0.0.1:8161"),
        ("http.listen = 'h:65536'", "the port must be a number from 0 to 65535"),
        ("http.listen = ':1'", "the host is missing"),
        ("http.listen = 'a b:1'", '"a b" is not a host name'),
        ("http.listen = 'u@h:1'", "a host and a port and nothing else"),
        ("http.listen = 'h:1/path'", "a host and a port and nothing else"),
        ("http.listen = '[::1:1'", "is no address"),
        ("http.token_file = 1", "must be text, and is 1"),
        ("listen.uris = [1]", 'must be text like "tcp://127.0.0.1:61616", and is 1'),
        ("listen.uris = ['tcp://h?wireFormat.cacheSize=5']", "must be 0 or from 100 to 16383"),
    ],
)
def test_wrong_values_are_told_what_they_must_be(setting: str, message: str) -> None:
    assert message in only_problem(setting).message


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("[broker]\nname = \n", 2),
        ("[broker]\nname = 'x", 2),
        ('[listen]\nuris = [\n"a"\n\n', 3),
        ("[broker]\n[broker]\n", 2),
        ("[broker]\nname = 'a'\nname = 'b'\n", 3),
        ("\n\n= 3", 3),
        pytest.param("x = " + "[" * 100_000, 1, id="nested too deeply"),
        pytest.param("x = " + "9" * 5000, 1, id="too long a number"),
    ],
)
def test_what_is_not_toml_is_named_with_its_line(text: str, line: int) -> None:
    problem = only_problem(text)
    assert (problem.line, problem.key) == (line, "")
    assert "not TOML" in problem.message
    assert "\n" not in str(problem)


@pytest.mark.parametrize("address", ["", "127.0.0.1:8161", "[::1]:0", "broker.example:80"])
def test_http_port_is_an_address_or_off(tmp_path: Path, address: str) -> None:
    assert loaded(tmp_path, f'[http]\nlisten = "{address}"').http.listen == address


def test_limits_that_contradict_each_other_are_named() -> None:
    assert only_problem("[connection]\nwrite_pause_bytes = '8 MiB'\n") == Problem(
        2, "connection.write_pause_bytes", "must be at most read_pause_bytes = 4 MiB"
    )
    assert only_problem("[handshake]\n\nlogin_timeout_seconds = 5\n") == Problem(
        3, "handshake.login_timeout_seconds", "must be at least wire_format_timeout_seconds = 10 s"
    )
    assert problems("[handshake]\nwire_format_timeout_seconds = 90\nlogin_timeout_seconds = 91\n") == []


def test_key_with_control_characters_stays_one_printable_line() -> None:
    assert str(only_problem('[broker]\n"a\\nb\\u001b" = 1\n')).isprintable()


@pytest.mark.parametrize(
    "text",
    [
        "# [wire]\nwire.nesting_max = 0 # here is line 2",
        "[ wire ]\nnesting_max = 0",
        "wire = {map_entries_max = 1, nesting_max = 0}".replace("wire", "\nwire", 1),
        "\n'wire'.\"nesting_max\" = 0",
        '\n"\\u0077ire" . nesting_max = 0',
    ],
)
def test_lines_are_found_however_the_key_is_written(text: str) -> None:
    found = [problem for problem in problems(text) if problem.key == "wire.nesting_max"]
    assert [problem.line for problem in found] == [2]


def test_lines_are_found_after_every_kind_of_value() -> None:
    text = """\
[zzz]
a = [ [1, 2], ["]", ']', '''
]'''], # ]
  { x = "}", y = [ '}' ] } ]
b = 1979-05-27 07:32:00
c = "say \\"hi\\" # no comment"
d = QQQ
[wire]
nesting_max = 0 \\QQQ QQQQQ
[[yyy.deep]]
[wire]
nesting_max = 0
"""
    text = text.replace("Q", '"')
    tomllib.loads(text)
    assert [(p.line, p.key) for p in problems(text)] == [(1, "zzz"), (10, "yyy"), (12, "wire.nesting_max")]


# --- writing -------------------------------------------------------------------------------------------


def test_rendered_defaults_are_a_file_that_passes_and_says_the_same(tmp_path: Path) -> None:
    assert problems(render(Settings())) == []
    assert loaded(tmp_path, render(Settings())) == Settings()


def test_rendered_file_gives_unit_default_range_and_reason_of_each_setting() -> None:
    text = render(Settings())
    assert (
        "The Java client sends it lazily, at start()\n"
        "# or createSession(), so a short limit would break programs that work with ActiveMQ.\n"
        "# Default: 60 s; range: 100 ms to 1 h; unit of a plain number: seconds.\n"
        'login_timeout_seconds = "60 s"\n'
    ) in text
    for table, key, _, _ in every_setting():
        assert f"[{table}]" in text
        assert f"\n{key} = " in text or f"\n# {key} = " in text


@hypothesis.settings(max_examples=30, deadline=None)
@given(
    name=st.text(st.sampled_from("aZ09 \"'\\#[]{}=é日😀"), min_size=1, max_size=30),
    data=st.sampled_from(["/srv/a b", 'C:\\x"y', "ünï"]),
    timeout=st.just(0.0) | st.floats(min_value=1e-6, max_value=3600),
    size=st.integers(64 * 1024, 2**31 - 1),
    count=st.integers(1, 100),
)
def test_any_settings_survive_writing_and_reading(name: str, data: str, timeout: float, size: int, count: int) -> None:
    settings = Settings()
    settings = replace(
        settings,
        broker=replace(settings.broker, name=name),
        listen=ListenSettings(("tcp://localhost:1", "ssl://[::1]?certFile=a%20b")),
        store=StoreSettings(data=data),
        wire=replace(settings.wire, frame_bytes_max=size, nesting_max=count),
        shutdown=replace(settings.shutdown, drain_timeout_seconds=timeout),
    )
    text = render(settings)
    assert problems(text) == []
    # Through tomllib and with_setting, the way a file goes, without writing one for each example.
    again = Settings()
    assert "policy" not in tomllib.loads(text)
    for table, values in tomllib.loads(text).items():
        for key, value in values.items():
            again = with_setting(again, table, key, value)
    assert again == settings


def test_single_setting_is_replaced_only_if_it_can_be_used() -> None:
    assert with_setting(Settings(), "log", "format", "json").log.format == "json"
    assert with_setting(Settings(), "listen", "uris", ["nio://h:1"]).listen.uris == ("nio://h:1",)
    with pytest.raises(ConfigError, match='must be "text" or "json"'):
        with_setting(Settings(), "log", "format", "xml")
