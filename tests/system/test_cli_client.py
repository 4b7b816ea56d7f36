"""The client on the command line, against `ackwire serve` and, mostly, against the real ActiveMQ too."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.helpers.activemq import running_activemq
from tests.helpers.java import BROKER_JARS, compiled
from tests.helpers.java_cache import java_cache_or_skip
from tests.helpers.processes import ManagedProcess, RestartableBroker, ackwire_program, running_broker

pytestmark = pytest.mark.system
ROOT = Path(__file__).parents[2]
TIMEOUT_SECONDS = 60.0
PIPE_BYTES = 65536
"""What a pipe holds on Linux."""

ROWS: list[dict[str, Any]] = [
    {"text": "zwölf\n\0", "properties": {"n": {"int": 7}, "s": {"string": "x"}, "none": None}},
    {"text": None, "headers": {"correlation_id": "c", "type": "t", "group_id": "g", "group_sequence": 2}},
    {"bytes": "AP8=", "headers": {"reply_to": "topic://answers"}},
    {"map": {"a": {"short": 7}, "b": {"bytes": "AA=="}, "c": {"map": {"int": {"long": 1}}}, "d": {"char": "é"}}},
    {"stream": [{"byte": 1}, {"boolean": True}, {"float": 1.5}, {"double": 0.1}, None]},
    {"object": "rO0ABXQAAXg="},
    {"body": None, "properties": {"content-type": {"string": "none"}}},
]


class Outcome(NamedTuple):
    code: int
    out: str
    err: str


class Client:
    """Runs the program against one broker."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url = url
        self.folder = folder

    def argv(self, command: str, *arguments: str) -> list[str]:
        return [str(ackwire_program()), command, self.url, *arguments]

    def __call__(self, command: str, *arguments: str, stdin: str = "") -> Outcome:
        done = subprocess.run(
            self.argv(command, *arguments),
            input=stdin,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_SECONDS,
            check=False,
            cwd=self.folder,
        )
        return Outcome(done.returncode, done.stdout, done.stderr)

    def send(self, *arguments: str, stdin: str = "") -> None:
        outcome = self("send", *arguments, stdin=stdin)
        assert outcome.code == 0, outcome.err

    def texts(self, queue: str) -> list[str]:
        """What waits in *queue*; takes nothing."""
        outcome = self("browse", queue)
        assert outcome.code == 0, outcome.err
        return outcome.out.splitlines()

    def started(self, command: str, *arguments: str) -> ManagedProcess:
        return ManagedProcess(self.argv(command, *arguments), log_path=self.folder / f"{command}.log")


@pytest.fixture(scope="module", params=["ackwire", "activemq"])
def any_url(
    request: pytest.FixtureRequest, pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("broker")
    listeners, log_path = ["tcp://127.0.0.1:0"], folder / "broker.log"
    if request.param == "ackwire":
        starting = running_broker(listeners, log_path=log_path)
    else:
        cache = java_cache_or_skip(pytestconfig, BROKER_JARS)
        classes = compiled(ROOT / "tests/conformance/java/broker", BROKER_JARS, cache)
        starting = running_activemq(
            listeners, classes=classes, log_path=log_path, key_store=folder / "none", password="none"
        )
    with starting as running:
        yield f"tcp://127.0.0.1:{running.ports[0]}"


@pytest.fixture
def client(any_url: str, tmp_path: Path) -> Client:
    return Client(any_url, tmp_path)


@pytest.fixture(scope="module")
def our_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running_broker(["tcp://127.0.0.1:0"], log_path=tmp_path_factory.mktemp("broker") / "broker.log") as running:
        yield f"tcp://127.0.0.1:{running.ports[0]}"


@pytest.fixture
def ours(our_url: str, tmp_path: Path) -> Client:
    return Client(our_url, tmp_path)


@pytest.fixture
def queue(request: pytest.FixtureRequest) -> str:
    """A queue for this test alone."""
    return re.sub(r"[^A-Za-z0-9]+", ".", f"cli.{request.node.name}")


# ---- to and fro ------------------------------------------------------------------------------------------------


def test_what_is_sent_is_received_and_gone(client: Client, queue: str) -> None:
    outcome = client("send", queue, "one", "--property", "n:int=1", "two")
    assert (outcome.code, outcome.out) == (0, "")
    assert outcome.err.startswith(f"ackwire: sent 2 messages to queue://{queue} on {client.url} in ")
    outcome = client("receive", queue)
    assert (outcome.code, outcome.out) == (0, "one\ntwo\n")
    assert outcome.err.endswith("; nothing more is there\n")
    outcome = client("receive", queue)
    assert outcome == Outcome(
        0, "", f"ackwire: received 0 messages from queue://{queue} on {client.url}; nothing more is there\n"
    )


def test_json_lines_copy_a_queue_with_kinds_types_and_headers(client: Client, queue: str) -> None:
    client.send(queue, "--jsonl", stdin="\n".join(map(json.dumps, ROWS)))
    browsed = client("browse", queue, "--jsonl").out
    client.send(f"{queue}.copy", "--jsonl", stdin=browsed)
    received = client("receive", f"{queue}.copy", "--jsonl").out
    for lines in (browsed, received):
        found = [json.loads(line) for line in lines.splitlines()]
        assert len(found) == len(ROWS)
        for row, expected in zip(found, ROWS, strict=True):
            headers = {"priority": 4, "persistent": True, "expiration_ms": 0, **expected.get("headers", {})}
            assert row.pop("headers").items() >= headers.items()
            assert row.pop("properties") == expected.get("properties", {})
            assert row == {name: value for name, value in expected.items() if name not in ("headers", "properties")}


def test_a_large_queue_is_taken_whole_and_in_order(client: Client, queue: str) -> None:
    client.send(queue, "m{n}", "--count", "3000", "--non-persistent")
    outcome = client("receive", queue, "--count", "2500")
    assert outcome.code == 0, outcome.err
    assert outcome.out.splitlines() == [f"m{n}" for n in range(1, 2501)]
    outcome = client("receive", queue, "--output", "out")
    assert (outcome.code, outcome.out) == (0, "")
    files = [file.read_text() for file in (client.folder / "out").iterdir()]
    assert sorted(files) == sorted(f"m{n}" for n in range(2501, 3001))
    assert client("receive", queue).out == ""


def test_a_count_takes_no_more_and_ends_with_3_if_fewer_came(client: Client, queue: str) -> None:
    client.send(queue, "m{n}", "--count", "3")
    assert client("receive", queue, "--count", "2").out == "m1\nm2\n"
    assert client.texts(queue) == ["m3"]
    outcome = client("receive", queue, "--count", "2", "--timeout", "300ms")
    assert (outcome.code, outcome.out) == (3, "m3\n")
    assert outcome.err.endswith("; nothing came for 0.3 s; 2 were asked for\n")


def test_messages_that_are_only_looked_at_stay(client: Client, queue: str) -> None:
    client.send(queue, "m{n}", "--count", "30")
    expected = [f"m{n}" for n in range(1, 31)]
    assert client.texts(queue) == expected
    assert client("browse", queue, "--count", "2").out == "m1\nm2\n"
    outcome = client("receive", queue, "--ack", "none")
    assert (outcome.code, outcome.out.splitlines()) == (0, expected)
    outcome = client("receive", queue, "--ack", "client", "--jsonl")
    rows = [json.loads(line) for line in outcome.out.splitlines()]
    assert [row["text"] for row in rows] == expected
    assert rows[0]["headers"]["delivery_count"] == 2
    assert client.texts(queue) == []


def test_selectors_headers_priority_and_expiry_reach_the_broker(client: Client, queue: str) -> None:
    client.send(queue, "a", "--property", "n:int=1", "--priority", "8", "--header", "correlation_id=c1")
    client.send(queue, "b", "--property", "n:int=2", "--ttl", "1h", "--non-persistent")
    client.send(queue, "gone", "--ttl", "1ms")
    assert client("browse", queue, "--selector", "n = 2 AND JMSDeliveryMode = 'NON_PERSISTENT'").out == "b\n"
    shown = client("browse", queue, "--selector", "JMSCorrelationID = 'c1'", "--print-headers").out.splitlines()
    assert {"priority: 8", "correlation_id: c1", "n:int=1", f"destination: queue://{queue}"} <= set(shown)
    assert client("receive", queue, "--selector", "n > 1").out == "b\n"
    assert client("receive", queue).out == "a\n"


def test_transactions_are_sent_whole(ours: Client, queue: str) -> None:
    lines = '{"text": "1"}\n{"text": "2"}\n{"text": "3"}\nnonsense\n'
    outcome = ours("send", queue, "--jsonl", "--transacted", "2", stdin=lines)
    assert outcome.code == 1
    assert "line 4: it is not JSON" in outcome.err
    assert "2 of 3 messages confirmed, 1 rolled back" in outcome.err
    assert ours("receive", queue).out == "1\n2\n"


def test_a_delay_holds_a_message_back(ours: Client, queue: str) -> None:
    ours.send(queue, "later", "--delay", "300ms")
    assert ours("receive", queue, "--count", "1", "--timeout", "20s").out == "later\n"


def test_a_file_is_a_message(ours: Client, queue: str, tmp_path: Path) -> None:
    body = bytes(range(256)) * 4096
    (tmp_path / "body.bin").write_bytes(body)
    ours.send(queue, "--file", "body.bin", "--type", "bytes")
    assert ours("receive", queue, "--output", "out").code == 0
    (file,) = (tmp_path / "out").iterdir()
    assert (file.suffix, file.read_bytes()) == (".bin", body)


# ---- topics and replies ----------------------------------------------------------------------------------------


def test_a_subscriber_sees_what_is_published_until_ctrl_c(client: Client, queue: str) -> None:
    with client.started("subscribe", f"{queue}.>") as subscriber:
        subscriber.wait_for_line(re.compile("subscribed to topic://"), TIMEOUT_SECONDS)
        client.send(f"topic://{queue}.a", "hello")
        subscriber.wait_for_line(re.compile("^hello$"), TIMEOUT_SECONDS)
        subscriber.send_signal(signal.SIGINT)
        assert subscriber.wait() == 0
        assert "received 1 message" in subscriber.output()
        assert "; interrupted" in subscriber.output()


def test_a_durable_subscription_keeps_what_comes_while_nobody_listens(client: Client, queue: str) -> None:
    durable = (f"{queue}.topic", "--durable", "audit", "--client-id", queue)
    assert client("subscribe", *durable, "--timeout", "0").code == 0
    client.send(f"topic://{queue}.topic", "a", "b")
    assert client("subscribe", *durable, "--count", "1", "--timeout", "20s").out == "a\n"
    assert client("subscribe", *durable, "--count", "1", "--timeout", "20s").out == "b\n"
    client.send(f"topic://{queue}.topic", "c")
    assert client("subscribe", *durable, "--unsubscribe").code == 0
    outcome = client("subscribe", *durable, "--unsubscribe")
    assert (outcome.code, outcome.err.count("\n")) == (2, 1), outcome.err
    assert client("subscribe", *durable, "--timeout", "300ms").out == ""
    assert client("subscribe", *durable, "--unsubscribe").code == 0


def test_a_request_gets_its_reply_or_ends_with_3(ours: Client, queue: str) -> None:
    question = ("Ackwire.Why", "", "--property", "subject=queue", "--property", f"name={queue}")
    outcome = ours("request", *question, "--jsonl")
    assert (outcome.code, outcome.err) == (0, "")
    assert json.loads(outcome.out)["properties"]["answer"]
    outcome = ours("request", queue, "anybody?", "--timeout", "300ms")
    assert (outcome.code, outcome.out) == (3, "")
    assert f"queue://{queue} on {ours.url}: no reply within 0.3 s" in outcome.err


def test_a_reply_comes_from_whoever_consumes(client: Client, queue: str) -> None:
    with client.started("request", queue, "ping", "--timeout", "50s") as requester:
        (line,) = client("receive", queue, "--count", "1", "--timeout", "20s", "--jsonl").out.splitlines()
        row = json.loads(line)
        assert row["text"] == "ping"
        client.send(row["headers"]["reply_to"], "pong")
        requester.wait_for_line(re.compile("^pong$"), TIMEOUT_SECONDS)
        assert requester.wait() == 0


# ---- ends in the middle ----------------------------------------------------------------------------------------


def test_ctrl_c_loses_nothing(client: Client, queue: str) -> None:
    client.send(queue, "m{n}", "--count", "200")
    with client.started("receive", queue, "--follow", "--rate", "100/s") as receiver:
        receiver.wait_for_line(re.compile("^m20$"), TIMEOUT_SECONDS)
        receiver.send_signal(signal.SIGINT)
        assert receiver.wait() == 0
        written = re.findall(r"^m\d+$", receiver.output(), re.MULTILINE)
        assert f"received {len(written)} messages" in receiver.output()
    assert written + client.texts(queue) == [f"m{n}" for n in range(1, 201)]


def test_a_broken_pipe_ends_quietly_and_what_was_not_written_is_still_there(ours: Client, queue: str) -> None:
    body_bytes = 1023
    ours.send(queue, "{n}".ljust(body_bytes, "x"), "--count", "300")
    process = subprocess.Popen(ours.argv("receive", queue), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stderr is not None
    with process, process.stdout as out:
        first = os.read(out.fileno(), 1)
        out.close()
        assert (first, process.stderr.read(), process.wait(TIMEOUT_SECONDS)) == (b"1", b"", 1)
    left = ours("browse", queue).out.splitlines()
    taken = 300 - len(left)
    assert taken * (body_bytes + 1) <= PIPE_BYTES + 1, "more is gone than the pipe can have held"
    assert left[-1].startswith("300x")


def test_a_broker_that_dies_loses_nothing_that_was_not_written(tmp_path: Path) -> None:
    with RestartableBroker(tmp_path) as broker:
        client = Client(broker.url, tmp_path)
        client.send("orders", "m{n}", "--count", "300")
        with client.started("receive", "orders", "--follow", "--rate", "200/s") as receiver:
            receiver.wait_for_line(re.compile("^m20$"), TIMEOUT_SECONDS)
            broker.restart(kill=True)
            assert receiver.wait() == 1
            output = receiver.output()
        assert output.count("ackwire: ") == 1, output
        written = set(re.findall(r"^m\d+$", output, re.MULTILINE))
        left = set(client.texts("orders"))
        assert written | left == {f"m{n}" for n in range(1, 301)}


def test_failover_goes_on_with_the_broker_that_came_back(tmp_path: Path) -> None:
    with RestartableBroker(tmp_path) as broker:
        client = Client(f"failover:({broker.url})", tmp_path)
        client.send("orders", "m{n}", "--count", "300")
        with client.started("receive", "orders", "--follow", "--rate", "200/s", "--count", "400") as receiver:
            receiver.wait_for_line(re.compile("^m20$"), TIMEOUT_SECONDS)
            broker.restart(kill=True)
            receiver.wait_for_line(re.compile("^ackwire: connected to .* again$"), TIMEOUT_SECONDS)
            receiver.wait_for_line(re.compile("^m300$"), TIMEOUT_SECONDS)
            receiver.send_signal(signal.SIGTERM)
            assert receiver.wait() == 1, "fewer than asked for"
            written = re.findall(r"^m\d+$", receiver.output(), re.MULTILINE)
        assert set(written) == {f"m{n}" for n in range(1, 301)}
        assert client.texts("orders") == []


def test_send_counts_what_a_dying_broker_has_confirmed(tmp_path: Path) -> None:
    with RestartableBroker(tmp_path) as broker:
        client = Client(broker.url, tmp_path)
        with client.started("send", "orders", "--lines", "-v") as sender:
            sender.write_line("one")
            sender.wait_for_line(re.compile("ackwire: confirmed "), TIMEOUT_SECONDS)
            broker.restart(kill=True)
            sender.write_line("two")
            assert sender.wait() == 1
            assert "1 of 2 messages confirmed" in sender.output()
        assert client.texts("orders") == ["one"]


# ---- who and where ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("receive", "--selector", "n >"), "check --selector"),
        (("browse", "--selector", "n >"), "check --selector"),
        (("send", "x", "--property", "a-b=1"), "selectors could not name it"),
    ],
)
def test_a_refusal_is_one_line_and_exit_code_2(ours: Client, queue: str, arguments: tuple[str, ...], said: str) -> None:
    command, *rest = arguments
    outcome = ours(command, queue, *rest)
    assert (outcome.code, outcome.out, outcome.err.count("\n")) == (2, "", 1), outcome.err
    assert said in outcome.err


def test_a_broker_that_is_not_there_is_one_line_and_exit_code_2(tmp_path: Path) -> None:
    outcome = Client("tcp://127.0.0.1:1", tmp_path)("send", "orders", "x")
    assert outcome == Outcome(
        2, "", "ackwire: queue://orders on tcp://127.0.0.1:1: connection refused; is a broker running there?\n"
    )


def test_a_client_id_that_is_taken_is_said(ours: Client, queue: str) -> None:
    with ours.started("subscribe", f"{queue}.topic", "--client-id", queue) as subscriber:
        subscriber.wait_for_line(re.compile("subscribed to"), TIMEOUT_SECONDS)
        outcome = ours("send", queue, "x", "--client-id", queue)
        assert (outcome.code, outcome.err.count("\n")) == (2, 1)
        assert "choose another --client-id" in outcome.err


def test_a_broker_can_have_a_name(ours: Client, queue: str, tmp_path: Path) -> None:
    (tmp_path / "ackwire.toml").write_text(f'[client.factories.production]\nurl = "{ours.url}"\n')
    named = Client("production", tmp_path)
    named.send(queue, "x")
    assert named("receive", queue).out == "x\n"
    outcome = Client("staging", tmp_path)("receive", queue)
    assert (outcome.code, outcome.err.count("\n")) == (2, 1)
    assert "there is no [client.factories.staging]; there are production" in outcome.err


WITHOUT_EXTRAS = """\
import sys

class Missing:
    def find_spec(self, name, path, target=None):
        if name.partition(".")[0] in ("lark", "cronsim", "crc32c", "lmdb", "pyarrow"):
            raise ModuleNotFoundError(name, name=name)

sys.meta_path.insert(0, Missing())
from ackwire.cli.main import main
sys.exit(main(sys.argv[1:]))
"""


def test_a_client_needs_none_of_the_packages_of_a_broker(ours: Client, queue: str) -> None:
    def run(*arguments: str) -> Outcome:
        argv = [sys.executable, "-c", WITHOUT_EXTRAS, *arguments]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False)
        return Outcome(done.returncode, done.stdout, done.stderr)

    assert run("send", ours.url, queue, "x").code == 0
    assert run("receive", ours.url, queue).out == "x\n"
    assert run("version").code == 0
