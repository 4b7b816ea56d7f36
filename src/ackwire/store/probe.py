"""Tests in another process whether an index can be read.

LMDB believes its pages. One that was cut off or changed can lead it behind the end of the file, which ends the process
with a signal and not with an error. LevelDB compares checksums, but it maps its files as LMDB does. The seal of a clean
stop shows that the files are what they were; without one, `probe` reads them from one end to the other where nothing
else can be harmed.
"""

import signal
import subprocess
import sys
from pathlib import Path
from typing import Final

from ackwire.store.index import Changes, DamagedIndex, Table, UnavailableIndex
from ackwire.store.index_files import IndexKind
from ackwire.store.indexes import open_index

_UNAVAILABLE: Final = 75
"""Exit code: the index could not be tried, which says nothing about it."""
_SIGNALS_OF_DAMAGE: Final = (signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT, signal.SIGFPE, signal.SIGILL)
"""Others come from outside: from a supervisor, or because memory ran out."""


def probe(kind: IndexKind, directory: Path) -> None:
    """Raises `DamagedIndex` if a process that uses the index in *directory*, a copy, would not survive, and
    `UnavailableIndex` if it could not be tried."""
    # Our own interpreter, and a path that is an argument and not a command.
    argv = [sys.executable, "-m", "ackwire.store.probe", kind.value, str(directory)]
    done = subprocess.run(argv, capture_output=True, check=False)  # noqa: S603
    last = done.stderr.decode(errors="replace").strip().rpartition("\n")[2]
    if done.returncode < 0:
        if -done.returncode not in _SIGNALS_OF_DAMAGE:
            raise UnavailableIndex(f"reading the index was ended by signal {-done.returncode}")
        raise DamagedIndex(f"reading it ends in signal {-done.returncode}")
    if done.returncode == _UNAVAILABLE:
        raise UnavailableIndex(last)
    if done.returncode:
        raise DamagedIndex(f"it cannot be used: {last}")


def _use(kind: IndexKind, directory: Path) -> None:
    """Read every entry, and write one: the list of free pages is read for that."""
    index = open_index(kind, directory)
    for table in Table:
        for _ in index.items(table):
            pass
    index.commit(Changes(puts={Table.META: [(b"probe", b"")]}))
    index.commit(Changes(deletes={Table.META: [b"probe"]}))


if __name__ == "__main__":
    try:
        _use(IndexKind(sys.argv[1]), Path(sys.argv[2]))
    except (UnavailableIndex, MemoryError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(_UNAVAILABLE)
