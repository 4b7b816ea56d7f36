"""The ledger of the crash rounds: each way to break a promise is noticed, and nothing else is."""

import pytest

from tests.crash.ledger import Ledger

TWO_QUEUES = "try tx b#1 +tx.a/b-1 +tx.b/b-2"


def ledger_of(*lines: str) -> Ledger:
    """A ledger after *lines*; "settle" compares what was listed, "round" starts the next round."""
    ledger = Ledger()
    ledger.begin_round(1)
    for line in lines:
        if line == "settle":
            ledger.settle()
        elif line == "settle all due":
            ledger.settle(all_due=True)
        elif line == "round":
            ledger.begin_round(ledger.round + 1)
        else:
            ledger.feed(line)
    return ledger


def kinds(*lines: str) -> list[str]:
    return [violation.kind for violation in ledger_of(*lines).violations]


SENT = ("try send p-1 +q/p-1", "done p-1")
UNANSWERED = ("try send p-1 +q/p-1", "fail p-1 broken")
TAKEN = ("saw c q p-1 0", "try tx c#1 -q/p-1", "done c#1")
TAKING = ("saw c q p-1 0", "try tx c#1 -q/p-1", "fail c#1 broken")
SCHEDULED = ("try send p-1 +later/p-1 @1000", "done p-1")
PREPARED = ("xa-try xa x#1 -q/p-1 +r/x-1", "xa-prepared x#1")
SEEN_TOO_SOON = (
    *SENT,
    *PREPARED,
    "xa-decide x#1 commit",
    "saw c r x-1 0",
    "try tx c#1 -r/x-1",
    "xa-doubt x#1 -7",
    "fail c#1 broken",
)
SEEN_AFTER_ALL = ("xa-decide x#1 commit", "xa-decided x#1", "saw c r x-1 0", "at r x-1")


@pytest.mark.parametrize(
    "lines",
    [
        (*SENT, "at q p-1"),
        (*UNANSWERED, "at q p-1"),
        UNANSWERED,
        (*SENT, *TAKEN),
        (*SENT, *TAKING),
        (*SENT, *TAKING, "at q p-1"),
        (*UNANSWERED, *TAKEN),
        (*UNANSWERED, *TAKING),
        (*UNANSWERED, *TAKING, "at q p-1"),
        (TWO_QUEUES, "fail b#1 broken"),
        (TWO_QUEUES, "fail b#1 broken", "at tx.a b-1", "at tx.b b-2"),
        (TWO_QUEUES, "fail b#1 broken", "saw c tx.a b-1 0", "try tx c#1 -tx.a/b-1", "done c#1", "at tx.b b-2"),
        SCHEDULED,
        (*SCHEDULED, "saw c later p-1 1000", "at later p-1"),
        (*SENT, "saw c q p-1 0", "undo c", "saw c q p-1 0", "at q p-1"),
        (*SENT, "saw c q p-1 0", "round", "saw d q p-1 0", "at q p-1"),
        (*SENT, *PREPARED, "recovered x#1"),
        (*SENT, *PREPARED, "xa-decide x#1 commit", "xa-doubt x#1 -7", "recovered x#1"),
        (*SENT, *PREPARED, "xa-decide x#1 commit", "xa-doubt x#1 -7", "at r x-1"),
        (*SENT, *PREPARED, "xa-decide x#1 rollback", "xa-decided x#1", "at q p-1"),
        (*SEEN_TOO_SOON, "recovered x#1", "settle", "round", *SEEN_AFTER_ALL),
        (*SENT, "xa-try xa x#1 -q/p-1 +r/x-1", "fail x#1 broken", "at q p-1"),
        (*SENT, "xa-try xa x#1 -q/p-1 +r/x-1", "fail x#1 broken", "recovered x#1"),
    ],
)
def test_what_may_happen_is_no_violation(lines: tuple[str, ...]) -> None:
    assert kinds(*lines, "settle") == []


@pytest.mark.parametrize(
    ("kind", "lines"),
    [
        ("lost", SENT),
        ("lost", (*SENT, "saw c q p-1 0")),
        ("lost", (TWO_QUEUES, "done b#1", "at tx.a b-1")),
        ("lost", (*SENT, *PREPARED)),
        ("torn", (TWO_QUEUES, "fail b#1 broken", "at tx.a b-1")),
        ("torn", (*SENT, "try tx f#1 -q/p-1 +r/f-1", "fail f#1 broken", "at q p-1", "at r f-1")),
        ("torn", (*SENT, "try tx f#1 -q/p-1 +r/f-1", "fail f#1 broken")),
        ("returned", (*SENT, *TAKEN, "at q p-1")),
        ("returned", (*SENT, *TAKEN, "settle", "at q p-1")),
        ("returned", (*SENT, *TAKING, "settle", "at q p-1")),
        ("returned", (*SENT, *PREPARED, "recovered x#1", "at q p-1")),
        ("returned", (*SENT, *PREPARED, "xa-decide x#1 commit", "xa-decided x#1", "at r x-1", "recovered x#1")),
        ("duplicate", (*SENT, "at q p-1", "at q p-1")),
        ("uncommitted", ("at q p-1",)),
        ("uncommitted", (*UNANSWERED, "settle", "at q p-1")),
        ("uncommitted", (*SENT, *PREPARED, "recovered x#1", "at r x-1")),
        ("uncommitted", ("recovered x#1",)),
        ("disorder", ("try send p-1 +q/p-1", "done p-1", "try send p-2 +q/p-2", "done p-2", "at q p-2", "at q p-1")),
    ],
)
def test_a_listing_that_breaks_a_promise_is_a_violation(kind: str, lines: tuple[str, ...]) -> None:
    assert kind in kinds(*lines, "settle")


@pytest.mark.parametrize(
    ("kind", "lines"),
    [
        ("returned", (*SENT, *TAKEN, "saw d q p-1 0")),
        ("returned", (*SENT, *TAKEN, "settle", "round", "saw c q p-1 0")),
        ("returned", (*SENT, *PREPARED, "saw d q p-1 0")),
        ("duplicate", (*SENT, "saw c q p-1 0", "saw d q p-1 0")),
        ("uncommitted", ("saw c q p-1 0",)),
        ("uncommitted", (*SENT, "xa-try xa x#1 -q/p-1 +r/x-1", "saw c r x-1 0")),
        ("uncommitted", (*SENT, *PREPARED, "xa-decide x#1 rollback", "xa-decided x#1", "saw c r x-1 0")),
        ("early", (*SCHEDULED, "saw c later p-1 999")),
        ("disorder", (*SENT, "try send p-2 +q/p-2", "done p-2", "saw c q p-2 0", "saw c q p-1 0")),
        ("problem", ("problem c refused",)),
    ],
)
def test_a_delivery_that_breaks_a_promise_is_a_violation(kind: str, lines: tuple[str, ...]) -> None:
    assert kinds(*lines) == [kind]


def test_what_is_scheduled_must_have_come_at_the_end() -> None:
    assert ledger_of(*SCHEDULED).waiting_for_their_time() == ["p-1"]
    assert kinds(*SCHEDULED, "settle", "settle all due") == ["lost"]


def test_a_violation_tells_the_whole_story() -> None:
    ledger = ledger_of(*SENT, *TAKEN, "round")
    ledger.moment = "after kill 7"
    ledger.feed("saw d q p-1 0")
    assert [str(violation) for violation in ledger.violations] == [
        "returned: p-1 in q, seen by d, though sent by p-1 (done, round 1), taken by c#1 (done, round 1) [after kill 7]"
    ]


def test_acknowledged_sends_and_commits_are_counted() -> None:
    ledger = ledger_of(*SENT, *TAKEN, TWO_QUEUES, "done b#1", "try send n-1 +sub.a/n-1 +sub.b/n-1", "fail n-1 broken")
    assert (ledger.sends_acknowledged, ledger.transactions_committed) == (3, 2)
