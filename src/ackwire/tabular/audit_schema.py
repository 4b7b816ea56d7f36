"""The columns of audit events (docs/guide/audit-events.md); all of them may be null.

The types are those that Spark reads as they are: plain strings, UTC timestamps in microseconds.
"""

from typing import Final

import pyarrow as pa

_TIME: Final = pa.timestamp("us", tz="UTC")

AUDIT: Final = pa.schema(
    [
        ("time", _TIME),
        ("event", pa.string()),
        ("run", pa.string()),
        ("number", pa.int64()),
        ("broker", pa.string()),
        ("place", pa.string()),
        ("destination", pa.string()),
        ("sequence", pa.int64()),
        ("message_id", pa.string()),
        ("consumer", pa.string()),
        ("connection", pa.string()),
        ("client_id", pa.string()),
        ("sent_time", _TIME),
        ("size", pa.int32()),
        ("priority", pa.int32()),
        ("persistent", pa.bool_()),
        ("redelivery_count", pa.int32()),
        ("transaction", pa.string()),
        ("ack_type", pa.string()),
        ("cause", pa.string()),
        ("count", pa.int64()),
    ]
)
