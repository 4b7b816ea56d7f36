"""FrameBuffer: any portions in, whole frames out."""

from struct import Struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ackwire.errors import RemoteProtocolError
from ackwire.wire.buffer import FrameBuffer

SIZE = Struct(">I")
NO_LIMIT = 2**31 - 1


def framed(body: bytes) -> bytes:
    return SIZE.pack(len(body)) + body


def frames_in(buffer: FrameBuffer, size_max: int = NO_LIMIT) -> list[bytes]:
    found = []
    while (frame := buffer.next_frame(size_max)) is not None:
        found.append(frame)
    return found


BODIES = (b"a", b"bc" * 40, b"", b"d" * 3, b"e" * 1000)
STREAM = b"".join(map(framed, BODIES))


def test_frames_come_out_of_one_portion() -> None:
    buffer = FrameBuffer()
    buffer.append(STREAM)
    assert frames_in(buffer) == list(BODIES)
    assert buffer.waiting_bytes == 0


def test_frames_come_out_byte_by_byte_each_with_its_last_byte() -> None:
    buffer = FrameBuffer()
    found: list[tuple[int, bytes]] = []
    for position in range(len(STREAM)):
        buffer.append(STREAM[position : position + 1])
        found += [(position + 1, frame) for frame in frames_in(buffer)]
    ends = [len(b"".join(map(framed, BODIES[: index + 1]))) for index in range(len(BODIES))]
    assert found == list(zip(ends, BODIES, strict=True))


@pytest.mark.parametrize("tail_bytes", [1, 3, 4, 5, 20])
def test_tail_waits_for_the_rest(tail_bytes: int) -> None:
    last = framed(b"f" * 30)
    buffer = FrameBuffer()
    buffer.append(STREAM + last[:tail_bytes])
    assert frames_in(buffer) == list(BODIES)
    assert buffer.waiting_bytes == tail_bytes
    assert frames_in(buffer) == []
    buffer.append(last[tail_bytes:] + framed(b"next"))
    assert frames_in(buffer) == [b"f" * 30, b"next"]


@given(st.lists(st.binary(max_size=40), max_size=8), st.lists(st.integers(1, 50), min_size=1, max_size=8))
def test_portions_never_matter(bodies: list[bytes], portions: list[int]) -> None:
    stream = b"".join(map(framed, bodies))
    buffer = FrameBuffer()
    found: list[bytes] = []
    position = turn = 0
    while position < len(stream):
        portion = portions[turn % len(portions)]
        buffer.append(stream[position : position + portion])
        found += frames_in(buffer)
        position += portion
        turn += 1
    assert found == bodies
    assert buffer.waiting_bytes == 0


def test_huge_frame_in_small_portions_costs_linear_time() -> None:
    # Linear: some 0.1 s. Moving everything with each portion: 137 GB of copying, beyond the time limit of a test.
    body = bytes(2 * 1024 * 1024)
    stream = framed(body)
    buffer = FrameBuffer()
    found = []
    for position in range(0, len(stream), 16):
        buffer.append(stream[position : position + 16])
        found += frames_in(buffer)
    assert found == [body]


def test_many_small_frames_in_one_portion_cost_linear_time() -> None:
    count = 200_000
    buffer = FrameBuffer()
    buffer.append(framed(b"12345678") * count)
    assert len(frames_in(buffer)) == count


def test_oversize_frame_is_refused_with_the_last_byte_of_its_size() -> None:
    buffer = FrameBuffer()
    buffer.append(SIZE.pack(101)[:3])
    assert buffer.next_frame(100) is None
    buffer.append(SIZE.pack(101)[3:])
    with pytest.raises(RemoteProtocolError, match="a frame of 101 bytes: the limit is 100"):
        buffer.next_frame(100)


def test_frame_of_exactly_the_limit_is_taken() -> None:
    buffer = FrameBuffer()
    buffer.append(framed(b"x" * 100))
    assert buffer.next_frame(100) == b"x" * 100


def test_size_with_the_highest_bit_is_oversize_and_not_negative() -> None:
    buffer = FrameBuffer()
    buffer.append(b"\xff\xff\xff\xff")
    with pytest.raises(RemoteProtocolError, match="4294967295"):
        buffer.next_frame(NO_LIMIT)


def test_limit_may_change_between_frames() -> None:
    buffer = FrameBuffer()
    buffer.append(framed(b"x" * 10) + framed(b"y" * 20))
    assert buffer.next_frame(10) == b"x" * 10
    assert buffer.next_frame(20) == b"y" * 20


def test_unread_bytes_are_there_until_skipped() -> None:
    buffer = FrameBuffer()
    buffer.append(b"abc")
    assert buffer.unread() == b"abc"
    buffer.wait_until(5)
    buffer.append(b"d")
    assert buffer.unread() == b"abc"  # not worth looking at yet
    buffer.append(b"ef")
    assert buffer.unread() == b"abcdef"
    buffer.skip(4)
    assert buffer.unread() == b"ef"
    assert buffer.waiting_bytes == 2
