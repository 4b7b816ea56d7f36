"""The command line, in process: what it prints, and with which exit code it ends."""

import asyncio
import logging
import os
import platform
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import pytest

import ackwire
from ackwire.cli import serve
from ackwire.cli.main import main
from ackwire.config import Settings, load
from ackwire.errors import ConfigError
from ackwire.util.clock import ManualClock
from tests.helpers.compilation import IS_COMPILED


class Outcome(NamedTuple):
    code: int
    out: str
    err: str


Run = Callable[..., Outcome]
Ready = Callable[[object], None]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    def run_main(*arguments: str) -> Outcome:
        try:
            code = main(arguments)
        except SystemExit as exit_:
            code = int(exit_.code or 0)
        captured = capsys.readouterr()
        return Outcome(code, captured.out, captured.err)

    return run_main


@pytest.fixture(autouse=True)
def root_logger_as_before() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


def assert_one_line(outcome: Outcome, said: str) -> None:
    assert outcome.code == 2
    assert outcome.out == ""
    assert outcome.err.count("\n") == 1
    assert outcome.err.startswith("ackwire")
    assert said in outcome.err


# --- help and version ----------------------------------------------------------------------------------


@pytest.mark.parametrize("argument", ["version", "--version"])
def test_version_names_ackwire_and_python(run: Run, argument: str) -> None:
    expected = f"ackwire {ackwire.__version__}, Python {platform.python_version()}\n"
    assert run(argument) == Outcome(0, expected, "")


def test_help_lists_the_commands_with_examples(run: Run) -> None:
    outcome = run("--help")
    assert outcome.code == 0
    for word in ("serve", "config", "version", "examples:", "ackwire config check ackwire.toml"):
        assert word in outcome.out


@pytest.mark.parametrize("command", [("serve",), ("config",), ("config", "check"), ("config", "show")])
def test_every_command_explains_itself(run: Run, command: tuple[str, ...]) -> None:
    outcome = run(*command, "--help")
    assert outcome.code == 0
    assert outcome.out.startswith(f"usage: ackwire {' '.join(command)} ")


# --- mistakes ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "required: COMMAND (see ackwire --help)"),
        (("sreve",), "'sreve'"),
        (("serve", "--frobnicate"), "unrecognized arguments: --frobnicate"),
        (("serve", "--list", "tcp://localhost"), "unrecognized arguments: --list"),
        (("serve", "--listen"), "--listen: expected one argument (see ackwire serve --help)"),
        (("serve", "--listen", "tpc://localhost"), '--listen: tpc://localhost: unknown scheme "tpc"'),
        (("serve", "--listen", "tcp://localhost?keyFile=x"), "keyFile is not used by tcp listeners"),
        (("serve", "--listen", "ssl://localhost"), "needs the option certFile"),
        (
            ("serve", "--store", "kahadb"),
            '--store: must be "journal", "replicated", "memory" or the URI of a database, and is "kahadb"',
        ),
        (("serve", "--log-format", "xml"), '--log-format: must be "text" or "json", and is "xml"'),
        (("serve", "--log-level", "loud"), '--log-level: must be "debug" or "info"'),
        (("serve", "--data", ""), "--data: must be printable text"),
        (("serve", "--config", "/nowhere/x.toml"), "/nowhere/x.toml: cannot be read: no such file"),
        (("config", "show", "--listen", "tcp://:1"), "host is missing"),
        (("config", "check", "/nowhere/x.toml"), "/nowhere/x.toml: cannot be read: no such file"),
        (("config", "check"), "there is no ackwire.toml here; name the file to check"),
        (
            ("browse", "nowhere", "q"),
            '"nowhere" is no broker URL like tcp://host:port, and there is no ackwire.toml here',
        ),
        (("audit", "run", "/nowhere", "--out", "x"), "/nowhere is not a directory; give the one that"),
        (("serve", "a\nb"), r"unrecognized arguments: a\nb"),
    ],
)
def test_mistake_on_the_command_line_is_one_line_and_exit_code_2(
    run: Run, arguments: tuple[str, ...], said: str
) -> None:
    assert_one_line(run(*arguments), said)


@pytest.mark.parametrize(("package", "extra"), [("lmdb", "broker"), ("h11", "http"), ("pyspark", "spark")])
def test_missing_package_is_told_with_the_extra_that_brings_it(
    run: Run, replace_app: Callable[[object], None], package: str, extra: str
) -> None:
    async def missing(*_: object, **__: object) -> None:
        raise ModuleNotFoundError(f"No module named {package!r}", name=package)

    replace_app(missing)
    assert_one_line(run("serve"), f"{package} is not installed: pip install 'ackwire[{extra}]'")


def test_mistake_in_the_file_is_one_line_that_says_where_and_how_to_see_the_rest(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "bad.toml"
    file.write_text('[log]\nlevel = "loud"\nformat = "xml"\n')
    assert_one_line(run("serve", "--config", str(file)), f"{file}:2: log.level: must be ")
    assert_one_line(run("serve", "--config", str(file)), f"(and 1 more: ackwire config check {file})")


# --- config --------------------------------------------------------------------------------------------


def test_config_check_says_ok(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "good.toml"
    file.write_text('[broker]\nname = "mine"\n')
    assert run("config", "check", str(file)) == Outcome(0, f"{file}: ok\n", "")


def test_config_check_names_each_problem_with_its_line(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "bad.toml"
    file.write_text('[log]\nlevle = "info"\n\n[listen]\nuris = [\n  "tpc://localhost",\n]\n')
    outcome = run("config", "check", str(file))
    assert outcome.code == 2
    first, second = outcome.err.splitlines()
    assert first == f'{file}:2: log.levle: unknown setting; did you mean "level"?'
    assert second.startswith(f'{file}:6: listen.uris[0]: tpc://localhost: unknown scheme "tpc"')


def test_config_check_names_the_line_of_a_syntax_error(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "bad.toml"
    file.write_text("[log]\nlevel = loud\n")
    outcome = run("config", "check", str(file))
    assert outcome == Outcome(2, "", f"{file}:2: not TOML: invalid value\n")


def test_config_show_without_options_prints_the_defaults(run: Run, tmp_path: Path) -> None:
    outcome = run("config", "show")
    file = tmp_path / "shown.toml"
    file.write_text(outcome.out)
    assert outcome.code == 0
    assert load(file) == Settings()


def test_config_show_puts_options_over_the_file_over_defaults(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "ackwire.toml"
    file.write_text('[broker]\nname = "mine"\n[listen]\nuris = ["tcp://10.0.0.1:1"]\n[log]\nlevel = "error"\n')
    arguments = ("--config", str(file), "--listen", "tcp://127.0.0.1:2", "--listen", "nio://127.0.0.1:3")
    outcome = run("config", "show", *arguments, "--data", "/srv/x", "--log-level", "debug")
    shown = tmp_path / "shown.toml"
    shown.write_text(outcome.out)
    settings = load(shown)
    assert settings.broker.name == "mine"
    assert settings.listen.uris == ("tcp://127.0.0.1:2", "nio://127.0.0.1:3")
    assert settings.store.data == "/srv/x"
    assert settings.log.level == "debug"


@pytest.mark.parametrize("how", ["here", "variable", "option"])
def test_settings_are_those_of_ackwire_toml_unless_another_file_is_named(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ackwire.toml").write_text('[broker]\nname = "here"\n')
    (tmp_path / "variable.toml").write_text('[broker]\nname = "variable"\n')
    (tmp_path / "option.toml").write_text('[broker]\nname = "option"\n')
    if how != "here":
        monkeypatch.setenv("ACKWIRE_CONFIG", "variable.toml")
    arguments = ("--config", "option.toml") if how == "option" else ()
    assert f'\nname = "{how}"\n' in run("config", "show", *arguments).out
    assert run("config", "check").out == f"{'ackwire' if how == 'here' else 'variable'}.toml: ok\n"


def test_serve_logs_which_file_it_has_read(
    run: Run, replace_app: Callable[[object], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def ready_at_once(settings: Settings, *, ready: Ready, stop: asyncio.Event, **_: object) -> None:  # noqa: ARG001
        assert settings.broker.name == "mine"
        ready(SimpleNamespace(addresses=("tcp://h:1",), http_address=None))

    replace_app(ready_at_once)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ackwire.toml").write_text('[broker]\nname = "mine"\n')
    assert f"settings of {tmp_path}/ackwire.toml\n" in run("serve").err


def test_one_file_serves_broker_and_clients(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "ackwire.toml"
    file.write_text('[broker]\nname = "mine"\n[client.factories.a]\nurl = "tcp://a"\n[client.destinations]\nd = "q"\n')
    assert run("config", "check", str(file)).code == 0
    assert load(file).broker.name == "mine"
    assert ackwire.ConnectionFactory.lookup("a", str(file)).url.uris[0].address == "tcp://a:61616"
    file.write_text("[factories.a]\nurl = 'tcp://a'\n[clients]\n[client.factories.a]\nuri = 'tcp://a'\n")
    assert run("config", "check", str(file)).err.splitlines() == [
        f"{file}:1: factories: unknown table; it belongs into [client]: [client.factories.NAME]",
        f'{file}:3: clients: unknown table; did you mean "client"?',
        f"{file}:4: client.factories.a: has no url",
        f'{file}:5: client.factories.a.uri: unknown key; did you mean "url"?',
    ]


def test_config_show_prints_policies_and_what_a_percentage_comes_to(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "ackwire.toml"
    file.write_text('[limits]\nmemory_bytes_max = "10 %"\n[[policy]]\nmatch = "queue://a.>"\nprefetch_max = 7\n')
    outcome = run("config", "show", "--config", str(file))
    assert outcome.out.endswith('\n\n[[policy]]\nmatch = "queue://a.>"\nprefetch_max = 7\n')
    (line,) = [line for line in outcome.out.splitlines() if line.startswith("memory_bytes_max")]
    assert line.startswith('memory_bytes_max = "10 %"  # ')
    assert "iB (10 % of " in line
    shown = tmp_path / "shown.toml"
    shown.write_text(outcome.out)
    assert load(shown) == load(file)


def test_config_show_hides_passwords(run: Run) -> None:
    outcome = run("config", "show", "--listen", "ssl://localhost?certFile=c.pem&keyPassword=hidden")
    assert outcome.code == 0
    assert "hidden" not in outcome.out
    assert "keyPassword=***" in outcome.out


# --- serve, with a stand-in for the broker -------------------------------------------------------------


@pytest.fixture
def replace_app(monkeypatch: pytest.MonkeyPatch) -> Callable[[object], None]:
    def replace(serve_function: object) -> None:
        monkeypatch.setattr(ackwire, "app", SimpleNamespace(serve=serve_function), raising=False)

    return replace


def test_serve_prints_one_ready_line_with_all_addresses(run: Run, replace_app: Callable[[object], None]) -> None:
    async def ready_at_once(settings: Settings, *, ready: Ready, stop: asyncio.Event, **_: object) -> None:
        assert settings == Settings()
        assert not stop.is_set()
        addresses = ("tcp://127.0.0.1:61616", "ssl://127.0.0.1:61617")
        ready(SimpleNamespace(addresses=addresses, http_address=None))

    replace_app(ready_at_once)
    expected = f"ackwire {ackwire.__version__} ready: tcp://127.0.0.1:61616, ssl://127.0.0.1:61617\n"
    outcome = run("serve")
    assert (outcome.code, outcome.out) == (0, expected)
    assert outcome.err.count("\n") == (0 if IS_COMPILED else 1), "how it runs, and nothing else"


@pytest.mark.parametrize(
    ("arguments", "address"),
    [((), ""), (("--http",), "127.0.0.1:8161"), (("--http", "[::1]:0", "--log-level", "info"), "[::1]:0")],
)
def test_http_port_is_off_at_its_usual_place_or_where_it_is_told(
    run: Run, replace_app: Callable[[object], None], arguments: tuple[str, ...], address: str
) -> None:
    async def ready_at_once(settings: Settings, *, ready: Ready, stop: asyncio.Event, **_: object) -> None:  # noqa: ARG001
        assert settings.http.listen == address
        ready(SimpleNamespace(addresses=("tcp://h:1",), http_address=f"http://{address}" if address else None))

    replace_app(ready_at_once)
    outcome = run("serve", *arguments)
    assert outcome.out.endswith(f"ready: tcp://h:1, http://{address}\n" if address else "ready: tcp://h:1\n")


def test_listener_that_cannot_be_opened_is_one_line(run: Run, replace_app: Callable[[object], None]) -> None:
    async def fail(_: Settings, **__: object) -> None:
        raise ConfigError("tcp://127.0.0.1:61616: port is taken")

    replace_app(fail)
    assert run("serve") == Outcome(2, "", "ackwire: tcp://127.0.0.1:61616: port is taken\n")


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
def test_first_signal_asks_the_broker_to_stop(
    run: Run, replace_app: Callable[[object], None], signum: signal.Signals
) -> None:
    async def signal_myself(_: Settings, *, stop: asyncio.Event, **__: object) -> None:
        os.kill(os.getpid(), signum)
        await stop.wait()

    replace_app(signal_myself)
    outcome = run("serve")
    assert outcome.code == 0
    assert outcome.err.endswith(f"INFO  cli     {signum.name}: stopping\n")


def test_second_signal_exits_at_once_with_code_1(monkeypatch: pytest.MonkeyPatch) -> None:
    codes: list[int] = []
    monkeypatch.setattr(os, "_exit", codes.append)
    clock = ManualClock()
    signals = serve.StopSignals(clock)
    signals.on_signal(signal.SIGTERM)
    assert signals.stop.is_set()
    clock.advance(serve.SAME_SIGNAL_SECONDS)
    assert codes == []
    signals.on_signal(signal.SIGINT)
    assert codes == [1]


def test_signal_that_arrives_twice_at_once_counts_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    codes: list[int] = []
    monkeypatch.setattr(os, "_exit", codes.append)
    signals = serve.StopSignals(ManualClock())
    signals.on_signal(signal.SIGTERM)
    signals.on_signal(signal.SIGTERM)
    assert codes == []
