"""The roles of a broker: what follows from what."""

import pytest

from ackwire.cluster.roles import Role, Roles, StaleGrant, Standing


class _Clock:
    def __init__(self) -> None:
        self.now = 1000

    def __call__(self) -> int:
        self.now += 1
        return self.now


@pytest.fixture
def roles() -> Roles:
    return Roles(_Clock())


def _role(roles: Roles) -> Role:
    return roles.standing.role


def _is_suspended(roles: Roles) -> bool:
    return roles.standing.is_suspended


def _words(roles: Roles) -> list[str]:
    seen: list[str] = []
    roles.observe(lambda it: seen.append(it.word))
    return seen


def test_L1_a_broker_waits_recovers_serves_steps_down_and_waits_again(roles: Roles) -> None:
    seen = _words(roles)
    roles.waits("a has the lock")
    assert roles.granted(3, "the lock was free")
    assert roles.recovered()
    assert roles.lost("the lock is gone")
    roles.released()
    assert seen == ["slave", "recovering", "master", "stepping-down", "slave"]
    assert roles.standing.epoch == 3
    assert roles.standing.why == "the lock is gone"


def test_a_grant_needs_a_higher_epoch_than_the_one_before(roles: Roles) -> None:
    roles.granted(5, "")
    roles.lost("")
    roles.released()
    with pytest.raises(StaleGrant, match="epoch 5 behind one of epoch 5"):
        roles.granted(5, "")
    assert _role(roles) is Role.WAITING
    assert roles.granted(6, "")


def test_the_store_counts_where_the_lock_does_not(roles: Roles) -> None:
    roles.granted(0, "")
    roles.recovered(17)
    assert roles.standing.epoch == 17


def test_a_grant_that_is_lost_during_recovery_never_becomes_mastership(roles: Roles) -> None:
    roles.granted(1, "")
    roles.lost("too late")
    assert not roles.recovered()
    assert _role(roles) is Role.STEPPING_DOWN


def test_a_suspended_grant_stays_so_through_the_end_of_recovery(roles: Roles) -> None:
    roles.granted(1, "")
    assert roles.suspended("no contact")
    assert not roles.suspended("again")
    roles.recovered()
    assert _role(roles) is Role.MASTER
    assert _is_suspended(roles)
    assert roles.resumed("contact")
    assert not _is_suspended(roles)
    assert not roles.resumed("again")


def test_a_new_grant_is_not_suspended(roles: Roles) -> None:
    roles.granted(1, "")
    roles.suspended("no contact")
    roles.lost("gone")
    roles.released()
    roles.granted(2, "")
    assert not roles.standing.is_suspended


def test_inputs_that_come_too_late_change_nothing(roles: Roles) -> None:
    roles.waits("")
    before = roles.standing
    assert not roles.recovered()
    assert not roles.lost("")
    assert not roles.suspended("")
    roles.released()
    assert roles.standing == before
    roles.granted(1, "")
    assert not roles.granted(2, "")
    roles.waits("somebody else")
    assert _role(roles) is Role.RECOVERING


def test_since_is_when_the_role_began_not_when_its_reason_changed(roles: Roles) -> None:
    roles.waits("a has the lock")
    since = roles.standing.since_ms
    roles.waits("b has the lock")
    assert roles.standing == Standing(Role.WAITING, 0, since, "b has the lock")


@pytest.mark.parametrize("is_master", [False, True])
def test_a_stop_ends_it_once_the_store_is_let_go(roles: Roles, is_master: bool) -> None:
    seen = _words(roles)
    roles.waits("")
    if is_master:
        roles.granted(1, "")
    roles.stop("SIGTERM")
    roles.released()
    assert seen[-1] == "stopped"
    assert not roles.granted(2, "")


def test_a_stop_while_it_steps_down_lets_it_finish(roles: Roles) -> None:
    roles.granted(1, "")
    roles.lost("")
    roles.stop("SIGTERM")
    assert _role(roles) is Role.STEPPING_DOWN
    roles.released()
    assert _role(roles) is Role.STOPPED
