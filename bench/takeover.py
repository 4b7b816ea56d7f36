"""How long does a sender wait when the master of a replicated group is killed, or hands over?

    .venv/bin/python -m bench.takeover [--messages 1000000] [--kills 10] [--transfers 10] [--session 2]

A queue is filled first, and stays as it is. Then a Java client with `failover:` sends one message after the other to
another queue, each when the one before is answered. Its longest pause is what is shown: after `kill -9` it ends with
the first answer of the new master, and has the time in it that ZooKeeper waits for the session. The client looks for a
master after 10, 20, 40, … ms, up to `--reconnect` ms: by its own default the pauses double up to 30 s, which may double
what it waits.
"""

import argparse
import json
import queue
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from bench.brokers import disk_bytes, scratch_folder
from bench.groups import NODES, SESSION_SECONDS, Group, Member, until
from bench.java_load import LoadGenerator, Work, java_classes
from bench.measure import Figure, options_parser, progress, show
from tests.helpers.java import CLIENT_JARS, classpath
from tests.helpers.processes import ManagedProcess

MESSAGES: Final = 1_000_000
QUICK_MESSAGES: Final = 50_000
KILLS: Final = 20
TRANSFERS: Final = 10
QUICK_TIMES: Final = 3
RECONNECT_MS: Final = 100
BATCH: Final = 1_000
BACKLOG: Final = "backlog"
TRANSFER_GOAL_SECONDS: Final = 0.3
SENDING_SECONDS: Final = 1.0
"""How long the sender works before something happens to the master."""
ANSWERS: Final = 20
"""From the new master, before the longest pause is asked for."""
ANSWER_TIMEOUT_SECONDS: Final = 60.0
MB: Final = 1e6


class Sender:
    """A JVM that sends without end."""

    def __init__(self, uri: str, folder: Path) -> None:
        self._answers: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        command = ["java", "-Xmx128m", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"]
        command += ["-cp", classpath(CLIENT_JARS, java_classes("pauses", CLIENT_JARS)), "Pauses", uri, "pauses"]
        self._process = ManagedProcess(
            command, log_path=folder / "pauses.log", on_line=self._answers.put, separate_stderr=True
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.stop()

    def ask(self, question: str) -> dict[str, Any]:
        self._process.write_line(question)
        line = self._answers.get(timeout=ANSWER_TIMEOUT_SECONDS)
        if line is None:
            raise self._process.failure("has ended")
        found: dict[str, Any] = json.loads(line)
        return found

    def begin(self) -> None:
        """Forget the pauses so far, and see that messages pass."""
        self.ask("reset")
        self.wait_for_answers()

    def wait_for_answers(self) -> None:
        until(lambda: True if self.ask("longest")["answers"] >= ANSWERS else None, "nothing is answered")

    def longest_after(self, master: Member, group: Group) -> float:
        """The longest pause since `begin`, once another node than *master* answers."""
        until(lambda: self._answered_by(master, group), "no other node answers")
        return float(self.ask("longest")["longest"])

    def _answered_by(self, former: Member, group: Group) -> bool | None:
        successor = group.master()
        if successor is None or successor is former:
            return None
        before = self.ask("longest")["answers"]
        return until(lambda: True if self.ask("longest")["answers"] > before + ANSWERS else None, "it stays silent")


@dataclass
class Measured:
    """In milliseconds."""

    kills: list[float]
    transfers: list[float]


def main(arguments: Sequence[str]) -> None:
    options = parsed(arguments)
    with scratch_folder(options.folder) as folder, Group(folder / "group", options.session) as group:
        running = group.start()
        with LoadGenerator(folder) as load:
            progress(f"filling {options.messages:,} messages")
            batches = Work(messages=options.messages, batch=BATCH, consumers=0)
            seconds = load.do(batches, running.uri, BACKLOG, "fill").send_seconds
            progress(f"filled in {seconds:.0f} s; {disk_bytes(group.members[0].folder) / MB:,.0f} MB in each node")
        group.settled()
        with Sender(f"{group.failover}?maxReconnectDelay={options.reconnect}", folder) as sender:
            measured = Measured(
                [kill(group, sender) * 1e3 for _ in range(options.kills)],
                [transfer(group, sender) * 1e3 for _ in range(options.transfers)],
            )
    times = f"session of {options.session:g} s, maxReconnectDelay={options.reconnect}"
    title = f"take-over with {options.messages:,} messages waiting, {times}"
    show(title, list(figures(measured)), options.json)


def parsed(arguments: Sequence[str]) -> argparse.Namespace:
    parser = options_parser("The pause of a sender when the master is killed, or hands over.")
    parser.add_argument("--quick", action="store_true", help="fewer messages, less often")
    parser.add_argument("--messages", type=int, help=f"that wait (default: {MESSAGES:,})")
    parser.add_argument("--kills", type=int, help=f"of the master (default: {KILLS})")
    parser.add_argument("--transfers", type=int, help=f"from node to node (default: {TRANSFERS})")
    parser.add_argument("--session", type=float, default=SESSION_SECONDS, help="of ZooKeeper (default: %(default)s)")
    parser.add_argument(
        "--reconnect",
        type=int,
        default=RECONNECT_MS,
        help="the client's maxReconnectDelay in ms (default: %(default)s)",
    )
    parser.add_argument("--folder", type=Path, help="where the data goes (default: as tempfile says)")
    options = parser.parse_args(arguments)
    if options.messages is None:
        options.messages = QUICK_MESSAGES if options.quick else MESSAGES
    if options.kills is None:
        options.kills = QUICK_TIMES if options.quick else KILLS
    if options.transfers is None:
        options.transfers = QUICK_TIMES if options.quick else TRANSFERS
    return options


def kill(group: Group, sender: Sender) -> float:
    """Kill the master and start it anew when another one serves; returns the longest pause."""
    master = group.settled()
    sender.begin()
    time.sleep(SENDING_SECONDS)
    master.kill()
    longest = sender.longest_after(master, group)
    master.start()
    progress(f"{master.name} was killed: {longest * 1e3:,.0f} ms")
    return longest


def transfer(group: Group, sender: Sender) -> float:
    """Have the next node be master; returns the longest pause."""
    master = group.settled()
    successor = NODES[(NODES.index(master.name) + 1) % len(NODES)]
    sender.begin()
    time.sleep(SENDING_SECONDS)
    until(lambda: True if not master.transfer(successor) else None, f"{master.name} does not hand over")
    longest = sender.longest_after(master, group)
    progress(f"{master.name} hands over to {successor}: {longest * 1e3:,.0f} ms")
    return longest


def figures(measured: Measured) -> Sequence[Figure]:
    found = []
    if measured.kills:
        found.append(Figure("kill -9: until the new master has answered", "ms", tuple(measured.kills)))
    if measured.transfers:
        goal = TRANSFER_GOAL_SECONDS * 1e3
        found.append(Figure("transfer: longest pause of a sender", "ms", tuple(measured.transfers), at_most=goal))
    return found


if __name__ == "__main__":
    main(sys.argv[1:])
