"""Every verb asks whether who acts may do it; a new one that does not is found here."""

import inspect
from collections.abc import Callable
from typing import Any

import pytest

from ackwire.broker.broker import Broker
from ackwire.broker.bulk_access import BulkAccess, CursorAccess, StagingAccess
from ackwire.broker.cursors import Cursors
from ackwire.broker.operations import Operations, Selection
from ackwire.broker.permissions import Action, Principal, Proof
from ackwire.broker.session import Login, Producer
from ackwire.broker.staging import Staging
from ackwire.errors import NotAuthorised
from ackwire.jms.destinations import Destination, Kind, destination
from ackwire.jms.message import Message
from tests.helpers.broker_rig import SESSION, BrokerRig, FakeClientPort, RigClient, named

Q = named("queue://q")
OPS = Principal("ops", proof=Proof.TOKEN)

NOT_ASKED: dict[type, dict[str, str]] = {
    Broker: {
        "reading_of": "reads a text",
        "compile_selector": "reads a text",
        "reload": "the process itself",
        "withdraw": "ends what it began",
        "disconnect": "ends what it began",
        "connections": "for parts of the server",
        "remove_session": "ends what it began",
        "remove_producer": "ends what it began",
        "destinations": "for parts of the server",
        "consumer_count": "for parts of the server",
        "when_durable": "waits",
        "files": "for parts of the server",
        "unsubscribe": "ends what it began",
        "subscription": "finds its own consumer",
        "acknowledge": "its own consumer, which was permitted",
        "pull": "its own consumer, which was permitted",
        "set_prefetch": "its own consumer, which was permitted",
        "resume": "its own consumers, which were permitted",
        "bulk": "asks with each verb",
        "start": "the process itself",
        "stop": "the process itself",
        "answer_questions": "the process itself",
    },
    Operations: {},
    BulkAccess: {},
    CursorAccess: {},
    StagingAccess: {"next_sequences": "takes numbers; `stage` asks"},
}


def nothing(*_: object) -> None:
    """For callbacks."""


class Verbs:
    """A broker with something in it, and each verb as somebody calls it."""

    def __init__(self) -> None:
        self.rig = rig = BrokerRig()
        self.client: RigClient = rig.connect("app", user="app", source="10.0.0.7")
        self.client.send(Q)
        self.client.consumer("topic://t", subscription_name="s").close()
        rig.broker.cursors.open("c", Q)
        rig.broker.staging.stage("p", 1, "part", [self.staged()], nothing, nothing)
        self.asked: list[tuple[Principal, Action, Destination | None]] = []

    def staged(self) -> Message:
        message = self.client.message(Q)
        self.rig.broker.publisher.stamp(message)
        return message

    def refuse_all(self) -> None:
        def rule(principal: Principal, action: Action, where: Destination | None) -> str:
            self.asked.append((principal, action, where))
            return "nothing is allowed"

        self.rig.broker.permissions.use(rule)

    def of(self, owner: type) -> dict[str, Callable[[], Any]]:
        broker, client, connection = self.rig.broker, self.client, self.client.connection
        bulk, operations, selection = broker.bulk(OPS), broker.operations, Selection(Q)
        everything: dict[type, dict[str, Callable[[], Any]]] = {
            Broker: {
                "admit": lambda: broker.admit(Login("ID:new", "new"), FakeClientPort(), nothing, nothing),
                "connect": lambda: broker.connect(Login("ID:new", "new"), FakeClientPort()),
                "add_producer": lambda: broker.add_producer(connection, Producer("x", SESSION, Q)),
                "add_destination": lambda: broker.add_destination(connection, named("queue://new")),
                "remove_destination": lambda: broker.remove_destination(connection, Q),
                "send": lambda: broker.send(connection, client.message(Q)),
                "subscribe": lambda: client.consumer(Q),
                "remove_durable": lambda: broker.remove_durable("app", "s", connection.principal),
            },
            Operations: {
                "checkpoint": lambda: operations.checkpoint(OPS),
                "list": lambda: operations.list(OPS, destination(Kind.QUEUE, ">")),
                "create": lambda: operations.create(OPS, named("queue://new")),
                "delete_destination": lambda: operations.delete_destination(OPS, Q),
                "pause": lambda: operations.pause(OPS, Q),
                "resume": lambda: operations.resume(OPS, Q),
                "recall": lambda: operations.recall(OPS, Q),
                "purge": lambda: operations.purge(OPS, Q),
                "count": lambda: operations.count(OPS, selection),
                "delete": lambda: operations.delete(OPS, selection),
                "move": lambda: operations.move(OPS, selection, named("queue://new")),
                "copy": lambda: operations.copy(OPS, selection, named("queue://new")),
                "retry": lambda: operations.retry(OPS, selection),
            },
            BulkAccess: {
                "inspect": bulk.inspect,
                "operate": bulk.operate,
                "browse_rows": lambda: bulk.browse_rows(Q, 0, 10, 10, nothing),
                "browse_sequences": lambda: bulk.browse_sequences(Q),
            },
            CursorAccess: {
                "open": lambda: bulk.cursors.open("c", Q, None, create=True),
                "info": lambda: bulk.cursors.info("c"),
                "all": bulk.cursors.all,
                "latest": lambda: bulk.cursors.latest("c", 0, 10, nothing, nothing),
                "oldest": lambda: bulk.cursors.oldest("c"),
                "rows": lambda: bulk.cursors.rows("c", 0, 0, nothing, nothing),
                "commit": lambda: bulk.cursors.commit("c", 0, nothing, nothing),
                "close": lambda: bulk.cursors.close("c", nothing, nothing),
            },
            StagingAccess: {
                "stage": lambda: bulk.staging.stage("p", 2, "x", [self.staged()], nothing, nothing),
                "commit": lambda: bulk.staging.commit("p", 1, ["part"], nothing, nothing),
                "drop": lambda: bulk.staging.drop("p", "part"),
                "info": lambda: bulk.staging.info("p"),
            },
        }
        return everything[owner]


def public(owner: type) -> set[str]:
    """The verbs of a class."""
    found = inspect.getmembers(owner, lambda it: inspect.isroutine(it) and not isinstance(it, type))
    return {name for name, _ in found if not name.startswith("_")}


@pytest.mark.parametrize("owner", list(NOT_ASKED), ids=lambda owner: owner.__name__)
def test_every_verb_asks_or_says_here_why_it_need_not(owner: type) -> None:
    verbs = Verbs()
    asking = verbs.of(owner)
    assert public(owner) == set(asking) | set(NOT_ASKED[owner])
    verbs.refuse_all()
    for name, call in asking.items():
        verbs.asked.clear()
        with pytest.raises(NotAuthorised, match=r"may not .*: nothing is allowed"):
            call()
        assert verbs.asked, name


INNER = {
    Cursors: {"start", "stop", "restore", "destination_of"},
    Staging: {"start", "stop", "restore_part", "restore_batch", "restore_prepared", "places_of"}
    | {"set_aside", "decide", "finish", "when_shown"},  # of large transactions
}
"""What only parts of the broker call."""


@pytest.mark.parametrize(("worker", "access"), [(Cursors, CursorAccess), (Staging, StagingAccess)])
def test_what_is_done_in_bulk_for_somebody_has_a_verb_that_asks(worker: type, access: type) -> None:
    assert public(worker) - public(access) == INNER[worker]


def test_transactions_belong_to_their_connection_and_ask_with_each_send() -> None:
    """Nothing in a transaction is permitted that would not be outside: the send asks, and so does the consumer."""
    verbs = Verbs()
    transaction = verbs.client.begin()
    verbs.refuse_all()
    with pytest.raises(NotAuthorised):
        verbs.client.send(Q, transaction=transaction)


def test_who_acts_is_the_user_of_the_connection_and_where_it_comes_from() -> None:
    verbs = Verbs()
    verbs.refuse_all()
    with pytest.raises(NotAuthorised, match=r"^app from 10\.0\.0\.7 may not send to queue://q: nothing is allowed$"):
        verbs.client.send(Q)
    [(principal, action, where)] = verbs.asked
    assert (principal.name, principal.source, principal.proof, action, where) == (
        "app",
        "10.0.0.7",
        Proof.NONE,
        Action.SEND,
        Q,
    )


def test_each_part_of_a_composite_is_asked_for() -> None:
    verbs = Verbs()
    asked: list[Destination | None] = []

    def rule(_principal: Principal, _action: Action, where: Destination | None) -> None:
        asked.append(where)

    verbs.rig.broker.permissions.use(rule)
    verbs.client.send("queue://a,b")
    assert asked == [named("queue://a"), named("queue://b")]


def test_a_producer_is_asked_once_for_a_destination_until_the_decision_may_change() -> None:
    verbs = Verbs()
    asked: list[Destination | None] = []

    def rule(_principal: Principal, _action: Action, where: Destination | None) -> str | None:
        asked.append(where)
        return "not any more" if len(asked) > 2 else None

    permissions = verbs.rig.broker.permissions
    permissions.use(rule)
    for _ in range(3):
        verbs.client.send(Q)
        verbs.client.send("queue://other")
    assert asked == [Q, named("queue://other")]
    permissions.changed()
    with pytest.raises(NotAuthorised, match="not any more"):
        verbs.client.send(Q)


def test_a_send_that_was_refused_is_not_taken_for_one_that_was_stored() -> None:
    verbs = Verbs()
    message = verbs.client.message("queue://other")
    verbs.refuse_all()
    with pytest.raises(NotAuthorised):
        verbs.client.send_message(message)
    verbs.rig.broker.permissions.use(None)
    verbs.client.send("queue://other", "later")
    verbs.client.connection.is_reconnect = True
    verbs.client.send_message(message)
    assert verbs.rig.pending("queue://other") == 2
