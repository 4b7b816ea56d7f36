"""Operators' requests by message: reads what is asked for, has `operations.py` do it, and answers.

`ackwire.operation` says what a request and its answers look like.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Final, final

from ackwire.broker.fetching import Fetch
from ackwire.broker.operations import LISTED_AT_ONCE, Counting, DestinationInfo, Operations, Selection
from ackwire.broker.own_queues import ANSWER_CHARACTERS_MAX, Reply
from ackwire.broker.permissions import Principal
from ackwire.errors import BrokerError, InvalidDestination, NotHere
from ackwire.jms.destinations import Destination, parse_destination
from ackwire.jms.types import Long, Value
from ackwire.operation import (
    AFTER,
    ANSWER,
    CHECKPOINT,
    COUNT,
    DELETE_MESSAGES,
    DONE,
    DRY_RUN,
    IDS,
    NOT_HERE,
    OUTCOME,
    QUEUE,
    REFUSED,
    SELECTOR,
    TARGET,
    VERB,
    WORKING,
)
from ackwire.util.clock import Clock
from ackwire.util.logs import escape

_PROGRESS_SECONDS: Final = 1.0
"""Between two answers to one request: who asked knows that it goes on."""

_Asked = Mapping[str, Value]


@final
class OperationRequests:
    """Carries out requests for operations."""

    def __init__(self, clock: Clock, operations: Operations) -> None:
        self._clock = clock
        self._operations = operations

    def answer(self, principal: Principal, properties: _Asked, reply: Reply) -> Iterator[Fetch | None]:
        """Do what *properties* ask for, in steps, and say how many messages or destinations that concerned."""
        try:
            verb = _text(properties, VERB)
            if verb == "list":
                reply(self._list(principal, properties))
                return
            done = self._now(principal, verb, properties)
            if done is None:
                done = yield from self._in_steps(self._counting(principal, verb, properties), reply)
        except NotHere as error:
            reply(_answer(NOT_HERE, 0, str(error)))
        except BrokerError as error:
            reply(_answer(REFUSED, 0, str(error)))
        else:
            reply(_answer(DONE, done, ""))

    def _list(self, principal: Principal, asked: _Asked) -> dict[str, Value]:
        pattern = _destination(asked, QUEUE)
        found = self._operations.list(principal, pattern, _text(asked, AFTER))
        rows = [_row(it) for it in found]
        while len(text := json.dumps(rows)) > ANSWER_CHARACTERS_MAX:
            rows.pop()
        is_all = len(rows) == len(found) < LISTED_AT_ONCE
        return _answer(DONE if is_all else WORKING, len(rows), text)

    def _now(self, principal: Principal, verb: str, asked: _Asked) -> int | None:
        """Do what takes no steps; None if *verb* does."""
        if verb == CHECKPOINT:
            return self._operations.checkpoint(principal)
        verbs: dict[str, Callable[[Principal, Destination], int]] = {
            "create": self._operations.create,
            "pause": self._operations.pause,
            "resume": self._operations.resume,
            "recall": self._operations.recall,
            "delete": self._operations.delete_destination,
        }
        return verbs[verb](principal, _destination(asked, QUEUE)) if verb in verbs else None

    def _counting(self, principal: Principal, verb: str, asked: _Asked) -> Counting:
        if verb == "purge":
            return self._operations.purge(principal, _destination(asked, QUEUE))
        ids = tuple(filter(None, _text(asked, IDS).split("\n")))
        selection = Selection(_destination(asked, QUEUE), ids, _text(asked, SELECTOR) or None)
        if verb not in ("move", "copy", "retry", DELETE_MESSAGES):
            raise BrokerError(f"there is no verb {verb!r}")
        if asked.get(DRY_RUN) is True:
            return self._operations.count(principal, selection)
        if verb == "retry":
            return self._operations.retry(principal, selection)
        if verb == DELETE_MESSAGES:
            return self._operations.delete(principal, selection)
        target = _destination(asked, TARGET)
        if verb == "move":
            return self._operations.move(principal, selection, target)
        return self._operations.copy(principal, selection, target)

    def _in_steps(self, steps: Counting, reply: Reply) -> Counting:
        told = self._clock.monotonic()
        while True:
            try:
                fetch = next(steps)
            except StopIteration as end:
                return int(end.value)
            yield fetch
            if self._clock.monotonic() - told >= _PROGRESS_SECONDS:
                told = self._clock.monotonic()
                reply(_answer(WORKING, 0, ""))


def _answer(outcome: str, count: int, text: str) -> dict[str, Value]:
    return {OUTCOME: outcome, COUNT: Long(count), ANSWER: text if outcome in (DONE, WORKING) else escape(text)}


def _text(asked: _Asked, name: str) -> str:
    value = asked.get(name)
    return value if isinstance(value, str) else ""


def _destination(asked: _Asked, name: str) -> Destination:
    text = _text(asked, name)
    if not text:
        raise InvalidDestination(f"the request has no property {name!r}, which names a destination")
    return parse_destination(text)


def _row(info: DestinationInfo) -> dict[str, object]:
    return {
        "name": info.destination.name,
        "waiting": info.waiting,
        "in_flight": info.in_flight,
        "consumers": info.consumers,
        "producers": info.producers,
        "enqueued": info.enqueued,
        "dequeued": info.dequeued,
        "bytes": info.size_bytes,
        "paused": info.is_paused,
    }
