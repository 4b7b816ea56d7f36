"""Cuts the last segment of a killed broker's journal at many places, and looks at what the next start says.

    python -m tools.attack.truncations

Wanted: wherever messages are missing that were acknowledged, the log has an ERROR that names the segment.
"""

import os
import shutil
import tempfile
from pathlib import Path

import ackwire
from tools.attack.rig import attacked

_MESSAGES = 200
_CUTS = 26


def main() -> None:
    """A broker is killed; each cut is made on a copy of its files."""
    with tempfile.TemporaryDirectory(prefix="ackwire-truncations-") as name:
        folder = Path(name)
        data = folder / "data"
        with attacked(data=data) as broker:
            with ackwire.connect(f"tcp://127.0.0.1:{broker.port}") as connection, connection.session() as session:
                producer = session.producer("attacked")
                for number in range(_MESSAGES):
                    producer.send(f"{number} " + "x" * 500)
            broker.process.kill()
        segment = max((data / "journal").glob("*.log"))
        used = len(segment.read_bytes().rstrip(b"\0"))
        silent = 0
        for cut in range(_CUTS):
            silent += _cut(folder, data, segment, used * cut // (_CUTS - 2))
        print(f"{silent} of {_CUTS} cuts lost acknowledged messages without an ERROR", flush=True)


def _cut(folder: Path, data: Path, segment: Path, size_bytes: int) -> bool:
    copy = folder / "copy"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(data, copy)
    os.truncate(copy / "journal" / segment.name, size_bytes)
    try:
        with attacked(data=copy) as broker:
            left = 0
            with ackwire.connect(f"tcp://127.0.0.1:{broker.port}") as connection, connection.session() as session:
                browser = session.browser("attacked")
                left = sum(1 for _ in browser)
            log = broker.process.log_path.read_text()
    except Exception as error:  # a refused start is reported as well
        print(f"cut at {size_bytes:8}: no start: {str(error).splitlines()[0][:120]}", flush=True)
        return False
    errors = [line for line in log.splitlines() if "ERROR" in line]
    print(f"cut at {size_bytes:8}: {_MESSAGES - left:3} lost; {'; '.join(errors)[:260]}", flush=True)
    return left < _MESSAGES and not errors


if __name__ == "__main__":
    main()
