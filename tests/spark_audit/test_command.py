"""`ackwire audit run`, as a user runs it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ackwire.cli.main import main
from tests.helpers.quick_java import QUICK_JAVA
from tests.spark_audit.events import Scribe, write_all


@pytest.mark.timeout(900)
@pytest.mark.system
def test_the_command_prints_the_sums_and_the_first_ids_that_do_not_add_up_and_exits_with_1(tmp_path: Path) -> None:
    scribe = Scribe()
    scribe.consume(scribe.send("queue://fine"))
    twice = scribe.send("queue://orders")
    scribe.consume(twice)
    scribe.dispatch(twice, "c2")
    write_all(tmp_path / "events", scribe.events)
    command = [sys.executable, "-m", "ackwire", "audit", "run", str(tmp_path), "--out", str(tmp_path / "tables")]
    environment = {**os.environ, **QUICK_JAVA}
    done = subprocess.run([*command, "--master", "local[2]"], capture_output=True, text=True, env=environment)
    lines = done.stdout.splitlines()
    assert done.returncode == 1, done.stderr
    assert lines[0] == "2026-03-01: 10 events, 2 places"
    assert lines[1].split() == ["place", "stored", "acked", "pending", "difference"]
    assert any(it.split()[:5] == ["queue://fine", "1", "1", "0", "0"] and it.endswith("adds up") for it in lines)
    assert f"  {twice.message_id} at queue://orders: dispatched after it was acked" in lines
    assert lines[-1] == "2026-03-01: DOES NOT ADD UP"
    assert "following each message" in done.stderr

    done = subprocess.run([*command, "--json"], capture_output=True, text=True, env=environment)
    assert done.returncode == 1
    assert json.loads(done.stdout) == {"adds_up": False, "days": []}
    assert "starting Spark" not in done.stderr, "there was nothing to compute"


def test_bad_options_are_told_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    for option, why in (("--date=yesterday", "no date like"), ("--pending-after=1", "no time like 90s")):
        with pytest.raises(SystemExit) as ended:
            main(["audit", "run", "events", "--out", "tables", option])
        assert ended.value.code == 2
        assert why in capsys.readouterr().err
