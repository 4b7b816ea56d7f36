"""The files of a refill: how a new journal comes into the place of an old one, whatever crashes meanwhile.

The new segments are in `refill/` beside `journal/`. When all of them are complete, checked and synced, the file
`refill.ready` names them: from then on the new journal counts. Until then the old one does, and `refill/` is removed at
the next start. `finish_swap` carries out what `refill.ready` says, as often as it takes: the index of the old journal
goes first, then each new segment takes its place by a rename, then what else there was goes, and at last the file.
"""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from crc32c import crc32c

from ackwire.store.files import Files
from ackwire.store.journal.recovery_report import UnusableStore
from ackwire.store.journal.segment import segment_name, segment_numbers, segment_path

REFILL_NAME: Final = "refill"
READY_NAME: Final = "refill.ready"


def mark_ready(files: Files, data: Path, numbers: Sequence[int]) -> None:
    """The new journal consists of these segments, and is complete: from now on it counts."""
    head = json.dumps({"segments": list(numbers)}).encode()
    files.replace(data / READY_NAME, head + b"\n%08x\n" % crc32c(head))


def finish_swap(files: Files, data: Path, forget_index: Callable[[], None]) -> bool:
    """Put the new journal in the place of the old one, if there is one that counts."""
    ready = data / READY_NAME
    if not files.exists(ready):
        return False
    numbers = _read_ready(files, ready)
    coming = [it for it in numbers if files.exists(data / REFILL_NAME / segment_name(it))]
    lost = [it for it in numbers if it not in coming and not files.exists(segment_path(data / "journal", it))]
    if lost:
        raise UnusableStore(f"segment {lost[0]} is neither in {data / REFILL_NAME} nor in {data / 'journal'}")
    forget_index()
    for number in coming:
        files.rename(data / REFILL_NAME / segment_name(number), segment_path(data / "journal", number))
    for number in segment_numbers(files, data / "journal"):
        if number not in numbers:
            files.remove(segment_path(data / "journal", number))
    files.remove(ready)
    return True


def _read_ready(files: Files, path: Path) -> list[int]:
    head, _, checksum = files.read(path).strip().rpartition(b"\n")
    try:
        if int(checksum, 16) != crc32c(head):
            raise ValueError("its checksum is wrong")
        return [int(number) for number in json.loads(head)["segments"]]
    except (ValueError, KeyError, TypeError) as error:
        raise UnusableStore(f"{path} is damaged, and tells which files are the journal: {error}") from None


def remove_leftovers(files: Files, data: Path) -> None:
    """Remove what an unfinished refill has left."""
    directory = data / REFILL_NAME
    for name in files.names(directory):
        files.remove(directory / name)
