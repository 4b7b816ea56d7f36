"""Takes files of a running broker away, and counts the persistent sends that are acknowledged afterwards.

    python -m tools.attack.journal_deleted

Wanted: no send is acknowledged that the next start does not find, the log names what is gone, and the exit code is 74.
"""

import shutil
import time
from collections.abc import Callable
from pathlib import Path

import ackwire
from tools.attack.rig import Attacked, attacked

_SENDS_MAX = 3000
_SECONDS_MAX = 10.0


def _replace_segment(data: Path) -> None:
    segment = _active(data)
    copy = segment.with_suffix(".copy")
    shutil.copyfile(segment, copy)
    copy.rename(segment)


def _active(data: Path) -> Path:
    return max((data / "journal").glob("*.log"))


ACCIDENTS: dict[str, Callable[[Path], object]] = {
    "journal deleted": lambda data: shutil.rmtree(data / "journal"),
    "journal renamed": lambda data: (data / "journal").rename(data / "old"),
    "data folder renamed": lambda data: data.rename(data.with_name("old")),
    "segment deleted": lambda data: _active(data).unlink(),
    "segment renamed": lambda data: _active(data).rename(data / "journal" / "old"),
    "segment replaced": _replace_segment,
    "index deleted": lambda data: shutil.rmtree(data / "index"),
    "lock deleted": lambda data: (data / "lock").unlink(),
}


def main() -> None:
    """Every accident, on a broker of its own."""
    for name, accident in ACCIDENTS.items():
        with attacked() as broker:
            acknowledged = _sends_after(broker, accident)
            ended = _exit_code(broker)
            log = broker.process.log_path.read_text()
        said = next((line for line in log.splitlines() if "has failed" in line), "")
        print(f"{name:20} acknowledged afterwards {acknowledged:5}, exit code {ended}: {said[:200]}", flush=True)


def _sends_after(broker: Attacked, accident: Callable[[Path], object]) -> int:
    acknowledged = 0
    ends_at = time.monotonic() + _SECONDS_MAX
    try:
        with ackwire.connect(f"tcp://127.0.0.1:{broker.port}") as connection, connection.session() as session:
            producer = session.producer("attacked")
            for _ in range(20):
                producer.send("before")
            accident(broker.data)
            while acknowledged < _SENDS_MAX and time.monotonic() < ends_at:
                producer.send("x" * 1000)
                acknowledged += 1
    except (ackwire.JMSError, OSError):
        pass  # refused, or cut off: what was wanted
    return acknowledged


def _exit_code(broker: Attacked) -> int | None:
    ends_at = time.monotonic() + _SECONDS_MAX
    while broker.process.is_running and time.monotonic() < ends_at:
        time.sleep(0.05)
    return None if broker.process.is_running else broker.process.wait()


if __name__ == "__main__":
    main()
