"""What a listener is, and how many consumers it should have: the part of listeners.py that needs no connection (M9)."""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from inspect import Parameter, signature
from types import ModuleType
from typing import Any, Final, Self, TypeVar

from ackwire.client.core.modes import AckMode, ack_mode_of
from ackwire.client.errors import IllegalArgumentError
from ackwire.client.settings import read_destination
from ackwire.client.uri import DestinationUri
from ackwire.jms.destinations import Destination

CONSUMERS_MAX: Final = 1000
"""For one listener; more is a slip of the pen."""

_MARK: Final = "__ackwire_listeners__"

_F = TypeVar("_F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Concurrency:
    """How many consumers a listener has at least and at most."""

    lowest: int
    highest: int

    @classmethod
    def parse(cls, value: "str | int | Concurrency") -> Self:
        """Read `"2-8"`, or an upper limit alone, `"8"` or 8, for which the lower one is 1, as in Spring."""
        match = re.fullmatch(r"\s*(?:(\d+)\s*-\s*)?(\d+)\s*", str(value))
        if isinstance(value, Concurrency):
            match = re.fullmatch(r"(\d+)-(\d+)", f"{value.lowest}-{value.highest}")
        if match is None:
            raise IllegalArgumentError(f'concurrency is a number or two, as "2-8", and not {value!r}')
        lowest, highest = int(match[1] or 1), int(match[2])
        if not 1 <= lowest <= highest <= CONSUMERS_MAX:
            raise IllegalArgumentError(f"concurrency {value!r}: it must be 1 ≤ lowest ≤ highest ≤ {CONSUMERS_MAX}")
        return cls(lowest, highest)

    def __str__(self) -> str:
        return f"{self.lowest}-{self.highest}"


@dataclass(frozen=True, slots=True)
class Listener:
    """A function, and which messages it is for."""

    function: Callable[..., Any]
    destination: DestinationUri
    concurrency: Concurrency
    transacted: bool
    selector: str | None
    ack_mode: AckMode
    durable: str | None

    @property
    def name(self) -> str:
        return f"{getattr(self.function, '__name__', 'listener')} ({self.destination.destination!r})"

    @property
    def wants_session(self) -> bool:
        """Whether the function has a second parameter, for the session."""
        kinds = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
        parameters = [p for p in signature(self.function).parameters.values() if p.kind in kinds]
        return len(parameters) > 1 and parameters[1].default is Parameter.empty

    @property
    def address(self) -> str:
        """The destination for the consumer.

        Where consumers may be added they get one message at a time, unless the destination says otherwise: what
        waits in one consumer's prefetch is out of reach of the others.
        """
        may_grow = self.concurrency.highest > 1 and self.destination.consumer.prefetch_size is None
        target = self.destination
        return str(replace(target, consumer=replace(target.consumer, prefetch_size=1)) if may_grow else target)


def listener(
    destination: Destination | str,
    *,
    concurrency: str | int | Concurrency = 1,
    transacted: bool = True,
    selector: str | None = None,
    ack_mode: AckMode = AckMode.AUTO,
    durable: str | None = None,
) -> Callable[[_F], _F]:
    """Mark a function for a `ListenerContainer`; the function itself stays as it is.

    *concurrency*: how many consumers, `"2-8"` or an upper limit. *transacted*: each message is consumed in a
    transaction that is committed when the function returns and rolled back when it raises; what the function sends
    through the session, its second parameter, is part of it. Otherwise *ack_mode* says who acknowledges: with AUTO and
    DUPS_OK the container, after the function returned; with CLIENT and INDIVIDUAL the function itself. *durable*: the
    name of a durable subscription to a topic.
    """
    address = read_destination(destination)
    consumers = Concurrency.parse(concurrency)
    if not address.destination.kind.is_queue and consumers.highest > 1:
        raise IllegalArgumentError(
            f"{address.destination!r}: each consumer of a topic gets every message, so more than one is none the faster"
        )
    if durable is not None and address.destination.kind.is_queue:
        raise IllegalArgumentError(f"{address.destination!r}: only a topic has durable subscriptions")
    mode = ack_mode_of(ack_mode)
    transacted = transacted and mode in (AckMode.AUTO, AckMode.SESSION_TRANSACTED)

    def mark(function: _F) -> _F:
        made = Listener(function, address, consumers, transacted, selector, mode, durable)
        setattr(function, _MARK, (*getattr(function, _MARK, ()), made))
        return function

    return mark


def listeners_in(sources: Iterable[Callable[..., Any] | ModuleType]) -> list[Listener]:
    """The listeners of functions and modules, each once. A function without a mark, or a module without one, raises."""
    found: list[Listener] = []
    for source in sources:
        functions = vars(source).values() if isinstance(source, ModuleType) else [source]
        marked = [replace(made, function=function) for function in functions for made in _marks(function)]
        if not marked:
            raise IllegalArgumentError(f"{source!r} has no listener: mark a function with @listener")
        for made in marked:
            if made not in found:
                found.append(made)
    return found


def _marks(function: object) -> tuple[Listener, ...]:
    marks = getattr(function, _MARK, ())
    return marks if isinstance(marks, tuple) else ()


class Staffing:
    """Decides how many consumers one listener has; its user starts and ends them.

    A consumer that gets a message looks whether another one is waiting for the next. If none is, and there are fewer
    than the highest number, one is added: so there is always one ready, and the number grows as long as there are
    messages for all of them. A consumer that has waited *idle_seconds* without a message leaves, while more than the
    lowest number are there and another one waits too.
    """

    def __init__(self, concurrency: Concurrency, idle_seconds: float) -> None:
        self.concurrency = concurrency
        self._idle_seconds = idle_seconds
        self.consumers = 0
        self.waiting = 0
        self._leaving = 0
        """Consumers that may go and have not gone yet."""

    def missing(self) -> int:
        """How many are to be started to have the lowest number."""
        return max(0, self.concurrency.lowest - self.consumers)

    def join(self) -> None:
        self.consumers += 1

    def leave(self) -> None:
        self.consumers -= 1
        self._leaving = max(0, self._leaving - 1)

    def wait(self) -> None:
        """A consumer begins to wait for a message."""
        self.waiting += 1

    def stop_waiting(self) -> None:
        self.waiting -= 1

    def needs_another(self) -> bool:
        """Whether to add one, asked by a consumer that has just got a message."""
        return self.waiting == 0 and self.consumers - self._leaving < self.concurrency.highest

    def let_go(self, waited_seconds: float) -> bool:
        """Whether a consumer that has waited so long may go. It does not count as waiting any more then."""
        is_spare = self.consumers - self._leaving > self.concurrency.lowest and self.waiting > 1
        if not is_spare or waited_seconds < self._idle_seconds:
            return False
        self._leaving += 1
        self.waiting -= 1
        return True
