"""A connection id that is in use goes to the same client only, and only once the old connection is dead (ADR 15)."""

from collections.abc import Callable
from typing import Any

import pytest

from ackwire.broker.session import Connection, Login
from ackwire.errors import BrokerError, InvalidClientId
from tests.helpers.broker_rig import BrokerRig, FakeClientPort

VICTIM = Login("ID:v", "victim", "alice", b"digest", is_reconnect=False)
BACK = Login("ID:v", "victim", "alice", b"digest", is_reconnect=True)


class SlowPort(FakeClientPort):
    """A client that answers when the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.verdicts: list[Callable[[bool], None]] = []

    def challenge(self, on_verdict: Callable[[bool], None]) -> None:
        self.verdicts.append(on_verdict)


class Newcomer:
    """One login, and what becomes of it."""

    def __init__(self, rig: BrokerRig, login: Login) -> None:
        self.port = SlowPort()
        self.admitted: list[Connection] = []
        self.refused: list[BrokerError] = []
        self.claim = rig.broker.admit(login, self.port, self.admitted.append, self.refused.append)


@pytest.fixture
def rig() -> BrokerRig:
    return BrokerRig()


@pytest.fixture
def port() -> SlowPort:
    return SlowPort()


@pytest.fixture
def victim(rig: BrokerRig, port: SlowPort) -> Connection:
    return rig.broker.connect(VICTIM, port)


OTHERS: list[dict[str, Any]] = [
    {"client_id": "thief"},
    {"user": "mallory"},
    {"user": None},
    {"proof": b""},
    {"proof": b"other"},
]


@pytest.mark.parametrize("lie", OTHERS, ids=str)
def test_another_client_does_not_get_a_connection_id_in_use(
    rig: BrokerRig, victim: Connection, port: SlowPort, lie: dict[str, Any]
) -> None:
    given: dict[str, Any] = {
        "connection_id": "ID:v",
        "client_id": "victim",
        "user": "alice",
        "proof": b"digest",
        "is_reconnect": True,
    }
    with pytest.raises(InvalidClientId, match="in use"):
        Newcomer(rig, Login(**(given | lie)))
    assert (victim.is_open, port.closed, port.verdicts) == (True, None, [])


def test_same_client_is_refused_while_the_old_connection_answers(
    rig: BrokerRig, victim: Connection, port: SlowPort
) -> None:
    newcomer = Newcomer(rig, BACK)
    assert newcomer.claim is not None
    port.verdicts[0](True)
    assert victim.is_open
    assert not newcomer.admitted
    assert isinstance(newcomer.refused[0], InvalidClientId)


def test_J4_same_client_replaces_a_connection_that_does_not_answer(
    rig: BrokerRig, victim: Connection, port: SlowPort
) -> None:
    newcomer = Newcomer(rig, BACK)
    assert victim.is_open, "not before it is known"
    port.verdicts[0](False)
    assert (victim.is_open, newcomer.admitted[0].is_open, newcomer.refused) == (False, True, [])
    assert port.closed is not None


def test_J4_same_client_is_admitted_when_the_old_connection_ends(
    rig: BrokerRig, victim: Connection, port: SlowPort
) -> None:
    newcomer = Newcomer(rig, BACK)
    rig.broker.disconnect(victim)
    rig.clock.advance(0)
    assert newcomer.admitted[0].is_open
    port.verdicts[0](False)
    assert newcomer.admitted[0].is_open, "the old verdict says nothing about the new connection"


def test_newcomer_that_leaves_while_it_waits_changes_nothing(
    rig: BrokerRig, victim: Connection, port: SlowPort
) -> None:
    newcomer = Newcomer(rig, BACK)
    assert newcomer.claim is not None
    rig.broker.withdraw(newcomer.claim)
    port.verdicts[0](False)
    assert (victim.is_open, newcomer.admitted, newcomer.refused) == (True, [], [])


@pytest.mark.usefixtures("victim")
def test_one_login_waits_for_a_connection_and_the_next_is_refused(rig: BrokerRig, port: SlowPort) -> None:
    first = Newcomer(rig, BACK)
    with pytest.raises(InvalidClientId, match="waits for it"):
        Newcomer(rig, BACK)
    port.verdicts[0](False)
    assert first.admitted


def test_login_that_waited_is_refused_if_its_client_id_was_taken_meanwhile(rig: BrokerRig, victim: Connection) -> None:
    newcomer = Newcomer(rig, BACK)
    rig.broker.disconnect(victim)
    rig.broker.connect(Login("ID:other", "victim"), FakeClientPort())
    rig.clock.advance(0)
    assert isinstance(newcomer.refused[0], InvalidClientId)
