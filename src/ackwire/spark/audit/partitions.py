"""The partitions of the tables: from which files each was computed, and how a new one replaces an old one.

`manifest.json` names per day the files of events and their sizes. A day is computed below `_tmp` and then published: a
list of moves is written first (`_swap.json`), then done, then the manifest follows. A job that is killed before the
list leaves the old tables whole; one that is killed in the middle of the moves is finished by the next.
"""

import fcntl
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ackwire.errors import ConfigError
from ackwire.spark.audit.runs import Run, Runs

VERSION: Final = 1
_MANIFEST, _SWAP, _TEMPORARY, _LOCK = "manifest.json", "_swap.json", "_tmp", "_lock"


@dataclass(frozen=True, slots=True)
class Day:
    """What the manifest knows of a day."""

    files: dict[str, int]
    adds_up: bool
    events: int


class Partitions:
    """The tables below one folder. One job at a time: use `locked`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.temporary = folder / _TEMPORARY
        self.days: dict[str, Day] = {}

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other jobs away, finish what a killed one has begun to publish, and read the manifest."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / _LOCK).open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise ConfigError(f"another job writes the tables in {self.folder}: wait until it is done") from None
            self._finish()
            self.days = self._read()
            yield
            shutil.rmtree(self.temporary, ignore_errors=True)

    def runs_before(self, date: str) -> Runs:
        """The runs of brokers, as known at the end of the last day before *date*."""
        before = self._before(date)
        if before is None:
            return Runs()
        values = json.loads((self.folder / "runs" / f"date={before}" / "runs.json").read_text())
        return Runs({it["name"]: Run.from_json(it) for it in values})

    def open_before(self, date: str) -> Path | None:
        """The folder of the copies that were open at the end of the last day before *date*."""
        before = self._before(date)
        folder = self.folder / "open" / f"date={before}"
        return folder if before is not None and folder.is_dir() else None

    def messages_before(self, date: str) -> list[str]:
        """The folders of the copies that ended before *date*."""
        folders = [self.folder / "messages" / f"date={it}" / "state=ended" for it in sorted(self.days) if it < date]
        return [str(it) for it in folders if it.is_dir()]

    def _before(self, date: str) -> str | None:
        return max((it for it in self.days if it < date), default=None)

    def fresh(self, date: str) -> Path:
        """An empty folder to compute *date* in."""
        return self._empty(date)

    def scratch(self, date: str) -> Path:
        """An empty folder for what is needed while *date* is computed."""
        return self._empty(f"{date}-scratch")

    def _empty(self, name: str) -> Path:
        folder = self.temporary / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        return folder

    def write_runs(self, computed: Path, runs: Runs) -> None:
        folder = computed / "runs"
        folder.mkdir()
        (folder / "runs.json").write_text(json.dumps([it.to_json() for it in runs.by_name.values()]))

    def publish(self, date: str, computed: Path, day: Day, *, is_newest: bool) -> None:
        """Put what was computed in the place of what was there; later days have to be computed again."""
        days = {known: it for known, it in self.days.items() if known < date} | {date: day}
        tables = sorted(it.name for it in computed.iterdir())
        moves = [[str((computed / it).relative_to(self.folder)), f"{it}/date={date}"] for it in tables]
        # What is pending is shown at the newest day only: a copy is in the table once.
        stale = [f"messages/date={it}/state=pending" for it in days if not is_newest or it != date]
        if "open" not in tables:
            stale.append(f"open/date={date}")
        swap = {"moves": moves, "stale": stale, "manifest": _manifest(days)}
        self.temporary.mkdir(exist_ok=True)
        _write(self.folder / _SWAP, swap)
        self._finish()
        self.days = days

    def _finish(self) -> None:
        """Do the moves that were decided, if any; doing some of them twice is no harm."""
        try:
            swap = json.loads((self.folder / _SWAP).read_text())
        except FileNotFoundError:
            return
        old = self.temporary / "old"
        for number, (source, target) in enumerate(swap["moves"]):
            self._move(self.folder / source, self.folder / target, old / str(number))
        for name in swap["stale"]:
            shutil.rmtree(self.folder / name, ignore_errors=True)
        _write(self.folder / _MANIFEST, swap["manifest"])
        (self.folder / _SWAP).unlink()
        shutil.rmtree(old, ignore_errors=True)

    def _move(self, source: Path, target: Path, old: Path) -> None:
        if not source.exists():  # done before the kill
            return
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.exists():
            shutil.rmtree(old, ignore_errors=True)
            old.parent.mkdir(parents=True, exist_ok=True)
            target.rename(old)
        source.rename(target)

    def _read(self) -> dict[str, Day]:
        path = self.folder / _MANIFEST
        try:
            values = json.loads(path.read_text())
            if values["version"] != VERSION:
                raise ConfigError(
                    f"{path} is of version {values['version']}, and this is version {VERSION}: use a new folder"
                )
            return {date: Day(**it) for date, it in values["days"].items()}
        except FileNotFoundError:
            return {}
        except (ValueError, KeyError, TypeError) as error:
            raise ConfigError(f"{path} cannot be read ({error}): delete it, and everything is computed again") from None


def _manifest(days: dict[str, Day]) -> dict[str, Any]:
    known = {date: {name: getattr(it, name) for name in it.__slots__} for date, it in sorted(days.items())}
    return {"version": VERSION, "days": known}


def _write(path: Path, values: dict[str, Any]) -> None:
    """Whole or not at all, even if the machine stops."""
    temporary = path.with_name(path.name + ".tmp")
    with temporary.open("w") as file:
        json.dump(values, file, indent=1)
        file.flush()
        os.fsync(file.fileno())
    temporary.rename(path)
