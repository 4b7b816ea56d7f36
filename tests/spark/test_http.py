"""The client of the HTTP API: patience with a broker that is away, and never too few rows."""

import logging
import socket
import threading
from collections.abc import Iterator
from typing import Self

import pytest

from ackwire.spark.errors import BadAnswer, BrokerAway, Refused
from ackwire.spark.http import BrokerApi
from ackwire.spark.offsets import RangePartition
from ackwire.spark.options import Use, read_options
from ackwire.spark.reader import read_rows
from tests.conformance.proxy import CuttableProxy
from tests.spark.broker import HttpBroker

COLUMNS = ("sequence", "text")


@pytest.fixture
def proxy(broker: HttpBroker) -> Iterator[CuttableProxy]:
    with CuttableProxy(broker.http_port) as running:
        yield running


def through(proxy: CuttableProxy, **more: str) -> dict[str, str]:
    return {"url": f"http://127.0.0.1:{proxy.port}", **more}


def test_a_broker_that_is_away_is_waited_for_and_said_so_once(
    broker: HttpBroker, proxy: CuttableProxy, caplog: pytest.LogCaptureFixture
) -> None:
    with broker.new_api(**through(proxy)) as api:
        api.dead_letter_queues()
        proxy.cut()
        threading.Timer(1.0, proxy.mend).start()
        with caplog.at_level(logging.WARNING, "ackwire.spark"):
            api.dead_letter_queues()
    assert [record.getMessage().split(": ")[1].split(" ")[0] for record in caplog.records] == ["GET", "GET"]
    assert "trying again for up to 20 s" in caplog.records[0].getMessage()
    assert "works again after" in caplog.records[1].getMessage()


def test_a_broker_that_stays_away_is_an_error_with_address_and_time(broker: HttpBroker) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    api = broker.new_api(url=f"http://127.0.0.1:{port}", retryTimeout="300ms")
    with (
        api,
        pytest.raises(
            BrokerAway, match=rf"127.0.0.1:{port}: GET .*refused; gave up after \d attempts in 0.* retryTimeout"
        ),
    ):
        api.dead_letter_queues()


def test_another_address_is_tried_when_one_does_not_answer(broker: HttpBroker) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with broker.new_api(url=f"http://127.0.0.1:{port},{broker.options['url']}") as api:
        api.dead_letter_queues()


def test_another_address_is_tried_when_one_is_not_the_masters(broker: HttpBroker) -> None:
    """L2: slaves answer, and refuse."""
    body = b'{"error": "this broker is not the master"}'
    answer = b"HTTP/1.1 503 Slave\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)
    with socket.create_server(("127.0.0.1", 0)) as slave:

        def refuse() -> None:
            client, _ = slave.accept()
            with client:
                client.recv(65536)
                client.sendall(answer)

        refusing = threading.Thread(target=refuse)
        refusing.start()
        url = f"http://127.0.0.1:{slave.getsockname()[1]},{broker.options['url']}"
        with broker.new_api(url=url) as api:
            api.dead_letter_queues()
        refusing.join()


def test_a_connection_that_was_idle_too_long_is_made_again_at_once(
    broker: HttpBroker, proxy: CuttableProxy, caplog: pytest.LogCaptureFixture
) -> None:
    with broker.new_api(**through(proxy)) as api:
        for _ in range(2):
            api.dead_letter_queues()
            proxy.cut_once()
    assert caplog.records == []
    assert proxy.connections == 2


def test_one_connection_serves_many_requests(broker: HttpBroker, proxy: CuttableProxy) -> None:
    with broker.new_api(**through(proxy)) as api:
        for _ in range(5):
            api.dead_letter_queues()
    assert proxy.connections == 1


def test_a_missing_or_wrong_token_is_an_error_that_says_how_to_give_it(broker: HttpBroker) -> None:
    url = {"url": broker.options["url"]}
    for options, problem in (
        (url, "no token was given"),
        ({**url, "token": "wrong"}, "the token given is not its own"),
    ):
        api = BrokerApi(read_options(options, Use.WRITE))
        with api, pytest.raises(Refused, match=f"{problem}: use option tokenFile") as caught:
            api.dead_letter_queues()
        assert caught.value.status == 401


def test_something_else_at_that_address_is_noticed(broker: HttpBroker) -> None:
    with broker.new_api(url=f"{broker.options['url']}/other") as api, pytest.raises(Refused, match="404"):
        api.dead_letter_queues()


# ---- ranges --------------------------------------------------------------------------------------------------------


def numbered(broker: HttpBroker, queue: str, count: int) -> RangePartition:
    """Messages that a cursor has, of half a kilobyte each."""
    name = broker.new_name("cursor")
    broker.fill(queue, [f"{number:0500d}" for number in range(count)])
    broker.api.open_cursor(name, queue, None)
    assert broker.api.latest(name, 0, 2 * count) == count
    return RangePartition(f"/v1/cursors/{name}/messages", 0, count)


class BreakingProxy:
    """Forwards connections to *target_port*; each of the first ones breaks after so many bytes of the answer."""

    def __init__(self, target_port: int, breaks_after: list[int]) -> None:
        self._target_port = target_port
        self._breaks_after = breaks_after
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._server.getsockname()[1]
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        self._thread.join(10.0)

    def _serve(self) -> None:
        # One connection at a time, with one request: that is what reading a range does.
        while True:
            try:
                client, _ = self._server.accept()
            except OSError:
                return
            with client, socket.create_connection(("127.0.0.1", self._target_port)) as upstream:
                upstream.sendall(client.recv(65536))
                left = self._breaks_after.pop(0) if self._breaks_after else 2**62
                while left > 0 and (data := upstream.recv(min(left, 65536))):
                    left -= len(data)
                    try:
                        client.sendall(data)
                    except OSError:
                        break


def test_a_range_whose_connection_breaks_goes_on_where_it_was(broker: HttpBroker, queue: str) -> None:
    partition = numbered(broker, queue, 30_000)  # 15 MB
    breaks_after = [6_000_000, 100, 1_000_000]  # in the second batch, in the head of the answer, in the first batch
    numbers: list[int] = []
    with BreakingProxy(broker.http_port, breaks_after) as proxy:
        given = {**broker.options, "url": f"http://127.0.0.1:{proxy.port}", "cursor": "c"}
        for batch in read_rows(read_options(given, Use.READ_STREAM), partition, COLUMNS, is_dense=True):
            numbers += batch.column("sequence").to_pylist()
    assert breaks_after == []
    assert numbers == list(range(1, 30_001))


def test_a_range_that_lacks_numbers_is_an_error_and_not_fewer_rows(broker: HttpBroker, queue: str) -> None:
    broker.fill(queue, ["a", "b", "c"])
    options = read_options({**broker.options, "cursor": "c"}, Use.READ_STREAM)
    (after, to), *_ = broker.api.queue_ranges(queue, 1)
    path = f"/v1/queues/{queue}/messages"
    assert (
        sum(batch.num_rows for batch in read_rows(options, RangePartition(path, after, to), COLUMNS, is_dense=False))
        == 3
    )
    with pytest.raises(BadAnswer, match=r"was asked for everything to|some are missing"):
        list(read_rows(options, RangePartition(path, to - 3, to + 5), COLUMNS, is_dense=True))


def test_a_range_that_was_committed_is_gone(broker: HttpBroker, queue: str) -> None:
    partition = numbered(broker, queue, 20)
    name = partition.path.split("/")[3]
    broker.api.commit_cursor(name, 10)
    options = read_options({**broker.options, "cursor": "c"}, Use.READ_STREAM)
    with pytest.raises(Refused) as caught:
        list(read_rows(options, partition, COLUMNS, is_dense=True))
    assert caught.value.status == 410


def test_rows_whose_answer_was_lost_are_staged_again_under_another_name(
    broker: HttpBroker, proxy: CuttableProxy, queue: str
) -> None:
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    rows = pa.record_batch({"text": ["only once"]})
    with pa.ipc.new_stream(sink, rows.schema) as stream:
        stream.write_batch(rows)
    names = iter(["first", "second", "third"])
    with broker.new_api(**through(proxy), requestTimeout="1s") as api:
        api.dead_letter_queues()
        proxy.mute_broker()
        part = api.stage(queue, 0, sink.getvalue(), queue, lambda: next(names))
        assert part == "second"
        assert api.commit_batch(queue, 0, [part]) is True
        assert api.commit_batch(queue, 0, [part]) is False
    assert broker.texts(queue) == ["only once"]
