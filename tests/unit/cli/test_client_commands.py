"""send, receive, browse, request and subscribe against a stand-in: what they print, do, and end with."""

import io
import json
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from ackwire.cli.main import main
from ackwire.client.errors import (
    ConnectionFailedError,
    InvalidClientIdError,
    InvalidSelectorError,
    JMSError,
    JMSSecurityError,
    RequestTimedOutError,
    ResourceAllocationError,
    TransactionRolledBackError,
)
from ackwire.client.messages import DeliveryMode, TextMessage, message_from_command
from ackwire.client.settings import REQUEST_TIMEOUT_SECONDS
from ackwire.wire.openwire import commands
from tests.unit.cli.stand_in import Broker

URL = "tcp://broker:61616"


class Outcome(NamedTuple):
    code: int
    out: str
    err: str


Run = Callable[..., Outcome]


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Broker:
    broker = Broker()
    monkeypatch.setattr("ackwire.cli.connecting.ConnectionFactory", broker.factory())
    monkeypatch.setattr("ackwire.cli.taking.time.sleep", lambda _: None)
    monkeypatch.setattr("ackwire.cli.send._WHY_SECONDS", 0.05)
    monkeypatch.delenv("ACKWIRE_PASSWORD", raising=False)
    return broker


@pytest.fixture
def run(capsysbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch) -> Run:
    def run_main(*arguments: str, stdin: bytes = b"") -> Outcome:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        try:
            code = main(arguments)
        except SystemExit as exit_:
            code = int(exit_.code or 0)
        captured = capsysbinary.readouterr()
        return Outcome(code, captured.out.decode(), captured.err.decode())

    return run_main


def texts(broker: Broker) -> list[str | None]:
    return [message.text for message, _ in broker.sent if isinstance(message, TextMessage)]


def fails(what: str, error: JMSError, after: int = 0) -> Callable[[str, Any], JMSError | None]:
    """A broker that refuses *what*, after it went well so many times."""
    left = after

    def refuse(verb: str, _: Any) -> JMSError | None:
        nonlocal left
        if verb != what:
            return None
        left -= 1
        return error if left < 0 else None

    return refuse


# ---- send ------------------------------------------------------------------------------------------------------


def test_send_ends_with_0_and_says_how_many_were_confirmed(broker: Broker, run: Run) -> None:
    outcome = run("send", URL, "orders", "a", "b")
    assert (outcome.code, outcome.out) == (0, "")
    assert outcome.err.startswith("ackwire: sent 2 messages to queue://orders on tcp://broker:61616")
    assert texts(broker) == ["a", "b"]
    assert run("send", URL, "orders", "a", "-q").err == ""


def test_send_tells_the_producer_what_options_say(broker: Broker, run: Run) -> None:
    run("send", URL, "orders", "a", "--non-persistent", "--priority", "9", "--ttl", "30s")
    run("send", URL, "orders", "b")
    modes = {"delivery_mode": DeliveryMode.NON_PERSISTENT, "priority": 9, "time_to_live_ms": 30_000}
    assert [options for _, options in broker.sent] == [modes, {}]


def test_send_keeps_what_is_left_of_a_time_to_live_and_leaves_out_what_is_over(broker: Broker, run: Run) -> None:
    lines = [
        {"text": "old", "headers": {"expiration_ms": 1000}},
        {"text": "new", "headers": {"expiration_ms": 1 << 45}},
    ]
    outcome = run("send", URL, "orders", "--jsonl", stdin="\n".join(map(json.dumps, lines)).encode())
    assert outcome.code == 1
    assert "1 of 2 messages confirmed, 1 not sent because its time to live is over" in outcome.err
    assert texts(broker) == ["new"]
    assert 0 < broker.sent[0][1]["time_to_live_ms"] < 1 << 45


def test_send_that_is_refused_at_once_ends_with_2_and_a_hint(broker: Broker, run: Run) -> None:
    broker.refuse = fails("submit", JMSSecurityError("guest may not write to orders"))
    outcome = run("send", URL, "orders", "a")
    assert outcome.code == 2
    assert outcome.err == (
        "ackwire: queue://orders on tcp://broker:61616: guest may not write to orders; check --user, --password-file "
        "or ACKWIRE_PASSWORD, and what this user may do\n"
    )


def test_send_that_is_refused_in_the_middle_ends_with_1_and_the_counts(broker: Broker, run: Run) -> None:
    broker.refuse = fails("submit", ResourceAllocationError("the store is full"), after=2)
    outcome = run("send", URL, "orders", "m{n}", "--count", "5")
    assert outcome.code == 1
    assert "the store is full" in outcome.err
    assert "2 of 3 messages confirmed, 1 refused" in outcome.err
    assert outcome.err.count("\n") == 1


@pytest.mark.parametrize("error", [ConnectionFailedError("gone"), RequestTimedOutError("no answer in 30 s")])
def test_send_without_an_answer_says_that_nobody_knows(broker: Broker, run: Run, error: JMSError) -> None:
    broker.refuse = fails("submit", error)
    outcome = run("send", URL, "orders", "a")
    assert outcome.code == 1
    assert "0 of 1 message confirmed, 1 without an answer: it may be there or not" in outcome.err


@pytest.mark.parametrize(
    ("is_connected", "reason"),
    [
        (True, "the broker has confirmed nothing for 0.01 s; --timeout waits longer"),
        (False, "the connection was lost, and no broker could be reached again for 0.01 s; --timeout tries longer"),
    ],
)
def test_send_ends_when_nothing_is_confirmed_for_too_long(
    broker: Broker, run: Run, monkeypatch: pytest.MonkeyPatch, is_connected: bool, reason: str
) -> None:
    monkeypatch.setattr("ackwire.cli.send._FAREWELL_SECONDS", 0.0)
    broker.is_silent, broker.is_connected = True, is_connected
    outcome = run("send", URL, "orders", "a", "b", "--timeout", "10ms")
    assert outcome.code == 1
    assert reason in outcome.err
    assert "0 of 2 messages confirmed, 2 without an answer" in outcome.err


def test_send_tells_what_the_broker_says_about_a_producer_that_waits(
    broker: Broker, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ackwire.cli.send._FAREWELL_SECONDS", 0.0)
    answer = TextMessage("")
    answer.properties["answer"] = "producer ID:x is blocked for 0.0 s: the disk of data has no space"
    broker.is_silent, broker.replies = True, [message_from_command(answer.to_command())]
    outcome = run("send", URL, "orders", "a", "--timeout", "10ms", "--client-id", "me")
    assert outcome.code == 1
    assert outcome.err.endswith(
        "ackwire: the broker says: producer ID:x is blocked for 0.0 s: the disk of data has no space\n"
    )
    assert [client_id for _, _, client_id in broker.logins] == ["me", None], "the question has a connection of its own"


@pytest.mark.parametrize(
    ("url", "options", "timeout_ms"),
    [
        ("failover:(tcp://a,tcp://b)", (), 60_000),
        ("failover:(tcp://a,tcp://b)", ("--connect-timeout", "5s"), 5000),
        ("failover:(tcp://a,tcp://b)?timeout=7000", (), 7000),
        ("failover:(tcp://a,tcp://b)?maxReconnectAttempts=3", (), -1),
    ],
)
def test_failover_looks_for_a_first_broker_for_a_limited_time(
    broker: Broker, run: Run, url: str, options: tuple[str, ...], timeout_ms: int
) -> None:
    run("browse", url, "orders", *options)
    assert broker.urls[0].failover is not None
    assert broker.urls[0].failover.timeout_ms == timeout_ms


def test_send_waits_as_long_for_a_commit_as_for_a_confirmation(broker: Broker, run: Run) -> None:
    for url in (URL, f"{URL}?jms.requestTimeout=5"):
        run("send", url, "orders", "a", "--transacted", "2", "--timeout", "3s")
    assert [(it.send_timeout_ms, it.request_timeout_ms) for it in broker.options] == [(3000, 3000), (3000, 5)]


@pytest.mark.parametrize(("text", "hint"), [("kueue://q", 'did you mean "queue"?'), ("topic:p", '"topic://p"?')])
@pytest.mark.parametrize("command", ["send", "receive", "browse", "request", "subscribe"])
def test_a_mistyped_destination_is_an_error(broker: Broker, run: Run, command: str, text: str, hint: str) -> None:
    body = ["x"] if command in ("send", "request") else []
    outcome = run(command, URL, text, *body)
    assert (outcome.code, hint in outcome.err) == (2, True), outcome.err
    assert not broker.logins


def test_send_commits_after_so_many_and_at_the_end(broker: Broker, run: Run) -> None:
    outcome = run("send", URL, "orders", "m", "--count", "5", "--transacted", "2")
    assert outcome.code == 0
    assert [event for event in broker.events if "comm" in event] == ["committed 2", "committed 2", "committed 1"]
    assert "sent 5 messages" in outcome.err


def test_a_commit_that_fails_confirms_nothing_of_its_transaction(broker: Broker, run: Run) -> None:
    broker.refuse = fails("commit", TransactionRolledBackError("undone"), after=1)
    outcome = run("send", URL, "orders", "m", "--count", "5", "--transacted", "2")
    assert outcome.code == 1
    assert "2 of 4 messages confirmed, 2 rolled back" in outcome.err


def test_a_bad_line_ends_send_after_the_good_ones_and_rolls_back_half_a_transaction(broker: Broker, run: Run) -> None:
    stdin = b'{"text": "a"}\n{"text": "b"}\n{"text": "c"}\nnonsense\n'
    outcome = run("send", URL, "orders", "--jsonl", stdin=stdin)
    assert outcome.code == 1
    assert "line 4: it is not JSON: 'nonsense\\n': 3 of 3 messages confirmed" in outcome.err
    outcome = run("send", URL, "orders", "--jsonl", "--transacted", "2", stdin=stdin)
    assert "2 of 3 messages confirmed, 1 rolled back" in outcome.err
    assert broker.events[-2:] == ["rolled back 1", "connection closed"]
    assert run("send", URL, "orders", "--jsonl", stdin=b"nonsense\n").code == 2


def test_ctrl_c_ends_send_with_what_was_confirmed(broker: Broker, run: Run) -> None:
    def refuse(verb: str, message: Any) -> None:
        if verb == "submit" and message.text == "m3":
            signal.raise_signal(signal.SIGINT)

    broker.refuse = refuse
    outcome = run("send", URL, "orders", "m{n}", "--count", "1000")
    assert outcome.code == 1
    assert "interrupted: 2 of 3 messages confirmed, 1 without an answer" in outcome.err


# ---- receive ---------------------------------------------------------------------------------------------------


def test_receive_takes_what_is_there_and_ends_with_a_clear_line(broker: Broker, run: Run) -> None:
    broker.put("orders", *(f"m{n}" for n in range(250)))
    outcome = run("receive", URL, "orders")
    assert outcome.code == 0
    assert outcome.out.split() == [f"m{n}" for n in range(250)]
    assert "received 250 messages from queue://orders on tcp://broker:61616" in outcome.err
    assert outcome.err.endswith("; nothing more is there\n")
    assert len(broker.acked) == 250
    assert set(broker.prefetches) == {0, 1000}, "asks first, then has messages pushed, then asks again"
    assert run("receive", URL, "orders").err.startswith("ackwire: received 0 messages")


def test_receive_takes_no_more_than_it_was_asked_for(broker: Broker, run: Run) -> None:
    broker.put("orders", *"abcdefghijklmnopqrstuvwxyz")
    assert run("receive", URL, "orders", "--count", "2").out == "a\nb\n"
    assert set(broker.prefetches) == {0}, "few messages are asked for one by one"
    assert run("receive", URL, "orders", "--count", "20").out.split() == list("cdefghijklmnopqrstuv")
    assert (
        "".join(message.text or "" for message in broker.queue("orders") if isinstance(message, TextMessage)) == "wxyz"
    )
    assert len(broker.acked) == 22


def test_receive_of_none_where_one_was_asked_for_ends_with_3(broker: Broker, run: Run) -> None:  # noqa: ARG001
    outcome = run("receive", URL, "orders", "--count", "1")
    assert outcome.code == 3
    assert outcome.err.endswith("; 1 was asked for\n")


@pytest.mark.parametrize("how", [(), ("--timeout", "0")])
def test_receive_of_fewer_than_asked_for_ends_with_3(broker: Broker, run: Run, how: tuple[str, ...]) -> None:
    broker.put("orders", "a")
    outcome = run("receive", URL, "orders", "--count", "2", *how)
    assert (outcome.code, outcome.out) == (3, "a\n")
    assert outcome.err.endswith("; 2 were asked for\n")


class Recorder(io.BytesIO):
    """Standard output that writes down when it is flushed, and may fail."""

    def __init__(self, broker: Broker, fail_at: int | None = None, error: OSError | None = None) -> None:
        super().__init__()
        self._broker = broker
        self._left = fail_at
        self._error = error

    def flush(self) -> None:
        if self.closed:
            return
        if self._left is not None:
            self._left -= 1
            if self._left < 0:
                assert self._error is not None
                raise self._error
        self._broker.events.append("flushed")

    def fileno(self) -> int:
        raise OSError("no file")


@pytest.fixture
def standard_output(monkeypatch: pytest.MonkeyPatch) -> Callable[[Recorder], None]:
    """Puts something else in place of standard output, for commands that end before Python's own is flushed."""
    discarded: list[int] = []

    def put(recorder: Recorder) -> None:
        monkeypatch.setattr("ackwire.cli.messages_out._standard_output", lambda: recorder)
        monkeypatch.setattr("ackwire.cli.main.os.dup2", lambda _, number: discarded.append(number))
        monkeypatch.setattr("ackwire.cli.main.sys.stdout", _Stdout())

    return put


class _Stdout(io.StringIO):
    def fileno(self) -> int:
        return 1


def test_a_message_is_acknowledged_after_it_was_flushed_and_never_before(
    broker: Broker, run: Run, standard_output: Callable[[Recorder], None]
) -> None:
    standard_output(Recorder(broker))
    broker.put("orders", *(f"m{n}" for n in range(230)))
    assert run("receive", URL, "orders").code == 0
    given: set[str] = set()
    flushed: set[str] = set()
    acked: list[str] = []
    for event in broker.events:
        verb, _, name = event.partition(" ")
        if verb == "gave":
            given.add(name)
        elif verb == "flushed":
            flushed |= given
        elif verb == "acked":
            assert name in flushed
            acked.append(name)
    assert len(acked) == 230


def test_a_broken_pipe_ends_quietly_and_acknowledges_nothing_that_was_not_written(
    broker: Broker, run: Run, standard_output: Callable[[Recorder], None]
) -> None:
    standard_output(Recorder(broker, fail_at=1, error=BrokenPipeError(32, "Broken pipe")))
    broker.put("orders", *"abc")
    outcome = run("receive", URL, "orders", "--rate", "1000000/s")
    assert (outcome.code, outcome.err) == (1, "")
    assert len(broker.acked) == 1
    assert broker.events[-1] == "connection closed"


def test_a_full_disk_ends_with_1_and_acknowledges_nothing_that_was_not_written(
    broker: Broker, run: Run, standard_output: Callable[[Recorder], None]
) -> None:
    standard_output(Recorder(broker, fail_at=0, error=OSError(28, "No space left on device")))
    broker.put("orders", *"abc")
    outcome = run("receive", URL, "orders")
    assert outcome.code == 1
    assert "the output takes no more: No space left on device: received 0 messages" in outcome.err
    assert broker.acked == []


def test_client_acknowledges_all_together_at_the_end(broker: Broker, run: Run) -> None:
    broker.put("orders", "a", "b")
    outcome = run("receive", URL, "orders", "--ack", "client")
    assert outcome.code == 0
    assert broker.events[-4:] == [
        "gave ID:stand-in-1:1:1:1:1",
        "gave ID:stand-in-1:1:1:1:2",
        "session acknowledged",
        "connection closed",
    ]
    assert ", acknowledged together" in outcome.err


def test_none_gives_everything_back(broker: Broker, run: Run) -> None:
    broker.put("orders", "a", "b")
    outcome = run("receive", URL, "orders", "--ack", "none")
    assert (outcome.code, outcome.out, broker.acked) == (0, "a\nb\n", [])
    assert ", given back" in outcome.err
    assert set(broker.prefetches) == {0}, "what is not acknowledged would fill a prefetch window"


@pytest.mark.parametrize(
    ("how", "code"), [(("--follow",), 0), (("--timeout", "1h"), 1), (("--follow", "--count", "9"), 1)]
)
def test_ctrl_c_ends_receive_with_a_summary_and_all_that_was_written_acknowledged(
    broker: Broker, run: Run, how: tuple[str, ...], code: int
) -> None:
    broker.put("orders", *"abc")

    def on_receive() -> None:
        if len(broker.queue("orders")) == 1:
            signal.raise_signal(signal.SIGINT)

    broker.on_receive = on_receive
    outcome = run("receive", URL, "orders", *how)
    assert (outcome.code, outcome.out) == (code, "a\nb\nc\n")
    assert len(broker.acked) == 3
    assert "received 3 messages" in outcome.err
    assert "; interrupted" in outcome.err


def test_ctrl_c_with_client_gives_everything_back(broker: Broker, run: Run) -> None:
    broker.put("orders", *"abc")
    broker.on_receive = lambda: signal.raise_signal(signal.SIGINT) if len(broker.queue("orders")) == 2 else None
    outcome = run("receive", URL, "orders", "--ack", "client")
    assert outcome.code == 1
    assert broker.acked == []
    assert ", given back; interrupted" in outcome.err


@pytest.mark.parametrize("how", [(), ("--timeout", "0")])
def test_a_message_that_cannot_be_read_ends_receive_and_stays(broker: Broker, run: Run, how: tuple[str, ...]) -> None:
    broker.put("orders", "a")
    bad = message_from_command(commands.ActiveMQTextMessage(content=b"\0\0\0\x09x"))
    bad.message_id = "ID:bad-1:1:1:1:1"
    broker.queue("orders").append(bad)
    broker.put("orders", "c")
    outcome = run("receive", URL, "orders", *how)
    assert (outcome.code, outcome.out) == (1, "a\n")
    assert "message ID:bad-1:1:1:1:1 cannot be read, and stays there" in outcome.err
    assert broker.acked == ["ID:stand-in-1:1:1:1:1"]


def test_an_error_in_the_middle_is_told_with_what_was_done(broker: Broker, run: Run) -> None:
    broker.put("orders", *"abc")
    broker.refuse = fails("receive", ConnectionFailedError("the connection was lost"), after=2)
    outcome = run("receive", URL, "orders")
    assert outcome.code == 1
    assert "the connection was lost; is a broker running there?: received" in outcome.err


def test_one_word_that_nothing_is_there_is_not_believed(broker: Broker, run: Run) -> None:
    """ActiveMQ may answer one question twice, with a message and with none (C3)."""
    broker.put("orders", *"abc")
    broker.is_empty_once_after = 2
    outcome = run("receive", URL, "orders", "--ack", "client")
    assert (outcome.code, outcome.out) == (0, "a\nb\nc\n")
    assert outcome.err.endswith("; nothing more is there\n")


def test_a_broker_that_does_not_answer_is_not_taken_for_an_empty_queue(
    broker: Broker, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 100.0

    def on_receive() -> None:
        nonlocal now
        now += REQUEST_TIMEOUT_SECONDS

    monkeypatch.setattr("ackwire.cli.taking.time.monotonic", lambda: now)
    broker.on_receive = on_receive
    outcome = run("receive", URL, "orders")
    assert outcome.code == 1
    assert "the broker has not said within" in outcome.err


def test_json_lines_of_receive_are_those_of_send(broker: Broker, run: Run) -> None:
    message = TextMessage("é")
    message.properties.set_short("n", 7)
    message.correlation_id = "c"
    message.priority = 8
    broker.put_message("orders", message)
    lines = run("receive", URL, "orders", "--jsonl").out
    assert run("send", URL, "copy", "--jsonl", stdin=lines.encode()).code == 0
    ((copy, options),) = broker.sent
    assert isinstance(copy, TextMessage)
    assert (copy.text, copy.correlation_id, type(copy.properties["n"]).__name__) == ("é", "c", "Short")
    assert options["priority"] == 8


# ---- browse ----------------------------------------------------------------------------------------------------


def test_browse_takes_nothing(broker: Broker, run: Run) -> None:
    broker.put("orders", "a", "b", "c")
    outcome = run("browse", URL, "orders")
    assert (outcome.code, outcome.out) == (0, "a\nb\nc\n")
    assert "browsed 3 messages from queue://orders on tcp://broker:61616" in outcome.err
    assert run("browse", URL, "orders", "--count", "2").out == "a\nb\n"
    assert run("browse", URL, "orders", "--count", "9").code == 0
    assert len(broker.queue("orders")) == 3


def test_browse_writes_into_a_directory_too(broker: Broker, run: Run, tmp_path: Path) -> None:
    broker.put("orders", "a", "b")
    assert run("browse", URL, "orders", "--output", str(tmp_path / "out")).out == ""
    assert sorted(file.read_text() for file in (tmp_path / "out").iterdir()) == ["a", "b"]


# ---- request ---------------------------------------------------------------------------------------------------


def test_request_prints_the_reply(broker: Broker, run: Run) -> None:
    broker.replies.append(message_from_command(TextMessage("42").to_command()))
    assert run("request", URL, "quotes", "ACME") == Outcome(0, "42\n", "")
    ((message, _),) = broker.sent
    assert repr(message.reply_to) == "temp-queue://ID:reply"


def test_request_without_a_reply_ends_with_3(broker: Broker, run: Run) -> None:
    outcome = run("request", URL, "quotes", "ACME", "--timeout", "10ms")
    assert (outcome.code, outcome.out) == (3, "")
    assert "queue://quotes on tcp://broker:61616: no reply within 0.01 s" in outcome.err
    assert len(broker.sent) == 1
    assert "  3  no reply" in run("request", "--help").out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [(("a", "b"), "request sends one message, and here are 2"), (("a", "--header", "reply_to=x"), "its own reply_to")],
)
def test_request_refuses_what_makes_no_sense(broker: Broker, run: Run, arguments: tuple[str, ...], said: str) -> None:
    outcome = run("request", URL, "quotes", *arguments)
    assert (outcome.code, said in outcome.err, broker.sent) == (2, True, [])


# ---- subscribe -------------------------------------------------------------------------------------------------


def test_subscribe_says_when_it_listens_and_takes_a_bare_name_for_a_topic(broker: Broker, run: Run) -> None:
    broker.put("prices", "1", "2")
    outcome = run("subscribe", URL, "topic://prices", "--count", "2")
    assert (outcome.code, outcome.out) == (0, "1\n2\n")
    assert outcome.err.startswith("ackwire: subscribed to topic://prices on tcp://broker:61616\n")
    assert len(broker.acked) == 2


def test_a_durable_subscription_needs_its_names(broker: Broker, run: Run) -> None:
    assert "give it with --client-id" in run("subscribe", URL, "prices", "--durable", "audit").err
    assert "name it with --durable" in run("subscribe", URL, "prices", "--unsubscribe").err
    assert broker.logins == []
    outcome = run("subscribe", URL, "prices", "--durable", "audit", "--client-id", "me", "--timeout", "0")
    assert outcome.code == 0
    assert broker.logins == [(None, None, "me")]
    assert "durable audit" in broker.events
    outcome = run("subscribe", f"{URL}?jms.clientID=me", "prices", "--durable", "audit", "--unsubscribe")
    assert outcome.code == 0
    assert "unsubscribed audit" in broker.events


# ---- who and where ---------------------------------------------------------------------------------------------


def test_the_password_comes_from_a_file_or_from_the_environment(
    broker: Broker, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "password"
    file.write_text("secret\nanything\n")
    monkeypatch.setenv("ACKWIRE_PASSWORD", "other")
    run("send", URL, "q", "x", "--user", "me", "--password-file", str(file))
    run("send", URL, "q", "x", "--user", "me")
    run("send", URL, "q", "x")
    assert broker.logins == [("me", "secret", None), ("me", "other", None), (None, None, None)]
    outcome = run("send", URL, "q", "x", "--user", "me", "--password-file", "/nowhere/x")
    assert (outcome.code, "--password-file /nowhere/x: No such file" in outcome.err) == (2, True)


def test_a_password_in_the_url_works_with_a_warning_and_is_never_shown(
    broker: Broker, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ACKWIRE_PASSWORD", "other")
    outcome = run("send", f"{URL}?jms.userName=me&jms.password=hunter2", "q", "x")
    assert outcome.code == 0
    assert "warning: the password in the URL can be seen" in outcome.err
    assert "hunter2" not in outcome.err
    assert broker.logins == [("me", "hunter2", None)], "the URL's is nearer than the environment's"


def test_nobody_makes_a_dead_letter_by_looking_unless_the_url_says_so(broker: Broker, run: Run) -> None:
    run("receive", URL, "q", "--ack", "none")
    run("receive", f"{URL}?jms.redeliveryPolicy.maximumRedeliveries=3", "q")
    assert [options.redelivery.redeliveries_max for options in broker.options] == [-1, 3]


def test_a_name_is_looked_up(broker: Broker, run: Run) -> None:
    outcome = run("send", "production", "orders", "x", "--config", "brokers.toml")
    assert outcome.code == 0
    assert "lookup production brokers.toml" in broker.events
    assert "queue://orders on production" in outcome.err


@pytest.mark.parametrize(
    ("verb", "error", "said"),
    [
        (
            "start",
            ConnectionFailedError(f"{URL}: refused"),
            "refused; is a broker running there?",
        ),
        ("start", JMSSecurityError("wrong\npassword"), "wrong password; check --user"),
        ("start", InvalidClientIdError("in use"), "in use; choose another --client-id"),
        ("consumer", InvalidSelectorError("no such thing"), "no such thing; check --selector"),
    ],
)
def test_an_error_is_one_line_with_what_where_and_what_to_do(
    broker: Broker, run: Run, verb: str, error: JMSError, said: str
) -> None:
    broker.refuse = fails(verb, error)
    outcome = run("receive", URL, "orders")
    assert outcome == Outcome(2, "", outcome.err)
    assert outcome.err.count("\n") == 1
    assert outcome.err.startswith(f"ackwire: queue://orders on tcp://broker:61616: {said}")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("receive", URL, "topic://prices"), "topic://prices is a topic; ackwire subscribe"),
        (("browse", URL, "topic://prices"), "topic://prices is a topic"),
        (("subscribe", URL, "queue://orders"), "queue://orders is a queue; ackwire receive"),
        (("receive", URL, "orders", "--follow", "--timeout", "1s"), "give one of them"),
        (("receive", URL, "orders?consumer.prefetchSiez=1"), "prefetchSiez"),
        (("send", "tpc://broker", "orders", "x"), "tpc"),
        (("receive", URL, "orders", "--timeout", "soon"), "'soon' is no time"),
        (("receive", URL), "required: DESTINATION"),
        (("send", URL), "required: DESTINATION"),
        (("send", URL, "orders", "x", "--user"), "--user: expected one argument"),
        (("send", URL, "orders", "x", "--frobnicate"), "unrecognized arguments: --frobnicate"),
        (("send", URL, "orders", "x", "--password", "hunter2"), "unrecognized arguments"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(broker: Broker, run: Run, arguments: tuple[str, ...], said: str) -> None:
    outcome = run(*arguments)
    assert (outcome.code, outcome.out, outcome.err.count("\n")) == (2, "", 1)
    assert said in outcome.err
    assert broker.logins == []


@pytest.mark.parametrize("command", ["send", "receive", "browse", "request", "subscribe"])
def test_every_command_explains_itself_and_its_exit_codes(run: Run, command: str) -> None:
    outcome = run(command, "--help")
    assert outcome.code == 0
    assert outcome.out.startswith(f"usage: ackwire {command} ")
    assert "exit codes:" in outcome.out
