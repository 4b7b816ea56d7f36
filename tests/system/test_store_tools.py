"""`ackwire store` on databases, and copies between stores of every kind, as a user runs them (SEMANTICS K2, K3, K7)."""

import fcntl
import json
import os
import select
import shutil
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import psycopg
import pytest

import ackwire
from tests.helpers.databases import DatabaseServer, MariadbServer, PostgresqlServer
from tests.helpers.processes import ackwire_program
from tests.helpers.store_on_disk import StoreOnDisk
from tests.system.test_databases import SERVERS, bodies, broker_on, empty, received, refusal
from tests.system.test_store_cli import Outcome
from tests.system.test_store_cli import ackwire as run

pytestmark = pytest.mark.system
SECRET = "s3cr3t!ä"
WAIT_SECONDS_MAX: Final = 60.0


@pytest.fixture(params=["sqlite", *SERVERS])
def uri(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'messages.db'}"
    return empty(SERVERS[request.param]())


@pytest.fixture
def disk(tmp_path: Path) -> StoreOnDisk:
    disk = StoreOnDisk(tmp_path / "data")
    with disk:
        disk.fill()
    return disk


def test_K2_K3_a_copy_is_verified_served_and_can_go_back(disk: StoreOnDisk, uri: str, tmp_path: Path) -> None:
    rehearsed = run("store", "copy", disk.data, uri, "--dry-run")
    assert (rehearsed.code, "nothing was changed" in rehearsed.out) == (0, True)
    assert not (tmp_path / "messages.db").exists()
    copied = run("store", "copy", disk.data, uri)
    assert (copied.code, "counts and checksums of both are the same" in copied.out) == (0, True)
    assert "copying: 100 %\n" in copied.err
    again = run("store", "copy", disk.data, uri)
    assert (again.code, "holds something" in again.err) == (2, True)
    assert run("store", "copy", uri, f"journal+leveldb:{tmp_path / 'back'}").code == 0
    first = run("store", "export", disk.data, "-").out
    assert run("store", "export", uri, "-").out == first
    assert run("store", "export", tmp_path / "back", "-").out == first
    assert json.loads(run("store", "stats", tmp_path / "back", "--json").out)["index_kind"] == "leveldb"
    with broker_on(tmp_path, uri) as broker, ackwire.connect(broker.url) as connection, connection.session() as session:
        assert bodies(received(session, "queue://last", 2)) == ["the last one", "and one more"]


@pytest.fixture(params=["journal", "sqlite", *SERVERS])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where a copy goes."""
    if request.param == "journal":
        return str(tmp_path / "copy")
    return f"sqlite:///{tmp_path / 'copy.db'}" if request.param == "sqlite" else empty(SERVERS[request.param]())


def test_K2_K7_a_copy_that_was_killed_serves_nobody_and_begins_anew(
    disk: StoreOnDisk, target: str, tmp_path: Path
) -> None:
    lines = run("store", "copy", disk.data, tmp_path / "whole").err
    half = "copying: 50 %\n"
    kill_after(lines[: lines.index(half) + len(half)], "store", "copy", disk.data, target)
    if "://" in target:
        assert "holds an unfinished copy of another store" in refusal(tmp_path, target)
        assert "unfinished copy" in run("store", "export", target, "-").err
    again = run("store", "copy", disk.data, target)
    assert (again.code, "counts and checksums of both are the same" in again.out) == (0, True)
    assert run("store", "export", target, "-").out == run("store", "export", disk.data, "-").out


def kill_after(said: str, *arguments: object) -> None:
    """Run `ackwire`, and end it with SIGKILL once it has *said* so much on standard error. A pipe that is full keeps it
    from saying more, so it waits."""
    reading, writing = os.pipe()
    try:
        size = fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, select.PIPE_BUF)
        os.write(writing, bytes(size - len(said)))
        argv = [str(ackwire_program()), *map(str, arguments)]
        process = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=writing)
        try:
            await_condition(lambda: unread_bytes(reading) == size or process.poll() is not None)
            assert process.poll() is None, f"it ended with {process.returncode}"
        finally:
            process.kill()
            process.wait()
        assert os.read(reading, size).lstrip(b"\0").decode() == said
    finally:
        os.close(reading)
        os.close(writing)


def unread_bytes(pipe: int) -> int:
    answer = fcntl.ioctl(pipe, termios.FIONREAD, bytes(4))
    return int.from_bytes(answer, sys.byteorder)


def await_condition(is_true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    while not is_true():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_K2_K3_check_stats_and_explain_say_which_rows_wait_for_whom(disk: StoreOnDisk, uri: str) -> None:
    assert run("store", "copy", disk.data, uri).code == 0
    checked = run("store", "check", "--store", uri)
    assert (checked.code, checked.out.endswith("the store is sound\n")) == (0, True)
    totals = json.loads(run("store", "stats", "--store", uri, "--json").out)
    assert (totals["messages"], totals["durables"], totals["prepared"], totals["jobs"]) == (20, 2, 1, 1)
    said = run("store", "explain", uri).out
    assert "queue://orders: 16 rows (" in said
    assert "15 wait for a consumer; 1 acknowledged in prepared transaction" in said
    assert "durable subscription s of client c: 1 row" in said
    (one,) = json.loads(run("store", "explain", "--store", uri, "orders", "--json").out)
    assert (one["rows"], one["waiting"]) == (16, 15)
    repaired = run("store", "repair", uri)
    assert (repaired.code, repaired.err.count("\n"), "its own tools" in repaired.err) == (2, 1, True)


def test_K2_import_into_a_database_is_exact(disk: StoreOnDisk, uri: str, tmp_path: Path) -> None:
    assert run("store", "export", disk.data, tmp_path / "all.jsonl").code == 0
    assert run("store", "import", uri, tmp_path / "all.jsonl").code == 0
    assert run("store", "export", uri, "-").out == (tmp_path / "all.jsonl").read_text()
    assert "--append adds" in run("store", "import", uri, tmp_path / "all.jsonl").err


def test_K2_K7_a_database_in_use_is_left_alone_and_its_broker_explains_the_rows(tmp_path: Path, uri: str) -> None:
    with broker_on(tmp_path, uri) as broker:
        with ackwire.connect(broker.url) as connection, connection.session() as session:
            session.send("queue://orders", "one")
        for command in (("check", uri), ("stats", uri), ("copy", uri, tmp_path / "copy")):
            refused = run("store", *command)
            assert (refused.code, refused.out, "in use" in refused.err) == (2, "", True)
        assert not (tmp_path / "copy").exists()
        said = run("why", "store", "--url", broker.url).out
        assert "which can be used: " in said
        assert "queue://orders: 1 message (" in said
        assert "1 waits for a consumer, and none is there" in said
        assert "Ackwire.Why" not in said
        assert "queue://orders: 1 message (" in run("why", "file", "--url", broker.url).out
        assert "orders has no messages" not in run("why", "store", "orders", "--url", broker.url).out


# ---- secrets and TLS -------------------------------------------------------------------------------------------


class SecurePostgresql(PostgresqlServer):
    """Asks for a password, and speaks TLS only."""

    def _make(self) -> None:
        own_certificate(self)
        (self.folder / "pw").write_text(SECRET)
        shutil.chown(self.folder / "pw", self.user)
        super()._make()
        hba = self.folder / "data" / "pg_hba.conf"
        hba.write_text("local all all trust\nhostssl all all 127.0.0.1/32 scram-sha-256\n")

    def _argv(self) -> list[str]:
        files = [
            ("ssl", "on"),
            ("ssl_cert_file", self.folder / "server.pem"),
            ("ssl_key_file", self.folder / "server.key"),
        ]
        return [*super()._argv(), *(it for name, value in files for it in ("-c", f"{name}={value}"))]

    def connect(self, database: str | None = None) -> "psycopg.Connection[Any]":
        where = f"host={self.folder} port={self.port} user=ackwire dbname={database or 'postgres'}"
        return psycopg.connect(where, autocommit=True)

    def ping(self) -> None:
        with self.connect() as connection:
            connection.execute(f"ALTER ROLE ackwire PASSWORD '{SECRET}'")


class SecureMariadb(MariadbServer):
    """Has a user who needs a password and TLS."""

    def _make(self) -> None:
        own_certificate(self)
        super()._make()

    def _argv(self) -> list[str]:
        tls = [f"--ssl-cert={self.folder / 'server.pem'}", f"--ssl-key={self.folder / 'server.key'}"]
        return [*super()._argv(), *tls]

    def ping(self) -> None:
        super().ping()
        with self.connect() as connection, connection.cursor() as cursor:
            cursor.execute(f"CREATE USER IF NOT EXISTS safe@'127.0.0.1' IDENTIFIED BY '{SECRET}' REQUIRE SSL")
            cursor.execute("GRANT ALL ON ackwire.* TO safe@'127.0.0.1'")


def own_certificate(server: DatabaseServer) -> None:
    from tests.conformance.tls import make_tls_files

    made = make_tls_files(server.folder)
    for path in (made.key, made.certificate):
        path.chmod(0o600)
        if os.geteuid() == 0:
            shutil.chown(path, server.user)


@pytest.fixture(scope="module", params=[SecurePostgresql, SecureMariadb])
def secure(request: pytest.FixtureRequest) -> Iterator[DatabaseServer]:
    server = request.param()
    yield server
    server.remove()


def secure_uri(server: DatabaseServer, ca: Path | None = None, *, host: str = "127.0.0.1", user: str = "") -> str:
    authority = ca or server.folder / "ca.pem"
    if isinstance(server, PostgresqlServer):
        options = f"sslmode=verify-full&sslrootcert={authority}"
        return f"postgresql://{user or 'ackwire'}@{host}:{server.port}/postgres?{options}"
    return f"mariadb://{user or 'safe'}@{host}:{server.port}/ackwire?ssl_ca={authority}"


def with_environment(*arguments: object, **environment: str) -> Outcome:
    argv = [str(ackwire_program()), *map(str, arguments)]
    values = {**os.environ, **environment}
    done = subprocess.run(argv, capture_output=True, text=True, env=values, timeout=60, check=False)
    return Outcome(done.returncode, done.stdout, done.stderr)


def test_K3_the_password_comes_from_a_file_and_the_connection_is_encrypted(
    secure: DatabaseServer, tmp_path: Path
) -> None:
    (tmp_path / "pw").write_text(f"{SECRET}\n")
    uri = f"{secure_uri(secure)}&password_file={tmp_path / 'pw'}"
    with broker_on(tmp_path, uri) as broker, ackwire.connect(broker.url) as connection, connection.session() as session:
        session.send("queue://orders", "one")
        assert bodies(received(session, "queue://orders", 1)) == ["one"]
        assert SECRET not in broker.process.output()
        assert SECRET.encode() not in Path(f"/proc/{broker.process.pid}/cmdline").read_bytes()
    assert run("store", "stats", uri).code == 0
    assert with_environment("store", "stats", secure_uri(secure), ACKWIRE_STORE_PASSWORD=SECRET).code == 0
    wrong = with_environment("store", "stats", secure_uri(secure), ACKWIRE_STORE_PASSWORD="wrong-one")
    assert (wrong.code, wrong.err.count("\n"), "wrong-one" in wrong.err) == (2, 1, False)


def test_K3_postgresql_s_own_variables_are_honoured(tmp_path: Path, secure: DatabaseServer) -> None:
    if isinstance(secure, MariadbServer):
        pytest.skip("they are PostgreSQL's")
    uri = secure_uri(secure)
    refused = with_environment("store", "stats", uri)
    assert "no password supplied" in refused.err
    passwords = tmp_path / "pgpass"
    passwords.write_text(f"127.0.0.1:{secure.port}:*:ackwire:{SECRET}\n")
    passwords.chmod(0o600)
    for environment in ({"PGPASSWORD": SECRET}, {"PGPASSFILE": str(passwords)}):
        said = with_environment("store", "stats", uri, **environment)
        assert said.code == 0 or "missing tables" in said.err, said.err


def test_K3_a_certificate_of_another_authority_or_host_is_refused(secure: DatabaseServer, tmp_path: Path) -> None:
    import trustme

    trustme.CA().cert_pem.write_to_path(tmp_path / "other.pem")
    for uri in (secure_uri(secure, tmp_path / "other.pem"), secure_uri(secure, host="127.0.0.2")):
        said = with_environment("store", "stats", uri, ACKWIRE_STORE_PASSWORD=SECRET)
        assert (said.code, said.err.count("\n")) == (2, 1), said.err
        assert SECRET not in said.err


def test_K3_a_password_in_the_uri_is_masked_everywhere_and_warned_of(secure: DatabaseServer, tmp_path: Path) -> None:
    from urllib.parse import quote

    scheme, _, rest = secure_uri(secure).partition("://")
    user, _, where = rest.partition("@")
    uri = f"{scheme}://{user}:{quote(SECRET)}@{where}"
    with broker_on(tmp_path, uri, "--log-level", "debug") as broker:
        assert "the URI contains the password" in broker.process.output()
        assert "?password_file=" in broker.process.output()
        output = broker.process.output()
    shown = run("config", "show", "--store", uri).out
    assert f"{scheme}://{user}:***@" in shown
    told = [output, shown, run("store", "check", uri), run("store", "repair", uri), refusal(tmp_path, f"{uri}&x=1")]
    for text in map(str, told):
        assert SECRET not in text
        assert quote(SECRET) not in text
