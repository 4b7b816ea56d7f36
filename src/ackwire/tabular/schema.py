"""The schema of messages as rows, for everything that reads them as a table, and the columns of rows to be sent.

The types are those that Spark takes as they are: no large strings, no dictionaries, everything may be null.
"""

from typing import Any, Final

import pyarrow as pa

_TIME: Final = pa.timestamp("us", tz="UTC")
_MAP: Final = pa.map_(pa.string(), pa.string())

_COLUMNS: Final[tuple[tuple[str, Any, str], ...]] = (
    ("sequence", pa.int64(), "a cursor's number of the message; the broker's sequence where no cursor reads"),
    ("message_id", pa.string(), "JMSMessageID"),
    ("destination", pa.string(), "where it is: queue://orders, topic://news"),
    ("timestamp", _TIME, "JMSTimestamp: when it was sent, by the producer's clock"),
    ("broker_in_time", _TIME, "when the broker got it"),
    ("expiration", _TIME, "JMSExpiration; null is never"),
    ("persistent", pa.bool_(), "JMSDeliveryMode: whether it survives a restart of the broker"),
    ("priority", pa.int32(), "JMSPriority, 0 to 9"),
    ("redelivered", pa.bool_(), "JMSRedelivered: somebody may have seen it before"),
    ("redelivery_count", pa.int32(), "how many deliveries have failed"),
    ("correlation_id", pa.string(), "JMSCorrelationID"),
    ("reply_to", pa.string(), "JMSReplyTo: where an answer should go"),
    ("type", pa.string(), "JMSType"),
    ("user_id", pa.string(), "JMSXUserID, where the broker tells who sent it"),
    ("group_id", pa.string(), "JMSXGroupID"),
    ("group_sequence", pa.int32(), "JMSXGroupSeq; null without a group"),
    ("original_destination", pa.string(), "where a dead letter or a virtual topic's message was sent to at first"),
    ("properties", _MAP, "all properties as text; null if they cannot be decoded"),
    (
        "property_types",
        _MAP,
        "the JMS type of each: boolean, byte, short, int, long, float, double, string, map, list …",
    ),
    ("body_kind", pa.string(), "text, bytes, map, stream, object, none, blob; undecodable: `bytes` is the whole frame"),
    ("text", pa.string(), "the text of a text message, the URL of a blob message"),
    ("bytes", pa.binary(), "the body of a bytes, stream or object message, decompressed"),
    ("map", _MAP, "the entries of a map message, as text"),
)

MESSAGE: Final = pa.schema([pa.field(name, type_) for name, type_, _ in _COLUMNS])
"""Rows that are read."""

DESCRIPTIONS: Final[dict[str, str]] = {name: description for name, _, description in _COLUMNS}
"""What each column of `MESSAGE` means."""

_SPARK_TYPES: Final = {
    pa.int64(): "BIGINT",
    pa.int32(): "INT",
    pa.bool_(): "BOOLEAN",
    pa.string(): "STRING",
    pa.binary(): "BINARY",
    _TIME: "TIMESTAMP",
    _MAP: "MAP<STRING, STRING>",
}

SPARK_DDL: Final = ", ".join(f"`{name}` {_SPARK_TYPES[type_]}" for name, type_, _ in _COLUMNS)
"""`MESSAGE` as Spark reads it."""

# ---- rows that are written -------------------------------------------------------------------------------------

PROPERTY_PREFIX: Final = "property:"
"""A column `property:weight` is the property weight, with the type of the column."""

WRITE_COLUMNS: Final[dict[str, str]] = {
    "destination": "string: queue://orders or orders, topic://news; null is the default of the whole write",
    "text": "string: the body of a text message",
    "bytes": "binary: the body of a bytes message",
    "map": "map<string,string>: the body of a map message",
    "value": "string or binary: another name for text or bytes",
    "correlation_id": "string",
    "reply_to": "string: a destination",
    "type": "string",
    "priority": "integer: 0 to 9, 4 where null",
    "expiration": "timestamp: null is never",
    "time_to_live_ms": "integer: milliseconds from now, 0 or null is for ever",
    "group_id": "string",
    "group_sequence": "integer",
    "properties": "map<string,string>: properties that are strings",
}
"""Columns of rows to be sent, any of them, and what they hold. `property:<name>` is one more for each property."""

PROPERTY_TYPES: Final[dict[Any, str]] = {
    pa.bool_(): "boolean",
    pa.int8(): "byte",
    pa.int16(): "short",
    pa.int32(): "int",
    pa.int64(): "long",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "string",
    pa.large_string(): "string",
}
"""What a `property:` column can be, and the JMS type that it makes."""
