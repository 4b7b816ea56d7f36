"""A consumer of the demo's enriched readings: in transactions, with a few messages that it rejects.

    readings_client.py URL

Ends when its input does, and then prints how many readings it has committed.
"""

import sys
import threading

import ackwire

ENRICHED = "queue://demo.enriched"
BATCH = 200
"""Readings in a transaction."""
PATIENCE_SECONDS = 0.5
POISON_EVERY = 25_000
"""One reading in so many is rolled back until the broker gives it up as a dead letter."""


def is_poison(message: ackwire.Message) -> bool:
    number = message.properties["number"]
    assert isinstance(number, int)
    return number % POISON_EVERY == POISON_EVERY // 2


def consume(session: ackwire.Session, ended: threading.Event) -> int:
    done = batch = 0
    with session.consumer(ENRICHED) as consumer:
        print("ready", flush=True)
        while True:
            message = consumer.receive(PATIENCE_SECONDS)
            if message is not None and is_poison(message):
                session.rollback()  # with those before it: they come again
                batch = 0
                continue
            batch += message is not None
            # What comes again has a transaction of its own: it must not fail with others a second time.
            if batch >= BATCH or (batch and (message is None or message.redelivered)):
                done, batch = done + commit(session, batch), 0
            if message is None and ended.is_set():
                return done


def commit(session: ackwire.Session, batch: int) -> int:
    try:
        session.commit()
    except ackwire.TransactionRolledBackError:
        return 0  # the broker was lost meanwhile: they come again
    return batch


def main(url: str) -> None:
    ended = threading.Event()

    def wait_for_the_end() -> None:
        sys.stdin.read()
        ended.set()

    threading.Thread(target=wait_for_the_end, daemon=True).start()
    options = "jms.redeliveryPolicy.maximumRedeliveries=2&jms.redeliveryPolicy.initialRedeliveryDelay=0"
    with ackwire.connect(f"failover:({url})?{options}") as connection, connection.session(transacted=True) as session:
        print(consume(session, ended), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
