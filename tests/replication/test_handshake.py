"""Two nodes prove to each other that they have the same secret."""

from collections.abc import Callable
from itertools import count

import pytest

from ackwire.errors import ConfigError
from ackwire.replication.handshake import Accepting, Dialing, Refused, require_secret
from ackwire.replication.messages import Answer, Challenge, Heartbeat, Proof, Reason

SECRET = b"a secret of the group"


def nonces(start: int = 0) -> Callable[[int], bytes]:
    numbers = count(start)
    return lambda length: bytes((next(numbers),)) * length


def test_both_sides_are_done_when_they_have_the_same_secret() -> None:
    dialing, accepting = Dialing(SECRET, nonces()), Accepting(SECRET, nonces(9))
    answer = accepting.receive(dialing.begin())
    assert answer is not None
    assert not accepting.is_done
    assert accepting.receive(dialing.receive(answer)) is None
    assert dialing.is_done
    assert accepting.is_done


def test_who_dials_refuses_another_secret_before_it_proves_its_own() -> None:
    dialing, accepting = Dialing(SECRET, nonces()), Accepting(b"some other secret", nonces(9))
    answer = accepting.receive(dialing.begin())
    assert answer is not None
    with pytest.raises(Refused) as refused:
        dialing.receive(answer)
    assert refused.value.reason is Reason.WRONG_SECRET


def test_a_proof_sent_back_to_its_maker_proves_nothing() -> None:
    """Who knows no secret dials the node that dials it, and hands on what it hears."""
    accepting = Accepting(SECRET, nonces(9))
    answer = accepting.receive(Challenge(1, bytes(32), True))
    assert answer is not None
    with pytest.raises(Refused):
        accepting.receive(Proof(answer.proof))


def test_a_recorded_proof_is_of_no_use_in_another_handshake() -> None:
    dialing, accepting = Dialing(SECRET, nonces()), Accepting(SECRET, nonces(9))
    answer = accepting.receive(dialing.begin())
    assert answer is not None
    proof = dialing.receive(answer)
    again = Accepting(SECRET, nonces(20))
    again.receive(Challenge(1, bytes(32), True))
    with pytest.raises(Refused):
        again.receive(proof)


@pytest.mark.parametrize("version", [0, 2])
def test_another_version_is_refused_by_its_number(version: int) -> None:
    with pytest.raises(Refused, match=f"version {version}") as refused:
        Accepting(SECRET, nonces()).receive(Challenge(version, bytes(32), True))
    assert refused.value.reason is Reason.OTHER_VERSION
    with pytest.raises(Refused, match=f"version {version}"):
        Dialing(SECRET, nonces()).receive(Answer(version, bytes(32), bytes(32), True))


def test_messages_at_the_wrong_time_are_refused() -> None:
    for message in (Proof(bytes(32)), Heartbeat(1)):
        with pytest.raises(Refused):
            Accepting(SECRET, nonces()).receive(message)
    with pytest.raises(Refused):
        Dialing(SECRET, nonces()).receive(Heartbeat(1))


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "broker.example", ""])
def test_a_node_that_others_reach_needs_a_secret(host: str) -> None:
    with pytest.raises(ConfigError, match="secret"):
        require_secret(b"", host)
    require_secret(SECRET, host)


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "[::1]", "localhost", "127.1.2.3"])
def test_a_node_on_a_loopback_address_needs_none(host: str) -> None:
    require_secret(b"", host)
