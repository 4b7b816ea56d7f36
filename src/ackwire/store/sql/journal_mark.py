"""The mark that a journal in front of a database leaves in it: how far the database is (ADR 18).

It is the row with `RECORD_ID` 0 of `ACKWIRE_RECORDS`, and every transaction writes it beside its changes. Everything
before the mark is in the database; what is behind it is only in the journal, so no other broker may use the database
until it is *drained*.
"""

from dataclasses import dataclass, replace
from struct import Struct
from struct import error as StructError
from typing import Final

from ackwire.store.journal.record import Damaged, Reader, pack_bytes, pack_text
from ackwire.store.sql.driver import Row
from ackwire.store.sql.errors import UnusableDatabase
from ackwire.store.sql.memory import RecordKind

MARK_ID: Final = 0
"""Its key; those of other records begin with 1."""

_FORMAT: Final = 1
_NUMBERS: Final = Struct(">BBQQQQQ")


@dataclass(frozen=True, slots=True)
class JournalMark:
    """Where in which journal the records begin that the database does not have."""

    journal_id: bytes
    epoch: int
    segment: int
    offset: int
    number: int
    """Of the last record before it."""
    last_offset: int
    """Where that record begins, in the same segment; 0 where that is not known."""
    is_drained: bool
    """Nothing is behind it: the journal was closed."""
    run_id: str
    """The run that wrote it."""
    journal: str
    """Where the journal is, for operators."""

    def pack(self) -> bytes:
        numbers = (self.epoch, self.segment, self.offset, self.number, self.last_offset)
        texts = pack_text(self.run_id) + pack_text(self.journal)
        return _NUMBERS.pack(_FORMAT, self.is_drained, *numbers) + pack_bytes(self.journal_id) + texts

    def of_run(self, run_id: str) -> "JournalMark":
        """The same mark, written by another run, which goes on writing to the journal."""
        return replace(self, run_id=run_id, is_drained=False)

    def row(self) -> Row:
        """For the statement `put_record`."""
        return MARK_ID, int(RecordKind.JOURNAL), self.pack()


def unpack_mark(data: bytes, description: str) -> JournalMark:
    """The mark in *data*. Raises `UnusableDatabase` for what is none; *description* names the database."""
    try:
        form, is_drained, epoch, segment, offset, number, last_offset = _NUMBERS.unpack_from(data)
        if form != _FORMAT:
            raise Damaged(f"format {form}")
        reader = Reader(memoryview(data)[_NUMBERS.size :])
        journal_id, run_id, journal = reader.bytes(), reader.text(), reader.text()
    except (StructError, Damaged):
        raise UnusableDatabase(
            f"{description}: the mark of its journal cannot be read; use the version of Ackwire that has written it, "
            "or restore the database from a backup"
        ) from None
    return JournalMark(
        journal_id, epoch, segment, offset, number, last_offset, bool(is_drained), run_id=run_id, journal=journal
    )


def refuse_waiting_journal(mark: JournalMark | None, description: str) -> None:
    """Raise `UnusableDatabase` if a journal has what the database does not."""
    if mark is not None and not mark.is_drained:
        raise UnusableDatabase(
            f"{description} belongs to the journal in {mark.journal}, which has messages that are not in the database "
            'yet; start that broker with "journal+" in front of the URI and stop it, so that they are moved'
        )
