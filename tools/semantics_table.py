"""The behaviours and the tests that show them: writes docs/semantics.md, or checks that it is current.

    python tools/semantics_table.py           write it
    python tools/semantics_table.py --check   exit 1 if it is out of date, or if a code has no test

A test cites codes at the front of its name: `test_D7_…`, `test_C4_D3_…`, or a whole section: `test_G_…`. That every
code that is cited anywhere is in the table, tools/check_references.py finds out.
"""

import ast
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TABLE = ROOT / "docs" / "semantics.md"
SHOWN_MAX = 8

SECTIONS = {
    "A": "The model",
    "B": "Sending",
    "C": "Receiving",
    "D": "Acknowledgement modes",
    "E": "Acknowledgement types",
    "F": "Redelivery and dead letters",
    "G": "Transactions",
    "H": "Order",
    "I": "Scheduled delivery",
    "J": "Transports",
    "K": "Storage",
    "L": "Several brokers",
    "M": "What applications build on top",
    "N": "Known ways to lose messages, which must not exist here",
}

BEHAVIOURS = {
    "A1": "connection, session, producer, consumer, browser; delivery between start and stop",
    "A2": "a queue message goes to exactly one consumer, and to another if that one does not finish it",
    "A3": "topics: every subscriber a copy; durable subscriptions",
    "A4": "message kinds and their bodies",
    "A5": "headers",
    "A6": "what ends a message: ack, expiry, poison, a stated limit; nothing else",
    "A7": "selectors",
    "A8": "names: wildcards, composites, options, virtual topics, temporary destinations",
    "B1": "which sends wait for the broker, and until when",
    "B2": "where useAsyncSend can be set",
    "B3": "what is checked before a send (client)",
    "B4": "producer window",
    "B5": "asynchronous send with a callback",
    "B6": "limits: producers wait or fail, consumers drain, all recovers",
    "B7": "spilled non-persistent messages (with the journal store)",
    "C1": "receive, receive with a timeout, no wait, listener",
    "C2": "prefetch and its defaults",
    "C3": "prefetch 0: pull",
    "C4": "room: prefetch + extension - dispatched",
    "C5": "slow consumers are marked, messages go to the others",
    "C6": "the consumer's channel: order, or priority",
    "D1": "AUTO",
    "D2": "AUTO with optimizeAcknowledge",
    "D3": "CLIENT",
    "D4": "DUPS_OK",
    "D5": "SESSION_TRANSACTED",
    "D6": "INDIVIDUAL",
    "D7": "what was not acknowledged comes back",
    "E": "every ack type on the wire",
    "F1": "what triggers redelivery",
    "F2": "redelivery policy",
    "F3": "counters, poison, redelivery by the broker",
    "F4": "dead letters",
    "G1": "a transaction's sends and acks: all or none",
    "G2": "they reach the store atomically",
    "G3": "XA",
    "H1": "order per producer; redelivered messages back in their place",
    "H2": "exclusive consumers, consumer priority",
    "H3": "message groups",
    "I1": "delay, period, repeat, cron",
    "I2": "schedules are kept, listed, removed",
    "J1": "URI schemes; unknown ones and unused options are errors that name them",
    "J2": "negotiation settles version, encodings, frame size and times",
    "J3": "inactivity monitor",
    "J4": "failover: everything is restored, what was unanswered is repeated, nothing is stored twice",
    "K1": "stored before the producer is answered; what is not acknowledged at a start is delivered again",
    "K2": "journal store: recovery, compaction, the tools for a stopped broker's store",
    "K3": "SQL store in the tables of ActiveMQ's JDBC store, on PostgreSQL, MariaDB and SQLite",
    "K4": "journal in front of SQL: the journal answers; what is consumed before a checkpoint never reaches SQL",
    "K5": "LevelDB as the journal's index",
    "K6": "memory store",
    "K7": "a write or sync that fails: nothing is answered any more, nothing is reported stored that is not",
    "L1": "master and slaves on a shared folder or database: one serves, the others wait, an ActiveMQ too",
    "L2": "master and slaves with copies of one journal, elected with ZooKeeper; a majority has what is answered",
    "M1": "pooled consumer",
    "M2": "buffered producer",
    "M9": "template and listener container",
    "N1": "clocks that differ expire no good messages",
    "N2": "nothing is lost while the broker spills",
    "N3": "an asynchronous send does not vanish in silence",
    "N4": "a message is not acknowledged before it is processed",
    "N5": "a full worker pool rejects nothing",
}

CLIENT = "client/"
"""Where the tests of the Python client are, each of which runs against our broker and against the real ActiveMQ."""


def main() -> int:
    table = render(collect())
    if sys.argv[1:] != ["--check"]:
        TABLE.write_text(table, encoding="utf-8")
        return 0
    missing = [code for code, tests in collect().items() if not tests and code in BEHAVIOURS]
    if missing:
        print(f"no test cites {', '.join(missing)}")
    if not TABLE.exists() or TABLE.read_text(encoding="utf-8") != table:
        print("docs/semantics.md is out of date: run python tools/semantics_table.py")
        return 1
    return 1 if missing else 0


def collect() -> dict[str, list[str]]:
    """For each code, the tests that cite it, as `file::name`."""
    found: dict[str, list[str]] = {code: [] for code in BEHAVIOURS}
    found |= {section: [] for section in SECTIONS if section not in found}
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        for name in _test_names(path):
            for code in _cited(name):
                if code in found:
                    found[code].append(f"{path.relative_to(ROOT / 'tests')}::{name}")
    return found


def _test_names(path: Path) -> list[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    functions = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return sorted(node.name for node in functions if node.name.startswith("test_"))


def _cited(name: str) -> list[str]:
    front = re.match(r"test_((?:[A-N]\d*_)+)", name)
    return front.group(1).rstrip("_").split("_") if front else []


def render(found: dict[str, list[str]]) -> str:
    lines = [
        "# Behaviours and the tests that show them",
        "",
        "What a user of ActiveMQ and JMS relies on, with a code for each behaviour. Tests cite the codes in their",
        "names (`test_D4_…`), comments and docs in parentheses: `(D4)`, `(SEMANTICS C2–C5)`.",
        "",
        "Written by `tools/semantics_table.py`, which has the behaviours, from the names of the tests; `make check`",
        "holds it up to date and finds codes that are not here. The last column is the Python client's suite, which",
        "runs against our broker and against the real ActiveMQ; where the two differ:",
        "[client-differences.md](client-differences.md).",
    ]
    for section, title in SECTIONS.items():
        rows = {code: text for code, text in BEHAVIOURS.items() if code[0] == section}
        if found[section]:
            rows = {section: "the section as a whole", **rows}
        lines += ["", f"## {section}. {title}", ""]
        lines += ["| code | behaviour | tests | with the Python client, both brokers |", "|---|---|---|---|"]
        lines += [_row(code, behaviour, found[code]) for code, behaviour in rows.items()]
    return "\n".join(lines) + "\n"


def _row(code: str, behaviour: str, found: list[str]) -> str:
    tests = [test for test in found if not test.startswith(CLIENT)]
    client = [test for test in found if test.startswith(CLIENT)]
    return f"| {code} | {behaviour} | {_cell(tests)} | {_cell(client)} |"


def _cell(tests: list[str]) -> str:
    shown = "<br>".join(f"`{test}`" for test in tests[:SHOWN_MAX])
    return shown if len(tests) <= SHOWN_MAX else f"{shown}<br>and {len(tests) - SHOWN_MAX} more"


if __name__ == "__main__":
    sys.exit(main())
