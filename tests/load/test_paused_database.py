"""A database that stands still for a minute, with the default settings: everything resumes (K7)."""

import time
from pathlib import Path
from typing import Final

import pytest

import ackwire
from tests.helpers.databases import DatabaseServer, mariadb, postgresql
from tests.helpers.openwire_client import OpenWireClient, queue
from tests.helpers.processes import RestartableBroker

pytestmark = [pytest.mark.load, pytest.mark.timeout(240)]

PAUSE_SECONDS: Final = 60.0
RECEIVE_SECONDS: Final = 30.0


@pytest.mark.parametrize("make_server", [postgresql, mariadb], ids=["postgresql", "mariadb"])
def test_K7_a_database_that_is_stopped_for_a_minute(tmp_path: Path, make_server: type[DatabaseServer]) -> None:
    """The producer waits, non-persistent traffic goes on, and each message is there once."""
    server = make_server()
    with RestartableBroker(tmp_path, ("--store", server.new_database())) as broker:
        with (
            OpenWireClient.logged_in(broker.port) as waiting,
            ackwire.connect(broker.url) as connection,
            connection.session() as session,
            session.consumer("queue://fast") as consumer,
            session.producer("queue://fast") as producer,
        ):
            waiting.request(waiting.text_message(queue("orders"), "before", persistent=True))
            server.pause()
            try:
                asked = waiting.post(waiting.text_message(queue("orders"), "meanwhile", persistent=True))
                began, count = time.monotonic(), 0
                while time.monotonic() - began < PAUSE_SECONDS:
                    producer.send(f"{count}", delivery_mode=ackwire.DeliveryMode.NON_PERSISTENT)
                    message = consumer.receive(RECEIVE_SECONDS)
                    assert message is not None
                    assert message.body == f"{count}"
                    count += 1
            finally:
                server.resume()
            waiting.answer(asked)
            waiting.request(waiting.text_message(queue("orders"), "after", persistent=True))
            print(f"{count} non-persistent messages went through meanwhile")
        broker.restart(kill=True)
        with (
            ackwire.connect(broker.url) as connection,
            connection.session() as session,
            session.consumer("queue://orders") as consumer,
        ):
            bodies = [message and message.body for message in (consumer.receive(RECEIVE_SECONDS) for _ in range(3))]
            assert bodies == ["before", "meanwhile", "after"]
            assert consumer.receive(0.2) is None
