"""Opens the journal's index, of either kind. plyvel is imported only where LevelDB is asked for: it is an extra."""

from pathlib import Path

from ackwire.store.index import Index, UnavailableIndex
from ackwire.store.index_files import IndexKind
from ackwire.store.lmdb_index import LmdbIndex


def open_index(kind: IndexKind, directory: Path, *, fresh: bool = False) -> Index:
    """The index in *directory*, made if need be; *fresh* begins with none.

    Raises `OtherIndex` if it is of another kind, `DamagedIndex` if its files are not what was written, and
    `UnavailableIndex` if they cannot be opened.
    """
    if kind is IndexKind.LMDB:
        return LmdbIndex(directory, fresh=fresh)
    try:
        from ackwire.store.leveldb_index import LeveldbIndex
    except ModuleNotFoundError as error:
        if error.name != "plyvel":
            raise
        raise UnavailableIndex(
            f"an index of LevelDB ({directory}, store.index) needs the package plyvel, which is not installed: "
            'pip install "ackwire[leveldb]"'
        ) from None
    return LeveldbIndex(directory, fresh=fresh)
