"""A broker in this process: `vm://name` for clients, `EmbeddedBroker` for programs and tests.

Such a broker has a thread and an event loop of its own, so that its clients may block, or live on other loops. A
connection is a pair of sockets: one end is a transport on the client's loop, the other a `Peer` on the broker's, and
between them OpenWire is spoken as over a network. Handing objects over would be faster; this way nothing is ever shared
between the two sides, and what a test sees in one process it sees in two.

A broker that `vm://name` had to start ends with its last connection, as in ActiveMQ; one that was started by
`EmbeddedBroker` ends when it is stopped. Unlike ActiveMQ's, a broker started by a URI keeps nothing on disk unless it
is asked to (`broker.persistent=true&broker.dataDirectory=…`).

The client finds `open` by the entry point `vm` of the group `ackwire.transports`, and never imports this module: only
who uses it needs the packages of a broker.
"""

import asyncio
import atexit
import concurrent.futures
import itertools
import logging
import socket
import threading
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

from ackwire.client.uri import VmUri
from ackwire.config import ListenSettings, Settings, StoreSettings, load, with_setting
from ackwire.config.fields import did_you_mean
from ackwire.config.listener_uri import ListenerUri
from ackwire.config.store_uri import JOURNAL, MEMORY, store_name
from ackwire.errors import ConfigError
from ackwire.jms.destinations import Destination
from ackwire.jms.message import Message
from ackwire.server.listener import ConnectionGate
from ackwire.util.clock import Clock, SystemClock
from ackwire.wire.openwire import commands
from ackwire.wire.openwire.codec_fast import CANONICAL, destination_from_wire
from ackwire.wire.openwire.marshal import Codec

if TYPE_CHECKING:
    from ackwire.app import Serving

DEAD_LETTERS: Final = "ActiveMQ.DLQ"
"""The queue of dead letters; individual ones have names that begin with it and a dot."""

_PACKAGES: Final = ("lark", "cronsim", "crc32c", "lmdb")
"""What `pip install ackwire[broker]` brings."""

_IGNORED: Final = {
    "useJmx": "there is no JMX",
    "useShutdownHook": "the end of the process always ends its brokers",
    "schedulerSupport": "scheduled delivery is always there",
    "enableStatistics": "statistics are always kept",
}
"""Options of a broker that many URIs of ActiveMQ's users have, and why they do nothing."""

_OPTIONS: Final = ("persistent", "dataDirectory", "brokerName", *_IGNORED)

_CALL_SECONDS: Final = 30.0
"""For work on the broker's loop that takes milliseconds."""
_STOP_SECONDS: Final = 60.0
"""For a stop, beyond the time that peers get to take their last messages."""
_EXIT_SECONDS: Final = 10.0
"""For a stop at the end of the process, which must not be delayed."""
_TURNS_TO_SETTLE: Final = 3
"""Turns of the loop in which bytes that have arrived are read and acted upon."""

_P = TypeVar("_P", bound=asyncio.Protocol)
_T = TypeVar("_T")

_log = logging.getLogger(__name__)
_lock = threading.Lock()
"""Guards everything that more than one thread touches: the registry, and of each run what says so."""
_runs: "dict[str, _Run]" = {}
"""Brokers of this process that start, work or stop, by every name they have."""
_arrivals: "dict[str, concurrent.futures.Future[None]]" = {}
"""What clients wait on that let others start the broker (`waitForStart`)."""


def brokers() -> "dict[str, EmbeddedBroker]":
    """The brokers at work in this process, by name."""
    with _lock:
        return {name: run.owner for name, run in _runs.items() if run.is_at_work}


async def open(uri: VmUri, protocol_factory: Callable[[], _P]) -> tuple[asyncio.Transport, _P]:
    """Connect to the broker in this process that *uri* names; with `create=true`, start it if there is none.

    Raises `ConnectionRefusedError` if there is none, and `ConfigError` if it cannot be started.
    """
    run = await _run_for(uri)
    try:
        return await _connected(run, protocol_factory)
    except BaseException:
        run.release()
        raise


async def _connected(run: "_Run", protocol_factory: Callable[[], _P]) -> tuple[asyncio.Transport, _P]:
    ours, theirs = socket.socketpair()
    try:
        transport, protocol = await asyncio.get_running_loop().create_connection(protocol_factory, sock=ours)
    except BaseException:
        ours.close()
        theirs.close()
        raise
    try:
        run.hand_over(theirs)
    except BaseException:
        transport.abort()
        theirs.close()
        raise
    return transport, protocol


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A message in a queue of dead letters."""

    message_id: str
    original_destination: str | None
    cause: str | None
    queue: str

    def __str__(self) -> str:
        return (
            f"{self.message_id} from {self.original_destination or 'nowhere known'}: {self.cause or 'no cause given'}"
        )


class EmbeddedBroker:
    """A broker in a thread of this process, as ActiveMQ's users know it: the real one, on free ports.

        with EmbeddedBroker("orders") as broker:
            connection = ackwire.connect(broker.url)        # or broker.vm_url

    *settings* are those of `ackwire serve` (`ackwire.config.load`); without them it keeps everything in memory. *name*
    and *listen* count instead of what they say; with `listen=None` they decide where it listens, and with `listen=()`
    it can be reached by `vm_url` only. *clock* is the time of messages (`ackwire.util.clock.AdjustableClock` for
    tests).

    All methods may be called from any thread. `start` and `stop` wait; on an event loop use `asyncio.to_thread`.
    """

    def __init__(
        self,
        name: str = "localhost",
        settings: Settings | None = None,
        listen: Sequence[str] | None = ("tcp://127.0.0.1:0",),
        clock: Clock | None = None,
    ) -> None:
        settings = settings or Settings(store=StoreSettings(kind="memory"))
        if listen is not None:
            settings = replace(settings, listen=ListenSettings(tuple(listen)))
        self.name = name
        self.settings = _named(settings, name)
        self.clock: Clock = clock or SystemClock()
        self.urls: tuple[str, ...] = ()
        """The address of every listener, once it was started."""
        self._run: _Run | None = None

    def __repr__(self) -> str:
        return f"<EmbeddedBroker {self.name}{', '.join(('', *self.urls))}>"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def vm_url(self) -> str:
        """For clients in this process. It connects to this broker and never starts another one."""
        return f"vm://{self.name}?create=false"

    @property
    def url(self) -> str:
        """The address of the first listener."""
        if not self.urls:
            raise RuntimeError(
                f"broker {self.name} has no listener" if self.is_running else f"{self!r} was not started"
            )
        return self.urls[0]

    @property
    def port(self) -> int:
        """The port of the first listener."""
        return int(self.url.rpartition(":")[2])

    @property
    def is_running(self) -> bool:
        return self._run is not None and self._run.is_at_work

    def start(self) -> None:
        """Start it, and return when clients can connect. Started again after a stop, it listens where it did before.

        Raises `ConfigError` if it cannot be started, or if this process has a broker of that name.
        """
        with _lock:
            if self._run is not None and not self._run.has_ended:
                raise ConfigError(f"broker {self.name} was started already")
            run = _register(self, (self.name,))
        run.launch()
        try:
            run.started.result()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Stop it: clients get a shutdown command, and are cut off if they do not leave. Harmless if it does not run.

        Raises what ended it, if it had ended by itself.
        """
        run = self._run
        if run is None:
            return
        if threading.current_thread() is run.thread:
            raise RuntimeError("a broker is not stopped from its own thread")
        run.request_stop()
        seconds = _STOP_SECONDS + self.settings.shutdown.drain_timeout_seconds
        run.thread.join(seconds)
        if not run.has_ended:
            raise TimeoutError(f"broker {self.name} has not stopped in {seconds:g} s")
        self._run = None
        if (error := run.ended.result()) is not None:
            raise error

    def dead_letters(self) -> list[DeadLetter]:
        """The messages in the dead-letter queues now."""
        run = self._run
        if run is None:
            raise RuntimeError(f"{self!r} does not run")
        return run.call(_dead_letters(run.started.result()))

    def _listening(self, addresses: Sequence[str]) -> None:
        """Keep the ports, for the next start."""
        self.urls = tuple(addresses)
        texts = (uri.partition("?") for uri in self.settings.listen.uris)
        uris = tuple(address + mark + query for address, (_, mark, query) in zip(addresses, texts, strict=True))
        self.settings = replace(self.settings, listen=ListenSettings(uris))


# ---- one life of a broker --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _VmListener(ListenerUri):
    """Stands for the listener of one connection; the port is the number of the connection."""

    def address(self, port: int) -> str:
        return f"vm://{self.host}#{port}"

    @property
    def protocol(self) -> str:
        """OpenWire, as on a tcp:// listener."""
        return "tcp"


class _UseGate(ConnectionGate):
    """Tells when a connection has ended, or was never let in."""

    __slots__ = ("_on_gone",)

    def __init__(self, limit: int, on_gone: Callable[[], None]) -> None:
        super().__init__(limit)
        self._on_gone = on_gone

    def try_enter(self) -> bool:
        if super().try_enter():
            return True
        self._on_gone()
        return False

    def leave(self) -> None:
        super().leave()
        self._on_gone()


class _Run:
    """A broker from the start of its thread to its end."""

    def __init__(self, owner: EmbeddedBroker, names: Sequence[str], *, ends_when_unused: bool) -> None:
        self.owner = owner
        self.names = names
        self.thread = threading.Thread(target=self._main, name=f"broker {owner.name}", daemon=True)
        self.started: concurrent.futures.Future[Serving] = _promise()
        self.ended: concurrent.futures.Future[BaseException | None] = _promise()
        """With what ended it, if that was not `request_stop`."""
        self._ends_when_unused = ends_when_unused
        self._gate = _UseGate(owner.settings.connection.connections_max, self.release)
        self._users = 0
        self._is_stopping = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._handed_over: set[socket.socket] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._numbers = itertools.count(1)

    @property
    def is_at_work(self) -> bool:
        return self.started.done() and self.started.exception() is None and not self._is_stopping

    @property
    def has_ended(self) -> bool:
        return self.ended.done()

    # ---- for any thread ----

    def launch(self) -> None:
        try:
            self.thread.start()
        except BaseException:
            self._end(None)
            raise

    def try_use(self) -> bool:
        """Count a user, with the lock held, unless it stops. Who got True calls `release`, or lets a gate do it."""
        if self._is_stopping:
            return False
        self._users += 1
        return True

    def release(self) -> None:
        """A user has gone, and perhaps it was the last one."""
        with _lock:
            self._users -= 1
            assert self._users >= 0, "more left than came"
            is_unused = self._users == 0 and self._ends_when_unused
        if is_unused:
            self.request_stop(only_if_unused=True)

    def request_stop(self, *, only_if_unused: bool = False) -> None:
        with _lock:
            if only_if_unused and self._users:
                return
            self._is_stopping = True
            loop, stop = self._loop, self._stop
        if loop is not None and stop is not None:
            with suppress(RuntimeError):  # the loop is closed: it has ended
                loop.call_soon_threadsafe(stop.set)

    def hand_over(self, sock: socket.socket) -> None:
        """Make *sock* the broker's; it closes it. Raises `ConnectionRefusedError` if the broker stops."""
        with _lock:
            loop = self._loop
            if self._is_stopping or loop is None:
                raise _refusal(self.owner.name, "is stopping")
            self._handed_over.add(sock)
        try:
            loop.call_soon_threadsafe(self._take, sock)
        except RuntimeError:
            with _lock:
                self._handed_over.discard(sock)
            raise _refusal(self.owner.name, "has stopped") from None

    def call(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Do *work* on the broker's loop, and return what it returns."""
        with _lock:
            loop = self._loop
        if loop is None:
            work.close()
            raise RuntimeError(f"broker {self.owner.name} does not run")
        try:
            future = asyncio.run_coroutine_threadsafe(work, loop)
        except RuntimeError:
            work.close()
            raise
        return future.result(_CALL_SECONDS)

    # ---- its own thread ----

    def _main(self) -> None:
        error: BaseException | None = None
        try:
            asyncio.run(self._serve())
        except BaseException as raised:  # told to those who wait
            error = raised
        self._end(error)

    def _end(self, error: BaseException | None) -> None:
        with _lock:
            self._is_stopping = True
            self._loop = None
            for name in self.names:
                del _runs[name]
            left, self._handed_over = self._handed_over, set()
        for sock in left:
            sock.close()
        if not self.started.done():
            self.started.set_exception(error or _refusal(self.owner.name, "was stopped before it had started"))
            error = None
        elif error is not None:
            _log.error("broker %s has ended: %s", self.owner.name, error)
        self.ended.set_result(error)

    async def _serve(self) -> None:
        try:
            from ackwire import app  # here, because it needs more than the client does
            from ackwire.selector import parser as _  # noqa: F401 – otherwise loaded at the first selector
        except ImportError as error:
            if error.name not in _PACKAGES:
                raise
            raise ConfigError(
                f'a broker in this process needs the package {error.name}: pip install "ackwire[broker]"'
            ) from error
        stop = asyncio.Event()
        with _lock:
            self._loop = asyncio.get_running_loop()
            self._stop = stop
            if self._is_stopping:
                return
        await app.serve(self.owner.settings, ready=self._ready, stop=stop, clock=self.owner.clock)

    def _ready(self, serving: "Serving") -> None:
        self.owner._listening(serving.addresses)
        self.started.set_result(serving)

    def _take(self, sock: socket.socket) -> None:
        task = asyncio.get_running_loop().create_task(self._connect(sock))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _connect(self, sock: socket.socket) -> None:
        uri = _VmListener("vm", self.owner.name, next(self._numbers))
        make_peer = partial(self.started.result().make_peer, uri, self._gate)
        try:
            await asyncio.get_running_loop().connect_accepted_socket(make_peer, sock)
        except OSError as error:
            _log.warning("%s was not connected: %s", uri, error)
            sock.close()
            self.release()
        finally:
            with _lock:
                self._handed_over.discard(sock)


async def _dead_letters(serving: "Serving") -> list[DeadLetter]:
    for _ in range(_TURNS_TO_SETTLE):
        await asyncio.sleep(0)
    found: list[DeadLetter] = []
    for queue in serving.broker.registry.queues():
        if isinstance(queue.place, Destination) and f"{queue.place.name}.".startswith(f"{DEAD_LETTERS}."):
            for batch in queue.view.browse():
                if isinstance(batch, list):
                    found += [_dead_letter(serving, message, queue.place.name) for message in batch]
                else:
                    has_arrived = asyncio.Event()
                    batch.when_arrived(has_arrived.set)
                    await has_arrived.wait()
    return found


def _dead_letter(serving: "Serving", message: Message, queue: str) -> DeadLetter:
    from ackwire.broker.redelivery import CAUSE_PROPERTY  # loaded by now

    editor = serving.broker.editor
    command = Codec(CANONICAL).decode(message.frame)
    assert isinstance(command, commands.Message)
    origin = command.original_destination
    cause = editor.properties(message).get(CAUSE_PROPERTY)
    return DeadLetter(
        message_id=editor.message_id(message),
        original_destination=None if origin is None else repr(destination_from_wire(origin)),
        cause=None if cause is None else str(cause),
        queue=queue,
    )


# ---- the registry ----------------------------------------------------------------------------------------------


def _register(owner: EmbeddedBroker, names: Sequence[str], *, ends_when_unused: bool = False) -> _Run:
    """A new run, known by its *names* from now on. The lock is held; who calls this launches it without the lock."""
    for name in names:
        if name in _runs:
            raise ConfigError(f"this process has a broker named {name} already")
    run = _Run(owner, names, ends_when_unused=ends_when_unused)
    owner._run = run
    for name in names:
        _runs[name] = run
        if name in _arrivals:
            _arrivals.pop(name).set_result(None)
    return run


async def _run_for(uri: VmUri) -> _Run:
    """The broker that *uri* names, started if need be, with one more user."""
    loop = asyncio.get_running_loop()
    patience_ends = loop.time() + max(0, uri.vm.wait_for_start_ms) / 1000
    planned = _planned(uri) if uri.vm.create else None
    awaited: concurrent.futures.Future[Any]
    seconds: float | None
    while True:
        with _lock:
            run = _runs.get(uri.name)
            is_new = run is None and loop.time() >= patience_ends
            if is_new:
                run = _register_planned(uri.name, planned)
            if run is None:
                awaited, seconds = _arrivals.setdefault(uri.name, _promise()), patience_ends - loop.time()
            elif run.try_use():
                break
            else:
                awaited, seconds = run.ended, None  # after it there can be another of its name
        with suppress(TimeoutError):
            await asyncio.wait_for(asyncio.wrap_future(awaited), seconds)
    return await _when_started(run, is_new=is_new)


def _register_planned(name: str, planned: EmbeddedBroker | None) -> _Run:
    if planned is None:
        raise _refusal(name, "does not exist in this process")
    return _register(planned, tuple(dict.fromkeys((name, planned.name))), ends_when_unused=True)


async def _when_started(run: _Run, *, is_new: bool) -> _Run:
    try:
        if is_new:
            run.launch()
        await asyncio.wrap_future(run.started)
    except BaseException:
        run.release()
        raise
    return run


@atexit.register
def _stop_all() -> None:
    with _lock:
        running = set(_runs.values())
    for run in running:
        run.request_stop()
    for run in running:
        run.thread.join(_EXIT_SECONDS)


def _promise() -> "concurrent.futures.Future[Any]":
    """A future that those who wait for it cannot cancel."""
    future: concurrent.futures.Future[Any] = concurrent.futures.Future()
    future.set_running_or_notify_cancel()
    return future


def _refusal(name: str, what: str) -> ConnectionRefusedError:
    return ConnectionRefusedError(f"broker {name} {what}")


# ---- what a URI asks for ---------------------------------------------------------------------------------------


def _planned(uri: VmUri) -> EmbeddedBroker:
    """The broker to start for *uri*. Raises `ConfigError`, naming what is wrong."""
    given = _known(uri)
    settings, listen = _configured(uri.vm.broker_config)
    settings = _stored(settings, given, is_whole=uri.vm.broker_config is not None)
    return EmbeddedBroker(given.get("brokerName", uri.name), settings, listen)


def _known(uri: VmUri) -> dict[str, str]:
    given = dict(uri.broker)
    for name in given:
        if name in _IGNORED:
            _log.info("%s: broker.%s has no effect: %s", uri.address, name, _IGNORED[name])
        elif name not in _OPTIONS:
            hint = did_you_mean(name, _OPTIONS) or f"; known: {', '.join(_OPTIONS)}"
            raise ConfigError(f'unknown option "broker.{name}"{hint}')
    return given


def _configured(path: str | None) -> tuple[Settings, Sequence[str] | None]:
    """Settings to begin with, and where to listen; None: where they say."""
    if path is None:
        return Settings(store=StoreSettings(kind="memory")), ()
    if path.startswith(("xbean:", "broker:", "properties:")):
        raise ConfigError(
            f"brokerConfig={path}: ActiveMQ's configuration is not read; name a file of Ackwire's settings"
        )
    return load(path), None


def _stored(settings: Settings, given: Mapping[str, str], *, is_whole: bool) -> Settings:
    """*settings* with the store that the options ask for; *is_whole* if the settings come from a file."""
    asked, data = given.get("persistent"), given.get("dataDirectory")
    if asked not in (None, "true", "false"):
        raise ConfigError(f"broker.persistent must be true or false, and is {asked}")
    is_kept = asked == "true" if asked is not None else store_name(settings.store.kind) != MEMORY
    if is_kept and data is None and not is_whole:
        raise ConfigError("broker.persistent=true needs broker.dataDirectory: where to keep messages")
    if data is not None and not is_kept:
        raise ConfigError("broker.dataDirectory needs broker.persistent=true: without it nothing is kept on disk")
    if not is_kept:
        settings = with_setting(settings, "store", "kind", MEMORY)
    elif store_name(settings.store.kind) == MEMORY:
        settings = with_setting(settings, "store", "kind", JOURNAL)
    if data is None:
        return settings
    try:
        return with_setting(settings, "store", "data", data)
    except ConfigError as error:
        raise ConfigError(f"broker.dataDirectory {error}") from None


def _named(settings: Settings, name: str) -> Settings:
    try:
        return with_setting(settings, "broker", "name", name)
    except ConfigError as error:
        raise ConfigError(f"the broker's name {error}") from None
