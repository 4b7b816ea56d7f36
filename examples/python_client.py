"""Producers and consumers of the demo that are written in Python: they work on while the broker is killed.

    python_client.py producer URL EVENTS NAME DESTINATION COUNT     sends COUNT messages, each confirmed
    python_client.py consumer URL EVENTS NAME DESTINATION           consumes in transactions until its input ends

What they did is written as lines of JSON, as the Java clients of the demo write it.
"""

import json
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import ackwire

BATCH = 10
"""Messages in a transaction of a consumer."""
PATIENCE_SECONDS = 0.2


class Events:
    """The lines of JSON of one client."""

    def __init__(self, path: Path, client: str, destination: str) -> None:
        self._file = path.open("a", encoding="utf-8")
        self._common = {"client": client, "destination": destination}

    def write(self, event: str, message: ackwire.Message) -> None:
        line: dict[str, Any] = {
            "event": event,
            **self._common,
            "message_id": message.message_id,
            "redelivered": message.redelivered,
        }
        self._file.write(json.dumps(line) + "\n")
        self._file.flush()


def produce(session: ackwire.Session, destination: str, events: Events, count: int) -> None:
    """Send with a confirmation for each; one that a crash leaves without is sent again by the client itself."""
    print("ready", flush=True)
    with session.producer(destination) as producer:
        for number in range(count):
            events.write("sent", producer.send(f"payment {number}"))


def consume(session: ackwire.Session, destination: str, events: Events, ended: threading.Event) -> None:
    """Consume in transactions: what is not committed when something breaks comes again."""
    with session.consumer(destination) as consumer:
        print("ready", flush=True)
        batch: list[ackwire.Message] = []
        while not ended.is_set():
            message = consumer.receive(PATIENCE_SECONDS)
            if message is not None:
                events.write("received", message)
                batch.append(message)
            if len(batch) >= BATCH or (batch and message is None):
                commit(session, batch, events)
                batch = []


def commit(session: ackwire.Session, batch: Sequence[ackwire.Message], events: Events) -> None:
    try:
        session.commit()
    except ackwire.TransactionRolledBackError:
        return  # the broker was lost meanwhile: they come again
    for message in batch:
        events.write("acknowledged", message)


def await_end_of_input(ended: threading.Event) -> None:
    sys.stdin.read()
    ended.set()


def main(role: str, url: str, path: str, name: str, destination: str, *rest: str) -> None:
    events = Events(Path(path), name, destination)
    ended = threading.Event()
    threading.Thread(target=await_end_of_input, args=(ended,), daemon=True).start()
    with ackwire.connect(f"failover:({url})?maxReconnectDelay=200") as connection:
        if role == "producer":
            with connection.session() as session:
                produce(session, destination, events, int(rest[0]))
        else:
            with connection.session(transacted=True) as session:
                consume(session, destination, events, ended)


if __name__ == "__main__":
    main(*sys.argv[1:])
