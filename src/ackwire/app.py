"""The one place that builds a store, a broker and its listeners, and takes them down again."""

import asyncio
import logging
import os
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ackwire.audit.opening import opened_audit
from ackwire.broker.broker import Broker
from ackwire.config import Reload, Settings, plan_reload
from ackwire.config.listener_uri import ClientAuth, ListenerUri, parse_address, parse_listener_uri
from ackwire.config.policy import Policies
from ackwire.config.store_uri import (
    MEMORY,
    database_password,
    is_database,
    parse_store,
    parse_store_uri,
    store_name,
)
from ackwire.errors import ConfigError, StoreFailed
from ackwire.selector import prepare as prepare_selectors
from ackwire.server.adapters.contract import ProtocolFactory
from ackwire.server.adapters.openwire_factory import wire_limits
from ackwire.server.asyncio_protocol import AsyncioEnd
from ackwire.server.background import ThreadBackground
from ackwire.server.listener import ConnectionGate, Listener, check_address
from ackwire.server.peer import Peer
from ackwire.server.protocols import installed_protocols, served_by
from ackwire.server.tls import server_context
from ackwire.server.turn import Turn
from ackwire.store.contract import Store
from ackwire.store.files import OsFiles
from ackwire.store.index_files import IndexKind
from ackwire.store.indexes import open_index
from ackwire.store.journal.journal_store import JournalStore
from ackwire.store.journal.opening import JournalSource
from ackwire.store.journal.options import JournalOptions, SyncPolicy
from ackwire.store.journal.recovery_report import UnusableStore
from ackwire.store.journal_sql.journal_sql_store import Front, JournalSqlStore
from ackwire.store.journal_sql.journaled_commit import CheckpointOptions
from ackwire.store.journal_sql.no_index import NoIndex
from ackwire.store.leftovers import Leftovers
from ackwire.store.memory import MemoryStore
from ackwire.store.sql.driver import Driver
from ackwire.store.sql.drivers import driver_for
from ackwire.store.sql.errors import UnusableDatabase
from ackwire.store.sql.file_lock import locked_file
from ackwire.store.sql.schema import NAME_LENGTH_MAX
from ackwire.store.sql.sql_store import SqlOptions, SqlStore, SqlSurroundings
from ackwire.store.temp import TempStore
from ackwire.util.clock import Clock, SystemClock
from ackwire.util.plurals import counted
from ackwire.wire.openwire.editor import OpenWireEditor
from ackwire.wire.openwire.id_text import producer_text, transaction_text
from ackwire.wire.openwire.jdbc_rows import JdbcRows
from ackwire.wire.openwire.stored import OpenWireStoredForm

if TYPE_CHECKING:
    from ackwire.admin.http import HttpServer

_DRAIN_POLL_SECONDS: Final = 0.01

_SEGMENTS_MIN: Final = 4
"""Files that a journal must have room for: one to write to, one made ahead, and some to fill."""

_FRONT_DIRECTORY: Final = "sql-journal"
"""Below the data directory: the journal in front of a database, which no other kind of store reads."""

_FAILED_DRAIN_SECONDS: Final = 0.5
"""How long peers may take to read that the store has failed."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Serving:
    """A broker at work, as the one who started it sees it; only for the thread of its loop."""

    broker: Broker
    addresses: tuple[str, ...]
    """Of every listener, with the port that is really used."""
    http_address: str | None
    """Where HTTP requests are answered, if anywhere."""
    make_peer: Callable[[ListenerUri, ConnectionGate], AsyncioEnd]
    """Makes the broker's end of a connection that came in another way than through a listener."""
    reload: Callable[[Settings], Reload]
    """Takes over what can be taken over from other settings, and certificates. Raises `ConfigError`, and then nothing
    has changed."""


async def serve(
    settings: Settings,
    *,
    ready: Callable[[Serving], None],
    stop: asyncio.Event | None = None,
    clock: Clock | None = None,
    protocols: Sequence[ProtocolFactory] | None = None,
) -> None:
    """Run a broker until *stop* is set or the task is cancelled, then drain.

    *ready* is called once, when clients can connect. Raises `ConfigError` if a listener or the store cannot be opened,
    and `StoreFailed` after the store has failed and clients know it (K7). *clock* is the time of messages: expiry,
    delays, schedules. Sockets and disks are real and keep the machine's time, whatever it says.
    *protocols* are those that listeners may speak: unless given, those that are installed.
    """
    clock = clock or SystemClock()
    await _check(settings)
    protocols = installed_protocols() if protocols is None else protocols
    turn = Turn(asyncio.get_running_loop())
    progress = _Progress()
    resolved = replace(settings, store=settings.store.resolved())
    with _opened_store(resolved, SystemClock(), turn, progress) as (store, failure):
        settings = _with_largest_message(settings, store)
        editor = OpenWireEditor(
            f"ID:{settings.broker.name}-{clock.now_ms()}", settings.broker.name, clock, wire_limits(settings)
        )
        with (
            opened_audit(
                settings, clock, turn.turns, producer_text=producer_text, transaction_text=transaction_text
            ) as audit,
            _temp_store(resolved) as temp,
        ):
            broker = Broker(
                clock=clock,
                store=store,
                editor=editor,
                settings=settings,
                policies=Policies(settings.policies),
                temp=temp,
                audit=audit,
                turns=turn.turns,
                loop_report=None if turn.monitor is None else turn.monitor.report,
            )
            broker.slices.others_wait = turn.others_wait
            broker.slices.before_slice = turn.catch_up
            if audit is not None:
                audit.join(broker.flow.on_audit_full)
                store.observe_writes(audit.flush, audit.durable)
            broker.start()
            broker.answer_questions()
            http = _http(broker, settings, store, failure) if settings.http.listen else None

            def on_ready(serving: Serving) -> None:
                progress.is_ready = True
                ready(serving)

            await _serve(broker, settings, turn, failure, http, protocols, ready=on_ready, stop=stop or asyncio.Event())
            broker.stop()


@dataclass(slots=True)
class _Progress:
    """How far a start has come."""

    is_ready: bool = False
    """Clients can connect, so there may be something to keep."""


async def _check(settings: Settings) -> None:
    """Find mistakes before a store is opened, which may take long and makes files. Raises `ConfigError`."""
    uris = [parse_listener_uri(text) for text in settings.listen.uris]
    for uri in uris:
        if uri.tls_options is not None:
            server_context(uri)
    if settings.http.listen:
        _require_h11()
        uris.append(parse_address(settings.http.listen))
    for uri in uris:
        await check_address(uri)


async def _serve(
    broker: Broker,
    settings: Settings,
    turn: Turn,
    failure: asyncio.Future[StoreFailed],
    http: "_Http | None",
    protocols: Sequence[ProtocolFactory],
    *,
    ready: Callable[[Serving], None],
    stop: asyncio.Event,
) -> None:
    peers: set[Peer] = set()
    clock = SystemClock()

    def make_peer(uri: ListenerUri, gate: ConnectionGate) -> AsyncioEnd:
        peer = Peer(
            broker=broker,
            clock=clock,
            settings=broker.settings,
            uri=uri,
            gate=gate,
            peers=peers,
            turn=turn,
            protocols=served_by(uri, protocols),
        )
        return AsyncioEnd(peer)

    def reload(new: Settings) -> Reload:
        for uri in uris:
            if uri.tls:
                server_context(uri)  # a bad file is found before anything is changed
        plan = plan_reload(broker.settings, new)
        broker.reload(plan.settings, Policies(plan.settings.policies))
        for listener in listeners:
            listener.reload_certificate()
        return plan

    uris = [parse_listener_uri(text) for text in settings.listen.uris]
    listeners = [_listener(uri, settings, make_peer) for uri in uris]
    if http is not None:
        listeners.append(http.listener)
    drain_seconds: float | None = None
    _prepare(with_http=http is not None)
    try:
        for listener in listeners:
            await listener.start()
        _warn(uris, http)
        addresses = tuple(listener.address for listener in listeners)
        http_address = None if http is None else http.listener.address
        ready(Serving(broker, addresses[: len(uris)], http_address, make_peer, reload))
        if turn.monitor is not None:
            turn.monitor.start()
        stopping = asyncio.ensure_future(stop.wait())
        await asyncio.wait((stopping, failure), return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if failure.done():
            drain_seconds = min(broker.settings.shutdown.drain_timeout_seconds, _FAILED_DRAIN_SECONDS)
            for peer in tuple(peers):
                peer.fail_for(failure.result())
            raise failure.result()
    finally:
        if turn.monitor is not None:
            turn.monitor.stop()
        for listener in listeners:
            listener.close()
        if drain_seconds is None:
            drain_seconds = broker.settings.shutdown.drain_timeout_seconds
        await asyncio.gather(
            drain(peers, clock=clock, timeout_seconds=drain_seconds),
            *(() if http is None else (http.server.drain(drain_seconds),)),
        )


def _prepare(*, with_http: bool) -> None:
    """Load and build now what is large and used later: afterwards all clients would wait for it."""
    prepare_selectors()
    if with_http:
        from ackwire.admin import arrow

        arrow.prepare()


@contextmanager
def _opened_store(
    settings: Settings, clock: Clock, turn: Turn, progress: _Progress
) -> Iterator[tuple[Store, asyncio.Future[StoreFailed]]]:
    """The store, and what its failure will be; closed at the end. A first start that fails leaves no files behind."""
    failure: asyncio.Future[StoreFailed] = asyncio.get_running_loop().create_future()
    if settings.store.kind == MEMORY:
        yield MemoryStore(), failure
        return

    def on_failed(error: StoreFailed) -> None:
        if not failure.done():
            failure.set_result(error)

    choice = parse_store(settings.store.kind)
    if is_database(choice.kind):
        open_database = _opened_journal_and_database if choice.has_journal else _opened_database
        with open_database(settings, clock, turn, on_failed) as database:
            yield database, failure
        return
    leftovers = Leftovers(Path(settings.store.data))
    writing, indexing, reading = ThreadBackground("journal"), ThreadBackground("index"), ThreadBackground("reads")
    try:
        with leftovers.removed_if_bare(OsFiles()):
            store = _open_journal(settings, clock, turn, writing, indexing, reading, on_failed)
        try:
            yield store, failure
        except BaseException:
            if leftovers.is_new and store.is_first_start and not progress.is_ready:
                store.abandon(leftovers.remove)
            raise
        finally:
            store.close()
    finally:
        writing.stop()
        indexing.stop()
        reading.stop()


@contextmanager
def _opened_database(
    settings: Settings, clock: Clock, turn: Turn, on_failed: Callable[[StoreFailed], None]
) -> Iterator[SqlStore]:
    with _database(settings, clock, turn, on_failed) as (driver, surroundings, options):
        store = _open_database(driver, surroundings, options)
        try:
            yield store
        finally:
            store.close()


@contextmanager
def _opened_journal_and_database(
    settings: Settings, clock: Clock, turn: Turn, on_failed: Callable[[StoreFailed], None]
) -> Iterator[SqlStore]:
    threads = [ThreadBackground(name) for name in ("journal", "segments", "reads")]
    writing, housekeeping, reading = threads
    data = _data_directory(settings)
    front = Front(
        JournalSource(
            OsFiles(),
            data / _FRONT_DIRECTORY,
            OpenWireStoredForm(wire_limits(settings)),
            lambda _: NoIndex(),
            clock.now_ms,
            new_id=lambda: os.urandom(16),
            holder=_holder(settings),
        ),
        _journal_options(settings),
        CheckpointOptions(settings.store.checkpoint_seconds, settings.store.checkpoint_bytes),
        writing=writing,
        housekeeping=housekeeping,
        reading=reading,
    )
    try:
        with _database(settings, clock, turn, on_failed) as (driver, surroundings, options):
            with Leftovers(data / _FRONT_DIRECTORY).removed_if_bare(OsFiles()):
                store = _open_journal_and_database(front, driver, surroundings, options)
            try:
                yield store
            finally:
                store.close()
    finally:
        for thread in threads:
            thread.stop()


def _open_journal_and_database(
    front: Front, driver: Driver, surroundings: SqlSurroundings, options: SqlOptions
) -> JournalSqlStore:
    began = surroundings.clock.monotonic()
    try:
        store = JournalSqlStore.open_both(front, driver, surroundings, options)
    except (UnusableDatabase, UnusableStore) as error:
        raise ConfigError(f"the store cannot be used: {error}") from None
    _log.info(
        "journal in %s in front of %s; %d records replayed; opened in %.1f s",
        front.source.data,
        driver.description,
        store.report.replayed,
        surroundings.clock.monotonic() - began,
    )
    for damage in store.report.damages:
        _log.error("%s: %s", front.source.data, damage)
    return store


def _holder(settings: Settings) -> str:
    """This broker, as the lock of a store and other brokers' messages name it."""
    return f"broker {settings.broker.name}, process {os.getpid()} on {socket.gethostname()}"


@contextmanager
def _database(
    settings: Settings, clock: Clock, turn: Turn, on_failed: Callable[[StoreFailed], None]
) -> Iterator[tuple[Driver, SqlSurroundings, SqlOptions]]:
    """A database that is about to be opened, and the threads that use it."""
    uri = parse_store_uri(parse_store(settings.store.kind).kind)
    if uri.warning is not None:
        _log.warning("%s", uri.warning)
    password = database_password(uri, settings.sql.password_file)
    driver = driver_for(uri, password, settings.sql.table_prefix, settings.sql.answer_seconds_max)
    holder = _holder(settings)
    writing, reading = ThreadBackground("database writer"), ThreadBackground("database reader")
    surroundings = SqlSurroundings(
        make_form=lambda: JdbcRows(wire_limits(settings)),
        clock=clock,
        writing=writing,
        reading=reading,
        on_failed=on_failed,
        at_turn_end=turn.at_end,
    )
    options = SqlOptions(
        run_id=f"{os.urandom(16).hex()} {holder}"[:NAME_LENGTH_MAX],
        table_prefix=settings.sql.table_prefix,
        create_tables=settings.sql.create_tables,
        reconnect_seconds_max=settings.sql.reconnect_seconds_max,
    )
    try:
        with locked_file(uri, holder):
            yield driver, surroundings, options
    finally:
        writing.stop()
        reading.stop()


def _with_largest_message(settings: Settings, store: Store) -> Settings:
    """*settings* that let in no message that the database would refuse."""
    limit = store.message_bytes_max
    if limit is None or limit >= settings.wire.frame_bytes_max:
        return settings
    _log.warning(
        "the database takes messages up to %d bytes, so wire.frame_bytes_max is lowered from %d; raise its "
        "max_allowed_packet to more than twice that",
        limit,
        settings.wire.frame_bytes_max,
    )
    return replace(settings, wire=replace(settings.wire, frame_bytes_max=limit))


def _open_database(driver: Driver, surroundings: SqlSurroundings, options: SqlOptions) -> SqlStore:
    clock = surroundings.clock
    began = clock.monotonic()
    try:
        store = SqlStore.open(driver, surroundings, options)
    except UnusableDatabase as error:
        raise ConfigError(f"the store cannot be used: {error}") from None
    _log.info("messages in %s; opened in %.1f s", driver.description, clock.monotonic() - began)
    return store


@contextmanager
def _temp_store(settings: Settings) -> Iterator[TempStore | None]:
    """Where non-persistent messages go that memory has no room for; a broker without files has none."""
    if settings.store.kind == MEMORY or settings.limits.temp_bytes_max == 0:
        yield None
        return
    temp = TempStore(OsFiles(), Path(settings.store.data) / "tmp", settings.limits.temp_bytes_max)
    try:
        yield temp
    finally:
        temp.close()


def _open_journal(
    settings: Settings,
    clock: Clock,
    turn: Turn,
    writing: ThreadBackground,
    indexing: ThreadBackground,
    reading: ThreadBackground,
    on_failed: Callable[[StoreFailed], None],
) -> JournalStore:
    data = _data_directory(settings)
    try:
        store = JournalStore.open(
            OsFiles(),
            data,
            form=OpenWireStoredForm(wire_limits(settings)),
            clock=clock,
            open_index=lambda fresh: open_index(IndexKind(settings.store.index), data / "index", fresh=fresh),
            options=_journal_options(settings),
            writing=writing,
            indexing=indexing,
            reading=reading,
            new_id=lambda: os.urandom(16),
            holder=_holder(settings),
            on_failed=on_failed,
            at_turn_end=turn.at_end,
        )
    except (UnusableStore, OSError) as error:
        raise ConfigError(f"the store cannot be used: {error}") from None
    _log.info("journal in %s, sync %s; %s", data, settings.store.sync, store.report)
    for damage in store.report.damages:
        _log.error("%s: %s", data, damage)
    return store


def _data_directory(settings: Settings) -> Path:
    """The directory of a journal, which there is room for. Raises `ConfigError`."""
    data = Path(settings.store.data)
    try:
        data.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise ConfigError(f"store.data: {data} cannot be made: {reason}; choose another with --data") from None
    needed = _SEGMENTS_MIN * settings.store.segment_bytes
    if settings.limits.store_bytes_max < needed:
        raise ConfigError(
            f"limits.store_bytes_max is {settings.limits.store_bytes_max}, and must be {needed} at least: "
            f"{_SEGMENTS_MIN} files of store.segment_bytes"
        )
    return data


def _journal_options(settings: Settings) -> JournalOptions:
    return JournalOptions(
        sync=SyncPolicy(settings.store.sync),
        sync_interval_seconds=settings.store.sync_interval_seconds,
        segment_bytes=settings.store.segment_bytes,
        bytes_max=settings.limits.store_bytes_max,
        free_bytes_min=settings.store.free_bytes_min,
    )


def _listener(
    uri: ListenerUri, settings: Settings, make_peer: Callable[[ListenerUri, ConnectionGate], AsyncioEnd]
) -> Listener:
    gate = ConnectionGate(uri.connections_max or settings.connection.connections_max)
    return Listener(uri, partial(make_peer, uri, gate), settings.handshake)


@dataclass(frozen=True, slots=True)
class _Http:
    """What answers HTTP requests."""

    listener: Listener
    server: "HttpServer"


def _require_h11() -> None:
    try:
        import h11  # noqa: F401
    except ImportError:
        raise ConfigError('http.listen needs h11, which is not installed: pip install "ackwire[http]"') from None


def _http(broker: Broker, settings: Settings, store: Store, failure: asyncio.Future[StoreFailed]) -> _Http:
    """The HTTP port. Raises `ConfigError` if there is no token."""
    from ackwire.admin.http import HttpServer
    from ackwire.admin.metrics import StoreInfo
    from ackwire.admin.routes import Api, ApiOptions
    from ackwire.admin.tokens import load_token, token_path

    options = ApiOptions(
        settings=settings.http,
        token=load_token(token_path(settings)),
        store=StoreInfo(
            kind=store_name(settings.store.kind),
            used_bytes=lambda: store.used_bytes,
            bytes_max=store.bytes_max,
            database=store.database,
        ),
        wire_limits=wire_limits(settings),
        clock=SystemClock(),
        failure=lambda: failure.result() if failure.done() else None,
    )
    server = HttpServer(Api(broker, options).answer, settings.http)
    return _Http(Listener(parse_address(settings.http.listen), server.connection), server)


def _warn(uris: list[ListenerUri], http: _Http | None) -> None:
    """Say what works and is probably not meant."""
    for uri in uris:
        authenticated = uri.tls_options is not None and uri.tls_options.client_auth is ClientAuth.NEED
        if not uri.is_loopback and not authenticated:
            _log.warning("%s: other machines can connect, and there is no authentication yet", uri)
    if http is not None and not http.listener.uri.is_loopback:
        _log.warning("%s: other machines can connect, and the token can be read on its way: no TLS", http.listener.uri)


async def drain(peers: set[Peer], *, clock: Clock, timeout_seconds: float) -> None:
    """Shut all *peers* down; those that have not gone after *timeout_seconds* are cut off."""
    told: set[Peer] = set()
    deadline = clock.monotonic() + timeout_seconds
    while True:
        for peer in peers - told:  # one may still come that was accepted before
            peer.shut_down()
            told.add(peer)
        if not peers or clock.monotonic() >= deadline:
            break
        await asyncio.sleep(_DRAIN_POLL_SECONDS)
    if peers:
        _log.warning("%s did not take the last messages in %g s", counted(len(peers), "peer"), timeout_seconds)
    for peer in tuple(peers):
        peer.abort()
    await asyncio.sleep(0)  # lets the aborted sockets close before the loop does
