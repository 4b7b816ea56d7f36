"""How many audit events per second does `ackwire audit run` work through: clean, lives, tables and reconciliation?

    .venv/bin/python -m bench.audit_run --events 5000000 --master 'local[2]'

The events are made here, four and a half a message: most messages are sent, stored, dispatched and acknowledged, some
come back first, some end as dead letters, expire or stay. The session's start is told apart from the work, because a
cluster that is up does not pay it.
"""

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ackwire.tabular.audit_schema import AUDIT

EVENTS_PER_FILE = 250_000
START_US = int(datetime(2026, 3, 1, 8, tzinfo=UTC).timestamp()) * 1_000_000
RUN = "bench-1772352000000"
QUEUES, CONSUMERS = 20, 60
SHARE_BACK, SHARE_DEAD, SHARE_EXPIRED, SHARE_PENDING = 0.04, 0.01, 0.01, 0.01

SENT, STORED, DISPATCHED, ACKED, BACK, DEAD, EXPIRED = range(7)
NAMES = pa.array(["sent", "stored", "dispatched", "acked", "redelivered", "dead_lettered", "expired"])


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=5_000_000)
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--folder", help="where the events and the tables go; default: a temporary folder")
    args = parser.parse_args(arguments)
    folder = Path(args.folder or tempfile.mkdtemp(prefix="ackwire-bench-audit-"))
    try:
        run(folder, args.events, args.master)
    finally:
        if not args.folder:
            shutil.rmtree(folder)


def run(folder: Path, events: int, master: str) -> None:
    from ackwire.spark.audit.job import run_job
    from ackwire.spark.session import session

    made = write_events(folder / "events", events)
    began = time.perf_counter()
    spark = session("bench audit run", master=master)
    started = time.perf_counter()
    shutil.rmtree(folder / "out", ignore_errors=True)
    result = run_job(spark, folder / "events", folder / "out", progress=tell(started))
    seconds = time.perf_counter() - started
    # With what processes that have ended have left to their parents: Python workers do not stay.
    cpu_seconds = sum(sum(it.cpu_times()[:4]) for it in psutil.Process().children(recursive=True))
    spark.stop()
    print(f"session: {started - began:.1f} s; adds up: {result.adds_up}")
    print(f"{made:,} events in {seconds:.1f} s: {made / seconds:,.0f} events/s on {master}")
    print(f"{cpu_seconds:.0f} s of CPU, with the start of Spark")


def tell(started: float) -> Callable[[str], None]:
    return lambda text: print(f"{time.perf_counter() - started:6.1f} s  {text}", flush=True)


def write_events(folder: Path, events: int) -> int:
    """About *events* events below *folder*, as the broker's writer leaves them; keeps what is there."""
    if folder.exists():
        return sum(pq.read_metadata(it).num_rows for it in folder.rglob("*.parquet"))
    made = 0
    for table in tables(events):
        hour = datetime.fromtimestamp((START_US // 1_000_000), UTC)
        target = folder / f"date={hour:%Y-%m-%d}" / f"hour={hour:%H}"
        target.mkdir(parents=True, exist_ok=True)
        pq.write_table(table, target / f"{RUN}-{made + 1}.parquet", compression="zstd")
        made += table.num_rows
    return made


def tables(events: int) -> Iterator[pa.Table]:
    kind, message, when = timeline(int(events / 4.2))
    rng = np.random.default_rng(7)
    queue_of = rng.integers(0, QUEUES, message.max() + 1)
    queues = pa.array([f"queue://bench.{n}" for n in range(QUEUES)])
    consumers = pa.array([f"ID:host-4711-17-{n}:1:1:1" for n in range(CONSUMERS)])
    for first in range(0, len(kind), EVENTS_PER_FILE):
        part = slice(first, first + EVENTS_PER_FILE)
        yield rows(first, kind[part], message[part], when[part], queue_of, queues, consumers)


def timeline(messages: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Kind, message and time of every event, in the order of time; a message every 100 µs."""
    rng = np.random.default_rng(3)
    ids = np.arange(messages)
    born = START_US + ids * 100
    fate = rng.random(messages)
    pending = fate < SHARE_PENDING
    expired = ~pending & (fate < SHARE_PENDING + SHARE_EXPIRED)
    dead = ~pending & ~expired & (fate < SHARE_PENDING + SHARE_EXPIRED + SHARE_DEAD)
    acked = ~pending & ~expired & ~dead
    back = (acked & (rng.random(messages) < SHARE_BACK)) | dead
    out = born + 300 + rng.integers(0, 200_000, messages)
    returned = out + 1_000 + rng.integers(0, 50_000, messages)
    again = returned + 500
    last = np.where(back, again, out)
    ended = last + 500 + rng.integers(0, 100_000, messages)
    parts = [
        (SENT, ids, born),
        (STORED, ids, born + 1),
        (DISPATCHED, ids[acked | dead], out[acked | dead]),
        (BACK, ids[back], returned[back]),
        (DISPATCHED, ids[back], again[back]),
        (ACKED, ids[acked], ended[acked]),
        (DEAD, ids[dead], ended[dead]),
        (EXPIRED, ids[expired], ended[expired]),
    ]
    kind = np.concatenate([np.full(len(it), code) for code, it, _ in parts])
    message = np.concatenate([it for _, it, _ in parts])
    when = np.concatenate([it for _, _, it in parts])
    order = np.argsort(when, kind="stable")
    return kind[order], message[order], when[order]


def rows(first, kind, message, when, queue_of, queues, consumers) -> pa.Table:  # type: ignore[no-untyped-def]
    count = len(kind)
    place = queues.take(pa.array(queue_of[message]))
    seen = np.isin(kind, (DISPATCHED, ACKED, BACK))
    consumer = consumers.take(pa.array(queue_of[message] * 3 + message % 3))
    ids = pc.binary_join_element_wise("ID:host-4711-1:1:1:1", pc.cast(pa.array(message), pa.string()), ":")
    null = pa.scalar(None, pa.string())
    times = pa.array(when, pa.timestamp("us", "UTC"))
    values = {
        "time": times,
        "event": NAMES.take(pa.array(kind)),
        "run": pa.repeat(RUN, count),
        "number": pa.array(np.arange(first + 1, first + count + 1)),
        "broker": pa.repeat("bench", count),
        "place": pc.if_else(pa.array(kind == SENT), null, place),
        "destination": place,
        "sequence": pa.array(message + 1),
        "message_id": ids,
        "consumer": pc.if_else(pa.array(seen), consumer, null),
        "connection": pa.repeat("ID:host-4711-17:1", count),
        "sent_time": pa.array(START_US + message * 100, pa.timestamp("us", "UTC")),
        "size": pa.array(np.full(count, 1200), pa.int32()),
        "priority": pa.array(np.full(count, 4), pa.int32()),
        "persistent": pa.array(np.full(count, True)),
        "ack_type": pc.if_else(pa.array(kind == ACKED), "standard", null),
        "cause": pc.if_else(pa.array(kind == DEAD), "redelivered 6 times", null),
    }
    columns = [values.get(field.name, pa.nulls(count)).cast(field.type) for field in AUDIT]
    return pa.Table.from_arrays(columns, schema=AUDIT)


if __name__ == "__main__":
    main(sys.argv[1:])
