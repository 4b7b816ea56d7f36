"""XA branches belong to the user that began them; an operator may decide all (G3)."""

from collections.abc import Callable

import pytest

from ackwire.broker.transactions import TransactionError
from ackwire.broker.why.reasons import why_transaction
from ackwire.wire.openwire import commands
from tests.helpers.broker_rig import BrokerRig, RigClient

XID = commands.XATransactionId(1, b"global", b"branch")
Q = "queue://q"


@pytest.fixture
def rig() -> BrokerRig:
    return BrokerRig(settings={"broker": {"operator": "ops"}})


def begin(rig: BrokerRig, user: str | None = "alice") -> RigClient:
    """A client that has sent one message in a branch of its own."""
    client = rig.connect(user=user)
    rig.broker.transaction_manager.begin(client.connection, XID, is_xa=True)
    client.send(Q, transaction=XID)
    return client


Verb = Callable[[BrokerRig, RigClient], object]

VERBS: dict[str, Verb] = {
    "begin": lambda rig, client: rig.broker.transaction_manager.begin(client.connection, XID, is_xa=True),
    "send": lambda _, client: client.send(Q, transaction=XID),
    "prepare": lambda _, client: client.prepare(XID),
    "commit": lambda rig, client: rig.broker.transaction_manager.commit(
        client.connection, XID, lambda: None, one_phase=True
    ),
    "roll back": lambda _, client: client.roll_back(XID),
    "forget": lambda rig, client: rig.broker.transaction_manager.forget(client.connection, XID),
}


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("owner", ["alice", None])
@pytest.mark.parametrize("is_prepared", [False, True], ids=["active", "prepared"])
def test_G3_another_user_does_nothing_to_a_branch(
    rig: BrokerRig, verb: str, owner: str | None, is_prepared: bool
) -> None:
    client = begin(rig, owner)
    if is_prepared:
        client.prepare(XID)
    for user in ("mallory", None if owner else "ops2"):
        with pytest.raises(TransactionError, match="was begun by"):
            VERBS[verb](rig, rig.connect(user=user))
    rig.broker.transaction_manager.commit(client.connection, XID, lambda: None, one_phase=not is_prepared)
    assert rig.pending(Q) == 1


@pytest.mark.parametrize("user", ["alice", "ops"])
def test_G3_its_user_and_the_operator_decide_a_branch_on_any_connection_over_a_restart(
    rig: BrokerRig, user: str
) -> None:
    begin(rig).prepare(XID)
    again = BrokerRig(settings={"broker": {"operator": "ops"}}, store=rig.store)
    assert again.broker.transaction_manager.prepared(again.connect(user="mallory").connection) == []
    assert again.broker.transaction_manager.prepared(again.connect().connection) == []
    with pytest.raises(TransactionError):
        again.connect(user="mallory").roll_back(XID)
    client = again.connect(user=user)
    assert again.broker.transaction_manager.prepared(client.connection) == [XID]
    again.broker.transaction_manager.commit(client.connection, XID, lambda: None, one_phase=False)
    assert again.pending(Q) == 1


def test_G3_why_names_the_user(rig: BrokerRig) -> None:
    begin(rig)
    assert "user alice" in why_transaction(rig.broker.view)[0]


def test_G3_nobody_is_operator_by_default() -> None:
    rig = BrokerRig()
    begin(rig).prepare(XID)
    assert rig.broker.transaction_manager.prepared(rig.connect().connection) == []
