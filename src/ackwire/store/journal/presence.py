"""Whether the files that a store writes to are the ones that its next start will find.

A broker keeps its files open. If the folder or a segment is deleted, renamed or replaced meanwhile, writes and syncs go
on without an error, to a file that no start will ever read. So the store looks before it answers: one `stat` of the
journal's directory after each sync, whose time of change tells of every name that came or went. Only when it has
changed are the names compared, one by one; that is so for each new segment too.

What is left out: a file that is changed in place has its name still. `check_all`, once a second, compares the size of
the active segment; damaged bytes are found when they are read.
"""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final, final

from ackwire.store.files import Files, Stamp
from ackwire.store.journal.segment import segment_path

_SETTLED_MS: Final = 50
"""File systems tell the time of a change in steps of up to 10 ms: a directory that changed a moment ago may change
again without another time, so its names are compared again."""


class Misplaced(Exception):
    """A file is not where the next start will look for it; the text says which."""


@final
class Presence:
    """Looks for the lock, the journal's directory and its segments, at the names that they had before."""

    def __init__(
        self, files: Files, data: Path, *, segments: Callable[[], Iterable[int]], now_ms: Callable[[], int]
    ) -> None:
        """*segments* are the numbers of the segments that must be there. The lock is held."""
        data = data.absolute()  # as the next start will name it, wherever this process is then
        self._files = files
        self._directory = data / "journal"
        self._lock_path = data / "lock"
        self._segments = segments
        self._now_ms = now_ms
        self._lock = _identity(files.stamp(self._lock_path))
        self._own = _identity(files.stamp(self._directory))
        self._inodes: dict[str, int] = {}
        self._seen: Stamp | None = None
        """Of the directory, when all names were in order."""

    def check(self) -> None:
        """Raise `Misplaced` unless everything is in its place. Called after each sync."""
        stamp = self._files.stamp(self._directory)
        if stamp is None or stamp != self._seen:
            self._compare(stamp)

    def check_all(self) -> None:
        """The same, and whether the lock is ours still: once in a while, also when nothing is written."""
        self._check_lock()
        self.check()

    def _check_lock(self) -> None:
        if self._lock is not None and _identity(self._files.stamp(self._lock_path)) != self._lock:
            raise Misplaced(f"{self._lock_path} is gone, or was replaced: another broker may use the store")

    def _compare(self, stamp: Stamp | None) -> None:
        if stamp is None or _identity(stamp) != self._own:
            raise Misplaced(f"{self._directory} is gone, or was renamed or replaced")
        self._check_lock()
        try:
            inodes = self._files.inodes(self._directory)
        except OSError as error:
            raise Misplaced(f"{self._directory} cannot be read: {error}") from None
        known = {}
        for number in self._segments():
            path = segment_path(self._directory, number)
            inode = inodes.get(path.name)
            if inode is None or self._inodes.get(path.name, inode) != inode:
                raise Misplaced(f"{path} is gone, or was renamed or replaced")
            known[path.name] = inode
        self._inodes = known
        is_settled = self._now_ms() - stamp.changed_ns // 1_000_000 > _SETTLED_MS
        self._seen = stamp if is_settled else None


def _identity(stamp: Stamp | None) -> tuple[int, int] | None:
    return None if stamp is None else (stamp.device, stamp.inode)
