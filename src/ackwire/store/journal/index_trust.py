"""Whether an index can be believed: where its checkpoint is, if it belongs to the journal beside it and is whole."""

from ackwire.store.catalog import Catalog
from ackwire.store.checkpoint import INDEX_FORMAT, Position, load, read_position
from ackwire.store.contract import StoredForm
from ackwire.store.index import DamagedIndex
from ackwire.store.journal.recovery_report import Quarantine


def trusted_position(
    catalog: Catalog, store_id: bytes, form: StoredForm, quarantine: Quarantine
) -> tuple[Catalog, Position | None]:
    """The catalog as of the index's checkpoint, and that; an empty one and None if the index cannot be used.

    *catalog* knows the segments and nothing else yet.
    """
    try:
        position = read_position(catalog)
        if position is None:
            return catalog, None
        _check(position, store_id)
        load(catalog, form)
        if not catalog.index.is_vouched_for:
            _verify(catalog)
    except DamagedIndex as error:
        quarantine.put(f"the index is made anew: {error}", "")
        catalog.index.clear()
        fresh = Catalog(catalog.index)
        fresh.segments = {number: type(it)(number, it.size_bytes) for number, it in catalog.segments.items()}
        return fresh, None
    return catalog, position


def _check(position: Position, store_id: bytes) -> None:
    if position.index_format != INDEX_FORMAT:
        raise DamagedIndex(f"its format is {position.index_format}, and this broker's is {INDEX_FORMAT}")
    if position.store_id != store_id:
        raise DamagedIndex("it belongs to another journal")
    if position.segment == 0:
        raise DamagedIndex("it has no checkpoint")


def _verify(catalog: Catalog) -> None:
    """After a crash: every entry by its checksum, and as many as were counted."""
    for info in catalog.place_by_id.values():
        counted = catalog.verified_counts(info.place_id)
        if counted != {number: messages for number, (messages, _) in info.held.items()}:
            raise DamagedIndex(f"it has other messages of {info!r} than it counted")
