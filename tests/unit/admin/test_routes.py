"""What each route asks of the broker and answers, without Arrow: with stand-ins for cursors and staged batches."""

import asyncio
import json
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

import pytest

from ackwire.admin.routes import refusal
from ackwire.broker.cursors import CursorInfo
from ackwire.broker.fetching import Fetch
from ackwire.broker.permissions import Action, Principal
from ackwire.broker.staging import ProducerInfo
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
from ackwire.jms.destinations import Destination, parse_destination
from tests.helpers.http_rig import HttpClient, HttpRig


def new_info(name: str, destination: Destination, selector: str | None = None) -> CursorInfo:
    return CursorInfo(name, destination, selector, committed=0, assigned=0, waiting=0)


@dataclass
class CursorsStandIn:
    """Remembers what it was asked, and answers later, as a disk would."""

    known: dict[str, CursorInfo] = field(default_factory=dict)
    asked: list[tuple[Any, ...]] = field(default_factory=list)
    error: BrokerError | None = None
    answers: bool = True

    def open(self, name: str, destination: Destination, selector: str | None, *, create: bool) -> CursorInfo:
        self.asked.append(("open", name, destination, selector, create))
        return self.known.setdefault(name, new_info(name, destination, selector))

    def info(self, name: str) -> CursorInfo:
        if name not in self.known:
            raise UnknownResource(f"cursor {name} does not exist")
        return self.known[name]

    def all(self) -> list[CursorInfo]:
        return list(self.known.values())

    def oldest(self, name: str) -> Fetch:
        self.info(name)
        fetch = Fetch()
        asyncio.get_running_loop().call_soon(fetch.arrive, [])
        return fetch

    def latest(self, name: str, after: int, limit: int, on_done: Any, on_failed: Any) -> None:
        self._later(("latest", name, after, limit), on_done, on_failed, after + 7)

    def commit(self, name: str, to: int, on_done: Any, on_failed: Any) -> None:
        self._later(("commit", name, to), on_done, on_failed, to)

    def close(self, name: str, on_done: Any, on_failed: Any) -> None:
        self._later(("close", name), on_done, on_failed)

    def _later(self, asked: tuple[Any, ...], on_done: Any, on_failed: Any, *value: Any) -> None:
        self.asked.append(asked)
        if not self.answers:
            return
        loop = asyncio.get_running_loop()
        if self.error is not None:
            loop.call_soon(on_failed, self.error)
        else:
            loop.call_soon(on_done, *value)


@dataclass
class StagingStandIn:
    asked: list[tuple[Any, ...]] = field(default_factory=list)
    is_repetition: bool = False

    def commit(self, producer: str, batch: int, parts: list[str], on_done: Any, _: Any) -> None:
        self.asked.append(("commit", producer, batch, parts))
        asyncio.get_running_loop().call_soon(on_done, not self.is_repetition)

    def drop(self, producer: str, part: str) -> None:
        self.asked.append(("drop", producer, part))

    def info(self, producer: str) -> ProducerInfo:
        return ProducerInfo(producer, 4, (("p1", 5, 70),))


def with_client(test: Callable[[HttpClient, HttpRig], Coroutine[Any, Any, None]], **parts: Any) -> None:
    async def run() -> None:
        async with HttpRig(**parts) as http:
            await test(await http.client(), http)

    asyncio.run(run())


# --- who may ask ---------------------------------------------------------------------------------------


def test_everything_but_health_needs_the_token() -> None:
    async def test(client: HttpClient, _: HttpRig) -> None:
        assert (await client.get("/health", token=None)).status == 200
        for target in ("/metrics", "/v1/destinations", "/v1/cursors", "/nowhere", "/health/", "//health"):
            reply = await client.get(target, token=None)
            assert reply.error == (401, "not-authorised")
            assert reply.headers["www-authenticate"].startswith("Bearer")
        assert (await client.get("/metrics", token="another")).status == 401
        assert (await client.get("/metrics")).status == 200

    with_client(test)


def test_unknown_paths_and_methods_are_told_apart() -> None:
    async def test(client: HttpClient, _: HttpRig) -> None:
        assert (await client.get("/v1/nothing")).error == (404, "no-such-path")
        refused = await client.delete("/v1/cursors")
        assert refused.error == (405, "wrong-method")
        assert refused.headers["allow"] == "GET, POST"

    with_client(test)


# --- the broker ----------------------------------------------------------------------------------------


def test_health_says_what_is_wrong() -> None:
    async def test(client: HttpClient, http: HttpRig) -> None:
        http.rig.clock.advance(2.5)
        well = await client.get("/health")
        assert (well.status, well.json) == (200, {"status": "ok", "store": "memory", "uptime_seconds": 2.5})
        http.rig.broker.flow.used_bytes = http.rig.broker.flow.memory_bytes_max
        full = await client.get("/health")
        assert (full.status, full.json["status"]) == (503, "full")
        assert "limits.memory_bytes_max" in full.json["why"]
        http.failure = StoreFailed("the disk is gone")
        failed = await client.get("/health")
        assert (failed.status, failed.json["status"], failed.json["why"]) == (503, "failed", "the disk is gone")

    with_client(test)


def test_destinations_are_listed_with_their_counts() -> None:
    async def test(client: HttpClient, http: HttpRig) -> None:
        assert (await client.get("/v1/destinations")).json == []
        http.rig.connect().send("queue://orders", "x")
        http.rig.connect().send("queue://ünï", "x")
        first, second = (await client.get("/v1/destinations")).json
        assert first["destination"] == "queue://orders"
        assert (first["pending"], first["enqueued"], first["consumers"]) == (1, 1, 0)
        assert second["destination"] == "queue://ünï"

    with_client(test)


def test_dead_letter_queues_are_listed() -> None:
    async def test(client: HttpClient, http: HttpRig) -> None:
        assert (await client.get("/v1/dead-letters")).json == []
        http.rig.connect().send("queue://orders")
        http.rig.connect().send("queue://ActiveMQ.DLQ")
        assert (await client.get("/v1/dead-letters")).json == [{"queue": "queue://ActiveMQ.DLQ", "pending": 1}]

    with_client(test)


# --- cursors -------------------------------------------------------------------------------------------


def test_cursor_is_opened_on_its_terms() -> None:
    cursors = CursorsStandIn()

    async def test(client: HttpClient, _: HttpRig) -> None:
        opened = await client.post("/v1/cursors", {"name": "lake", "destination": "orders"})
        assert opened.json == {
            "name": "lake", "destination": "queue://orders", "selector": None, "committed": 0, "assigned": 0,
            "waiting": 0, "lag": 0, "oldest_ms": None,
        }  # fmt: skip
        terms = {"name": "b", "destination": "topic://t", "selector": "a = 1", "create": False}
        assert (await client.post("/v1/cursors", terms)).status == 200
        assert [facts["name"] for facts in (await client.get("/v1/cursors")).json] == ["lake", "b"]

    with_client(test, cursors=cursors)
    assert cursors.asked == [
        ("open", "lake", parse_destination("queue://orders"), None, True),
        ("open", "b", parse_destination("topic://t"), "a = 1", False),
    ]


def test_cursor_is_read_committed_and_closed_by_name() -> None:
    cursors = CursorsStandIn({"a/b c": new_info("a/b c", parse_destination("orders"))})

    async def test(client: HttpClient, _: HttpRig) -> None:
        assert (await client.get("/v1/cursors/a%2Fb%20c")).json["name"] == "a/b c"
        assert (await client.get("/v1/cursors/other")).error == (404, "unknown")
        assert (await client.post("/v1/cursors/a%2Fb%20c/latest", {"after": 5, "limit": 10})).json == {"latest": 12}
        assert (await client.post("/v1/cursors/a%2Fb%20c/commit", {"to": 12})).json == {"committed": 12}
        assert (await client.delete("/v1/cursors/a%2Fb%20c")).status == 200

    with_client(test, cursors=cursors)
    assert cursors.asked == [("latest", "a/b c", 5, 10), ("commit", "a/b c", 12), ("close", "a/b c")]


def test_failure_that_comes_later_is_answered() -> None:
    async def test(client: HttpClient, _: HttpRig) -> None:
        reply = await client.post("/v1/cursors/lake/commit", {"to": 12})
        assert (reply.error, reply.json["error"]) == ((409, "conflict"), "only 7 were assigned")

    with_client(test, cursors=CursorsStandIn(error=Conflict("only 7 were assigned")))


def test_client_that_leaves_meanwhile_harms_nothing(caplog: pytest.LogCaptureFixture) -> None:
    cursors = CursorsStandIn(answers=False)

    async def test(client: HttpClient, http: HttpRig) -> None:
        client.send("POST", "/v1/cursors/lake/commit", body=b'{"to": 1}')
        while not cursors.asked:
            await asyncio.sleep(0)
        client.writer.transport.abort()
        assert (await (await http.client()).get("/health")).status == 200
        await http.server.drain(0)

    with_client(test, cursors=cursors)
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"\xff",
        b"[" * 100_000,
        b'{"after": 1}',
        b'{"after": -1, "limit": 1}',
        b'{"after": true, "limit": 1}',
        b'{"after": 1.5, "limit": 1}',
        b'{"after": 1, "limit": 100000000000}',
        b'{"after": 9223372036854775808, "limit": 1}',
        b'{"after": 1' + b"0" * 5000 + b', "limit": 1}',
        b'{"after": 1, "limit": 1, "foo": 1}',
    ],
)
def test_body_that_cannot_be_used_is_refused(body: bytes) -> None:
    async def test(client: HttpClient, _: HttpRig) -> None:
        assert (await client.post("/v1/cursors/lake/latest", body=body)).error == (400, "bad-request")
        assert (await client.get("/health")).status == 200

    with_client(test, cursors=CursorsStandIn())


@pytest.mark.parametrize(
    "query", ["", "after=1", "after=2&to=1", "after=1&to=x", "after=1&to=2&after=3", "after=1&&to", "%ff=1"]
)
def test_range_that_cannot_be_used_is_refused(query: str) -> None:
    async def test(client: HttpClient, _: HttpRig) -> None:
        assert (await client.get(f"/v1/cursors/lake/messages?{query}")).error == (400, "bad-request")

    with_client(test, cursors=CursorsStandIn())


def test_name_in_a_path_that_is_no_utf8_is_refused() -> None:
    async def test(client: HttpClient, _: HttpRig) -> None:
        assert (await client.get("/v1/cursors/%ff")).error == (400, "bad-request")

    with_client(test, cursors=CursorsStandIn())


# --- queues --------------------------------------------------------------------------------------------


def test_ranges_of_a_queue_hold_all_its_messages() -> None:
    async def test(client: HttpClient, http: HttpRig) -> None:
        producer = http.rig.connect()
        sequences = [producer.send("queue://a/b").sequence for _ in range(10)]
        one = await client.get("/v1/queues/a%2Fb/ranges")
        assert one.json == {"ranges": [[0, sequences[-1]]], "messages": 10}
        four = (await client.get("/v1/queues/a%2Fb/ranges?parts=4")).json["ranges"]
        assert [sum(1 for it in sequences if after < it <= to) for after, to in four] == [2, 3, 2, 3]
        assert len((await client.get("/v1/queues/a%2Fb/ranges?parts=100")).json["ranges"]) == 10
        assert (await client.get("/v1/queues/a%2Fb/ranges?parts=0")).error == (400, "bad-request")

    with_client(test)


def test_empty_queue_has_no_ranges_and_an_unknown_one_is_an_error() -> None:
    async def test(client: HttpClient, http: HttpRig) -> None:
        http.rig.consumer("queue://idle")
        assert (await client.get("/v1/queues/idle/ranges?parts=3")).json == {"ranges": [], "messages": 0}
        assert (await client.get("/v1/queues/other/ranges")).error == (404, "unknown")
        assert (await client.get("/v1/queues/other/messages")).error == (404, "unknown")

    with_client(test)


# --- staged batches ------------------------------------------------------------------------------------


def test_batch_is_committed_with_its_parts() -> None:
    staging = StagingStandIn()

    async def test(client: HttpClient, _: HttpRig) -> None:
        committed = await client.post("/v1/producers/job/commit", {"batch": 4, "parts": ["p1", "p2"]})
        assert committed.json == {"committed": True, "last_batch": 4}
        staging.is_repetition = True
        again = await client.post("/v1/producers/job/commit", {"batch": 4, "parts": []})
        assert again.json == {"committed": False, "last_batch": 4}
        assert (await client.get("/v1/producers/job")).json == {
            "last_batch": 4,
            "parts": [{"part": "p1", "batch": 5, "messages": 70}],
        }
        assert (await client.delete("/v1/producers/job/parts/p%2F1")).status == 200

    with_client(test, staging=staging)
    assert staging.asked == [("commit", "job", 4, ["p1", "p2"]), ("commit", "job", 4, []), ("drop", "job", "p/1")]


@pytest.mark.parametrize("parts", ["p1", [1], ["x" * 300], ["a\nb"], [""], ["p"] * 10_001])
def test_parts_that_are_no_names_are_refused(parts: object) -> None:
    async def test(client: HttpClient, _: HttpRig) -> None:
        reply = await client.post("/v1/producers/job/commit", {"batch": 4, "parts": parts})
        assert reply.error == (400, "bad-request")

    with_client(test, staging=StagingStandIn())


# --- errors --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (UnknownResource("x"), 404),
        (DestinationGone("x"), 404),
        (InvalidDestination("x"), 400),
        (InvalidSelector("x"), 400),
        (RangeGone("x"), 410),
        (Conflict("x"), 409),
        (NotAuthorised("x"), 403),
        (ResourceLimit("x"), 503),
        (StoreFailed("x"), 503),
        (Unsupported("x"), 501),
        (BrokerError("x"), 400),
        (RemoteProtocolError("x"), 400),
    ],
)
def test_each_error_has_its_status(error: Exception, status: int) -> None:
    answer = refusal(error)
    assert answer.status == status
    assert ("retry-after" in answer.headers) == (status == 503)


# --- who may do what -------------------------------------------------------------------------------------


def test_every_route_but_health_and_live_asks_for_permission() -> None:
    async def test(client: HttpClient, http: HttpRig) -> None:
        broker = http.rig.broker
        http.rig.connect().send("queue://name")
        broker.cursors.open("name", parse_destination("queue://name"))
        names: set[str] = set()

        def refuse(principal: Principal, _action: Action, _where: Destination | None) -> str:
            names.add(principal.name)
            return "nothing is allowed"

        broker.permissions.use(refuse)
        bodies: dict[str, object] = {
            "/v1/cluster/transfer": {"node": "b"},
            "/v1/cursors": {"name": "name", "destination": "name"},
            "/v1/cursors/{name}/latest": {"after": 0, "limit": 1},
            "/v1/cursors/{name}/commit": {"to": 0},
            "/v1/producers/{name}/commit": {"batch": 1, "parts": ["p"]},
        }
        queries = {
            "/v1/cursors/{name}/messages": "?after=0&to=0",
            "/v1/queues/{name}/messages": "?after=0",
        }
        for method, path in http.api.routes():
            target = path.replace("{name}", "name").replace("{part}", "p") + queries.get(path, "")
            if path == "/v1/producers/{name}/parts/{part}" and method == "POST":
                continue  # its body is Arrow; `StagingAccess.stage` asks
            body = json.dumps(bodies[path]).encode() if method == "POST" else b""
            reply = await client.request(method, target, body=body)
            assert reply.status == (200 if path in ("/health", "/live") else 403), (method, path, reply.body)
        assert names == {"http"}

    with_client(test)
