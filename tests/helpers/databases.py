"""Real database servers for tests: PostgreSQL and MariaDB, each in a temporary folder, on loopback and a Unix socket.

A server is started when a test first asks for it, one for each test process, and ends with that process. Servers refuse
to run as root, so a root runs them as another user. They do not sync: tests kill servers, and not the machine.
"""

import atexit
import itertools
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, Final, Self

import psycopg
import pymysql

_START_SECONDS_MAX: Final = 60.0
_STOP_SECONDS_MAX: Final = 20.0
_POLL_SECONDS: Final = 0.05

_names = itertools.count(1)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class DatabaseServer:
    """A server: started, killed, stopped and continued as a test wants."""

    user = "nobody"
    """Who runs it, where root must not."""

    def __init__(self, *, syncs: bool = False) -> None:
        """Benchmarks want one that *syncs*."""
        self.syncs = syncs
        self.folder = Path(tempfile.mkdtemp(prefix="ackwire-db-"))
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None
        if os.geteuid() == 0:
            shutil.chown(self.folder, self.user)
        self._make()
        self.start()

    @property
    def log(self) -> Path:
        return self.folder / "log"

    def _run(self, argv: list[str]) -> None:
        done = subprocess.run(argv, capture_output=True, cwd=self.folder, check=False, **self._as_user())
        assert done.returncode == 0, f"{argv}: {done.stdout!r} {done.stderr!r}"

    def _as_user(self) -> dict[str, Any]:
        return {"user": self.user, "extra_groups": []} if os.geteuid() == 0 else {}

    def _make(self) -> None:
        """Make an empty database cluster."""
        raise NotImplementedError

    def _argv(self) -> list[str]:
        raise NotImplementedError

    def connect(self, database: str | None = None) -> Any:
        """A connection of the driver, which commits each statement: to that database, or to the one that all use."""
        raise NotImplementedError

    def end_connection(self, number: int) -> None:
        """Cut a connection, by the number that the server has given it."""
        raise NotImplementedError

    def make_user_with_password(self, password: str) -> str:
        """A new user who must give that password."""
        raise NotImplementedError

    def ping(self) -> None:
        """Raise an error of the driver unless the server answers."""
        raise NotImplementedError

    def start(self) -> Self:
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self._argv(), stdout=log, stderr=log, stdin=subprocess.DEVNULL, cwd=self.folder, **self._as_user()
            )
        self.wait_until_ready()
        return self

    def wait_until_ready(self) -> None:
        deadline = time.monotonic() + _START_SECONDS_MAX
        while True:
            try:
                self.ping()
            except (psycopg.Error, pymysql.Error) as error:
                assert self._process is not None
                if self._process.poll() is not None or time.monotonic() > deadline:
                    raise AssertionError(f"{error}\n{self.log.read_text()}") from error
                time.sleep(_POLL_SECONDS)
            else:
                return

    @property
    def uri(self) -> str:
        """The URI of a store on it."""
        raise NotImplementedError

    def new_database(self) -> str:
        """The URI of a store in a new, empty database on it."""
        name = f"new_{next(_names)}"
        with self.connect() as connection:
            connection.cursor().execute(f"CREATE DATABASE {name}")
        return f"{self.uri.rpartition('/')[0]}/{name}"

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def kill(self) -> None:
        """End it as a crash would, with its children: PostgreSQL does not start beside one that is left."""
        assert self._process is not None
        children = _children(self._process.pid)
        self._process.kill()
        self._process.wait()
        for child in children:
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        deadline = time.monotonic() + _STOP_SECONDS_MAX
        while any(Path(f"/proc/{child}").exists() for child in children) and time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS)

    def pause(self) -> None:
        """Let it stand still; its sockets stay open. Returns when all of its threads have stopped."""
        self._signal(signal.SIGSTOP)
        assert self._process is not None
        deadline = time.monotonic() + _STOP_SECONDS_MAX
        while not all(_is_stopped(it) for it in [self._process.pid, *_children(self._process.pid)]):
            assert time.monotonic() < deadline, "the server does not stop"
            time.sleep(_POLL_SECONDS)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        for pid in [self._process.pid, *_children(self._process.pid)]:
            with suppress(ProcessLookupError):  # a child may have ended meanwhile
                os.kill(pid, number)

    def remove(self) -> None:
        """Stop it, and remove all it has written."""
        process = self._process
        if process is not None and process.poll() is None:
            process.send_signal(signal.SIGINT if isinstance(self, PostgresqlServer) else signal.SIGTERM)
            try:
                process.wait(_STOP_SECONDS_MAX)
            except subprocess.TimeoutExpired:
                self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)


def _is_stopped(pid: int) -> bool:
    """Whether all threads of a process have stopped, or it is gone."""
    for thread in Path(f"/proc/{pid}/task").glob("*/stat"):
        with suppress(FileNotFoundError, ProcessLookupError):
            if (
                thread.read_text().rpartition(")")[2].split()[0] not in "TZX"
            ):  # or it has ended, and its parent has stopped
                return False
    return True


def _children(pid: int) -> list[int]:
    try:
        return [int(it) for it in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except FileNotFoundError:
        return []


class PostgresqlServer(DatabaseServer):
    """PostgreSQL, without its own service: `initdb` and `postgres` of the package."""

    user = "postgres"

    def _make(self) -> None:
        data = str(self.folder / "data")
        options = ["-A", "trust", "-U", "ackwire", "--no-sync", "--locale=C", "-E", "UTF8"]
        self._run([str(_postgresql_programs() / "initdb"), "-D", data, *options])

    def _argv(self) -> list[str]:
        settings = {
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": str(self.folder),
            "port": str(self.port),
            "fsync": "on" if self.syncs else "off",
            "max_prepared_transactions": "20",
        }
        options = [it for name, value in settings.items() for it in ("-c", f"{name}={value}")]
        return [str(_postgresql_programs() / "postgres"), "-D", str(self.folder / "data"), *options]

    @property
    def uri(self) -> str:
        return f"postgresql://ackwire@127.0.0.1:{self.port}/postgres"

    def connect(self, database: str | None = None) -> "psycopg.Connection[Any]":
        return psycopg.connect(self.uri, dbname=database or "postgres", autocommit=True, connect_timeout=5)

    def end_connection(self, number: int) -> None:
        with self.connect() as connection:
            connection.execute("SELECT pg_terminate_backend(%s)", (number,))

    def make_user_with_password(self, password: str) -> str:
        name = f"user_{next(_names)}"
        rules = self.folder / "data" / "pg_hba.conf"
        rules.write_text(f"host all {name} 127.0.0.1/32 scram-sha-256\n{rules.read_text()}")
        with self.connect() as connection:
            connection.execute(f"CREATE ROLE {name} LOGIN PASSWORD '{password}'")
            connection.execute("SELECT pg_reload_conf()")
        return name

    def ping(self) -> None:
        self.connect().close()


@cache
def _postgresql_programs() -> Path:
    found = subprocess.run(["pg_config", "--bindir"], capture_output=True, text=True, check=True)
    return Path(found.stdout.strip())


class MariadbServer(DatabaseServer):
    """MariaDB of Debian's package without a service.

    Each has its own folder for temporary tables: one that starts removes those in `/tmp`, of other servers, too.
    """

    def _make(self) -> None:
        options = ["--no-defaults", "--auth-root-authentication-method=normal", "--skip-test-db"]
        self._run(["mariadb-install-db", *options, *self._folders()])

    def _folders(self) -> list[str]:
        return [f"--datadir={self.folder / 'data'}", f"--tmpdir={self.folder}"]

    def _argv(self) -> list[str]:
        return [
            shutil.which("mariadbd") or "/usr/sbin/mariadbd",
            "--no-defaults",
            *self._folders(),
            f"--socket={self.folder / 'socket'}",
            f"--port={self.port}",
            "--bind-address=127.0.0.1",
            f"--pid-file={self.folder / 'pid'}",
            f"--innodb-flush-log-at-trx-commit={1 if self.syncs else 2}",
            "--max-allowed-packet=64M",
            "--character-set-server=utf8mb4",
        ]

    @property
    def uri(self) -> str:
        return f"mariadb://root@127.0.0.1:{self.port}/ackwire"

    def connect(self, database: str | None = None) -> "pymysql.Connection[Any]":
        return pymysql.connect(
            host="127.0.0.1", port=self.port, user="root", database=database, autocommit=True, connect_timeout=5
        )

    def end_connection(self, number: int) -> None:
        with self.connect() as connection, connection.cursor() as cursor, suppress(pymysql.Error):  # it may be gone
            cursor.execute(f"KILL {number}")

    def make_user_with_password(self, password: str) -> str:
        name = f"user_{next(_names)}"
        with self.connect() as connection, connection.cursor() as cursor:
            cursor.execute(f"CREATE USER {name} IDENTIFIED BY '{password}'")
        return name

    def ping(self) -> None:
        with self.connect() as connection, connection.cursor() as cursor:
            cursor.execute("CREATE DATABASE IF NOT EXISTS ackwire")


@cache
def postgresql() -> PostgresqlServer:
    """The PostgreSQL of this test process."""
    server = PostgresqlServer()
    atexit.register(server.remove)
    return server


@cache
def mariadb() -> MariadbServer:
    """The MariaDB of this test process."""
    server = MariadbServer()
    atexit.register(server.remove)
    return server
