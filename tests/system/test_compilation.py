"""Which of the two builds is under test, and what a user is told about it."""

import os
import subprocess
from pathlib import Path

import ackwire
from tests.helpers.compilation import IS_COMPILED
from tests.helpers.processes import ackwire_program, running_broker


def test_the_tests_run_on_the_build_they_were_started_for() -> None:
    """PYTHONPATH names a compiled package or none; no test may pass on the other one by mistake."""
    home = Path(ackwire.__file__).parent.parent
    assert (home.name == "compiled") == IS_COMPILED
    assert ("compiled" in os.environ.get("PYTHONPATH", "")) == IS_COMPILED


def test_serve_logs_that_it_is_not_compiled(tmp_path: Path) -> None:
    log = tmp_path / "broker.log"
    with running_broker(["tcp://127.0.0.1:0"], log_path=log):
        pass
    lines = [line for line in log.read_text().splitlines() if "running as plain Python" in line]
    assert len(lines) == (0 if IS_COMPILED else 1)
    assert all("ACKWIRE_COMPILE=1 pip install" in line for line in lines)


def test_version_tells_what_is_compiled() -> None:
    """The program that tests start, and users too, is of the same build."""
    done = subprocess.run([ackwire_program(), "version", "-v"], capture_output=True, text=True, check=True)
    first, *rest = done.stdout.splitlines()
    assert first.startswith(f"ackwire {ackwire.__version__}, Python 3.")
    if IS_COMPILED:
        assert rest[0].endswith("modules compiled with mypyc:")
        assert "  ackwire.broker.queue" in rest
    else:
        assert rest[0].startswith("pure Python")
        assert "C compiler" in rest[1]
