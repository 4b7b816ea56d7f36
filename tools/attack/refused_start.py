"""Durable subscriptions to patterns, and messages that are expired when they arrive: does the next start succeed?

    python -m tools.attack.refused_start

A client subscribes durably to a pattern that stands for the broker's own advisories too, others make destinations and
send; then the broker is stopped, or killed, and started again on the same data, three times. Wanted: every start
succeeds, and a publisher whose message is expired on arrival is answered and stays connected.
"""

import tempfile
import time
from pathlib import Path

from ackwire.wire.openwire import commands
from tests.helpers.openwire_client import OpenWireClient, PeerClosed, queue, topic
from tests.helpers.processes import ProcessFailed
from tools.attack.rig import Attacked, attacked

_PATTERNS = (">", "ActiveMQ.Advisory.>", "ActiveMQ.Advisory.Queue", "VirtualTopic.>", "*.a")
_STARTS = 3
_SENDS = 5


def main() -> None:
    """Each pattern on a store of its own, once with clean stops and once with kills."""
    refused = 0
    for pattern in _PATTERNS:
        for is_killed in (False, True):
            said = _restarts(pattern, is_killed=is_killed)
            refused += bool(said)
            how = "kill -9" if is_killed else "SIGTERM"
            outcome = said or f"{_STARTS} of {_STARTS} starts"
            print(f"durable on topic://{pattern:24} {how:8} {outcome}", flush=True)
    print(f"{refused} of {2 * len(_PATTERNS)} stores could not be started again", flush=True)
    for pattern in ("t", ">"):
        outcome = _expired_on_arrival(pattern)
        print(f"expired on arrival, durable on topic://{pattern}, offline: {outcome}", flush=True)


def _restarts(pattern: str, *, is_killed: bool) -> str:
    """What a start that failed has said; empty if all succeeded."""
    with tempfile.TemporaryDirectory(prefix="ackwire-starts-") as name:
        data = Path(name) / "data"
        for number in range(_STARTS + 1):
            try:
                with attacked(data=data) as broker:
                    _work(broker, pattern, number)
                    if is_killed:
                        broker.process.kill()
            except ProcessFailed as error:
                return f"start {number} failed: {_cause(str(error))}"
    return ""


def _work(broker: Attacked, pattern: str, number: int) -> None:
    with OpenWireClient.logged_in(broker.port, client_id="subscriber") as client:
        client.subscribe(topic(pattern), subscription_name="all", prefetch_size=10)
    with OpenWireClient.logged_in(broker.port) as client:
        for where in (queue(f"made.{number}"), topic(f"told.{number}"), topic("VirtualTopic.a"), topic("x.a")):
            client.send_text(where, *["x"] * _SENDS, persistent=True)


def _expired_on_arrival(pattern: str) -> str:
    """What becomes of a publisher whose message is expired when it arrives."""
    with attacked() as broker:
        with OpenWireClient.logged_in(broker.port, client_id="subscriber") as client:
            client.subscribe(topic(pattern), subscription_name="all", prefetch_size=10)
            client.log_out()
        with OpenWireClient.logged_in(broker.port) as client:
            message = client.text_message(topic("t"), "late", persistent=True)
            message.timestamp = 0  # otherwise the broker takes the client's clock for slow, and corrects it
            message.expiration = time.time_ns() // 1_000_000 - 1000
            try:
                answer = client.ask(message)
                client.send_text(topic("t"), "next", persistent=True)
            except (PeerClosed, OSError) as error:
                log = broker.process.log_path.read_text()
                return f"the publisher was cut off ({type(error).__name__}): {_cause(log)}"
        is_plain = type(answer) is commands.Response
        return "the publisher was answered" if is_plain else f"the publisher was refused: {answer!r}"[:200]


def _cause(text: str) -> str:
    """The last line that names an error."""
    lines = [line.strip() for line in text.splitlines() if "Error" in line or "ERROR" in line]
    return lines[-1][:160] if lines else text.splitlines()[0][:160]


if __name__ == "__main__":
    main()
