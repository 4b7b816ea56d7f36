"""The network of a simulated group: links that carry real frames, delay them, break, and work one way only.

What is sent over a way that is cut waits, as it does in a socket, and comes when the way is healed, unless the link was
broken by then. Messages of one link keep their order; those of different links do not.
"""

from collections import Counter
from collections.abc import Callable
from random import Random

from ackwire.replication.identity import Link
from ackwire.replication.messages import Bye, Decoder, Message, Reason, encoded
from ackwire.replication.node import LinkHandler
from tests.simulation.groups.scheduler import Process, Scheduler


class Network:
    """Knows which ways are cut, and who listens where."""

    def __init__(self, scheduler: Scheduler, random: Random) -> None:
        self.scheduler = scheduler
        self.random = random
        self.slowest_seconds = 0.01
        self.cut: set[tuple[str, str]] = set()
        """Ways, from one node to another, on which nothing comes through."""
        self.listeners: dict[str, tuple[Process, Callable[[Link], LinkHandler]]] = {}
        self.ends: list[LinkEnd] = []
        self.received: Counter[str] = Counter()
        """Messages, by their types: what a seed has seen."""

    def delay(self) -> float:
        """Of one message."""
        if self.random.random() < 0.02:
            return self.random.random() * 0.5
        return self.random.random() * self.slowest_seconds

    def is_cut(self, source: str, target: str) -> bool:
        return (source, target) in self.cut

    def heal(self, source: str, target: str) -> None:
        self.cut.discard((source, target))
        for end in list(self.ends):
            end.release()

    def dial(
        self,
        source: str,
        process: Process,
        target: str,
        on_link: Callable[[Link], LinkHandler | None],
        on_failed: Callable[[Reason, str], None],
    ) -> None:
        """Make a link, which takes a way there and back."""

        def fail() -> None:
            process.run(lambda: on_failed(Reason.NONE, f"{target} cannot be reached"))

        def arrive() -> None:
            listener = self.listeners.get(target)
            if listener is None or self.is_cut(source, target) or self.is_cut(target, source):
                self.scheduler.call_later(0.5, fail)
                return
            far_process, accept = listener
            near, far = LinkEnd(self, source, target, process), LinkEnd(self, target, source, far_process)
            near.peer, far.peer = far, near
            self.ends += (near, far)

            def accepted() -> None:
                far.handler = accept(far)
                self.scheduler.call_later(self.delay(), lambda: process.run(linked))

            def linked() -> None:
                near.handler = on_link(near)
                if near.handler is None:
                    near.close(Reason.NONE, "of no use")

            far_process.run(accepted)

        self.scheduler.call_later(self.delay(), arrive)

    def break_links(self, node: str) -> None:
        """The process of *node* has ended: the others hear of that when they can."""
        for end in [it for it in self.ends if it.owner == node]:
            end.vanish()


class LinkEnd:
    """One end of a link; implements `Link`."""

    def __init__(self, network: Network, owner: str, other: str, process: Process) -> None:
        self.network = network
        self.owner = owner
        self.other = other
        self.peer: LinkEnd
        self.handler: LinkHandler | None = None
        self.is_closed = False
        self._process = process
        self._decoder = Decoder()
        self._decoder.is_proved = True
        self._arrives_at = 0.0
        self._held: list[Callable[[], None]] = []
        """What waits because the way is cut."""

    def send(self, message: Message) -> None:
        if self.is_closed:
            return
        data = encoded(message)
        self._transmit(lambda: self.peer._arrived(data))

    def flush(self) -> None:
        """Everything is on its way already."""

    def close(self, reason: Reason, text: str) -> None:
        if self.is_closed:
            return
        self.send(Bye(reason, text))
        self.vanish()

    def vanish(self) -> None:
        """Close without a word."""
        if not self.is_closed:
            self.is_closed = True
            self._forget()
            self._transmit(self.peer._ended)

    def reset(self) -> None:
        """The network has lost the link, and with it what was on its way."""
        for end in (self, self.peer):
            end._held.clear()
            self.network.scheduler.call_later(self.network.delay(), end._ended)

    def _forget(self) -> None:
        if self in self.network.ends:
            self.network.ends.remove(self)

    def _transmit(self, action: Callable[[], None]) -> None:
        if self._held or self.network.is_cut(self.owner, self.other):
            self._held.append(action)
            return
        scheduler = self.network.scheduler
        self._arrives_at = max(self._arrives_at, scheduler.now + self.network.delay())
        scheduler.call_later(self._arrives_at - scheduler.now, action)

    def release(self) -> None:
        """The way may be open again."""
        if not self.network.is_cut(self.owner, self.other):
            held, self._held = self._held, []
            for action in held:
                self._transmit(action)

    def _arrived(self, data: bytes) -> None:
        self._process.run(lambda: self._receive(data))

    def _receive(self, data: bytes) -> None:
        for message in self._decoder.receive(data):
            if self.is_closed or self.handler is None:
                return
            self.network.received[type(message).__name__] += 1
            self.handler.receive(message)
        if not self.is_closed and self.handler is not None:
            self.handler.turn_ended()

    def _ended(self) -> None:
        def end() -> None:
            if not self.is_closed:
                self.is_closed = True
                self._forget()
                if self.handler is not None:
                    self.handler.closed()

        self._process.run(end)
