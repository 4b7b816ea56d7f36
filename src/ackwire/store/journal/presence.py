"""Whether the files that a store writes to are the ones that its next start will find.

A broker keeps its files open. If the folder or a segment is deleted, renamed or replaced meanwhile, writes and syncs go
on without an error, to a file that no start will ever read. So the store checks before it answers: after each
sync, `fstat` gives the times at which the journal's directory changed last: one when a name in it was added, removed or
renamed, the other when it was itself. Only then are the names compared, one by one; this happens for each new segment,
too.

A lock that was removed is found as soon as another broker starts, because that touches the directory.

This does not find a renamed directory further up, nor a file that is changed in place. `check_all` looks for the names
once a second; damaged bytes are found when they are read.
"""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final, final

from ackwire.store.files import Files
from ackwire.store.journal.segment import segment_name, segment_path

_SETTLED_MS: Final = 50
"""File systems tell the time of a change in steps of up to 10 ms: a directory that changed a moment ago may change
again without another time. So for a moment the active segment is looked for each time, and all names are compared
again at the end."""


class Misplaced(Exception):
    """A file is not where the next start will look for it; the text says which."""


@final
class Presence:
    """Looks for the lock, the journal's directory and its segments, at the names that they had before."""

    def __init__(
        self,
        files: Files,
        data: Path,
        *,
        segments: Callable[[], Iterable[int]],
        active: Callable[[], int],
        index_trouble: Callable[[], str | None],
        now_ms: Callable[[], int],
    ) -> None:
        """*segments* are the numbers of the segments that must be there, *active* the one that is written to (0: none).
        *index_trouble* says if the index is not in its place. The lock is held."""
        data = data.absolute()  # as the next start will name it, wherever this process is then
        self._files = files
        self._directory = data / "journal"
        self._lock_path = data / "lock"
        self._segments = segments
        self._active = active
        self._index_trouble = index_trouble
        self._now_ms = now_ms
        self._lock = files.identity(self._lock_path)
        self._own = files.identity(self._directory)
        self._inodes: dict[str, int] = {}
        self._journal_changed = files.watch(self._directory)
        self._seen: tuple[int, int] | None = None
        """When the directory had changed last, and all names were in order."""
        self._compared: tuple[int, int] | None = None
        """The same, when names were last compared: they may have changed again at what is called the same time."""

    def forget(self, segment: int) -> None:
        """*segment* was removed, and its number may be used again: by a copy whose log was truncated."""
        self._inodes.pop(segment_name(segment), None)

    def check(self) -> None:
        """Raise `Misplaced` unless everything is in its place. Called after each sync."""
        changed = self._journal_changed.changed_ns()
        if changed == self._seen:
            return
        is_settled = self._now_ms() - max(changed) // 1_000_000 > _SETTLED_MS
        self._check_own_names()
        if is_settled or changed != self._compared:
            self._check_segments()
            self._compared = changed
        else:
            self._check_active()
        self._seen = changed if is_settled else None

    def check_all(self) -> None:
        """The same, also when nothing was written, and for what is further up: once in a while."""
        self._check_own_names()
        self.check()

    def _check_own_names(self) -> None:
        if self._files.identity(self._directory) != self._own:
            raise Misplaced(f"{self._directory} is gone, or was renamed or replaced")
        if self._lock is not None and self._files.identity(self._lock_path) != self._lock:
            raise Misplaced(f"{self._lock_path} is gone, or was replaced: another broker may use the store")
        trouble = self._index_trouble()
        if trouble is not None:
            raise Misplaced(trouble)

    def _check_active(self) -> None:
        if not self._active():
            return  # an empty log, as a copy may have
        path = segment_path(self._directory, self._active())
        found = self._files.identity(path)
        if found is None or found.inode != self._inodes.get(path.name):
            raise _misplaced_segment(path)

    def _check_segments(self) -> None:
        try:
            inodes = self._files.inodes(self._directory)
        except OSError as error:
            raise Misplaced(f"{self._directory} cannot be read: {error}") from None
        known = {}
        for number in self._segments():
            name = segment_name(number)
            inode = inodes.get(name)
            if inode is None or self._inodes.get(name, inode) != inode:
                raise _misplaced_segment(self._directory / name)
            known[name] = inode
        self._inodes = known

    def close(self) -> None:
        """Watch no more."""
        self._journal_changed.close()


def _misplaced_segment(path: Path) -> Misplaced:
    return Misplaced(f"{path} is gone, or was renamed or replaced")
