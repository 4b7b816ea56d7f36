"""The files of a node, through its terms."""

import asyncio
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from ackwire.config import Settings
from ackwire.errors import StoreFailed
from ackwire.opening import replicas
from ackwire.opening.replicas import ReplicaFiles
from ackwire.server.turn import Turn
from ackwire.store.journal.replica.opening import OpenCopy, open_copy
from ackwire.store.journal.replica.replica_journal import ReplicaJournal
from ackwire.util.clock import SystemClock


def files_in(folder: Path, failures: list[StoreFailed]) -> ReplicaFiles:
    settings = Settings()
    store = replace(settings.store, kind="replicated", data=str(folder / "data"), segment_bytes=1 << 20)
    turn = Turn(asyncio.get_running_loop())
    return ReplicaFiles(replace(settings, store=store), SystemClock(), turn, failures.append)


def test_L2_a_copy_that_is_empty_may_be_synced_again_and_again(tmp_path: Path) -> None:
    """The folder has just changed, and there is no segment to look for."""

    async def test() -> None:
        failures: list[StoreFailed] = []
        files = files_in(tmp_path, failures)
        assert files.copy is not None
        errors: list[Exception | None] = []
        for _ in range(3):
            files.copy.sync(errors.append)
            files.copy.writing.finish()
        files.close()
        assert (errors, failures) == ([None] * 3, [])

    asyncio.run(test())


@pytest.mark.parametrize("closes_meanwhile", [False, True], ids=["goes on", "is closed meanwhile"])
def test_L2_a_node_that_steps_down_reads_its_log_beside_the_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, closes_meanwhile: bool
) -> None:
    """It may take long, and a loop that hangs hears of no master and answers no operator."""
    may_read = threading.Event()
    threads: list[threading.Thread] = []

    def slowly(*args: object, **others: object) -> OpenCopy:
        threads.append(threading.current_thread())
        assert may_read.wait(60)
        return open_copy(*args, **others)  # type: ignore[arg-type]

    async def test() -> None:
        failures: list[StoreFailed] = []
        files = files_in(tmp_path, failures)
        assert files.copy is not None
        files.copy.close()
        monkeypatch.setattr(replicas, "open_copy", slowly)
        outcome: asyncio.Future[ReplicaJournal | None] = asyncio.get_running_loop().create_future()
        files.reopen_copy(lambda copy, _: outcome.set_result(copy))
        await asyncio.sleep(0)
        assert not outcome.done()
        may_read.set()
        if closes_meanwhile:
            files.close()
        copy = await asyncio.wait_for(outcome, 60)
        assert copy is not None
        assert (files.copy is copy) is not closes_meanwhile
        files.close()
        again = files_in(tmp_path, failures)  # nothing is locked
        again.close()
        assert threads[0] is not threading.current_thread()
        assert failures == []

    asyncio.run(test())
