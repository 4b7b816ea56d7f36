"""`ackwire why` and `ackwire transaction` against a running broker."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ackwire.wire.openwire import commands
from ackwire.wire.openwire.commands import TransactionType, XATransactionId
from tests.helpers.openwire_client import OpenWireClient, queue
from tests.helpers.processes import RunningBroker, running_broker

pytestmark = pytest.mark.system
ACKWIRE = Path(sys.executable).with_name("ackwire")
XID = XATransactionId(7, b"global", b"branch")
XID_TEXT = f"7:{b'global'.hex()}:{b'branch'.hex()}"


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[RunningBroker]:
    with running_broker(["tcp://127.0.0.1:0"], log_path=tmp_path / "broker.log") as running:
        yield running


def ackwire(broker: RunningBroker, *arguments: str) -> tuple[int, str]:
    """Exit code and output of a command."""
    url = f"tcp://127.0.0.1:{broker.ports[0]}"
    done = subprocess.run([ACKWIRE, *arguments, "--url", url], capture_output=True, text=True, timeout=30, check=False)
    return done.returncode, (done.stdout + done.stderr).strip()


def test_why_tells_what_waits_in_a_queue(broker: RunningBroker) -> None:
    with OpenWireClient.logged_in(broker.ports[0]) as client:
        client.send_text(queue("orders"), "m")
        code, text = ackwire(broker, "why", "queue", "orders")
        assert (code, "1 message waiting" in text, "no consumer" in text) == (0, True, True), text


def test_why_without_a_name_or_a_broker_says_what_to_do(broker: RunningBroker) -> None:
    code, text = ackwire(broker, "why", "queue")
    assert (code, text.count("\n"), "needs a name" in text) == (2, 0, True)


@pytest.mark.parametrize("action", ["commit", "rollback"])
def test_G3_an_operator_decides_about_a_prepared_transaction(broker: RunningBroker, action: str) -> None:
    with OpenWireClient.logged_in(broker.ports[0]) as client:
        for kind in (TransactionType.BEGIN, TransactionType.PREPARE):
            if kind is TransactionType.PREPARE:
                message = client.text_message(queue("pay"), "m")
                message.transaction_id = XID
                client.request(message)
            client.ask(commands.TransactionInfo(transaction_id=XID, type=int(kind)))
    assert ackwire(broker, "transaction", "list") == (0, XID_TEXT)
    assert ackwire(broker, "transaction", action, XID_TEXT)[0] == 2, "not without --yes"
    code, text = ackwire(broker, "transaction", action, XID_TEXT, "--yes")
    assert code == 0, text
    assert ackwire(broker, "transaction", "list") == (0, "")
    code, text = ackwire(broker, "transaction", "commit", XID_TEXT, "--yes")
    assert (code, "no prepared transaction" in text) == (2, True)
    visible = "1 message waiting" in ackwire(broker, "why", "queue", "pay")[1]
    assert visible is (action == "commit")
