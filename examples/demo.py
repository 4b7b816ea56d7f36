"""The demo: `ackwire serve` at work, with the unmodified ActiveMQ Java client and our own Python client.

Every client is a process of its own and writes one line of JSON for each message it sends, receives or acknowledges.
At the end these events must add up: each queue message acknowledged once, each topic message once by every
subscriber, what a killed consumer held received by another one, flagged as redelivered, and what a broker had
acknowledged before it was killed received from the next one. The Python clients go on while that happens. Then Spark
has its part (`demo_spark.py`), and the broker's audit must add up, too.

    python -m examples.demo          leaves the broker running until Ctrl-C
    python -m examples.demo --exit   ends by itself; the exit code says whether everything added up
    python -m examples.demo --store postgresql   on a temporary PostgreSQL server
    python -m examples.demo --cluster 3   on three brokers that replicate one journal, whose master is killed
"""

import argparse
import json
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from examples import demo_spark
from examples.stage import OUTPUT, ROOT, Child, DemoFailed, Run, check_requirements, say, wait_until

DEADLINE_SECONDS = 180  # the whole demo takes about ten, on a busy machine more; this ends one that hangs
SPARK_DEADLINE_SECONDS = 600  # the part with Spark takes about a minute and a half
SETTLE_SECONDS = 20.0  # how long after the last send a message may take to arrive

ORDERS = "queue://demo.orders"
SHIPMENTS = "queue://demo.shipments"
PRICES = "topic://demo.prices"
INVOICES = "queue://demo.invoices"
PAYMENTS = "queue://demo.payments"
ORDERS_PER_PRODUCER = 500
SHIPMENT_COUNT = 100
PRICE_COUNT = 500
INVOICE_COUNT = 300
PAYMENTS_PER_PRODUCER = 1500
STORES = ("journal", "sqlite", "postgresql", "mariadb", "journal+postgresql", "journal+mariadb")
STALL_AFTER = 15  # the doomed consumer acknowledges 10 of these and holds the rest, and all that was prefetched


# ---- events ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Event:
    """What a client did with a message: sent, received or acknowledged it."""

    kind: str
    client: str
    destination: str
    message_id: str
    redelivered: bool


class EventLog:
    """Everything the clients have written so far: what they say themselves, beside what the broker's audit says."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._offsets: Counter[Path] = Counter()
        self._events: list[Event] = []

    def read(self) -> list[Event]:
        """All events, including those written since the last call."""
        for file in sorted(self._folder.glob("*.jsonl")):
            with file.open("rb") as lines:
                lines.seek(self._offsets[file])
                for line in lines:
                    if line.endswith(b"\n"):  # the writer may be in the middle of one
                        self._offsets[file] += len(line)
                        self._events.append(_parse_event(line))
        return self._events


def _parse_event(line: bytes) -> Event:
    entry = json.loads(line)
    return Event(entry["event"], entry["client"], entry["destination"], entry["message_id"], entry["redelivered"])


@dataclass(frozen=True, slots=True)
class Audience:
    """Clients that together must receive every message of a destination once."""

    destination: str
    clients: tuple[str, ...]
    description: str
    expects_redelivery: bool = False


AUDIENCES = (
    Audience(ORDERS, ("auto", "client", "individual"), "3 consumers, sharing"),
    Audience(SHIPMENTS, ("doomed", "rescuer"), "1 killed, then another", expects_redelivery=True),
    Audience(INVOICES, ("accountant",), "1, after the broker's crash"),
    Audience(PAYMENTS, ("clerk-1", "clerk-2"), "2 in Python, during that crash"),
    Audience(PRICES, ("subscriber-1",), "subscriber-1"),
    Audience(PRICES, ("subscriber-2",), "subscriber-2"),
    Audience(PRICES, ("subscriber-3",), "subscriber-3"),
)


@dataclass(frozen=True, slots=True)
class Account:
    """What became of the messages of one audience."""

    audience: Audience
    sent: int
    received: int
    redelivered: int
    missing: int
    """Sent, and not acknowledged by any consumer."""
    duplicated: int
    """Acknowledged more than once, or received again without the flag that says so."""
    unknown: int
    """Received, and not sent by any producer."""

    @property
    def verdict(self) -> str:
        if self.missing or self.duplicated or self.unknown or not self.sent:
            return "WRONG"
        if self.audience.expects_redelivery and not self.redelivered:
            return "NOT SHOWN"
        return "ok"


def account_for(audience: Audience, events: Iterable[Event]) -> Account:
    """Compare what was sent to a destination with what *audience* did with it."""
    sent: set[str] = set()
    received: Counter[tuple[str, bool]] = Counter()
    acknowledged: Counter[str] = Counter()
    for event in events:
        if event.destination != audience.destination:
            continue
        if event.kind == "sent":
            sent.add(event.message_id)
        elif event.client in audience.clients and event.kind == "received":
            received[event.message_id, event.redelivered] += 1
        elif event.client in audience.clients and event.kind == "acknowledged":
            acknowledged[event.message_id] += 1
    seen = {message_id for message_id, _ in received}
    again = {message_id for (message_id, flagged), times in received.items() if not flagged and times > 1}
    return Account(
        audience,
        sent=len(sent),
        received=len(seen),
        redelivered=sum(flagged for _, flagged in received),
        missing=len(sent - acknowledged.keys()),
        duplicated=len(again | {message_id for message_id, times in acknowledged.items() if times > 1}),
        unknown=len(seen - sent),
    )


def accounts(events: Sequence[Event]) -> list[Account]:
    return [account_for(audience, events) for audience in AUDIENCES]


# ---- the story -------------------------------------------------------------------------------------------------


def play(run: Run, log: EventLog) -> None:
    """Every scene of the demo; returns when all messages have arrived, or have had the time to."""
    say("starting the consumers: 3 of demo.orders, 3 of demo.prices, 1 of demo.shipments that will crash")
    consumers = [run.consumer(mode, ORDERS, mode) for mode in ("auto", "client", "individual")]
    consumers += [run.consumer(f"subscriber-{number}", PRICES, "auto") for number in (1, 2, 3)]
    doomed = run.consumer("doomed", SHIPMENTS, "client", STALL_AFTER)
    for consumer in (*consumers, doomed):
        consumer.expect("ready")

    say(f"sending {3 * ORDERS_PER_PRODUCER} orders, {PRICE_COUNT} prices, {SHIPMENT_COUNT} shipments")
    producers = [run.producer(f"orders-{number}", ORDERS, ORDERS_PER_PRODUCER) for number in (1, 2, 3)]
    producers += [run.producer("prices", PRICES, PRICE_COUNT), run.producer("shipments", SHIPMENTS, SHIPMENT_COUNT)]
    for producer in producers:
        producer.finish()

    doomed.expect("stalled")
    say("killing the consumer of demo.shipments with messages in flight, then starting another")
    doomed.kill()
    rescuer = run.consumer("rescuer", SHIPMENTS, "client")
    rescuer.expect("ready")

    say("waiting for the last messages")
    wait_until(lambda: not missing(log, but=INVOICES), SETTLE_SECONDS)
    for consumer in (*consumers, rescuer):
        consumer.finish()
    crash(run, log)


def crash(run: Run, log: EventLog) -> None:
    """The broker is killed while Python clients are at work, and right after Java's producer had its last answer."""
    say(
        f"starting Python clients with failover: 2 send {2 * PAYMENTS_PER_PRODUCER} payments, 2 consume in transactions"
    )
    clerks = [run.python_consumer(name, PAYMENTS) for name in ("clerk-1", "clerk-2")]
    for clerk in clerks:
        clerk.expect("ready")
    payers = [run.python_producer(f"payer-{number}", PAYMENTS, PAYMENTS_PER_PRODUCER) for number in (1, 2)]
    for payer in payers:
        payer.expect("ready")

    say(f"sending {INVOICE_COUNT} invoices; when the last one is acknowledged, the broker is killed and started again")
    run.producer("invoices", INVOICES, INVOICE_COUNT).finish()
    run.replace_broker()
    accountant = run.consumer("accountant", INVOICES, "client")
    accountant.expect("ready")
    for payer in payers:
        payer.finish()
    wait_until(lambda: not missing(log), SETTLE_SECONDS)
    for consumer in (accountant, *clerks):
        consumer.finish()


def missing(log: EventLog, but: str | None = None) -> bool:
    """Whether a message that was sent has not been acknowledged yet, to another destination than *but*."""
    return any(account.missing for account in accounts(log.read()) if account.audience.destination != but)


# ---- the report ------------------------------------------------------------------------------------------------


COLUMNS = ("destination", "received by", "sent", "received", "redelivered", "missing", "duplicated", "verdict")
LEFT_ALIGNED = {"destination", "received by", "verdict"}


def report(found: Sequence[Account], events: Sequence[Event]) -> str:
    """The table, and who received how many of the shared orders."""
    by_client = Counter(event.client for event in events if event.kind == "received" and event.destination == ORDERS)
    shares = ", ".join(f"{client} {by_client[client]}" for client in AUDIENCES[0].clients)
    shipments = next(account for account in found if account.audience.destination == SHIPMENTS)
    twice = Counter(event.message_id for event in events if event.kind == "received" and event.destination == SHIPMENTS)
    return "\n".join(
        (
            table([COLUMNS, *map(_cells, found)]),
            "",
            f"orders by acknowledgement mode: {shares}",
            f"shipments redelivered after the kill: {shipments.redelivered}, of which the killed consumer had read "
            f"{sum(times > 1 for times in twice.values())} without acknowledging them",
        )
    )


def _cells(account: Account) -> tuple[str, ...]:
    numbers = (account.sent, account.received, account.redelivered, account.missing, account.duplicated)
    note = f" ({account.unknown} unknown)" if account.unknown else ""
    return (
        account.audience.destination,
        account.audience.description,
        *map(str, numbers),
        account.verdict + note,
    )


def table(rows: Sequence[Sequence[str]]) -> str:
    """*rows* in columns, the first one as the heading."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = (
            cell.ljust(width) if title in LEFT_ALIGNED else cell.rjust(width)
            for title, cell, width in zip(rows[0], row, widths, strict=True)
        )
        lines.append("  ".join(cells).rstrip())
    lines.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join(lines)


# ---- the command -----------------------------------------------------------------------------------------------


def main(arguments: Sequence[str]) -> int:
    """Run the demo; 0 if everything added up."""
    parser = argparse.ArgumentParser(description="Ackwire at work, with Java and Python clients.")
    parser.add_argument("--exit", action="store_true", help="end by itself instead of leaving the broker running")
    parser.add_argument("--store", choices=STORES, default=STORES[0], help="the broker's store (default: %(default)s)")
    parser.add_argument(
        "--cluster", type=int, choices=(1, 3), default=1, help="how many brokers (default: %(default)s)"
    )
    options = parser.parse_args(arguments)
    if options.cluster > 1 and options.store != STORES[0]:
        parser.error("--cluster 3 has a store of its own: the replicated journal")
    signal.signal(signal.SIGTERM, _end_in_order)
    signal.signal(signal.SIGHUP, _end_in_order)
    signal.signal(signal.SIGALRM, _give_up)
    try:
        return demonstrate(options.store, cluster=options.cluster > 1, stay=not options.exit)
    except DemoFailed as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print()
        say("interrupted; everything the demo started has ended")
        return 130


def demonstrate(store: str, *, cluster: bool, stay: bool) -> int:
    """The demo from start to end on *store*, or on a group if *cluster*; the broker stays up in between if *stay*."""
    check_requirements()
    signal.alarm(DEADLINE_SECONDS)
    OUTPUT.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=time.strftime("%Y%m%d-%H%M%S-"), dir=OUTPUT))
    with store_uri(store, folder) as uri, _run(folder, uri, cluster=cluster) as run:
        run.start_broker()
        say(f"compiling the Java clients for {run.client_url}")
        run.compile_clients()
        log = EventLog(run.folder / "events")
        play(run, log)
        found = accounts(log.read())
        print(f"\n{report(found, log.read())}\n", flush=True)
        say(f"events of all clients, as JSON lines: {(run.folder / 'events').relative_to(ROOT)}")
        signal.alarm(SPARK_DEADLINE_SECONDS)
        demo_spark.play(run)
        adds_up = demo_spark.reconcile(run)
        signal.alarm(0)
        if stay:
            keep_serving(run.children[0], run.client_url)
        say("stopping the broker")
        run.stop_broker()
    good = adds_up and all(account.verdict == "ok" for account in found)
    say("everything adds up" if good else "something does NOT add up")
    return 0 if good else 1


def _run(folder: Path, uri: str, *, cluster: bool) -> Run:
    if not cluster:
        return Run(folder, uri)
    from examples.cluster import ClusterRun  # it needs kazoo

    return ClusterRun(folder)


@contextmanager
def store_uri(store: str, folder: Path) -> Iterator[str]:
    """The URI of *store*, on a server that lives as long as the demo; empty for the default."""
    front = "journal+" if store.startswith("journal+") else ""
    match store.removeprefix(front):
        case "postgresql" | "mariadb" as kind:
            from tests.helpers.databases import MariadbServer, PostgresqlServer

            say(f"starting a temporary {kind} server")
            server = PostgresqlServer() if kind == "postgresql" else MariadbServer()
            try:
                yield front + server.uri
            finally:
                server.remove()
        case "sqlite":
            yield f"{front}sqlite:///{folder / 'messages.db'}"
        case _:
            yield ""


def keep_serving(broker: Child, url: str) -> None:
    """Keep the broker running for your own clients, until Ctrl-C."""
    try:
        say(f"the broker is still running: point any ActiveMQ 5 client at {url}")
        print(f'          in Java: new ActiveMQConnectionFactory("{url}").createConnection()')
        print(f'          in Python: ackwire.connect("{url}"); on the command line: ackwire send {url} orders hello')
        print("          Ctrl-C stops it", flush=True)
        broker.wait()
        broker.fail("ended by itself")
    except KeyboardInterrupt:
        print()


def _end_in_order(signum: int, _frame: object) -> NoReturn:
    raise SystemExit(128 + signum)  # on the way out, every process is stopped


def _give_up(_signum: int, _frame: object) -> NoReturn:
    raise DemoFailed(f"not finished after {DEADLINE_SECONDS} s")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
