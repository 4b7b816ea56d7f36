"""Messages over HTTP as Arrow streams, with stand-ins for cursors and staged batches."""

import asyncio
import random
import sys
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from ackwire.config import MIB
from ackwire.errors import Conflict, RangeGone, ResourceLimit
from ackwire.jms.message import Message
from tests.helpers.broker_rig import BrokerRig, text_of
from tests.helpers.http_rig import ARROW, BrokenOff, HttpClient, HttpRig

pa = pytest.importorskip("pyarrow")

Row = tuple[int, bytes, int]


def with_client(test: Callable[[HttpClient, HttpRig], Coroutine[Any, Any, None]], **parts: Any) -> None:
    async def run() -> None:
        async with HttpRig(**parts) as http:
            await test(await http.client(), http)

    asyncio.run(run())


# --- reading -------------------------------------------------------------------------------------------


class CursorsStandIn:
    """Numbered messages; those up to *committed* are gone, and those from *lost* on cannot be read."""

    def __init__(self, count: int, *, size: int = 10, committed: int = 0, lost: int | None = None) -> None:
        rig = BrokerRig()
        client = rig.connect()
        frame = client.send("queue://orders", "x" * size).frame
        self._rows = [(number, frame, number % 2) for number in range(1, count + 1)]
        self._committed = committed
        self._lost = lost
        self.asked: list[int] = []

    def rows(self, _: str, after: int, to: int, on_done: Any, on_failed: Any) -> None:
        """The error of a range that is committed comes at once, all else later, as from a disk."""
        self.asked.append(to - after)
        if after < self._committed:
            raise RangeGone(f"messages up to {self._committed} were committed and are gone")
        loop = asyncio.get_running_loop()
        if self._lost is not None and to >= self._lost:
            loop.call_soon(on_failed, RangeGone(f"message {self._lost} is lost"))
        else:
            loop.call_soon(on_done, self._rows[after:to])


def table(body: bytes) -> Any:
    return pa.ipc.open_stream(body).read_all()


def test_range_is_an_arrow_stream_of_its_rows() -> None:
    async def test(client: HttpClient, _: HttpRig) -> None:
        reply = await client.get("/v1/cursors/lake/messages?after=5&to=1005")
        assert (reply.status, reply.headers["content-type"]) == (200, ARROW)
        found = table(reply.body)
        assert found["sequence"].to_pylist() == list(range(6, 1006))
        assert found["text"][0].as_py() == "x" * 10
        assert found["redelivery_count"].to_pylist()[:2] == [0, 1]

    with_client(test, cursors=CursorsStandIn(2000))


def test_empty_range_has_the_schema_and_no_rows() -> None:
    async def test(client: HttpClient, _: HttpRig) -> None:
        found = table((await client.get("/v1/cursors/lake/messages?after=5&to=5")).body)
        assert found.num_rows == 0
        assert "message_id" in found.schema.names

    with_client(test, cursors=CursorsStandIn(10))


def test_slices_are_small_and_batches_large() -> None:
    cursors = CursorsStandIn(20_000)

    async def test(client: HttpClient, _: HttpRig) -> None:
        reply = await client.get("/v1/cursors/lake/messages?after=0&to=20000")
        sizes = [batch.num_rows for batch in pa.ipc.open_stream(reply.body)]
        assert sum(sizes) == 20_000
        assert len(sizes) <= 4

    with_client(test, cursors=cursors)
    assert max(cursors.asked) == 256


def test_large_messages_are_read_few_at_a_time() -> None:
    cursors = CursorsStandIn(64, size=MIB)

    async def test(client: HttpClient, _: HttpRig) -> None:
        reply = await client.get("/v1/cursors/lake/messages?after=0&to=64")
        batches = list(pa.ipc.open_stream(reply.body))
        assert sum(batch.num_rows for batch in batches) == 64
        assert max(batch.nbytes for batch in batches[4:]) <= 6 * MIB

    with_client(test, cursors=cursors)
    assert max(cursors.asked[1:]) == 1


def test_range_that_is_gone_is_a_status() -> None:
    async def test(client: HttpClient, _: HttpRig) -> None:
        for query in ("after=0&to=20", "after=0&to=0"):
            reply = await client.get(f"/v1/cursors/lake/messages?{query}")
            assert reply.error == (410, "gone")
            assert reply.json["error"] == "messages up to 7 were committed and are gone"

    with_client(test, cursors=CursorsStandIn(100, committed=7))


def test_range_that_cannot_be_read_to_its_end_is_broken_off(caplog: pytest.LogCaptureFixture) -> None:
    async def test(client: HttpClient, http: HttpRig) -> None:
        with pytest.raises(BrokenOff):
            await client.get("/v1/cursors/lake/messages?after=0&to=20000")
        assert (await (await http.client()).get("/health")).status == 200

    with_client(test, cursors=CursorsStandIn(20_000, lost=15_000))
    assert "message 15000 is lost" in caplog.text


def test_others_get_their_turn_while_a_range_is_read() -> None:
    cursors = CursorsStandIn(20_000)

    async def test(client: HttpClient, http: HttpRig) -> None:
        client.send("GET", "/v1/cursors/lake/messages?after=0&to=20000")
        while not cursors.asked:
            await asyncio.sleep(0)
        assert (await (await http.client()).get("/health")).status == 200
        assert sum(cursors.asked) < 20_000, "the range was read in one go"
        await client.reply()

    with_client(test, cursors=cursors)


def test_queue_is_read_without_consuming() -> None:
    async def test(client: HttpClient, http: HttpRig) -> None:
        producer = http.rig.connect()
        sequences = [producer.send("queue://orders", f"order {number}").sequence for number in range(1000)]
        http.rig.consumer("queue://orders", prefetch=10)
        everything = table((await client.get("/v1/queues/orders/messages")).body)
        assert everything["sequence"].to_pylist() == sequences
        assert everything["text"].to_pylist()[:2] == ["order 0", "order 1"]
        some = await client.get(f"/v1/queues/orders/messages?after={sequences[1]}&to={sequences[4]}")
        assert table(some.body)["sequence"].to_pylist() == sequences[2:5]

    with_client(test)


# --- staging -------------------------------------------------------------------------------------------


@dataclass
class StagingStandIn:
    """Keeps what was staged; each call is durable a turn later, unless it fails."""

    staged: list[tuple[str, int, str, list[Message]]] = field(default_factory=list)
    fail_after: int | None = None
    refuse: Exception | None = None
    sequence: int = 100

    def next_sequences(self, count: int) -> int:
        first, self.sequence = self.sequence, self.sequence + count
        return first

    def stage(self, producer: str, batch: int, part: str, messages: list[Message], done: Any, failed: Any) -> None:
        if self.refuse is not None:
            raise self.refuse
        loop = asyncio.get_running_loop()
        if self.fail_after is not None and len(self.staged) >= self.fail_after:
            loop.call_soon(failed, ResourceLimit("the store is full: 7 of 7 bytes (limits.store_bytes_max)"))
            return
        self.staged.append((producer, batch, part, messages))
        loop.call_soon(done)

    @property
    def messages(self) -> list[Message]:
        return [message for _, _, _, messages in self.staged for message in messages]


def stream(batches: Sequence[Any], **options: Any) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batches[0].schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return bytes(sink.getvalue())


def texts(count: int, text: str = "row") -> Any:
    return pa.record_batch({"text": [f"{text} {number}" for number in range(count)]})


PART = "/v1/producers/job/parts/p1?batch=7&destination=orders"


def test_rows_are_staged_in_their_order() -> None:
    staging = StagingStandIn()

    async def test(client: HttpClient, _: HttpRig) -> None:
        reply = await client.post(PART, body=stream([texts(2000), texts(3)]))
        assert (reply.status, reply.json) == (200, {"messages": 2003})

    with_client(test, staging=staging)
    assert [text_of(message) for message in staging.messages[:2]] == ["row 0", "row 1"]
    assert [message.sequence for message in staging.messages] == list(range(100, 2103))
    assert {(producer, batch, part) for producer, batch, part, _ in staging.staged} == {("job", 7, "p1")}
    assert {repr(message.destination) for message in staging.messages} == {"queue://orders"}
    assert max(len(messages) for _, _, _, messages in staging.staged) == 512


def test_body_in_chunks_is_staged_too() -> None:
    staging = StagingStandIn()

    async def test(client: HttpClient, _: HttpRig) -> None:
        headers = {"transfer-encoding": "chunked"}
        assert (await client.post(PART, body=stream([texts(10)]), headers=headers)).json == {"messages": 10}

    with_client(test, staging=staging)


def test_no_rows_are_no_messages() -> None:
    async def test(client: HttpClient, _: HttpRig) -> None:
        assert (await client.post(PART, body=stream([texts(0)]))).json == {"messages": 0}

    with_client(test, staging=StagingStandIn())


def test_part_beyond_the_limit_is_refused_before_it_is_staged() -> None:
    staging = StagingStandIn()

    async def test(client: HttpClient, _: HttpRig) -> None:
        body = stream([texts(1, "x" * 100_000)])
        assert (await client.post(PART, body=body)).error == (413, "too-large")

    with_client(test, staging=staging, part_bytes_max=64 * 1024, bodies_bytes_max=64 * 1024)
    assert not staging.staged


def test_bodies_wait_for_room_and_are_all_staged() -> None:
    staging = StagingStandIn()

    async def test(_: HttpClient, http: HttpRig) -> None:
        clients = [await http.client() for _ in range(8)]
        body = stream([texts(500, "x" * 100)])
        replies = await asyncio.gather(*(client.post(PART, body=body) for client in clients))
        assert [reply.json for reply in replies] == [{"messages": 500}] * 8

    with_client(test, staging=staging, part_bytes_max=100_000, bodies_bytes_max=100_000)
    assert len(staging.messages) == 4000


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"", "the body is empty"),
        (b"no arrow at all", "cut off"),
        (stream([texts(100)])[:-8], "cut off"),
        (stream([texts(100)])[:-100], "cut off"),
        (stream([texts(100)])[:300] + stream([texts(100)])[-8:], ""),
        (stream([texts(1000)], compression="zstd"), "compressed"),
        (stream([texts(1000)], compression="lz4"), "compressed"),
        (stream([pa.record_batch({"text": pa.array(["a"]).dictionary_encode()})]), "dictionary"),
        (stream([pa.record_batch({"text": pa.array(["a"], pa.string_view())})]), "share bytes"),
        (stream([pa.record_batch({"text": ["a"], "colour": ["red"]})]), "colour"),
        (stream([pa.record_batch({"text": pa.nulls(1_000_000)})]), "rows cannot be in"),
    ],
)
def test_body_that_is_no_good_stream_is_refused(body: bytes, said: str) -> None:
    staging = StagingStandIn()

    async def test(client: HttpClient, _: HttpRig) -> None:
        reply = await client.post(PART, body=body)
        assert reply.error == (400, "bad-request")
        assert said in reply.json["error"]
        assert (await client.get("/health")).status == 200

    with_client(test, staging=staging)
    assert not staging.staged


def test_refusal_says_how_much_was_staged() -> None:
    staging = StagingStandIn()

    async def test(client: HttpClient, _: HttpRig) -> None:
        priorities = pa.record_batch({"text": ["a", "b"], "priority": [4, 400]})
        good = pa.record_batch({"text": ["a"] * 700, "priority": [4] * 700})
        reply = await client.post(PART, body=stream([good, priorities]))
        assert reply.status == 400
        assert reply.json["error"].startswith("behind row 700: row 2, column priority: ")
        assert reply.json["error"].endswith("the 700 rows before were staged")

    with_client(test, staging=staging)
    assert len(staging.messages) == 700


def test_row_without_destination_needs_a_default() -> None:
    async def test(client: HttpClient, _: HttpRig) -> None:
        reply = await client.post("/v1/producers/job/parts/p1?batch=7", body=stream([texts(1)]))
        assert reply.status == 400
        assert "destination" in reply.json["error"]

    with_client(test, staging=StagingStandIn())


def test_full_store_is_answered_with_its_limit() -> None:
    async def test(client: HttpClient, _: HttpRig) -> None:
        reply = await client.post(PART, body=stream([texts(5000)]))
        assert reply.error == (503, "full")
        assert "limits.store_bytes_max" in reply.json["error"]
        assert reply.headers["retry-after"]

    with_client(test, staging=StagingStandIn(fail_after=3))


def test_batch_that_was_committed_before_is_a_conflict() -> None:
    async def test(client: HttpClient, _: HttpRig) -> None:
        assert (await client.post(PART, body=stream([texts(1)]))).error == (409, "conflict")

    with_client(test, staging=StagingStandIn(refuse=Conflict("batch 7 of job is committed")))


@pytest.mark.parametrize("seed", range(30))
def test_damaged_stream_is_staged_or_refused_and_nothing_worse(seed: int, caplog: pytest.LogCaptureFixture) -> None:
    chance = random.Random(seed)
    good = stream(
        [
            pa.record_batch(
                {
                    "text": ["a", None, "ü" * 50],
                    "properties": pa.array([[("k", "v")], None, []], pa.map_(pa.string(), pa.string())),
                }
            )
        ]
    )

    async def test(client: HttpClient, http: HttpRig) -> None:  # noqa: ARG001
        for _ in range(30):
            body = bytearray(good)
            for _ in range(chance.randrange(1, 4)):
                body[chance.randrange(len(body) - 8)] = chance.randrange(256)
            assert (await client.post(PART, body=bytes(body))).status in (200, 400)

    with_client(test, staging=StagingStandIn())
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


def test_without_pyarrow_there_is_advice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)

    async def test(client: HttpClient, _: HttpRig) -> None:
        for reply in (
            await client.get("/v1/cursors/lake/messages?after=0&to=5"),
            await client.post(PART, body=b""),
        ):
            assert reply.error == (501, "no-pyarrow")
            assert 'pip install "ackwire[http]"' in reply.json["error"]

    with_client(test, cursors=CursorsStandIn(10), staging=StagingStandIn())


# --- the whole way -------------------------------------------------------------------------------------


def test_what_is_staged_is_invisible_until_its_batch_is_committed_and_then_read_by_a_cursor() -> None:
    async def test(client: HttpClient, http: HttpRig) -> None:
        assert (await client.post("/v1/cursors", {"name": "lake", "destination": "orders"})).status == 200
        for part in ("p1", "p2"):
            target = f"/v1/producers/job/parts/{part}?batch=1&destination=orders"
            assert (await client.post(target, body=stream([texts(700, part)]))).json == {"messages": 700}
        assert table((await client.get("/v1/queues/orders/messages")).body).num_rows == 0
        assert (await client.post("/v1/cursors/lake/latest", {"after": 0, "limit": 5000})).json == {"latest": 0}
        terms = {"batch": 1, "parts": ["p1", "p2"]}
        assert (await client.post("/v1/producers/job/commit", terms)).json == {"committed": True, "last_batch": 1}
        assert (await client.post("/v1/producers/job/commit", terms)).json == {"committed": False, "last_batch": 1}
        latest = asyncio.ensure_future(client.post("/v1/cursors/lake/latest", {"after": 0, "limit": 5000}))
        while not latest.done():
            await asyncio.sleep(0)
            http.rig.clock.advance(0)  # lets the broker go on with its next turn
        assert latest.result().json == {"latest": 1400}
        for _ in range(2):
            found = table((await client.get("/v1/cursors/lake/messages?after=0&to=1400")).body)
            assert found["sequence"].to_pylist() == list(range(1, 1401))
            assert found["text"].to_pylist() == [f"{part} {n}" for part in ("p1", "p2") for n in range(700)]
        assert (await client.post("/v1/cursors/lake/commit", {"to": 1000})).json == {"committed": 1000}
        assert (await client.get("/v1/cursors/lake/messages?after=0&to=1400")).error == (410, "gone")
        assert (await client.get("/v1/cursors/lake/messages?after=1400&to=1500")).error == (409, "conflict")
        assert (await client.get("/v1/cursors/lake")).json["lag"] == 400
        assert (await client.delete("/v1/cursors/lake")).status == 200
        assert (await client.get("/v1/cursors/lake")).error == (404, "unknown")

    with_client(test)


def test_part_is_dropped_and_an_unknown_one_is_told() -> None:
    async def test(client: HttpClient, _: HttpRig) -> None:
        await client.post(PART, body=stream([texts(3)]))
        parts = [{"part": "p1", "batch": 7, "messages": 3}]
        assert (await client.get("/v1/producers/job")).json == {"last_batch": None, "parts": parts}
        assert (await client.delete("/v1/producers/job/parts/p1")).status == 200
        assert (await client.delete("/v1/producers/job/parts/p1")).error == (404, "unknown")
        reply = await client.post("/v1/producers/job/commit", {"batch": 7, "parts": ["p1"]})
        assert reply.error == (409, "conflict")

    with_client(test)
