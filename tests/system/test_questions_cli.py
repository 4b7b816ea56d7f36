"""`ackwire why` and `ackwire transaction` against a running broker."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme

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
    return run(*arguments, "--url", url)


def run(*arguments: str) -> tuple[int, str]:
    done = subprocess.run([ACKWIRE, *arguments], capture_output=True, text=True, timeout=30, check=False)
    return done.returncode, (done.stdout + done.stderr).strip()


def test_why_tells_what_waits_in_a_queue(broker: RunningBroker) -> None:
    with OpenWireClient.logged_in(broker.ports[0]) as client:
        client.send_text(queue("orders"), "m")
        code, text = ackwire(broker, "why", "queue", "orders")
        assert (code, "1 message waiting" in text, "no consumer" in text) == (0, True, True), text


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a broker with TLS."""
    folder = tmp_path_factory.mktemp("secure")
    authority = trustme.CA()
    authority.cert_pem.write_to_path(folder / "ca.pem")
    authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(folder / "server.pem")
    listener = f"ssl://127.0.0.1:0?certFile={folder}/server.pem"
    with running_broker([listener], log_path=folder / "broker.log") as running:
        yield f"ssl://127.0.0.1:{running.ports[0]}?caFile={folder}/ca.pem"


@pytest.mark.parametrize("how", ["ssl", "failover", "name"])
def test_why_and_transaction_connect_as_send_and_receive_do(secure: str, tmp_path: Path, how: str) -> None:
    url = {"ssl": secure, "failover": f"failover:(tcp://127.0.0.1:1,{secure})", "name": "production"}[how]
    config = tmp_path / "clients.toml"
    config.write_text(f'[client.factories.production]\nurl = "{secure}"\n')
    where = ["--url", url, "--config", str(config)]
    assert run("why", "transaction", *where) == (0, "no transaction is open")
    assert run("transaction", "list", *where, "--json") == (0, "[]")


def test_what_does_not_exist_has_an_exit_code_of_its_own(broker: RunningBroker) -> None:
    code, text = ackwire(broker, "why", "queue", "nowhere")
    assert (code, "does not exist" in text) == (4, True), text
    code, text = ackwire(broker, "why", "message", "ID:x", "--json")
    answer = json.loads(text)
    assert (code, answer["subject"], answer["name"], answer["found"]) == (4, "message", "ID:x", False)
    assert "message ID:x is not here" in answer["answer"][0]


def test_why_answers_machines(broker: RunningBroker) -> None:
    with OpenWireClient.logged_in(broker.ports[0]) as client:
        client.send_text(queue("orders"), "m")
    code, text = ackwire(broker, "why", "queue", "orders", "--json")
    answer = json.loads(text)
    assert (code, answer["found"]) == (0, True)
    assert "1 message waiting" in answer["answer"][0]


def test_a_mistyped_name_and_a_broker_that_is_not_there_are_told_in_one_line(broker: RunningBroker) -> None:
    code, text = ackwire(broker, "why", "queue", "kueue://orders")
    assert (code, 'did you mean "queue"?' in text, text.count("\n")) == (2, True, 0), text
    code, text = run("why", "queue", "orders", "--url", "failover:(tcp://127.0.0.1:1)", "--timeout", "200ms")
    assert (code, "no broker could be reached within 0.2 s (tcp://127.0.0.1:1: " in text) == (2, True), text


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
    assert (code, "no prepared transaction" in text) == (4, True)
    visible = "1 message waiting" in ackwire(broker, "why", "queue", "pay")[1]
    assert visible is (action == "commit")
