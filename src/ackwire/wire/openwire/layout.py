"""The layout of a canonical message frame: the order of its fields, their sizes, and where they stand.

A canonical frame is an OpenWire 12 message in loose encoding, without cache and without size prefix. It is the form in
which messages live in the broker, the stores and the client. All modules that read or write such frames by position
take the positions from here; `frame_builder.py` writes a frame from scratch, and `commands.py` declares the same fields
for the plain codec. `tests/unit/wire/openwire/test_layout.py` compares the two.

    part      field                      form            note
    --------  -------------------------  --------------  ------------------------------------------------------
    head      type id                    1 byte          which kind of message
              command id                 4 bytes         of the connection on which it came
              response required          1 byte
    front     producer id                optional        the same bytes for all messages of one producer to
              destination                optional        one destination in one transaction
              transaction id             optional
              original destination       optional
              message id, first part     MESSAGE_ID_HEAD, then the producer id
    counts    producer sequence          8 bytes         which of its producer's messages it is
              broker sequence            8 bytes         its place in the broker's order
    headers   original transaction id    optional
              group id                   optional text
              group sequence             4 bytes
              correlation id             optional text
              persistent                 1 byte
              expiration                 8 bytes         milliseconds since 1970; 0: never
              priority                   1 byte
              reply to                   optional
              timestamp                  8 bytes
              type                       optional text
    content   body                       optional bytes
              properties                 optional bytes  a map, encoded by `primitives.py`
    tail      data structure             optional
              target consumer id         optional
              compressed                 1 byte
              redelivery counter         4 bytes
              broker path                optional
              arrival                    8 bytes
              user id                    optional text
              received by bridge         1 byte
              droppable                  1 byte
              cluster                    optional
              broker in time             8 bytes
              broker out time            8 bytes
              first of its group         1 byte          whether this consumer gets it as the first of its group

An optional field begins with a byte that says whether it is there. Text follows as a length of 2 bytes and Java's
modified UTF-8, bytes as a length of 4 bytes and the bytes, a structure as its type id and its fields. A BlobMessage has
more fields behind the tail. As long as all optional headers are absent, the fields behind the counts have fixed places.

The numbers are literals or sums of literals: the compiler puts them into the code where they are used (ADR 7).
"""

from struct import Struct
from typing import Final

# ---- type ids --------------------------------------------------------------------------------------------------

DISPATCH_TYPE: Final = 21
ACK_TYPE: Final = 22
FIRST_MESSAGE_TYPE: Final = 23
LAST_MESSAGE_TYPE: Final = 29
MESSAGE_TYPES: Final = frozenset(range(FIRST_MESSAGE_TYPE, LAST_MESSAGE_TYPE + 1))
BLOB_TYPE: Final = 29
USUAL_TYPES: Final = MESSAGE_TYPES - {BLOB_TYPE}
"""Messages that end with the tail."""
RESPONSE_TYPE: Final = 30
FIRST_DESTINATION_TYPE: Final = 100
LAST_DESTINATION_TYPE: Final = 103
DESTINATION_TYPES: Final = range(FIRST_DESTINATION_TYPE, LAST_DESTINATION_TYPE + 1)
MESSAGE_ID_TYPE: Final = 0x6E
LOCAL_TRANSACTION_TYPE: Final = 0x6F
XA_TRANSACTION_TYPE: Final = 0x70
CONNECTION_ID_TYPE: Final = 0x78
CONSUMER_ID_TYPE: Final = 0x7A
PRODUCER_ID_TYPE: Final = 0x7B

# ---- values ----------------------------------------------------------------------------------------------------

BYTE: Final = Struct(">b")
USHORT: Final = Struct(">H")
INT: Final = Struct(">i")
UINT: Final = Struct(">I")
LONG: Final = Struct(">q")
DOUBLE: Final = Struct(">d")
INT_BYTES: Final = 4
LONG_BYTES: Final = 8

ABSENT: Final = b"\0"
"""An optional field with nothing in it."""
PRESENT: Final = b"\1"
"""How an optional field begins that is there."""
ABSENT_BYTES: Final = 1
TEXT_LENGTH: Final = Struct(">BH")
"""How an optional text begins that is there: the flag, and its length."""
TEXT_AT: Final = 3
"""Where the text stands in an optional text."""
BYTES_LENGTH: Final = Struct(">Bi")
"""The same for optional bytes."""
BYTES_AT: Final = 5
"""Where the bytes stand in optional bytes."""
DESTINATION_HEAD: Final = Struct(">BBBH")
"""How a destination begins: the flag, its type id, and its name as an optional text."""
NAME_AT: Final = 2
"""Where the name, an optional text, stands in a destination; and the connection id in the id of a producer or
consumer, behind which follow two numbers."""
RESOURCE_NUMBERS_BYTES: Final = 16

# How ids begin, as optional structures.
PRODUCER_HEAD: Final = b"\x01\x7b\x01"
"""A producer id with a connection id; the length of that follows."""
CONSUMER_HEAD: Final = b"\x01\x7a\x01"
RESOURCE_BYTES: Final = 21
"""The id of a producer or consumer without its connection id: `PRODUCER_HEAD`, a length and two numbers."""
MESSAGE_ID_HEAD: Final = b"\x01\x6e\x00"
"""A message id that has no text view; its producer id follows, and the counts."""
MESSAGE_ID_HEAD_BYTES: Final = 3
LOCAL_TRANSACTION_HEAD: Final = b"\x01\x6f"
CONNECTION_HEAD: Final = b"\x01\x78"
LOCAL_TRANSACTION_CONNECTION_AT: Final = 10
"""Where the id of the connection stands in that of a local transaction: behind the head and a number."""
XA_TRANSACTION_HEAD: Final = b"\x01\x70"
XA_TRANSACTION_PARTS_AT: Final = 6
"""Where the two parts of an XA id stand, optional bytes both: behind the head and the format's number."""

# ---- head ------------------------------------------------------------------------------------------------------

SIZE_BYTES: Final = 4
"""Of the prefix that a frame has on the wire and nowhere else."""
COMMAND_ID_AT: Final = 1
RESPONSE_REQUIRED_AT: Final = 5
FIELDS_AT: Final = 6
"""Where the front begins, in every command: behind type id, command id and response flag."""
HEAD: Final = Struct(">IBiB")
"""Size, type id, command id, response flag."""

# ---- counts ----------------------------------------------------------------------------------------------------

COUNT_BYTES: Final = 8
COUNTS_BYTES: Final = 2 * COUNT_BYTES
COUNTS: Final = Struct(">qq")
"""Producer sequence, broker sequence."""

# ---- headers: where they stand behind the producer sequence, as long as the optional ones are absent ----------------

BROKER_SEQUENCE_AT: Final = 0
ORIGINAL_TRANSACTION_AT: Final = BROKER_SEQUENCE_AT + COUNT_BYTES
GROUP_ID_AT: Final = ORIGINAL_TRANSACTION_AT + ABSENT_BYTES
GROUP_SEQUENCE_AT: Final = GROUP_ID_AT + ABSENT_BYTES
CORRELATION_ID_AT: Final = GROUP_SEQUENCE_AT + INT_BYTES
PERSISTENT_AT: Final = CORRELATION_ID_AT + ABSENT_BYTES
EXPIRATION_AT: Final = PERSISTENT_AT + 1
PRIORITY_AT: Final = EXPIRATION_AT + LONG_BYTES
REPLY_TO_AT: Final = PRIORITY_AT + 1
TIMESTAMP_AT: Final = REPLY_TO_AT + ABSENT_BYTES
TYPE_AT: Final = TIMESTAMP_AT + LONG_BYTES
HAS_CONTENT_AT: Final = TYPE_AT + ABSENT_BYTES
CONTENT_LENGTH_AT: Final = HAS_CONTENT_AT + 1
CONTENT_AT: Final = CONTENT_LENGTH_AT + INT_BYTES

OPTIONS_AT: Final = ORIGINAL_TRANSACTION_AT
"""The 8 bytes from here are original transaction, group, group sequence, correlation id, and last `persistent`: read
as one number, it is above 255 if there is more than that."""

USUAL_HEADERS: Final = Struct(">qqBBiBBqbBqB")
"""Counts and headers, all optional ones absent: producer sequence, broker sequence, original transaction?, group?,
group sequence, correlation id?, persistent, expiration, priority, reply to?, timestamp, type?."""
HEADERS_AND_CONTENT: Final = Struct(">16sBBiBBqbBqBBI")
"""The same with the counts as bytes; and content?, content length."""
HEADERS_AND_CONTENT_BYTES: Final = COUNT_BYTES + CONTENT_AT
HEADERS_AND_TEXT: Final = Struct(">q8xBBiBBqbBqBBIi")
"""The same without the broker's sequence; and the length that the body of a text message begins with."""
TEXT_LENGTH_BYTES: Final = 4

# The same in pieces, for frames with optional headers: each of them stands between two pieces.
UNTIL_GROUP: Final = Struct(">qqB")
"""Producer sequence, broker sequence, original transaction?; the group id follows."""
UNTIL_GROUP_AS_BYTES: Final = Struct(">16sB")
UNTIL_GROUP_FROM_PRODUCER: Final = Struct(">q8xB")
UNTIL_GROUP_BYTES: Final = COUNTS_BYTES + ABSENT_BYTES
BEHIND_CORRELATION: Final = Struct(">Bqb")
"""Persistent, expiration, priority; the destination for answers follows."""
BEHIND_CORRELATION_BYTES: Final = 10

# ---- tail ------------------------------------------------------------------------------------------------------

TAIL: Final = Struct(">BBBiBqBBBBqqB")
"""Data structure?, target consumer?, compressed, redelivery counter, broker path?, arrival, user id?, received by
bridge, droppable, cluster?, broker in time, broker out time, first of its group."""
TAIL_BYTES: Final = 37
"""Of a tail whose optional fields are absent."""
TARGET_CONSUMER_AT: Final = 1
COMPRESSED_AT: Final = 2
USER_ID_AT: Final = 16
"""In the tail, if the optional fields in front of it are absent."""
IN_TIME_FROM_END: Final = 17
OUT_TIME_FROM_END: Final = 9
"""Where they stand in front of the end of the tail, whatever else it holds."""

FRESH_TAIL: Final = bytes(TAIL_BYTES)
"""Of a message that its producer has sent, and no broker has touched."""
COMPRESSED_TAIL: Final = b"\0\0\1" + bytes(TAIL_BYTES - 3)

TAIL_FLAGS: Final = Struct(">BBB4xB8xBxxBq8xx")
"""What a reader wants of a whole tail: data structure?, target consumer?, compressed, broker path?, user id?, cluster?,
broker in time."""
TAIL_UNTIL_USER: Final = Struct(">BBB4xB8x")
TAIL_UNTIL_USER_BYTES: Final = USER_ID_AT
TAIL_BEHIND_USER: Final = Struct(">xxBq8xx")
"""The same in pieces: the user id stands between them."""
TAIL_BEHIND_USER_BYTES: Final = TAIL_BYTES - USER_ID_AT - ABSENT_BYTES

# ---- dispatches ------------------------------------------------------------------------------------------------

REDELIVERY_COUNTER_BYTES: Final = 4
"""Of a MessageDispatch, behind the message: what its receiver goes by, and not by the counter in the message."""
DISPATCH_HEAD: Final = bytes((DISPATCH_TYPE, 0, 0, 0, 0, 0))
DISPATCH_END: Final = Struct(">q?i")
"""From the message's out time on: out time, first of its group, redelivery counter."""
DISPATCH_TAIL: Final = Struct(">BBB4xB8xBxxB8x8xxi")
"""What a client wants of tail and counter: data structure?, target consumer?, compressed, broker path?, user id?,
cluster?, redelivery counter. Times and the message's own counter say nothing to it, nor does the first of a group
without a group."""
DISPATCH_TAIL_BYTES: Final = TAIL_BYTES + REDELIVERY_COUNTER_BYTES
DISPATCH_TAIL_BEHIND_USER: Final = Struct(">xxB8x8xBi")
"""Behind the user id: cluster?, first of its group, redelivery counter."""
DISPATCH_TAIL_BEHIND_USER_BYTES: Final = TAIL_BEHIND_USER_BYTES + REDELIVERY_COUNTER_BYTES

# ---- acks and responses ----------------------------------------------------------------------------------------

# An ack's fields: destination?, transaction id?, consumer id?, type, first message id?, last message id?, end.
ACK_END: Final = Struct(">iB")
"""How many messages, and a cause?."""
ACK_END_BYTES: Final = 5
ACK_CAUSE_AT: Final = 4
"""In the end."""
RESPONSE: Final = Struct(">IBiBi")
"""Size, type id, command id, response flag, correlation id: a whole frame."""
RESPONSE_BYTES: Final = 10
"""Without the size."""
