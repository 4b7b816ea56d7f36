"""Removes what a failed attempt to create a store has left, so that the next attempt starts clean.

What was in the directory before stays. The caller makes sure that no other process can have put anything there
meanwhile: by holding the store's lock, or because no other process knows the name of the directory.
"""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import final

from ackwire.store.files import Files, LockHeld


@final
class Leftovers:
    """What is in *directory* when this is made, if anything."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory.absolute()
        missing = [it for it in (self._directory, *self._directory.parents) if not it.exists()]
        self._topmost = missing[-1] if missing else None
        """The uppermost directory that would have to be made."""
        is_there = not missing and self._directory.is_dir()
        self._before = {path.name for path in self._directory.iterdir()} if is_there else set()

    @property
    def is_new(self) -> bool:
        """Whether there was no store."""
        return "journal" not in self._before

    @contextmanager
    def removed_if_bare(self, files: Files) -> Iterator[None]:
        """Around the attempt to open a store: if it fails, what it made is removed, if that holds no journal."""
        try:
            yield
        except BaseException:
            if self.is_new:
                self._remove_bare(files)
            raise

    def _remove_bare(self, files: Files) -> None:
        try:
            lock = files.lock(self._directory / "lock", "")
        except (LockHeld, OSError):
            return
        if not files.names(self._directory / "journal"):
            self.remove()  # while the lock is ours: no other process uses the directory
        lock.release()

    def remove(self) -> None:
        """Remove everything that is there now and was not before, as much of it as can be. Raises nothing."""
        if self._topmost is not None:
            shutil.rmtree(self._topmost, ignore_errors=True)
            return
        for path in self._directory.iterdir():
            if path.name in self._before:
                continue
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)
