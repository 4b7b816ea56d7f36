"""Frames between the nodes of a group, and the messages in them.

A frame is its length (uint32, of what follows the length), its type (uint8), the CRC-32C of type and payload (uint32),
and the payload. The length is checked against the largest of that type before anything is kept, and before the secret
was proved only the types of the handshake are accepted. A payload is fixed fields, then texts or lists with their
counts in front.

`Decoder` takes bytes as they come and returns messages; whatever the bytes are, it raises `RemoteProtocolError` or
nothing. A path of a file never crosses: segments have numbers.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from itertools import pairwise
from struct import Struct
from struct import error as StructError
from typing import Final, TypeAlias, final

from crc32c import crc32c

from ackwire.compilation import mypyc_attr
from ackwire.errors import RemoteProtocolError
from ackwire.replication.log import Chunk, LogEnd, SnapshotSegment

VERSION: Final = 1
"""Of the protocol between nodes; nodes of different versions refuse each other."""

_FRAME: Final = Struct(">IBI")
_AFTER_LENGTH: Final = _FRAME.size - 4
_TEXT_BYTES_MAX: Final = 1024
_EPOCHS_MAX: Final = 100_000
_SEGMENTS_MAX: Final = 1_000_000
APPEND_BYTES_MAX: Final = 1 << 30
"""The largest record that is shipped; a prepared transaction is one record."""
PIECE_BYTES_MAX: Final = 1 << 20
"""The largest piece of a segment in a refill."""
NONCE_BYTES: Final = 32
PROOF_BYTES: Final = 32


class Type(IntEnum):
    """What a frame holds."""

    CHALLENGE = 1
    ANSWER = 2
    PROOF = 3
    HELLO = 4
    WELCOME = 5
    TRUNCATE = 6
    APPEND = 7
    ACK = 8
    COMMIT = 9
    REFILL_BEGIN = 10
    REFILL_PIECE = 11
    REFILL_END = 12
    REFILL_ACK = 13
    VOTE = 14
    HEARTBEAT = 15
    BYE = 16


class Reason(IntEnum):
    """Why a node refuses another, or ends a link."""

    NONE = 0
    NOT_MASTER = 1
    """This node is no master or candidate (any more): ask the elector, and try again."""
    OTHER_EPOCH = 2
    """The link is for another epoch than the one this node was granted."""
    OTHER_GROUP = 3
    OTHER_STORE = 4
    OTHER_VERSION = 5
    OTHER_FORMAT = 6
    OTHER_REPLICAS = 7
    DUPLICATE_NODE = 8
    NOT_A_MEMBER = 9
    WRONG_SECRET = 10
    BROKEN_LOG = 11
    BROKEN_PROTOCOL = 12
    STOPPING = 13
    SILENT = 14
    LOST_RECORDS = 15
    """The copy lacks records that it has acknowledged in this epoch: it must give up its vote, and come again."""
    OTHER_RECORDS = 16
    """The copy has committed records that the master does not have."""

    @property
    def is_lasting(self) -> bool:
        """Whether only an operator can change it."""
        return self in _LASTING


_LASTING: Final = frozenset(
    (
        Reason.OTHER_GROUP,
        Reason.OTHER_STORE,
        Reason.OTHER_VERSION,
        Reason.OTHER_FORMAT,
        Reason.OTHER_REPLICAS,
        Reason.NOT_A_MEMBER,
        Reason.WRONG_SECRET,
        Reason.OTHER_RECORDS,
    )
)


@dataclass(frozen=True, slots=True)
class Challenge:
    """The first frame of who dials: which protocol, and a number that the other has to prove the secret with."""

    version: int
    nonce: bytes
    has_secret: bool


@dataclass(frozen=True, slots=True)
class Answer:
    """The other's number, and its proof."""

    version: int
    nonce: bytes
    proof: bytes
    has_secret: bool


@dataclass(frozen=True, slots=True)
class Proof:
    """The proof of who dialed."""

    proof: bytes


@dataclass(frozen=True, slots=True)
class Hello:
    """A follower to the one that was granted *epoch*: it has promised that epoch, durably, and follows no lower one."""

    version: int
    replicas: int
    store_format: int
    epoch: int
    end: LogEnd
    committed: int
    """Up to here the node has applied records to its index: it can never be truncated before that."""
    may_vote: bool
    """Whether its copy is one that the group may count on."""
    wants_refill: bool
    """Whether nothing can be added to what it has."""
    incarnation: int
    """A number of this process."""
    group_id: str
    store_id: bytes
    """Of the journal; empty for an empty disk."""
    node_id: str
    disk_id: str
    address: str
    epochs: tuple[tuple[int, int], ...]
    """Each epoch of the log with its first record."""


@dataclass(frozen=True, slots=True)
class Welcome:
    """Whether a follower is accepted."""

    reason: Reason
    epoch: int
    """Of the sender, as far as it knows."""
    store_id: bytes
    node_id: str
    text: str
    """The reason for people."""

    @property
    def is_accepted(self) -> bool:
        return self.reason is Reason.NONE


@dataclass(frozen=True, slots=True)
class Truncate:
    """Drop what is behind record *number*, where the logs part; what is dropped was never committed. Then tell with an
    `Ack` where the log ends. Each link begins with one, even if nothing is to be dropped."""

    number: int


@dataclass(frozen=True, slots=True)
class Append:
    """Records as they are in the master's file, and how far the log is committed."""

    committed: int
    chunk: Chunk


@dataclass(frozen=True, slots=True)
class Ack:
    """Where a follower's log ends, and up to which record it is durable."""

    end: LogEnd
    durable: int
    may_vote: bool


@dataclass(frozen=True, slots=True)
class Commit:
    """Enough copies have every record up to *number*."""

    number: int


@dataclass(frozen=True, slots=True)
class RefillBegin:
    """The whole log follows, segment by segment; it ends with *end*."""

    end: LogEnd
    committed: int
    store_id: bytes
    segments: tuple[SnapshotSegment, ...]


@dataclass(frozen=True, slots=True)
class RefillPiece:
    """Bytes of a segment."""

    segment: int
    offset: int
    data: bytes


@dataclass(frozen=True, slots=True)
class RefillEnd:
    """All pieces were sent; *checksum* is the CRC-32C of all of them in their order."""

    checksum: int


@dataclass(frozen=True, slots=True)
class RefillAck:
    """So many bytes of pieces were written."""

    received_bytes: int


@dataclass(frozen=True, slots=True)
class Vote:
    """The group counts on this copy from now on; it must be durable before it is acknowledged."""

    number: int
    """The master's commit number when it decided so."""


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """The sender is there."""

    committed: int


@dataclass(frozen=True, slots=True)
class Bye:
    """The sender ends the link."""

    reason: Reason
    text: str


Message: TypeAlias = (
    Challenge
    | Answer
    | Proof
    | Hello
    | Welcome
    | Truncate
    | Append
    | Ack
    | Commit
    | RefillBegin
    | RefillPiece
    | RefillEnd
    | RefillAck
    | Vote
    | Heartbeat
    | Bye
)

_CHALLENGE: Final = Struct(f">8sH?{NONCE_BYTES}s")
_ANSWER: Final = Struct(f">8sH?{NONCE_BYTES}s{PROOF_BYTES}s")
_PROOF: Final = Struct(f">{PROOF_BYTES}s")
_HELLO: Final = Struct(">HHHQQQQ??Q")
_WELCOME: Final = Struct(">HQ")
_NUMBER: Final = Struct(">Q")
_APPEND: Final = Struct(">QQQQQQQ")
_ACK: Final = Struct(">QQQ?")
_COUNT: Final = Struct(">I")
_PAIR: Final = Struct(">QQ")
_REFILL_BEGIN: Final = Struct(">QQQ")
_REFILL_SEGMENT: Final = Struct(">QQQQ")
_REFILL_PIECE: Final = Struct(">QQ")
_BYE: Final = Struct(">H")
_TEXT: Final = Struct(">H")
_MAGIC: Final = b"ACKWNODE"

_SHORT_MAX: Final = 256
_SIZES_MAX: Final[dict[int, int]] = {
    Type.CHALLENGE: _CHALLENGE.size,
    Type.ANSWER: _ANSWER.size,
    Type.PROOF: _PROOF.size,
    Type.HELLO: _HELLO.size + 6 * (_TEXT.size + _TEXT_BYTES_MAX) + _COUNT.size + _EPOCHS_MAX * _PAIR.size,
    Type.WELCOME: _WELCOME.size + 3 * (_TEXT.size + _TEXT_BYTES_MAX),
    Type.TRUNCATE: _NUMBER.size,
    Type.APPEND: _APPEND.size + APPEND_BYTES_MAX,
    Type.ACK: _ACK.size,
    Type.COMMIT: _NUMBER.size,
    Type.REFILL_BEGIN: _REFILL_BEGIN.size
    + _TEXT.size
    + _TEXT_BYTES_MAX
    + _COUNT.size
    + _SEGMENTS_MAX * _REFILL_SEGMENT.size,
    Type.REFILL_PIECE: _REFILL_PIECE.size + PIECE_BYTES_MAX,
    Type.REFILL_END: _COUNT.size,
    Type.REFILL_ACK: _NUMBER.size,
    Type.VOTE: _NUMBER.size,
    Type.HEARTBEAT: _NUMBER.size,
    Type.BYE: _BYE.size + _TEXT.size + _TEXT_BYTES_MAX,
}
_BEFORE_PROOF: Final = frozenset((Type.CHALLENGE, Type.ANSWER, Type.PROOF, Type.BYE))
"""What a stranger may send."""


# ---- encoding --------------------------------------------------------------------------------------------------


def encode(message: Message) -> list[bytes]:
    """The frame of *message*, in pieces."""
    kind, pieces = _ENCODERS[type(message)](message)
    checksum = crc32c(bytes((kind,)))
    size = 0
    for piece in pieces:
        checksum = crc32c(piece, checksum)
        size += len(piece)
    assert size <= _SIZES_MAX[kind], f"a {kind.name} of {size} bytes"
    return [_FRAME.pack(size + _AFTER_LENGTH, kind, checksum), *pieces]


def encoded(message: Message) -> bytes:
    """The frame of *message*."""
    return b"".join(encode(message))


def _text(text: str) -> bytes:
    data = text.encode("utf-8", "replace")[:_TEXT_BYTES_MAX]
    return _TEXT.pack(len(data)) + data


def _short(data: bytes) -> bytes:
    return _TEXT.pack(len(data)) + data


def _encode_challenge(it: Challenge) -> tuple[Type, list[bytes]]:
    return Type.CHALLENGE, [_CHALLENGE.pack(_MAGIC, it.version, it.has_secret, it.nonce)]


def _encode_answer(it: Answer) -> tuple[Type, list[bytes]]:
    return Type.ANSWER, [_ANSWER.pack(_MAGIC, it.version, it.has_secret, it.nonce, it.proof)]


def _encode_hello(it: Hello) -> tuple[Type, list[bytes]]:
    head = _HELLO.pack(
        it.version,
        it.replicas,
        it.store_format,
        it.epoch,
        *it.end,
        it.committed,
        it.may_vote,
        it.wants_refill,
        it.incarnation,
    )
    texts = [_text(it.group_id), _short(it.store_id), *map(_text, (it.node_id, it.disk_id, it.address))]
    return Type.HELLO, [head, *texts, _COUNT.pack(len(it.epochs)), *(_PAIR.pack(*pair) for pair in it.epochs)]


def _encode_welcome(it: Welcome) -> tuple[Type, list[bytes]]:
    head = _WELCOME.pack(it.reason, it.epoch)
    return Type.WELCOME, [head, _short(it.store_id), _text(it.node_id), _text(it.text)]


def _encode_append(it: Append) -> tuple[Type, list[bytes]]:
    chunk = it.chunk
    head = _APPEND.pack(it.committed, chunk.segment, chunk.offset, chunk.segment_bytes, chunk.first_number, *chunk.last)
    return Type.APPEND, [head, chunk.data]


def _encode_refill_begin(it: RefillBegin) -> tuple[Type, list[bytes]]:
    segments = (_REFILL_SEGMENT.pack(s.number, s.size_bytes, s.used_bytes, s.first_number) for s in it.segments)
    head = _REFILL_BEGIN.pack(*it.end, it.committed)
    return Type.REFILL_BEGIN, [head, _short(it.store_id), _COUNT.pack(len(it.segments)), *segments]


_ENCODERS: Final[dict[type, Callable[..., tuple[Type, list[bytes]]]]] = {
    Challenge: _encode_challenge,
    Answer: _encode_answer,
    Proof: lambda it: (Type.PROOF, [_PROOF.pack(it.proof)]),
    Hello: _encode_hello,
    Welcome: _encode_welcome,
    Truncate: lambda it: (Type.TRUNCATE, [_NUMBER.pack(it.number)]),
    Append: _encode_append,
    Ack: lambda it: (Type.ACK, [_ACK.pack(*it.end, it.durable, it.may_vote)]),
    Commit: lambda it: (Type.COMMIT, [_NUMBER.pack(it.number)]),
    RefillBegin: _encode_refill_begin,
    RefillPiece: lambda it: (Type.REFILL_PIECE, [_REFILL_PIECE.pack(it.segment, it.offset), it.data]),
    RefillEnd: lambda it: (Type.REFILL_END, [_COUNT.pack(it.checksum)]),
    RefillAck: lambda it: (Type.REFILL_ACK, [_NUMBER.pack(it.received_bytes)]),
    Vote: lambda it: (Type.VOTE, [_NUMBER.pack(it.number)]),
    Heartbeat: lambda it: (Type.HEARTBEAT, [_NUMBER.pack(it.committed)]),
    Bye: lambda it: (Type.BYE, [_BYE.pack(it.reason), _text(it.text)]),
}


# ---- decoding --------------------------------------------------------------------------------------------------


@final
class _Payload:
    """Reads a payload from its start."""

    __slots__ = ("_data", "_position")

    def __init__(self, data: memoryview) -> None:
        self._data = data
        self._position = 0

    def unpack(self, struct: Struct) -> tuple[int, ...]:
        values = struct.unpack_from(self._data, self._position)
        self._position += struct.size
        return values

    def number(self) -> int:
        return self.unpack(_NUMBER)[0]

    def short(self) -> bytes:
        (length,) = self.unpack(_TEXT)
        if length > _TEXT_BYTES_MAX:
            raise RemoteProtocolError(f"a text of {length} bytes: the limit is {_TEXT_BYTES_MAX}")
        if length > len(self._data) - self._position:
            raise RemoteProtocolError("a message ends in the middle of a text")
        self._position += length
        return bytes(self._data[self._position - length : self._position])

    def text(self) -> str:
        try:
            return self.short().decode()
        except UnicodeDecodeError:
            raise RemoteProtocolError("a text is not UTF-8") from None

    def items(self, struct: Struct, count_max: int) -> Iterator[tuple[int, ...]]:
        (count,) = self.unpack(_COUNT)
        if count > count_max or count * struct.size > len(self._data) - self._position:
            raise RemoteProtocolError(f"a list of {count} items does not fit its message")
        for _ in range(count):
            yield self.unpack(struct)

    def rest(self) -> bytes:
        data = bytes(self._data[self._position :])
        self._position = len(self._data)
        return data

    def end(self) -> None:
        if self._position != len(self._data):
            raise RemoteProtocolError("a message is longer than its fields")


def decode(kind: int, payload: memoryview) -> Message:
    """The message of a frame. Raises `RemoteProtocolError`."""
    decoder = _DECODERS.get(kind)
    if decoder is None:
        raise RemoteProtocolError(f"messages of type {kind} are not known")
    fields = _Payload(payload)
    try:
        message = decoder(fields)
    except (StructError, ValueError) as error:
        raise RemoteProtocolError(f"a {Type(kind).name} cannot be read: {error}") from None
    fields.end()
    return message


def _magic(found: object) -> None:
    if found != _MAGIC:
        raise RemoteProtocolError("the peer is no node of a group")


def _decode_challenge(fields: _Payload) -> Challenge:
    magic, version, has_secret, nonce = _CHALLENGE.unpack(fields.rest())
    _magic(magic)
    return Challenge(version, nonce, has_secret)


def _decode_answer(fields: _Payload) -> Answer:
    magic, version, has_secret, nonce, proof = _ANSWER.unpack(fields.rest())
    _magic(magic)
    return Answer(version, nonce, proof, has_secret)


def _decode_hello(fields: _Payload) -> Hello:
    version, replicas, form, epoch, end_epoch, end_number, *rest = fields.unpack(_HELLO)
    committed, may_vote, wants_refill, incarnation = rest
    group_id, store_id = fields.text(), fields.short()
    node_id, disk_id, address = fields.text(), fields.text(), fields.text()
    epochs = tuple((first, second) for first, second in fields.items(_PAIR, _EPOCHS_MAX))
    _ascending(epochs)
    end = LogEnd(end_epoch, end_number)
    return Hello(
        version,
        replicas,
        form,
        epoch,
        end,
        committed,
        bool(may_vote),
        bool(wants_refill),
        incarnation,
        group_id,
        store_id,
        node_id,
        disk_id,
        address,
        epochs,
    )


def _ascending(pairs: Sequence[tuple[int, int]]) -> None:
    if any(a >= c or b > d for (a, b), (c, d) in pairwise(pairs)):
        raise RemoteProtocolError("the epochs of a log are not in order")


def _decode_welcome(fields: _Payload) -> Welcome:
    reason, epoch = fields.unpack(_WELCOME)
    return Welcome(Reason(reason), epoch, fields.short(), fields.text(), fields.text())


def _decode_append(fields: _Payload) -> Append:
    committed, segment, offset, segment_bytes, first_number, epoch, number = fields.unpack(_APPEND)
    data = fields.rest()
    if number < first_number or not data or offset + len(data) > segment_bytes:
        raise RemoteProtocolError(f"records {first_number} to {number} in {len(data)} bytes at {offset}")
    return Append(committed, Chunk(segment, offset, segment_bytes, first_number, LogEnd(epoch, number), data))


def _decode_ack(fields: _Payload) -> Ack:
    epoch, number, durable, may_vote = fields.unpack(_ACK)
    return Ack(LogEnd(epoch, number), durable, bool(may_vote))


def _decode_refill_begin(fields: _Payload) -> RefillBegin:
    epoch, number, committed = fields.unpack(_REFILL_BEGIN)
    store_id = fields.short()
    segments = tuple(SnapshotSegment(*values) for values in fields.items(_REFILL_SEGMENT, _SEGMENTS_MAX))
    if any(segment.used_bytes > segment.size_bytes for segment in segments):
        raise RemoteProtocolError("a segment uses more bytes than it has")
    return RefillBegin(LogEnd(epoch, number), committed, store_id, segments)


def _decode_piece(fields: _Payload) -> RefillPiece:
    segment, offset = fields.unpack(_REFILL_PIECE)
    return RefillPiece(segment, offset, fields.rest())


def _decode_bye(fields: _Payload) -> Bye:
    (reason,) = fields.unpack(_BYE)
    return Bye(Reason(reason), fields.text())


_DECODERS: Final[dict[int, Callable[[_Payload], Message]]] = {
    Type.CHALLENGE: _decode_challenge,
    Type.ANSWER: _decode_answer,
    Type.PROOF: lambda fields: Proof(_PROOF.unpack(fields.rest())[0]),
    Type.HELLO: _decode_hello,
    Type.WELCOME: _decode_welcome,
    Type.TRUNCATE: lambda fields: Truncate(fields.number()),
    Type.APPEND: _decode_append,
    Type.ACK: _decode_ack,
    Type.COMMIT: lambda fields: Commit(fields.number()),
    Type.REFILL_BEGIN: _decode_refill_begin,
    Type.REFILL_PIECE: _decode_piece,
    Type.REFILL_END: lambda fields: RefillEnd(fields.unpack(_COUNT)[0]),
    Type.REFILL_ACK: lambda fields: RefillAck(fields.number()),
    Type.VOTE: lambda fields: Vote(fields.number()),
    Type.HEARTBEAT: lambda fields: Heartbeat(fields.number()),
    Type.BYE: _decode_bye,
}


@mypyc_attr(allow_interpreted_subclasses=True)  # tests have one that trusts lengths
class Decoder:
    """Cuts a stream of bytes into messages."""

    def __init__(self, *, append_bytes_max: int = APPEND_BYTES_MAX) -> None:
        self._waiting = bytearray()
        self._needed = _FRAME.size
        self._append_bytes_max = _APPEND.size + append_bytes_max
        self.is_proved = False
        """Whether the peer has proved the secret: before that it may only do so."""

    @property
    def waiting_bytes(self) -> int:
        """Received, and not yet a whole frame."""
        return len(self._waiting)

    def receive(self, data: bytes) -> Iterator[Message]:
        """Take *data*; yield the messages that are whole now. Raises `RemoteProtocolError`."""
        self._waiting += data
        while len(self._waiting) >= self._needed:
            message = self._next()
            if message is not None:
                yield message

    def _next(self) -> Message | None:
        """The next message; None if only its size is known now."""
        length, kind, checksum = _FRAME.unpack_from(self._waiting)
        self._check(length - _AFTER_LENGTH, kind)
        if len(self._waiting) < 4 + length:
            self._needed = 4 + length
            return None
        with memoryview(self._waiting) as view, view[_FRAME.size : 4 + length] as payload:
            if crc32c(payload, crc32c(bytes((kind,)))) != checksum:
                raise RemoteProtocolError("the checksum of a frame is wrong")
            message = decode(kind, payload)
        del self._waiting[: 4 + length]
        self._needed = _FRAME.size
        return message

    def _check(self, size: int, kind: int) -> None:
        size_max = self._append_bytes_max if kind == Type.APPEND else _SIZES_MAX.get(kind)
        if size_max is None:
            raise RemoteProtocolError(f"messages of type {kind} are not known")
        if not self.is_proved and kind not in _BEFORE_PROOF:
            raise RemoteProtocolError(f"a {Type(kind).name} of a peer that has not proved the secret")
        if not 0 <= size <= size_max:
            raise RemoteProtocolError(f"a {Type(kind).name} of {size} bytes: the limit is {size_max}")
