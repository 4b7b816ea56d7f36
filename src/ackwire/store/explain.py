"""Explains why each file of the journal is kept: live messages and other live records (SEMANTICS K2).

Works on a catalog, so the running store and a tool that looks from outside give the same answer.
"""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from itertools import islice
from typing import Final, NamedTuple

from ackwire.store.blocks import Entry
from ackwire.store.catalog import Catalog, SegmentInfo
from ackwire.store.contract import BatchRecord, CursorRecord, DurableRecord, FileInfo, Place, ScheduledJob, StagedRecord
from ackwire.store.journal.state import PreparedRecord
from ackwire.util.plurals import counted

_NAMED_MAX: Final = 3
"""Places that one sentence names; of more it gives the number."""

EXAMINED_MAX: Final = 100_000
"""Entries that a running broker looks at to find the oldest message of each file: a moment's work."""

SentMs = Callable[[Place, int, Entry], int | None]
"""When a message was sent: its place, its sequence, and where it is."""


class Oldest(NamedTuple):
    """The oldest message of a segment."""

    sequence: int
    place: Place
    entry: Entry


def oldest_messages(catalog: Catalog, examined_max: int | None = None) -> dict[int, Oldest]:
    """For each segment its oldest message, as far as *examined_max* entries tell. Each place gets an equal share."""
    found: dict[int, Oldest] = {}
    share = None if examined_max is None else max(1, examined_max // max(1, len(catalog.places)))
    for info in list(catalog.places.values()):
        for sequence, entry in islice(catalog.waiting(info), share):
            known = found.get(entry.segment)
            if known is None or sequence < known.sequence:
                found[entry.segment] = Oldest(sequence, info.place, entry)
    return found


def explain(
    catalog: Catalog, *, active: int, sent_ms: SentMs, examined_max: int | None = None, is_running: bool = False
) -> list[FileInfo]:
    """Each file of the journal, oldest first; *active* is the one that is written to."""
    oldest = oldest_messages(catalog, examined_max)
    held = _held_by_segment(catalog)
    state = _state_by_segment(catalog)
    return [
        _info(
            segment,
            tuple(held.get(number, ())),
            _tallied(state.get(number, [])),
            _sent(oldest.get(number), sent_ms),
            _fate(number, active, is_running=is_running),
        )
        for number, segment in sorted(catalog.segments.items())
    ]


def _held_by_segment(catalog: Catalog) -> dict[int, list[tuple[Place, int, int]]]:
    held: dict[int, list[tuple[Place, int, int]]] = {}
    for info in catalog.places.values():
        for number, (messages, size_bytes) in info.held.items():
            held.setdefault(number, []).append((info.place, messages, size_bytes))
    for places in held.values():
        places.sort(key=lambda it: -it[2])
    return held


def _state_by_segment(catalog: Catalog) -> dict[int, list[str]]:
    state: dict[int, list[str]] = {}
    for item in catalog.state.values():
        for number in item.segments:
            state.setdefault(number, []).append(_noun(item.value))
    for info in catalog.places.values():
        state.setdefault(info.segment, []).append("place")
    for _, number in catalog.counts.values():
        state.setdefault(number, []).append("producer")
    for number in catalog.commits.values():
        state.setdefault(number, []).append("committed transaction")
    return state


def _noun(value: object) -> str:
    match value:
        case DurableRecord():
            return "durable subscription"
        case ScheduledJob():
            return "scheduled job"
        case PreparedRecord():
            return "prepared transaction"
        case CursorRecord():
            return "cursor"
        case StagedRecord():
            return "staged part of a batch"
        case BatchRecord():
            return "producer of batches"
    return "list of removed files"


def _tallied(nouns: list[str]) -> tuple[tuple[str, int], ...]:
    return tuple((noun, nouns.count(noun)) for noun in dict.fromkeys(nouns))


def _sent(oldest: Oldest | None, sent_ms: SentMs) -> int | None:
    return None if oldest is None else sent_ms(oldest.place, oldest.sequence, oldest.entry)


def _fate(number: int, active: int, *, is_running: bool) -> str:
    """When a file without live records is deleted."""
    if number == active:
        return "is written to" if is_running else "is the last one, and written to after the next start"
    return "holds no message and goes soon" if is_running else "holds no message and goes after the next start"


def _info(
    segment: SegmentInfo,
    places: tuple[tuple[Place, int, int], ...],
    state: tuple[tuple[str, int], ...],
    oldest_ms: int | None,
    fate: str,
) -> FileInfo:
    removals = tuple(sorted((about, count) for about, count in segment.removals.items()))
    kept = f"is kept by {_kept_by(places, segment, oldest_ms)}" if places else fate
    sizes = f"{size_text(segment.size_bytes)}, {size_text(segment.live_bytes)} alive"
    tells = "; ".join(_tells(state, removals))
    why = f"{file_name(segment.number)} ({sizes}) {kept}{'; ' if tells else ''}{tells}"
    return FileInfo(
        segment.number,
        segment.size_bytes,
        segment.live_messages,
        segment.live_bytes,
        places,
        state,
        removals,
        oldest_ms,
        why,
    )


def _kept_by(places: tuple[tuple[Place, int, int], ...], segment: SegmentInfo, oldest_ms: int | None) -> str:
    named = [f"{counted(messages, 'message')} of {place!r}" for place, messages, _ in places[:_NAMED_MAX]]
    if len(places) > _NAMED_MAX:
        more = sum(messages for _, messages, _ in places[_NAMED_MAX:])
        named.append(f"{counted(more, 'message')} of {counted(len(places) - _NAMED_MAX, 'other place')}")
    if oldest_ms is None:
        return _joined(named)
    return f"{_joined(named)}, {'sent' if segment.live_messages == 1 else 'the oldest sent'} {time_text(oldest_ms)}"


def _tells(state: tuple[tuple[str, int], ...], removals: tuple[tuple[int, int], ...]) -> Iterator[str]:
    """What is written again when the file goes."""
    if state:
        yield f"it tells of {_joined([_state_text(noun, count) for noun, count in state])}"
    if removals:
        count = sum(removed for _, removed in removals)
        files = [file_name(about) for about, _ in removals[:_NAMED_MAX]]
        if len(removals) > _NAMED_MAX:
            files.append(counted(len(removals) - _NAMED_MAX, "other file"))
        yield f"it says that {counted(count, 'message')} of {_joined(files)} {'is' if count == 1 else 'are'} gone"


def _state_text(noun: str, count: int) -> str:
    return "the list of removed files" if noun.startswith("list") else counted(count, noun)


def _joined(parts: list[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def file_name(number: int) -> str:
    return f"{number:010}.log"


def size_text(size_bytes: int) -> str:
    """`512 B`, `1.2 KiB`, `32 MiB`."""
    size, units = float(size_bytes), iter(("B", "KiB", "MiB", "GiB", "TiB", "PiB"))
    unit = next(units)
    while size >= 1024:
        size, unit = size / 1024, next(units)
    return f"{size:.0f} {unit}" if unit == "B" or size >= 100 or size == int(size) else f"{size:.1f} {unit}"


def time_text(time_ms: int) -> str:
    try:
        return datetime.fromtimestamp(time_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (ValueError, OverflowError, OSError):  # clients send any number
        return f"at {time_ms} ms"
