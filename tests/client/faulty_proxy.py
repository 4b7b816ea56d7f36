"""A way to the broker with all that a bad network does: it cuts, stalls, truncates, swallows and delays.

By hand, on the connections there are: `cut`, `stall` and `go_on`, `mute`, `truncate_next`. Or by itself, from a seed:
with `trouble`, each new connection gets a fault after some bytes in one direction; `calm` ends that.
"""

import contextlib
import random
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from types import TracebackType
from typing import Self

_CHUNK_BYTES = 65536
_WAIT_SECONDS = 10.0
DELAY_SECONDS_MAX = 0.05
STALL_SECONDS_MAX = 0.3


class Way(Enum):
    """A direction."""

    UP = "to the broker"
    DOWN = "to the client"


class Fault(Enum):
    """What can happen to a connection."""

    CUT = "it breaks"
    TRUNCATE = "part of what is on its way arrives, then it breaks"
    MUTE = "what comes this way is lost, and later it breaks"
    STALL = "nothing passes for a while, then it breaks"
    PAUSE = "nothing passes for a while, then it goes on"
    DELAY = "everything is late"


@dataclass(slots=True, eq=False)
class _Pair:
    """One connection, and what will happen to it."""

    client: socket.socket
    upstream: socket.socket
    open_ways: dict[Way, threading.Event]
    muted: set[Way] = field(default_factory=set)
    truncated: set[Way] = field(default_factory=set)
    fault: Fault | None = None
    fault_way: Way = Way.UP
    bytes_before_fault: int = 0
    is_late: bool = False
    is_closed: bool = False

    def ends(self, way: Way) -> tuple[socket.socket, socket.socket]:
        """Where bytes that go this way come from, and where they go."""
        return (self.client, self.upstream) if way is Way.UP else (self.upstream, self.client)

    def close(self) -> None:
        self.is_closed = True
        for event in self.open_ways.values():
            event.set()
        for side in (self.client, self.upstream):
            with contextlib.suppress(OSError):
                side.shutdown(socket.SHUT_RDWR)


class FaultyProxy:
    """Forwards connections to *target_port* on this machine, as well as it is told to."""

    def __init__(self, target_port: int, seed: int = 0) -> None:
        self._target_port = target_port
        self._random = random.Random(seed)
        self._server = socket.create_server(("127.0.0.1", 0))
        self._lock = threading.Condition()
        self._pairs: list[_Pair] = []
        self._threads: list[threading.Thread] = []
        self._is_cut = False
        self._is_over = False
        self._trouble: tuple[Fault, ...] = ()
        self._bytes_max = 0
        self.port: int = self._server.getsockname()[1]
        self.connections = 0
        self.faults = 0
        """How many there were."""

    @property
    def url(self) -> str:
        return f"tcp://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        self._start(self._accept)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_over = True
        with contextlib.suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        self.cut()
        for thread in self._threads:
            thread.join(_WAIT_SECONDS)

    # ---- by hand -----------------------------------------------------------------------------------------------

    def cut(self) -> None:
        """Break every connection, and take no new ones until `mend`."""
        self._is_cut = True
        for pair in self._current():
            pair.close()

    def mend(self) -> None:
        self._is_cut = False

    def cut_once(self) -> None:
        """Break every connection; the client may come back at once."""
        for pair in self._current():
            pair.close()

    def stall(self, *ways: Way) -> None:
        """Let nothing pass in these directions, or in both, on the connections there are, until `go_on`."""
        for pair in self._current():
            for way in ways or Way:
                pair.open_ways[way].clear()

    def go_on(self) -> None:
        for pair in self._current():
            for event in pair.open_ways.values():
                event.set()

    def mute(self, *ways: Way) -> None:
        """Lose what goes in these directions on the connections there are."""
        for pair in self._current():
            pair.muted.update(ways)

    def truncate_next(self, way: Way) -> None:
        """Forward only part of the command that comes next, and break."""
        for pair in self._current():
            pair.truncated.add(way)

    def await_connections(self, count: int) -> None:
        """Return once *count* connections were made, counting from the start."""
        with self._lock:
            assert self._lock.wait_for(lambda: self.connections >= count, _WAIT_SECONDS)

    # ---- by itself ---------------------------------------------------------------------------------------------

    def trouble(self, *faults: Fault, bytes_max: int = 20_000) -> None:
        """From now on every new connection has one of these *faults*, or of all, after at most *bytes_max*."""
        self._bytes_max = bytes_max
        self._trouble = faults or tuple(Fault)

    def calm(self) -> None:
        """No more trouble."""
        self._trouble = ()
        for pair in self._current():
            pair.fault = None
            pair.is_late = False

    @contextlib.contextmanager
    def troubled(self, *faults: Fault, bytes_max: int = 20_000) -> Iterator[None]:
        """Trouble for as long as the block lasts, beginning with a cut."""
        self.trouble(*faults, bytes_max=bytes_max)
        self.cut_once()
        try:
            yield
        finally:
            self.calm()

    # ---- inside ------------------------------------------------------------------------------------------------

    def _current(self) -> list[_Pair]:
        with self._lock:
            return list(self._pairs)

    def _start(self, target: Callable[..., None], *arguments: object) -> threading.Thread:
        thread = threading.Thread(target=target, args=arguments, name="faulty proxy", daemon=True)
        self._threads.append(thread)
        thread.start()
        return thread

    def _accept(self) -> None:
        while not self._is_over:
            try:
                client, _ = self._server.accept()
            except OSError:
                return  # closed
            try:
                upstream = socket.create_connection(("127.0.0.1", self._target_port)) if not self._is_cut else None
            except OSError:
                upstream = None  # the broker is away
            if upstream is None:
                client.close()
                continue
            self._join(client, upstream)

    def _join(self, client: socket.socket, upstream: socket.socket) -> None:
        for side in (client, upstream):
            side.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        pair = _Pair(client, upstream, {way: threading.Event() for way in Way})
        for event in pair.open_ways.values():
            event.set()
        if self._trouble:
            pair.fault = self._random.choice(self._trouble)
            pair.fault_way = self._random.choice(list(Way))
            pair.bytes_before_fault = self._random.randint(1, self._bytes_max)
        with self._lock:
            self._pairs.append(pair)
            self.connections += 1
            self._lock.notify_all()
        running = [self._start(self._pump, pair, way) for way in Way]
        self._start(self._end, pair, running)

    def _end(self, pair: _Pair, running: list[threading.Thread]) -> None:
        for thread in running:
            thread.join()
        pair.client.close()
        pair.upstream.close()
        with self._lock:
            self._pairs.remove(pair)

    def _pump(self, pair: _Pair, way: Way) -> None:
        source, target = pair.ends(way)
        with contextlib.suppress(OSError):
            while data := source.recv(_CHUNK_BYTES):
                pair.open_ways[way].wait()
                if pair.is_closed:  # what was held back is lost
                    break
                if pair.is_late:
                    time.sleep(self._random.uniform(0, DELAY_SECONDS_MAX))  # the fault itself, not a wait for something
                if not self._pass_on(pair, way, data, target):
                    break
        pair.close()

    def _pass_on(self, pair: _Pair, way: Way, data: bytes, target: socket.socket) -> bool:
        """Forward *data*, or do what is due to it; whether to go on."""
        if way in pair.truncated:
            first_command = min(len(data), 4 + int.from_bytes(data[:4]))  # others may have come with it
            target.sendall(data[: self._random.randrange(first_command)])
            return False
        if pair.fault is not None and way is pair.fault_way:
            pair.bytes_before_fault -= len(data)
            if pair.bytes_before_fault <= 0:
                return self._strike(pair, way, data, target)
        if way not in pair.muted:
            target.sendall(data)
        return True

    def _strike(self, pair: _Pair, way: Way, data: bytes, target: socket.socket) -> bool:
        fault, pair.fault = pair.fault, None
        self.faults += 1
        match fault:
            case Fault.TRUNCATE:
                target.sendall(data[: self._random.randrange(len(data))])
                return False
            case Fault.STALL | Fault.PAUSE:
                time.sleep(self._random.uniform(0, STALL_SECONDS_MAX))
                if fault is Fault.PAUSE:
                    target.sendall(data)
                return fault is Fault.PAUSE
            case Fault.MUTE:
                pair.muted.add(way)
                self._start(self._cut_later, pair, self._random.uniform(0, STALL_SECONDS_MAX))
                return True
            case Fault.DELAY:
                pair.is_late = True
                target.sendall(data)
                return True
        return False

    def _cut_later(self, pair: _Pair, seconds: float) -> None:
        time.sleep(seconds)
        pair.close()
