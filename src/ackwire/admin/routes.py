"""The HTTP routes: one method for each, and one table from exceptions to answers.

Everything but `/health` and `/live` needs the token. Bodies and answers are JSON, or Arrow streams where messages pass
(`arrow.py`). Names in a path are percent-encoded, a slash in them too.
"""

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any, Final, final
from urllib.parse import unquote

from ackwire.admin import arrow, metrics
from ackwire.admin.body_budget import BodyBudget
from ackwire.admin.bulk_api import Cursors, Staging, promised
from ackwire.admin.cluster_api import cluster_status, cluster_transfer
from ackwire.admin.destination_stats import dead_letter_queues, destination_stats
from ackwire.admin.health import health
from ackwire.admin.http import Answer, BadRequest, Request, error_answer, json_answer
from ackwire.admin.metrics import StoreInfo
from ackwire.admin.standing import standing_facts, standing_metrics
from ackwire.admin.tokens import is_authorised
from ackwire.broker.broker import Broker
from ackwire.broker.cursors import CursorInfo
from ackwire.broker.permissions import Principal, Proof
from ackwire.cluster.roles import Standing
from ackwire.cluster.status import Group
from ackwire.config import MIB, HttpSettings
from ackwire.errors import (
    BrokerError,
    Conflict,
    DestinationGone,
    InvalidDestination,
    InvalidSelector,
    NotAuthorised,
    RangeGone,
    RemoteProtocolError,
    ResourceLimit,
    StoreFailed,
    UnknownResource,
    Unsupported,
)
from ackwire.jms.destinations import Kind, destination, is_unicode, parse_written_destination
from ackwire.util.clock import Clock
from ackwire.wire.openwire.limits import WireLimits

_BODY_BYTES_MAX: Final = MIB
"""Limit of a JSON body, and of a body that the route does not use."""
_NAME_LENGTH_MAX: Final = 255
"""Characters of the name of a cursor, a producer or a part."""
_PARTS_MAX: Final = 10_000
"""Parts of one batch, and ranges of one queue."""
_LIMIT_MAX: Final = 10_000_000
"""Messages that one request may make a cursor number."""
_NUMBER_MAX: Final = 2**63 - 1
_RETRY_AFTER: Final = {"retry-after": "1"}

_REPLIES: Final[tuple[tuple[type[Exception], int, str], ...]] = (
    (DestinationGone, 404, "unknown"),
    (UnknownResource, 404, "unknown"),
    (InvalidDestination, 400, "bad-destination"),
    (InvalidSelector, 400, "bad-selector"),
    (RangeGone, 410, "gone"),
    (Conflict, 409, "conflict"),
    (NotAuthorised, 403, "not-authorised"),
    (ResourceLimit, 503, "full"),
    (StoreFailed, 503, "store-failed"),
    (Unsupported, 501, "unsupported"),
    (BrokerError, 400, "refused"),
    (RemoteProtocolError, 400, "bad-request"),
)
"""The first class that an exception belongs to decides its status and its word."""

_OPEN: Final = ("/health", "/live")
"""Paths that take no token."""

_CALLER: Final = Principal("http", proof=Proof.TOKEN)
"""Who calls: all that is known is that it has the token."""

_Parameters = Mapping[str, str]
_Route = tuple[str, str, Callable[[Request, _Parameters], Awaitable[Answer]]]


@dataclass(frozen=True, slots=True)
class ApiOptions:
    """What an API needs besides the broker."""

    settings: HttpSettings
    token: bytes
    store: StoreInfo
    wire_limits: WireLimits
    clock: Clock
    failure: Callable[[], StoreFailed | None] = lambda: None
    """The failure of the store, if it has failed."""
    standing: Callable[[], Standing | None] = lambda: None
    """The broker's role, if it is known."""
    group: Group | None = None
    """The group of brokers, if there is one."""


@final
class Api:
    """Answers requests; `answer` is the handler of an `HttpServer`."""

    def __init__(
        self, broker: Broker, options: ApiOptions, *, cursors: Cursors | None = None, staging: Staging | None = None
    ) -> None:
        self._broker = broker
        self._bulk = broker.bulk(_CALLER)
        self._cursors: Cursors = cursors or self._bulk.cursors
        self._staging: Staging = staging or self._bulk.staging
        self._options = options
        self._started = options.clock.monotonic()
        self._body_budget = BodyBudget(options.settings.bodies_bytes_max)
        routes: tuple[_Route, ...] = (
            ("GET", "/health", self._health),
            ("GET", "/live", self._live),
            ("GET", "/metrics", self._metrics),
            ("GET", "/v1/cluster", self._cluster),
            ("POST", "/v1/cluster/transfer", self._transfer),
            ("GET", "/v1/destinations", self._destinations),
            ("GET", "/v1/dead-letters", self._dead_letters),
            ("GET", "/v1/cursors", self._all_cursors),
            ("POST", "/v1/cursors", self._open_cursor),
            ("GET", "/v1/cursors/{name}", self._cursor),
            ("DELETE", "/v1/cursors/{name}", self._close_cursor),
            ("POST", "/v1/cursors/{name}/latest", self._latest),
            ("POST", "/v1/cursors/{name}/commit", self._commit_cursor),
            ("GET", "/v1/cursors/{name}/messages", self._cursor_messages),
            ("GET", "/v1/queues/{name}/ranges", self._queue_ranges),
            ("GET", "/v1/queues/{name}/messages", self._queue_messages),
            ("GET", "/v1/producers/{name}", self._producer),
            ("POST", "/v1/producers/{name}/commit", self._commit_batch),
            ("POST", "/v1/producers/{name}/parts/{part}", self._stage_part),
            ("DELETE", "/v1/producers/{name}/parts/{part}", self._drop_part),
        )
        self._routes = [(method, tuple(path.split("/")), handler) for method, path, handler in routes]

    def routes(self) -> list[tuple[str, str]]:
        """Method and path of each route."""
        return [(method, "/".join(path)) for method, path, _ in self._routes]

    async def answer(self, request: Request) -> Answer:
        """Answer *request*; what goes wrong on the way becomes an answer too."""
        try:
            return await self._answer(request)
        except (BrokerError, RemoteProtocolError) as error:
            return refusal(error)

    async def _answer(self, request: Request) -> Answer:
        if request.path not in _OPEN and not is_authorised(request.header("authorization"), self._options.token):
            challenge = {"www-authenticate": 'Bearer realm="ackwire"'}
            message = "the header Authorization: Bearer TOKEN is missing or has another token than http.token_file"
            return error_answer(401, "not-authorised", message, challenge)
        segments = tuple(request.path.split("/"))
        matches = ((method, handler, _matched(path, segments)) for method, path, handler in self._routes)
        found = [(method, handler, given) for method, handler, given in matches if given is not None]
        for method, handler, given in found:
            if method == request.method:
                return await handler(request, given)
        if not found:
            return error_answer(404, "no-such-path", f"there is nothing at {request.path[:200]}")
        allowed = ", ".join(sorted({method for method, _, _ in found}))
        message = f"{request.method[:20]} is not for {request.path[:200]}; it takes {allowed}"
        return error_answer(405, "wrong-method", message, {"allow": allowed})

    # ---- the broker --------------------------------------------------------------------------------------------

    @property
    def _uptime_seconds(self) -> float:
        return self._options.clock.monotonic() - self._started

    async def _health(self, request: Request, _: _Parameters) -> Answer:
        await _no_body(request)
        options = self._options
        return health(self._broker, options.store, self._uptime_seconds, options.failure(), options.standing())

    async def _live(self, request: Request, _: _Parameters) -> Answer:
        await _no_body(request)
        standing = self._options.standing()
        return json_answer(200, {"status": "alive", **({} if standing is None else standing_facts(standing))})

    async def _cluster(self, request: Request, _: _Parameters) -> Answer:
        await _no_body(request)
        self._bulk.inspect()
        return await cluster_status(self._options.group)

    async def _transfer(self, request: Request, _: _Parameters) -> Answer:
        self._bulk.operate()
        return await cluster_transfer(self._options.group, request)

    async def _metrics(self, request: Request, _: _Parameters) -> Answer:
        await _no_body(request)
        self._bulk.inspect()
        text = await metrics.render(self._broker, self._options.store, self._uptime_seconds)
        standing = self._options.standing()
        if standing is not None:
            text += "\n".join(standing_metrics(standing)) + "\n"
        return Answer(200, text.encode("utf-8", "replace"), metrics.CONTENT_TYPE)

    async def _destinations(self, request: Request, _: _Parameters) -> Answer:
        await _no_body(request)
        self._bulk.inspect()
        return Answer(200, pieces=self._destination_lines())

    async def _destination_lines(self) -> AsyncIterator[bytes]:
        """A list of JSON, an object on each line, because it may be long."""
        separator = b"[\n"
        async for name, _, counts in destination_stats(self._broker):
            line = json.dumps({"destination": name, **asdict(counts)}, ensure_ascii=False)
            yield separator + line.encode("utf-8", "replace")
            separator = b",\n"
        yield b"[]\n" if separator == b"[\n" else b"\n]\n"

    async def _dead_letters(self, request: Request, _: _Parameters) -> Answer:
        await _no_body(request)
        self._bulk.inspect()
        queues = dead_letter_queues(self._broker)
        return json_answer(200, [{"queue": repr(queue), "pending": queue.view.pending_count} for queue in queues])

    # ---- cursors -----------------------------------------------------------------------------------------------

    async def _all_cursors(self, request: Request, _: _Parameters) -> Answer:
        await _no_body(request)
        shown = []
        for info in self._cursors.all():
            with suppress(UnknownResource):  # it was closed meanwhile
                shown.append(await self._shown(info))
        return json_answer(200, shown)

    async def _shown(self, info: CursorInfo) -> dict[str, object]:
        oldest = self._cursors.oldest(info.name)
        await promised(lambda done, _: oldest.when_arrived(done))
        return _shown(info, next((it.timestamp for it in oldest.messages if it is not None), None))

    async def _open_cursor(self, request: Request, _: _Parameters) -> Answer:
        body = await _json_body(request, "name", "destination", "selector", "create")
        where = parse_written_destination(_text(body, "destination"))
        selector = None if body.get("selector") is None else _text(body, "selector")
        name, create = _name(_text(body, "name")), _flag(body, "create", True)
        info = self._cursors.open(name, where, selector, create=create)
        await self._durable()
        return json_answer(200, await self._shown(info))

    async def _durable(self) -> None:
        """Wait until what was done is on the medium."""
        await promised(self._broker.when_durable)

    async def _cursor(self, request: Request, given: _Parameters) -> Answer:
        await _no_body(request)
        return json_answer(200, await self._shown(self._cursors.info(given["name"])))

    async def _close_cursor(self, request: Request, given: _Parameters) -> Answer:
        await _no_body(request)
        await promised(lambda done, failed: self._cursors.close(given["name"], done, failed))
        return json_answer(200, {"closed": given["name"]})

    async def _latest(self, request: Request, given: _Parameters) -> Answer:
        body = await _json_body(request, "after", "limit")
        after, limit = _number(body, "after"), _number(body, "limit", highest=_LIMIT_MAX)
        latest = await promised(lambda done, failed: self._cursors.latest(given["name"], after, limit, done, failed))
        return json_answer(200, {"latest": latest})

    async def _commit_cursor(self, request: Request, given: _Parameters) -> Answer:
        to = _number(await _json_body(request, "to"), "to")
        committed = await promised(lambda done, failed: self._cursors.commit(given["name"], to, done, failed))
        return json_answer(200, {"committed": committed})

    async def _cursor_messages(self, request: Request, given: _Parameters) -> Answer:
        await _no_body(request)
        after, to = _range(request)

        def read(after: int, to: int) -> Awaitable[arrow.Rows]:
            return promised(lambda done, failed: self._cursors.rows(given["name"], after, to, done, failed))

        rows = arrow.Dense(read, after, to)
        return await arrow.messages(rows, self._options.wire_limits)

    # ---- queues, without consuming -----------------------------------------------------------------------------

    async def _queue_ranges(self, request: Request, given: _Parameters) -> Answer:
        await _no_body(request)
        query = _known(request.query(), "parts")
        parts = _number(query, "parts", lowest=1, highest=_PARTS_MAX) if query else 1
        sequences = self._bulk.browse_sequences(destination(Kind.QUEUE, given["name"]))
        return json_answer(200, {"ranges": ranges(sequences, parts), "messages": len(sequences)})

    async def _queue_messages(self, request: Request, given: _Parameters) -> Answer:
        await _no_body(request)
        after, to = _range(request, open_end=True)
        where = destination(Kind.QUEUE, given["name"])

        def read(after: int, limit: int) -> Awaitable[tuple[arrow.Rows, int | None]]:
            return promised(
                lambda done, _: self._bulk.browse_rows(where, after, to, limit, lambda rows, last: done((rows, last)))
            )

        rows = arrow.Sparse(read, after)
        return await arrow.messages(rows, self._options.wire_limits)

    # ---- staged batches ----------------------------------------------------------------------------------------

    async def _producer(self, request: Request, given: _Parameters) -> Answer:
        await _no_body(request)
        info = self._staging.info(_name(given["name"]))
        parts = [{"part": part, "batch": batch, "messages": messages} for part, batch, messages in info.parts]
        return json_answer(200, {"last_batch": info.last_batch, "parts": parts})

    async def _commit_batch(self, request: Request, given: _Parameters) -> Answer:
        body = await _json_body(request, "batch", "parts")
        batch, parts = _number(body, "batch"), _names(body, "parts")
        committed = await promised(
            lambda done, failed: self._staging.commit(_name(given["name"]), batch, parts, done, failed)
        )
        last_batch = self._staging.info(given["name"]).last_batch
        return json_answer(200, {"committed": committed, "last_batch": last_batch})

    async def _stage_part(self, request: Request, given: _Parameters) -> Answer:
        query = _known(request.query(), "batch", "destination")
        batch = _number(query, "batch")
        where = parse_written_destination(query["destination"]) if query.get("destination") else None
        part = arrow.Part(_name(given["name"]), batch, _name(given["part"]), where)
        arrow.require_pyarrow()
        bytes_max = self._options.settings.part_bytes_max
        length = request.body_bytes
        async with self._body_budget.reserve(bytes_max if length is None else min(length, bytes_max)):
            body = await request.body(bytes_max)
            staged = await arrow.stage(self._staging, part, body, self._broker.clock, self._options.wire_limits)
        return json_answer(200, {"messages": staged})

    async def _drop_part(self, request: Request, given: _Parameters) -> Answer:
        await _no_body(request)
        self._staging.drop(_name(given["name"]), _name(given["part"]))
        await self._durable()
        return json_answer(200, {"dropped": given["part"]})


def refusal(error: Exception) -> Answer:
    """The answer to what went wrong."""
    for kind, status, code in _REPLIES:
        if isinstance(error, kind):
            return error_answer(status, code, str(error), _RETRY_AFTER if status == 503 else None)
    raise error


def ranges(sequences: Sequence[int], parts: int) -> list[tuple[int, int]]:
    """At most *parts* ranges, behind a number and up to one, that hold all *sequences*, each about as many."""
    parts = min(parts, len(sequences))
    ends = [sequences[len(sequences) * part // parts - 1] for part in range(1, parts + 1)]
    return list(zip([0, *ends], ends, strict=False))


def _matched(path: Sequence[str], segments: Sequence[str]) -> dict[str, str] | None:
    """The names in *segments*, decoded, if they are of that *path*."""
    if len(path) != len(segments):
        return None
    if any(wanted != segment for wanted, segment in zip(path, segments, strict=True) if not wanted.startswith("{")):
        return None
    return {
        wanted.strip("{}"): _decoded(segment)
        for wanted, segment in zip(path, segments, strict=True)
        if wanted.startswith("{")
    }


def _decoded(segment: str) -> str:
    try:
        return unquote(segment, errors="strict")
    except UnicodeDecodeError:
        raise BadRequest(f'"{segment[:200]}" in the path is no percent-encoded UTF-8') from None


def _shown(info: CursorInfo, oldest_ms: int | None) -> dict[str, object]:
    return {
        "name": info.name,
        "destination": repr(info.destination),
        "selector": info.selector,
        "committed": info.committed,
        "assigned": info.assigned,
        "waiting": info.waiting,
        "lag": info.lag,
        "oldest_ms": oldest_ms,
    }


# ---- reading requests ------------------------------------------------------------------------------------------


async def _no_body(request: Request) -> None:
    """Read and discard a body that the route does not use; a long one is refused."""
    await request.body(_BODY_BYTES_MAX)


async def _json_body(request: Request, *known: str) -> dict[str, Any]:
    """The body, an object with *known* keys only. Raises `BadRequest`."""
    try:
        value = json.loads(bytes(await request.body(_BODY_BYTES_MAX)))
        is_text = _is_unicode(value)
    except (ValueError, RecursionError) as error:
        raise BadRequest(f"the body is no JSON: {error}") from None
    if not is_text:
        raise BadRequest("the body has a string with half a surrogate pair (\\ud800 to \\udfff), which is no text")
    if not isinstance(value, dict):
        raise BadRequest("the body must be a JSON object")
    return _known(value, *known)


def _is_unicode(value: object) -> bool:
    """Whether every string in *value*, which came as JSON, is text."""
    match value:
        case str():
            return is_unicode(value)
        case list():
            return all(map(_is_unicode, value))
        case dict():
            return all(_is_unicode(key) and _is_unicode(item) for key, item in value.items())
    return True


def _known(values: dict[str, Any], *known: str) -> dict[str, Any]:
    unknown = [key for key in values if key not in known]
    if unknown:
        raise BadRequest(f'"{unknown[0][:100]}" is not known here; known: {", ".join(known)}')
    return values


def _text(values: Mapping[str, Any], key: str) -> str:
    value = values.get(key)
    if not isinstance(value, str) or not value:
        raise BadRequest(f'"{key}" must be text, and is missing or something else')
    return value


def _flag(values: Mapping[str, Any], key: str, default: bool) -> bool:
    value = values.get(key, default)
    if not isinstance(value, bool):
        raise BadRequest(f'"{key}" must be true or false')
    return value


def _number(values: Mapping[str, Any], key: str, *, lowest: int = 0, highest: int = _NUMBER_MAX) -> int:
    value = values.get(key)
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= len(str(_NUMBER_MAX)):
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not lowest <= value <= highest:
        raise BadRequest(f'"{key}" must be a whole number from {lowest} to {highest}')
    return value


def _range(request: Request, *, open_end: bool = False) -> tuple[int, int]:
    """`after` and `to`; with *open_end* both may be missing."""
    query = _known(request.query(), "after", "to")
    if open_end:
        query = {"after": "0", "to": str(_NUMBER_MAX), **query}
    after, to = _number(query, "after"), _number(query, "to")
    if to < after:
        raise BadRequest(f'"to" is {to}, before "after", which is {after}')
    return after, to


def _name(text: str) -> str:
    if not text or len(text) > _NAME_LENGTH_MAX or not text.isprintable():
        raise BadRequest(f"a name must be printable text of 1 to {_NAME_LENGTH_MAX} characters")
    return text


def _names(values: Mapping[str, Any], key: str) -> list[str]:
    names = values.get(key)
    if not isinstance(names, list) or len(names) > _PARTS_MAX or not all(isinstance(it, str) for it in names):
        raise BadRequest(f'"{key}" must be a list of at most {_PARTS_MAX} names')
    return [_name(name) for name in names]
