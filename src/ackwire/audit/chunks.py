"""Reads a chunk of the spool: what was written whole, up to the first block that was not."""

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple, final

from ackwire.audit.records import FORMAT, HEADER_BYTES_MAX, Block, ConsumerText, OriginText, Run, Texts, block_at

_SECTION_MESSAGES: Final = 120_000
"""What is turned into a table at once; more only if one block has more."""

_log = logging.getLogger(__name__)


class Section(NamedTuple):
    """Blocks whose events are numbered without a gap, with the texts that they name."""

    texts: Texts
    blocks: list[Block]


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
        if not isinstance(facts, dict) or facts.get("format") != FORMAT:
            raise ValueError(f"{path} is no chunk of audit events that this version can read")
        self.run = Run(str(facts["run"]), str(facts["broker"]))
        self.first_number = int(facts["first_number"])
        self._begin = len(line) + 1
        self.unread_bytes = 0
        """What stands behind the first block that is not whole."""

    def sections(self) -> Iterator[Section]:
        """All events, in order."""
        texts, expected = no_texts(), self.first_number
        blocks: list[Block] = []
        messages = 0
        for block in self._blocks():
            is_new = block.first_number != expected or block.definitions.startswith(b'["r"')
            if blocks and (is_new or messages >= _SECTION_MESSAGES):
                yield Section(texts, blocks)
                blocks, messages = [], 0
            texts = _defined(texts, block.definitions)
            blocks.append(block)
            messages += block.messages
            expected = block.first_number + block.events
        if blocks:
            yield Section(texts, blocks)

    def _blocks(self) -> Iterator[Block]:
        position, data = self._begin, self._data
        while position < len(data):
            found = block_at(data, position)
            if found is None:
                self.unread_bytes = len(data) - position
                return
            block, position = found
            yield block


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
