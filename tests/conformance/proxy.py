"""A TCP proxy between client and broker that a test can cut, as a failing network would."""

import contextlib
import socket
import threading
from types import TracebackType
from typing import Self

RECONNECT_TIMEOUT_SECONDS = 10.0


class CuttableProxy:
    """Forwards connections to *target_port* on this machine.

    `cut` breaks all of them and refuses new ones until `mend`; with `mute_broker` what the broker says is
    swallowed, so that a client's request is carried out and its answer lost.
    """

    def __init__(self, target_port: int) -> None:
        self._target_port = target_port
        self._server = socket.create_server(("127.0.0.1", 0))
        self._lock = threading.Lock()
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._muted: set[socket.socket] = set()
        self._made = threading.Condition(self._lock)
        self._is_cut = False
        self.port: int = self._server.getsockname()[1]
        self.connections = 0

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, name="proxy", daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_cut = True
        with contextlib.suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        self._break_all()

    def cut(self) -> None:
        """Break every connection and take no new ones."""
        self._is_cut = True
        self._break_all()

    def mend(self) -> None:
        """Take connections again."""
        self._is_cut = False

    def cut_once(self) -> None:
        """Break every connection; the client may come back at once."""
        self.cut()
        self.mend()

    def await_connections(self, count: int) -> None:
        """Return once *count* connections were made, counting from the start."""
        with self._made:
            assert self._made.wait_for(lambda: self.connections >= count, RECONNECT_TIMEOUT_SECONDS)

    def mute_broker(self) -> None:
        """From now on nothing of what the broker says arrives, on the connections there are."""
        with self._lock:
            self._muted.update(upstream for _, upstream in self._pairs)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._server.accept()
            except OSError:
                return  # closed
            if self._is_cut:
                client.close()
                continue
            upstream = socket.create_connection(("127.0.0.1", self._target_port))
            for side in (client, upstream):
                side.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self._lock:
                self._pairs.append((client, upstream))
                self.connections += 1
                self._made.notify_all()
            for source, target in ((client, upstream), (upstream, client)):
                threading.Thread(target=self._pump, args=(source, target), name="proxy", daemon=True).start()

    def _pump(self, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                if source not in self._muted:
                    target.sendall(data)
        for side in (source, target):
            shut(side)

    def _break_all(self) -> None:
        with self._lock:
            pairs, self._pairs = self._pairs, []
        for pair in pairs:
            for side in pair:
                shut(side)
                side.close()


def shut(side: socket.socket) -> None:
    with contextlib.suppress(OSError):
        side.shutdown(socket.SHUT_RDWR)
