"""A broker with little memory and much to hold: it spills, and nobody notices (N2, B6, B7)."""

from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.helpers.openwire_client import OpenWireClient, PeerClosed, queue, text_of
from tests.helpers.processes import RunningBroker, running_broker

pytestmark = pytest.mark.system

MIB = 1 << 20
MEMORY_BYTES = 2 * MIB
BODY = "x" * 10_000
COUNT = 4000
"""40 MB: twenty times what memory may hold."""


@pytest.fixture(params=["persistent", "non-persistent"])
def is_persistent(request: pytest.FixtureRequest) -> bool:
    return bool(request.param == "persistent")


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[RunningBroker]:
    config = tmp_path / "ackwire.toml"
    config.write_text(f"[limits]\nmemory_bytes_max = {MEMORY_BYTES}\n[store]\nfree_bytes_min = 0\n")
    options = ("--config", str(config))
    with running_broker(["tcp://127.0.0.1:0"], log_path=tmp_path / "broker.log", options=options) as running:
        yield running


def test_N2_what_was_sent_before_the_connection_closed_is_there(broker: RunningBroker, is_persistent: bool) -> None:
    """N2: the sender does not wait for a single answer, and hangs up while the broker is busy spilling."""
    flood(broker, is_persistent)
    with OpenWireClient.logged_in(broker.ports[0]) as client:
        assert received(client, COUNT) == [str(number) for number in range(COUNT)]


def test_N2_others_go_on_while_the_broker_spills(broker: RunningBroker, is_persistent: bool) -> None:
    """N2: another client's requests are answered and its messages delivered, and memory stays small."""
    with OpenWireClient.logged_in(broker.ports[0]) as bystander:
        consumer = bystander.subscribe(queue("other"))
        before = memory_bytes(broker)
        flood(broker, is_persistent)
        for number in range(50):
            bystander.send_text(queue("other"), str(number))
            assert text_of(bystander.receive(consumer)) == str(number)
        bystander.ping()
        assert memory_bytes(broker) - before < 10 * MEMORY_BYTES, "40 MB would not fit"


def flood(broker: RunningBroker, is_persistent: bool) -> None:
    """Send everything and hang up."""
    with OpenWireClient.logged_in(broker.ports[0]) as client:
        for first in range(0, COUNT, 100):
            texts = [f"{number} {BODY}" for number in range(first, first + 100)]
            client.send_text(queue("flood"), *texts, wait=False, persistent=is_persistent)


def received(client: OpenWireClient, count: int) -> list[str]:
    """The numbers of the next *count* messages."""
    consumer = client.subscribe(queue("flood"), prefetch_size=100)
    numbers: list[str] = []
    while len(numbers) < count:
        try:
            dispatch = client.receive(consumer)
        except PeerClosed as error:
            raise AssertionError(f"{len(numbers)} of {count} messages came") from error
        numbers.append((text_of(dispatch) or "").partition(" ")[0])
        client.ack(dispatch)
    return numbers


def memory_bytes(broker: RunningBroker) -> int:
    return int(psutil.Process(broker.process.pid).memory_info().rss)
