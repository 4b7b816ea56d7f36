"""The fixtures that Ackwire gives to the tests of others: each test here runs pytest on a small test file."""

import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

import pytest

from ackwire import pytest_plugin

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.system

ROOT = Path(__file__).resolve().parents[2]

HEADER = """
import pytest
from ackwire.config import Settings
from ackwire.config.policy import DestinationPolicy
from ackwire.jms.types import Long
from ackwire.wire.openwire import commands
from ackwire.wire.openwire.commands import AckType
from ackwire.wire.openwire.primitives import encode_map
from tests.helpers.openwire_client import OpenWireClient, queue, text_of

@pytest.fixture
def client(ackwire_broker):
    with OpenWireClient.logged_in(ackwire_broker.port) as client:
        yield client

def reject(client):
    client.send_text(queue("orders"), "bad", persistent=True)
    dispatch = client.receive(client.subscribe(queue("orders")))
    client.request(client.ack_command(dispatch, AckType.POISON))
    return dispatch.message.message_id
"""

Run = Callable[[str], pytest.RunResult]


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs pytest in a process of its own on a file of this text, where every warning is an error."""
    for folder in (ROOT, ROOT / "src"):
        monkeypatch.setenv("PYTHONPATH", str(folder), prepend=os.pathsep)
    # Installed as pyproject.toml says, it is there by itself; in an older installation it is named.
    by_name = [] if entry_points(group="pytest11", name="ackwire") else ["-p", "ackwire.pytest_plugin"]

    def run(text: str) -> pytest.RunResult:
        pytester.makepyfile(HEADER + text)
        return pytester.runpytest_subprocess(*by_name, "-W", "error", "--timeout", "60")

    return run


def test_every_test_gets_a_broker_of_its_own(run: Run) -> None:
    result = run("""
@pytest.mark.parametrize("number", [1, 2])
def test_one(ackwire_broker, client, number):
    assert ackwire_broker.url == f"tcp://127.0.0.1:{ackwire_broker.port}"
    assert ackwire_broker.settings.store.kind == "memory"
    client.request(client.consumer_info(queue("orders"), browser=True))
    assert client.receive().message is None, "nothing is left of the other test"
    client.send_text(queue("orders"), "hello", persistent=True)
""")
    result.assert_outcomes(passed=2)


def test_expiry_follows_the_clock(run: Run) -> None:
    result = run("""
def test_one(ackwire_broker, client, ackwire_clock):
    assert ackwire_broker.clock is ackwire_clock
    message = client.text_message(queue("orders"), "mortal", persistent=True)
    message.expiration = message.timestamp + 3_600_000
    client.request(message)
    ackwire_clock.advance(3500)
    assert ackwire_broker.dead_letters() == []
    ackwire_clock.advance(200)
    (letter,) = ackwire_broker.dead_letters()
    assert letter.original_destination == "queue://orders"
    client.ping()
""")
    result.assert_outcomes(passed=1)


def test_schedules_follow_the_clock(run: Run) -> None:
    result = run("""
def test_one(ackwire_broker, client, ackwire_clock):
    consumer = client.subscribe(queue("orders"))
    message = client.text_message(queue("orders"), "tomorrow")
    message.marshalled_properties = encode_map({"AMQ_SCHEDULED_DELAY": Long(86_400_000)})
    client.request(message)
    ackwire_clock.advance(86_000)
    client.ping()
    assert not client.take_events()
    ackwire_clock.advance(500)
    assert text_of(client.receive(consumer)) == "tomorrow"
""")
    result.assert_outcomes(passed=1)


def test_settings_can_be_given_and_redelivery_delays_follow_the_clock(run: Run) -> None:
    result = run("""
@pytest.fixture
def ackwire_settings():
    policy = DestinationPolicy(match=">", broker_redelivery=True, redelivery_delay_seconds=3600)
    return Settings(policies=(policy,))

def test_one(ackwire_broker, client, ackwire_clock):
    assert ackwire_broker.settings.store.kind == "memory"
    reject(client)
    ackwire_clock.advance(3500)
    client.ping()
    assert not client.take_events()
    ackwire_clock.advance(200)
    assert text_of(client.receive()) == "bad"
""")
    result.assert_outcomes(passed=1)


def test_no_dead_letter_is_no_failure(run: Run) -> None:
    run("""
def test_one(client, assert_dlq_empty):
    client.send_text(queue("orders"), "good")
    assert_dlq_empty()
""").assert_outcomes(passed=1)


def test_dead_letters_are_nobodys_business_unless_asked_for(run: Run) -> None:
    run("""
def test_one(client):
    reject(client)
""").assert_outcomes(passed=1)


def test_dead_letters_are_told_at_the_end_with_id_origin_and_cause(run: Run) -> None:
    result = run("""
def test_one(client, assert_dlq_empty):
    print("it is", reject(client))
""")
    result.assert_outcomes(passed=1, errors=1)
    (printed,) = [line for line in result.outlines if line.startswith("it is ")]
    result.stdout.fnmatch_lines(["*1 in ActiveMQ.DLQ:", f"*{printed.removeprefix('it is ')} from queue://orders: ?*"])


def test_dead_letters_can_be_asked_for_any_time_and_are_told_once(run: Run) -> None:
    result = run("""
def test_one(client, assert_dlq_empty):
    assert_dlq_empty()
    reject(client)
    assert_dlq_empty()
""")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*1 in ActiveMQ.DLQ:", "* from queue://orders: ?*"])


def test_the_connection_is_ready_to_work(run: Run) -> None:
    result = run("""
def test_one(ackwire_connection, ackwire_broker):
    with ackwire_connection.session() as session:
        session.producer("orders").send("hello")
        assert session.consumer("orders").receive(timeout_seconds=20).text == "hello"

@pytest.fixture
def closed_later():
    connections = []
    yield connections
    assert connections[0].is_closed

def test_it_is_closed_after_the_test(closed_later, ackwire_connection):
    assert not ackwire_connection.is_closed
    closed_later.append(ackwire_connection)
""")
    result.assert_outcomes(passed=2)


@pytest.mark.parametrize("fixtures", ["ackwire_connection, assert_dlq_empty", "assert_dlq_empty, ackwire_connection"])
def test_dead_letters_are_looked_for_when_the_connection_is_closed(run: Run, fixtures: str) -> None:
    result = run(f"""
from ackwire.vm import EmbeddedBroker

look, connections = EmbeddedBroker.dead_letters, []

def dead_letters(self):
    print("closed:", connections[0].is_closed)
    return look(self)

EmbeddedBroker.dead_letters = dead_letters

def test_one({fixtures}, ackwire_clock):
    connections.append(ackwire_connection)
    with ackwire_connection.session() as session:
        session.producer("orders").send("mortal", time_to_live_ms=1000)
    ackwire_clock.advance(60)
""")
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["*1 in ActiveMQ.DLQ:", "*ID:* from queue://orders: ?*"])
    result.stdout.fnmatch_lines(["closed: True"])


def test_the_guide_tells_the_truth(run: Run) -> None:
    guide = (ROOT / "docs" / "guide" / "testing.md").read_text()
    blocks = re.findall(r"^```python\n(.*?)^```$", guide, re.MULTILINE | re.DOTALL)
    assert len(blocks) == 4
    run("\n".join(blocks)).assert_outcomes(passed=4)


def test_loading_the_plugin_loads_nothing_else() -> None:
    program = "import sys, ackwire.pytest_plugin; print(*sorted(n for n in sys.modules if n.startswith('ackwire')))"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert result.stdout.split() == ["ackwire", "ackwire.pytest_plugin", "ackwire.util", "ackwire.util.version"]


def test_the_entry_point_leads_to_the_plugin() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert EntryPoint("ackwire", project["entry-points"]["pytest11"]["ackwire"], "pytest11").load() is pytest_plugin
