"""A disk that fails under a running broker: nothing more is acknowledged, and nothing that was is lost (K7)."""

import resource
import shutil
import time
from pathlib import Path

import pytest

from ackwire.cli.serve import EXIT_STORE_FAILED
from ackwire.wire.openwire import commands
from tests.helpers.openwire_client import OpenWireClient, PeerClosed, queue, text_of
from tests.helpers.processes import READY_TIMEOUT_SECONDS, RestartableBroker

pytestmark = pytest.mark.system

BODY = "x" * 10_000
WRITABLE_BYTES = 1 << 20
SENT_AT_MOST = 500
"""Far beyond what the file may hold."""


def test_K7_a_failed_write_is_answered_with_an_error_and_ends_the_broker(tmp_path: Path) -> None:
    """K7: the producer is told, the exit code says why, and a new start has all that was acknowledged."""
    with RestartableBroker(tmp_path) as broker:
        await_spare(broker.data)  # made in the background: else it is what fails, before the first message
        # From here on the journal cannot be written beyond its first MiB: as if the disk refused.
        resource.prlimit(broker.process.pid, resource.RLIMIT_FSIZE, (WRITABLE_BYTES, WRITABLE_BYTES))
        acknowledged, refusal = send_until_refused(broker.port)
        assert broker.process.wait() == EXIT_STORE_FAILED
        assert "the store in" in refusal
        assert "has failed" in refusal
        assert "Nothing more is acknowledged" in broker.process.output()
        broker.start()
        assert received(broker.port, len(acknowledged)) == acknowledged


def test_K7_a_broker_whose_journal_is_deleted_acknowledges_nothing_more_and_ends(tmp_path: Path) -> None:
    """K7: the files are open, so writes and syncs succeed; the next start would find nothing of it."""
    with RestartableBroker(tmp_path) as broker:
        with OpenWireClient.logged_in(broker.port) as client:
            client.request(client.text_message(queue("orders"), "kept, for now", persistent=True))
            shutil.rmtree(broker.data / "journal")
            answer = client.ask(client.text_message(queue("orders"), "lost", persistent=True))
        assert isinstance(answer, commands.ExceptionResponse)
        assert f"{broker.data / 'journal'} is gone" in str(answer.exception)
        assert broker.process.wait() == EXIT_STORE_FAILED
        assert "is gone, or was renamed or replaced" in broker.process.output()


def await_spare(data: Path) -> None:
    """Wait until the file that the journal makes ahead is there and whole."""
    spare, first = data / "journal" / "spare", data / "journal" / "0000000001.log"
    deadline = time.monotonic() + READY_TIMEOUT_SECONDS
    while not spare.exists() or spare.stat().st_size < first.stat().st_size:
        assert time.monotonic() < deadline, f"{spare} was not made"
        time.sleep(0.01)


def send_until_refused(port: int) -> tuple[list[str], str]:
    """What was acknowledged, and the words of the refusal."""
    acknowledged: list[str] = []
    with OpenWireClient.logged_in(port) as client:
        for number in range(SENT_AT_MOST):
            text = f"{number} {BODY}"
            answer = client.ask(client.text_message(queue("orders"), text, persistent=True))
            if isinstance(answer, commands.ExceptionResponse):
                return acknowledged, str(answer.exception)
            acknowledged.append(text)
    raise AssertionError(f"all {SENT_AT_MOST} messages were acknowledged")


def received(port: int, count: int) -> list[str]:
    texts: list[str] = []
    with OpenWireClient.logged_in(port) as client:
        consumer = client.subscribe(queue("orders"), prefetch_size=1000)
        while len(texts) < count:
            try:
                texts.append(text_of(client.receive(consumer)) or "")
            except PeerClosed as error:
                raise AssertionError(f"{len(texts)} of {count} messages came") from error
    return texts
