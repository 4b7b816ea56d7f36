"""Acknowledgements frame by frame (D, E): what our client sends in each mode, and that the Java client sends the same.

Where the two differ, the scenario has a list for Java, and docs/client-differences.md says why.
"""

from dataclasses import dataclass, replace
from typing import Final

import pytest

from ackwire import AckMode
from ackwire.wire.openwire.commands import AckType
from tests.client.acks import NO_DELAY, Line, Scenario, in_ranges, one_by_one, play, play_in_java, show
from tests.client.conftest import Connect
from tests.client.recording import RecordingProxy
from tests.conformance.jms import Jms

DELIVERED, POISON, STANDARD, REDELIVERED = AckType.DELIVERED, AckType.POISON, AckType.STANDARD, AckType.REDELIVERED
INDIVIDUAL, EXPIRED = AckType.INDIVIDUAL, AckType.EXPIRED

AUTO, CLIENT, DUPS_OK, ONE = AckMode.AUTO, AckMode.CLIENT, AckMode.DUPS_OK, AckMode.INDIVIDUAL
TRANSACTED: Final = AckMode.SESSION_TRANSACTED
OPTIMIZED: Final[dict[str, object]] = {"jms__optimizeAcknowledge": True}
BY_COUNT_ONLY: Final[dict[str, object]] = OPTIMIZED | {"jms__optimizeAcknowledgeTimeOut": 1_000_000}
N: Final = 1000


@dataclass(frozen=True)
class Case:
    scenario: Scenario
    expected: list[Line]
    java: list[Line] | None = None
    """What the Java client sends, where it differs on purpose."""


def _in_transaction(lines: list[Line]) -> list[Line]:
    return [replace(line, in_transaction=True) for line in lines]


def _answered(lines: list[Line]) -> list[Line]:
    return [replace(line, is_answered=True) for line in lines]


def _without_first(lines: list[Line]) -> list[Line]:
    return [replace(line, first=None) for line in lines]


def _policy(redeliveries: int) -> dict[str, object]:
    return NO_DELAY | {"jms__redeliveryPolicy__maximumRedeliveries": redeliveries}


CASES: Final = {
    # ---- D1
    "D1 AUTO, receive": Case(Scenario(AUTO, [f"receive {N}"], N), one_by_one(STANDARD, N)),
    "D1 AUTO, listener": Case(Scenario(AUTO, [f"hear {N}"], N), one_by_one(STANDARD, N)),
    "D1 AUTO on a topic": Case(Scenario(AUTO, [f"receive {N}"], N, is_topic=True), one_by_one(STANDARD, N)),
    "D1 AUTO, what was not received is not acknowledged": Case(
        Scenario(AUTO, ["receive 3"], 10), one_by_one(STANDARD, 3)
    ),
    "D1 AUTO, sendAcksAsync=false": Case(
        Scenario(AUTO, ["receive 10"], 10, options={"jms__sendAcksAsync": False}),
        _answered(one_by_one(STANDARD, 10)),
    ),
    # ---- D2
    "D2 optimized, prefetch 1000": Case(
        Scenario(AUTO, [f"receive {N}"], N, prefetch=1000, options=BY_COUNT_ONLY), in_ranges(STANDARD, 650, N)
    ),
    "D2 optimized, listener": Case(
        Scenario(AUTO, [f"hear {N}", "close"], N, prefetch=1000, options=BY_COUNT_ONLY), in_ranges(STANDARD, 650, N)
    ),
    "D2 optimized, prefetch 10": Case(
        Scenario(AUTO, [f"receive {N}"], N, prefetch=10, options=BY_COUNT_ONLY), in_ranges(STANDARD, 7, N)
    ),
    "D2 optimized, prefetch 1": Case(
        Scenario(AUTO, ["receive 10"], 10, prefetch=1, options=BY_COUNT_ONLY), one_by_one(STANDARD, 10)
    ),
    "D2 optimized, on a topic": Case(
        Scenario(AUTO, [f"receive {N}"], N, prefetch=100, is_topic=True, options=BY_COUNT_ONLY),
        in_ranges(STANDARD, 65, N),
    ),
    "D2 optimized, by time-out": Case(
        Scenario(
            AUTO,
            ["pause 60", "receive 1", "pause 60", "receive 1", "pause 60", "receive 1"],
            5,
            options=OPTIMIZED | {"jms__optimizeAcknowledgeTimeOut": 50},
        ),
        one_by_one(STANDARD, 3),
    ),
    "D2 optimized, pulling": Case(
        Scenario(AUTO, ["receive 10"], 10, prefetch=0, options=BY_COUNT_ONLY), one_by_one(STANDARD, 10)
    ),
    "D2 only AUTO honours it": Case(
        Scenario(CLIENT, ["receive 10", "acknowledge"], 10, options=BY_COUNT_ONLY), in_ranges(STANDARD, 10, 10)
    ),
    # ---- D3
    "D3 CLIENT": Case(
        Scenario(CLIENT, [f"receive {N}", "acknowledge"], N),
        [*in_ranges(DELIVERED, 500, N), *in_ranges(STANDARD, N, N)],
    ),
    "D3 CLIENT, listener": Case(Scenario(CLIENT, [f"hear {N}", "close"], N), in_ranges(DELIVERED, 500, N)),
    "D3 CLIENT, prefetch 10": Case(
        Scenario(CLIENT, ["receive 12", "acknowledge", "receive 5", "acknowledge"], 20, prefetch=10),
        [
            *in_ranges(DELIVERED, 5, 10),
            *in_ranges(STANDARD, 12, 12),
            *in_ranges(DELIVERED, 5, 5, 12),
            *in_ranges(STANDARD, 5, 5, 12),
        ],
    ),
    "D3 CLIENT, in small steps": Case(
        Scenario(CLIENT, ["receive 4", "acknowledge"] * 5, 20, prefetch=10), in_ranges(STANDARD, 4, 20)
    ),
    "D3 CLIENT, each message": Case(
        Scenario(CLIENT, [f"each {N // 10}"], N // 10, prefetch=10), one_by_one(STANDARD, N // 10)
    ),
    "D3 CLIENT, prefetch 1": Case(
        Scenario(CLIENT, ["receive 3", "acknowledge"], 3, prefetch=1),
        [*one_by_one(DELIVERED, 3), *in_ranges(STANDARD, 3, 3)],
    ),
    "D3 CLIENT, acknowledging twice": Case(
        Scenario(CLIENT, ["receive 3", "acknowledge", "acknowledge"], 5), in_ranges(STANDARD, 3, 3)
    ),
    "D3 CLIENT on a topic": Case(
        Scenario(CLIENT, ["receive 12", "acknowledge"], 12, prefetch=10, is_topic=True),
        [*in_ranges(DELIVERED, 5, 10), *in_ranges(STANDARD, 12, 12)],
    ),
    "D3 CLIENT, not acknowledged": Case(Scenario(CLIENT, ["receive 3"], 5), []),
    "D3 CLIENT, sendAcksAsync=false": Case(
        Scenario(CLIENT, ["receive 6", "acknowledge"], 6, prefetch=10, options={"jms__sendAcksAsync": False}),
        [*in_ranges(DELIVERED, 5, 5), *_answered(in_ranges(STANDARD, 6, 6))],
        java=_answered([*in_ranges(DELIVERED, 5, 5), *in_ranges(STANDARD, 6, 6)]),
    ),
    # ---- D4
    "D4 DUPS_OK on a queue": Case(
        Scenario(DUPS_OK, [f"receive {N}"], N, options={"jms__optimizeAcknowledgeTimeOut": 1_000_000}),
        in_ranges(STANDARD, 650, N),
        java=one_by_one(STANDARD, N),
    ),
    "D4 DUPS_OK on a topic": Case(
        Scenario(DUPS_OK, [f"receive {N}"], N, prefetch=100, is_topic=True), in_ranges(STANDARD, 50, N)
    ),
    "D4 DUPS_OK on a topic, the rest when it closes": Case(
        Scenario(DUPS_OK, ["receive 130"], 140, prefetch=100, is_topic=True), in_ranges(STANDARD, 50, 130)
    ),
    # ---- D5
    "D5 transacted": Case(
        Scenario(TRANSACTED, [f"receive {N}", "commit"], N),
        [*in_ranges(DELIVERED, 500, N), *_in_transaction(in_ranges(STANDARD, N, N))],
        java=_in_transaction([*in_ranges(DELIVERED, 500, N), *in_ranges(STANDARD, N, N)]),
    ),
    "D5 transacted, twice, prefetch 10": Case(
        Scenario(TRANSACTED, ["receive 12", "commit", "receive 7", "commit"], 20, prefetch=10),
        [
            *in_ranges(DELIVERED, 5, 10),
            *_in_transaction(in_ranges(STANDARD, 12, 12)),
            *in_ranges(DELIVERED, 5, 5, 12),
            *_in_transaction(in_ranges(STANDARD, 7, 7, 12)),
        ],
        java=_in_transaction(
            [
                *in_ranges(DELIVERED, 5, 10),
                *in_ranges(STANDARD, 12, 12),
                *in_ranges(DELIVERED, 5, 5, 12),
                *in_ranges(STANDARD, 7, 7, 12),
            ]
        ),
    ),
    "D5 transacted, optimizeAcknowledge is off": Case(
        Scenario(TRANSACTED, ["receive 4", "commit"], 4, prefetch=10, options=BY_COUNT_ONLY),
        _in_transaction(in_ranges(STANDARD, 4, 4)),
    ),
    "D5 transacted, not committed": Case(
        Scenario(TRANSACTED, ["receive 3"], 5), [], java=_in_transaction(in_ranges(STANDARD, 3, 3))
    ),
    "D5 transacted, commit of nothing": Case(Scenario(TRANSACTED, ["commit", "commit"], 1), []),
    "D5 transacted, rolled back": Case(
        Scenario(
            TRANSACTED,
            ["receive 3", "rollback", "receive 3", "rollback", "receive 3", "commit"],
            3,
            options=_policy(6),
        ),
        [*in_ranges(REDELIVERED, 3, 3), *_in_transaction(in_ranges(STANDARD, 3, 3))],
        java=[
            *_in_transaction(in_ranges(STANDARD, 3, 3)),
            *_in_transaction(in_ranges(STANDARD, 3, 3)),
            *in_ranges(REDELIVERED, 3, 3),
            *_in_transaction(in_ranges(STANDARD, 3, 3)),
        ],
    ),
    "D5 transacted, transactedIndividualAck": Case(
        Scenario(TRANSACTED, ["receive 3", "commit"], 3, options={"jms__transactedIndividualAck": True}),
        _in_transaction(one_by_one(INDIVIDUAL, 3)),
        java=_in_transaction(_without_first(one_by_one(INDIVIDUAL, 3))),
    ),
    # ---- D6
    "D6 INDIVIDUAL": Case(
        Scenario(ONE, [f"each {N}"], N),
        one_by_one(INDIVIDUAL, N),
        java=[
            *_without_first(one_by_one(INDIVIDUAL, 499)),
            *in_ranges(DELIVERED, 500, 500),
            *_without_first(one_by_one(INDIVIDUAL, 500, 499)),
            *in_ranges(DELIVERED, 500, 500, 500),
            *_without_first(one_by_one(INDIVIDUAL, 1, 999)),
        ],
    ),
    "D6 INDIVIDUAL, some": Case(
        Scenario(ONE, ["receive 3", "acknowledge", "receive 2", "acknowledge"], 6),
        [*one_by_one(INDIVIDUAL, 1, 2), *one_by_one(INDIVIDUAL, 1, 4)],
        java=_without_first([*one_by_one(INDIVIDUAL, 1, 2), *one_by_one(INDIVIDUAL, 1, 4)]),
    ),
    "D6 INDIVIDUAL, none": Case(Scenario(ONE, ["receive 12"], 12, prefetch=10), in_ranges(DELIVERED, 5, 10)),
    # ---- D7, F: given again
    "D7 recover": Case(
        Scenario(
            CLIENT,
            ["receive 3", "recover", "receive 3", "recover", "receive 3", "acknowledge"],
            4,
            options=_policy(6),
        ),
        [*in_ranges(REDELIVERED, 3, 3), *in_ranges(STANDARD, 3, 3)],
    ),
    "D7 recover in AUTO mode does nothing": Case(
        Scenario(AUTO, ["receive 2", "recover", "receive 2"], 4, options=_policy(6)), one_by_one(STANDARD, 4)
    ),
    # ---- E: given up, expired
    "E POISON, a listener that fails": Case(
        Scenario(AUTO, ["hear 9", "poisoned 3", "close"], 3, options=_policy(2), failures=-1),
        [
            line
            for number in range(3)
            for line in (Line(REDELIVERED, 1, number, number), Line(POISON, 1, number, number))
        ],
    ),
    "E POISON, no redelivery at all": Case(
        Scenario(AUTO, ["hear 3", "poisoned 3", "close"], 3, options=_policy(0), failures=-1), one_by_one(POISON, 3)
    ),
    "E POISON, a range of recovered ones": Case(
        Scenario(CLIENT, ["receive 3", "recover", "receive 3", "recover", "poisoned 3"], 3, options=_policy(1)),
        in_ranges(POISON, 3, 3),
    ),
    "E POISON, rolled back": Case(
        Scenario(TRANSACTED, ["receive 3", "rollback", "receive 3", "rollback", "poisoned 3"], 3, options=_policy(1)),
        in_ranges(POISON, 3, 3),
        java=[*_in_transaction(in_ranges(STANDARD, 3, 3)) * 2, *in_ranges(POISON, 3, 3)],
    ),
    "E EXPIRED, AUTO": Case(Scenario(AUTO, ["nothing"], 5, time_to_live_ms=700), one_by_one(EXPIRED, 5)),
    "E EXPIRED, CLIENT": Case(Scenario(CLIENT, ["nothing"], 5, time_to_live_ms=700), one_by_one(EXPIRED, 5)),
    "E EXPIRED, transacted": Case(
        Scenario(TRANSACTED, ["nothing", "commit"], 5, time_to_live_ms=700), one_by_one(EXPIRED, 5)
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_D_E_acks_of_our_client(connect: Connect, recording: RecordingProxy, queue: str, topic: str, name: str) -> None:
    case = CASES[name]
    where = topic if case.scenario.is_topic else queue
    assert show(play(case.scenario, connect, recording, where)) == show(case.expected)


@pytest.mark.parametrize("name", CASES)
def test_D_E_acks_of_the_java_client(
    java: Jms, connect: Connect, recording: RecordingProxy, queue: str, topic: str, name: str
) -> None:
    case = CASES[name]
    where = topic if case.scenario.is_topic else queue
    expected = case.expected if case.java is None else case.java
    assert show(play_in_java(case.scenario, java, connect, recording, where)) == show(expected)
