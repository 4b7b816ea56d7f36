"""Reads a chunk of the spool: what was written whole, up to the first block that was not."""

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple, final

from ackwire.audit.records import (
    BLOCK,
    BLOCK_BYTES_MAX,
    BLOCK_MARK,
    HEADER_BYTES_MAX,
    RECORD,
    ConsumerText,
    OriginText,
    Run,
    Texts,
    block_checksum,
    count_events,
)

_SECTION_BYTES: Final = 8 << 20
"""Records that are turned into a table at once; more only if one block has more."""

_log = logging.getLogger(__name__)


class Section(NamedTuple):
    """Records whose events are numbered without a gap, with the texts that they name."""

    first_number: int
    texts: Texts
    blocks: list[memoryview]
    """The records, as they were written together."""


def no_texts() -> Texts:
    return Texts([], [], [], [])


@final
class Chunk:
    """One file of the spool."""

    def __init__(self, path: Path) -> None:
        """Raises `OSError` if it cannot be read, and `ValueError` if it is no chunk or of another version."""
        self.path = path
        self._data = path.read_bytes()
        line, newline, _ = self._data[:HEADER_BYTES_MAX].partition(b"\n")
        if not newline:
            raise ValueError(f"{path} has no header: nothing was written to it")
        facts = json.loads(line)
        if not isinstance(facts, dict) or facts.get("format") != 1:
            raise ValueError(f"{path} is no chunk of audit events that this version can read")
        self.run = Run(str(facts["run"]), str(facts["broker"]))
        self.first_number = int(facts["first_number"])
        self._begin = len(line) + 1
        self.unread_bytes = 0
        """What stands behind the first block that is not whole."""

    def sections(self) -> Iterator[Section]:
        """All events, in order."""
        texts, first, expected = no_texts(), self.first_number, self.first_number
        blocks: list[memoryview] = []
        size = 0
        for number, definitions, records in self._blocks():
            if size and (number != expected or size >= _SECTION_BYTES or definitions.startswith(b'["r"')):
                yield Section(first, texts, blocks)
                blocks, size = [], 0
            if not size:
                first = number
            texts = _defined(texts, definitions)
            blocks.append(records)
            size += len(records)
            expected = number + count_events(records)
        if size:
            yield Section(first, texts, blocks)

    def _blocks(self) -> Iterator[tuple[int, bytes, memoryview]]:
        position, data = self._begin, self._data
        while position < len(data):
            found = self._block(position)
            if found is None:
                self.unread_bytes = len(data) - position
                return
            _, definitions, records = found
            yield found
            position += BLOCK.size + len(definitions) + len(records)

    def _block(self, position: int) -> tuple[int, bytes, memoryview] | None:
        data = self._data
        if position + BLOCK.size > len(data):
            return None
        mark, definition_bytes, count, number, checksum = BLOCK.unpack_from(data, position)
        start = position + BLOCK.size
        middle, end = start + definition_bytes, start + definition_bytes + count * RECORD.size
        if mark != BLOCK_MARK or end - start > BLOCK_BYTES_MAX or end > len(data):
            return None
        definitions, records = data[start:middle], memoryview(data)[middle:end]
        return (number, definitions, records) if block_checksum(definitions, records, number) == checksum else None


def _defined(texts: Texts, definitions: bytes) -> Texts:
    """*texts* and what *definitions* add."""
    for line in definitions.splitlines():
        table, number, *values = json.loads(line)
        if table == "r":
            texts = no_texts()
        else:
            _define(texts, table, number, values)
    return texts


def _define(texts: Texts, table: str, number: int, values: list[Any]) -> None:
    tables: dict[str, list[Any]] = {
        "p": texts.places,
        "o": texts.origins,
        "c": texts.consumers,
        "w": texts.words,
    }
    known = tables[table]
    if number != len(known) + 1:
        raise ValueError(f"text {number} of table {table} follows text {len(known)}")
    match table:
        case "o":
            known.append(OriginText(*values))
        case "c":
            known.append(ConsumerText(*values))
        case _:
            known.append(*values)
