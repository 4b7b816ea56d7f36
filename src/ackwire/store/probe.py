"""Whether an index can be read at all, tried in another process.

LMDB believes its pages. One that was cut off or changed can lead it behind the end of the file, which ends the process
with a signal and not with an error. The seal of a clean stop shows that the file is what it was; without one, `probe`
reads it from one end to the other where nothing else can be harmed.
"""

import subprocess
import sys
from pathlib import Path

from ackwire.store.index import Changes, DamagedIndex, LmdbIndex, Table


def probe(directory: Path) -> None:
    """Raises `DamagedIndex` if whoever uses the index in *directory*, a copy, would not survive."""
    # Our own interpreter, and a path that is an argument and not a command.
    argv = [sys.executable, "-m", "ackwire.store.probe", str(directory)]
    done = subprocess.run(argv, capture_output=True, check=False)  # noqa: S603
    if done.returncode < 0:
        raise DamagedIndex(f"reading it ends in signal {-done.returncode}")
    if done.returncode:
        last = done.stderr.decode(errors="replace").strip().rpartition("\n")[2]
        raise DamagedIndex(f"it cannot be used: {last}")


def _use(directory: Path) -> None:
    """Read every entry, and write one: the list of free pages is read for that."""
    index = LmdbIndex(directory)
    for table in Table:
        for _ in index.items(table):
            pass
    index.commit(Changes(puts={Table.META: [(b"probe", b"")]}))
    index.commit(Changes(deletes={Table.META: [b"probe"]}))


if __name__ == "__main__":
    _use(Path(sys.argv[1]))
