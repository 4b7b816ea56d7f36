"""Statistics of a store (SEMANTICS K2)."""

from dataclasses import dataclass

from ackwire.store.catalog import Catalog
from ackwire.store.contract import DurableRecord, Place, ScheduledJob
from ackwire.store.explain import oldest_messages
from ackwire.store.index_files import content_bytes
from ackwire.store.inspect import QUARANTINE, StoreInspection, read_damages
from ackwire.store.journal.state import PreparedRecord


@dataclass(frozen=True, slots=True)
class PlaceStats:
    """One place."""

    place: Place
    messages: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class StoreStats:
    """The whole store."""

    store_id: str
    epoch: int
    """How often it was started."""
    records: int
    """The number of the last record ever written."""
    last_sequence: int
    segments: int
    journal_bytes: int
    index_kind: str
    """A value of the setting `store.index`."""
    index_bytes: int
    messages: int
    """A message counts once for each place where it waits."""
    live_bytes: int
    places: tuple[PlaceStats, ...]
    oldest_ms: int | None
    """When the oldest message was sent, by its producer's clock."""
    oldest_place: Place | None
    durables: int
    jobs: int
    prepared: int
    producers: int
    commits: int
    quarantined: int
    """Lines about damage."""

    @property
    def live_share(self) -> float:
        """How much of the journal is messages that wait."""
        return self.live_bytes / self.journal_bytes if self.journal_bytes else 0.0


def stats(inspection: StoreInspection) -> StoreStats:
    """Totals of what a start would find. Raises `UnusableStore`."""
    recovery = inspection.started().recovery
    catalog = recovery.catalog
    oldest = min(oldest_messages(catalog).values(), default=None, key=lambda it: it.sequence)
    places = tuple(_places(catalog))
    return StoreStats(
        store_id=recovery.store_id.hex(),
        epoch=recovery.epoch,
        records=recovery.number,
        last_sequence=catalog.last_sequence,
        segments=len(catalog.segments),
        journal_bytes=sum(it.size_bytes for it in catalog.segments.values()),
        index_kind=inspection.index_kind.value,
        index_bytes=content_bytes(inspection.data / "index"),
        messages=sum(it.messages for it in places),
        live_bytes=catalog.live_bytes,
        places=places,
        oldest_ms=None if oldest is None else inspection.reader.sent_ms(oldest.entry, oldest.sequence),
        oldest_place=None if oldest is None else oldest.place,
        durables=_count(catalog, DurableRecord),
        jobs=_count(catalog, ScheduledJob),
        prepared=_count(catalog, PreparedRecord),
        producers=len(catalog.counts),
        commits=len(catalog.commits),
        quarantined=sum(1 for _ in read_damages(inspection.files, inspection.data / QUARANTINE)),
    )


def _places(catalog: Catalog) -> list[PlaceStats]:
    found = [
        PlaceStats(info.place, info.message_count, sum(size_bytes for _, size_bytes in info.held.values()))
        for info in catalog.places.values()
    ]
    return sorted(found, key=lambda it: (-it.size_bytes, repr(it.place)))


def _count(catalog: Catalog, kind: type[object]) -> int:
    return sum(isinstance(item.value, kind) for item in catalog.state.values())
