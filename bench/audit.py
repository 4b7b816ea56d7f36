"""What does the audit cost a broker: messages per second and CPU with it, beside the same without?

Two brokers run on this machine, one writes audit events, one does not; they take turns, because neighbours change what
a machine can do within seconds, and each round has new ones, because one process is faster than another of the same
program. One producer, one consumer, 1 KiB, asynchronous, an ack each: four events for each message. The client is
`load_client.py`. CPU counts the making of Parquet files, too.

    .venv/bin/python -m bench.audit [--rounds N] [--messages N] [--works nonpersistent persistent]
"""

import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Final

from ackwire.wire.openwire.marshal import Codec
from bench import load_client, samples
from bench.brokers import Broker, Running, scratch_folder
from bench.measure import Figure, options_parser, progress, show
from tests.helpers.processes import ackwire_program

ROUNDS: Final = 9
TURNS: Final = 3
"""Of each broker in a round; their median counts."""
MESSAGES: Final = 60_000
WARM_UP_MESSAGES: Final = 20_000
PAUSE_SECONDS: Final = 0.2
ROLL_SECONDS: Final = 1.0
"""So that Parquet files are made while messages flow, and not only after them."""
SETTLE_SECONDS_MAX: Final = 60.0
EXPECTED: Final = "0.85 at least"
WORKS: Final = {"nonpersistent": False, "persistent": True}


class Contender:
    """A broker with a producer and a consumer."""

    def __init__(self, stack: ExitStack, folder: Path, *, audited: bool, persistent: bool) -> None:
        folder.mkdir()
        argv = [str(ackwire_program()), "serve", "--listen", "tcp://127.0.0.1:0", "--log-level", "warning"]
        argv += ["--data", str(folder / "data")]
        if audited:
            config = folder / "ackwire.toml"
            config.write_text(f"[audit]\nroll_seconds = {ROLL_SECONDS}\n")
            argv += ["--config", str(config), "--audit", str(folder / "audit")]
        self._spool = folder / "audit" / "spool"
        self._broker: Running = stack.enter_context(Broker(argv, folder / "log")).start()
        self._persistent = persistent
        port = self._broker.ports[0]
        self._producer = load_client.connect(port, samples.producer_login())
        self._consumer = load_client.Consumer(load_client.connect(port, samples.consumer_login()))
        self._next = 1
        self._rates: list[float] = []
        self._costs: list[float] = []
        self.run(WARM_UP_MESSAGES)
        self._rates.clear()
        self._costs.clear()

    @property
    def rate(self) -> float:
        return median(self._rates)

    @property
    def cost(self) -> float:
        return median(self._costs)

    def run(self, messages: int) -> None:
        """One turn."""
        data = self._messages(messages)
        cpu, started = self._cpu_seconds(), time.monotonic()
        load_client.run(self._producer, self._consumer, data, messages)
        self._rates.append(messages / (time.monotonic() - started))
        self._settle()
        self._costs.append((self._cpu_seconds() - cpu) / messages * 1e6)

    def _cpu_seconds(self) -> float:
        """Of the broker, and of the process that makes Parquet files."""
        processes = [self._broker.process, *self._broker.process.children()]
        return sum(times.user + times.system for times in (it.cpu_times() for it in processes))

    def _settle(self) -> None:
        """Wait until all events are Parquet: that is part of what they cost."""
        deadline = time.monotonic() + SETTLE_SECONDS_MAX
        while self._spool.exists() and any(self._spool.iterdir()):
            if time.monotonic() > deadline:
                raise RuntimeError(f"events are left in {self._spool}")
            time.sleep(0.05)

    def _messages(self, count: int) -> bytes:
        numbers = range(self._next, self._next + count)
        self._next += count
        template = replace(samples.text_message(load_client.MARKER), persistent=self._persistent)
        return load_client.encoded(Codec(samples.LOOSE).encode(template), numbers)


def main(arguments: Sequence[str]) -> None:
    parser = options_parser("A broker with and without audit in turn, with the same load.")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--messages", type=int, default=MESSAGES)
    parser.add_argument("--works", nargs="+", choices=WORKS, default=list(WORKS))
    options = parser.parse_args(arguments)
    figures: list[Figure] = []
    for work in options.works:
        figures += measured(work, options.rounds, options.messages)
    show(f"audit: 1 → 1, asynchronous, 1 KiB, {options.rounds} rounds of new brokers in turn", figures, options.json)


def measured(work: str, rounds: int, messages: int) -> list[Figure]:
    done: list[tuple[Contender, Contender]] = []
    for number in range(rounds):
        progress(f"{work}, round {number + 1} of {rounds}")
        done.append(one_round(work, messages))
    off, on = ([it[number] for it in done] for number in (0, 1))
    ratios = tuple(with_it.rate / without.rate for without, with_it in done)
    return [
        Figure(f"{work}: rate with audit / without", "", ratios, EXPECTED),
        Figure(f"{work}: without", "msg/s", tuple(it.rate for it in off)),
        Figure(f"{work}: with", "msg/s", tuple(it.rate for it in on)),
        Figure(f"{work}: broker CPU without", "µs", tuple(it.cost for it in off)),
        Figure(f"{work}: broker CPU with", "µs", tuple(it.cost for it in on)),
    ]


def one_round(work: str, messages: int) -> tuple[Contender, Contender]:
    """Without audit, and with it."""
    with scratch_folder(None) as folder, ExitStack() as stack:
        off, on = (
            Contender(stack, folder / name, audited=name == "on", persistent=WORKS[work]) for name in ("off", "on")
        )
        for turn in range(TURNS):
            for contender in (off, on) if turn % 2 else (on, off):
                contender.run(messages)
                time.sleep(PAUSE_SECONDS)
    return off, on


if __name__ == "__main__":
    main(sys.argv[1:])
