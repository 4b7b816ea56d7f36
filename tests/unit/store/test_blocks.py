"""Blocks of the index: what comes out is what went in, or it is found to be damaged (K2)."""

from itertools import groupby

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ackwire.store.blocks import (
    BLOCK_BITS,
    BLOCK_MESSAGES,
    Block,
    Entry,
    block_key,
    entry_of,
    pack_block,
    segment_counts,
    unpack_block,
    waiting_of,
)
from ackwire.store.catalog import BlockRow, Delta
from ackwire.store.contract import WaitingMessage
from ackwire.store.index import DamagedIndex

PLACE = 7
NUMBER = 1_000_003
FIRST = NUMBER << BLOCK_BITS

u32 = st.integers(0, 0xFFFF_FFFF)
entries = st.builds(
    Entry, u32, u32, u32, st.integers(1, 0xFFFF), st.integers(-128, 127), st.integers(-(1 << 63), (1 << 63) - 1)
)
blocks = st.dictionaries(st.integers(FIRST, FIRST + BLOCK_MESSAGES - 1), entries, min_size=1)


def test_a_block_stands_in_the_index_as_the_format_says() -> None:
    """`docs/formats/journal.md`."""
    block = {FIRST + 5: Entry(1, 2, 3, 4, -5, 6), FIRST + 1: Entry(0x11, 0x12, 0x13, 0x14, 0x15, -1)}
    key = block_key(PLACE, FIRST + 5)
    assert key.hex() == "00000007" + "00000000000f4243"
    columns = (
        "0105" + "0000001100000001" + "0000001200000002" + "0000001300000003" + "00140004" + "15fb",
        "ffffffffffffffff" + "0000000000000006",
    )
    assert pack_block(key, block)[:-4].hex() == "".join(columns)


@given(blocks)
def test_all_that_is_known_of_messages_comes_back(block: Block) -> None:
    key = block_key(PLACE, FIRST)
    data = pack_block(key, block)
    assert list(unpack_block(key, data).items()) == sorted(block.items())
    for sequence in range(FIRST, FIRST + BLOCK_MESSAGES):
        assert entry_of(key, data, sequence) == block.get(sequence)
    segments = [entry.segment for entry in block.values()]
    assert dict(segment_counts(key, data)) == {it: segments.count(it) for it in segments}
    assert list(waiting_of([(key, data)])) == [
        WaitingMessage(it, entry.expiration, entry.priority, entry.frame_bytes) for it, entry in sorted(block.items())
    ]


@given(blocks, st.data())
def test_K2_no_bit_of_a_block_or_its_key_changes_unnoticed(block: Block, data: st.DataObject) -> None:
    key = block_key(PLACE, FIRST)
    packed = bytearray(key + pack_block(key, block))
    packed[data.draw(st.integers(0, len(packed) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    wrong_key, wrong_data = bytes(packed[: len(key)]), bytes(packed[len(key) :])
    for look in (
        unpack_block,
        segment_counts,
        lambda key, data: waiting_of([(key, data)]),
        lambda key, data: entry_of(key, data, FIRST),
    ):
        with pytest.raises(DamagedIndex):
            look(wrong_key, wrong_data)


# ---- what changes ----------------------------------------------------------------------------------------------

SEQUENCES = st.integers(1, 5 * BLOCK_MESSAGES)


@given(
    there=st.dictionaries(SEQUENCES, entries),
    fresh=st.dictionaries(SEQUENCES, entries),
    gone=st.sets(SEQUENCES),
    purged_to=st.just(0) | SEQUENCES,
    kept=st.frozensets(SEQUENCES),
)
def test_an_index_that_is_brought_up_to_date_has_what_a_delta_says(
    there: Block, fresh: Block, gone: set[int], purged_to: int, kept: frozenset[int]
) -> None:
    delta = Delta()
    if purged_to:
        delta.purge(purged_to, frozenset(kept & there.keys()), has_later=False)
    delta.gone |= gone
    delta.fresh.update(fresh)
    expected = {it: entry for it, entry in there.items() if not delta.has_ended(it)} | fresh
    found = delta.applied_to(iter(_rows(there)), PLACE)
    assert list(found) == _rows(expected)


def _rows(messages: Block) -> list[BlockRow]:
    ordered = groupby(sorted(messages.items()), key=lambda item: item[0] >> BLOCK_BITS)
    keys = [(block_key(PLACE, number << BLOCK_BITS), dict(items)) for number, items in ordered]
    return [(key, pack_block(key, block)) for key, block in keys]
