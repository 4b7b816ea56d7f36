"""What a newcomer tries first, on both brokers: iterating, JSON, and dead letters that name the Python exception."""

import asyncio
from typing import Final

import pytest

import ackwire
from ackwire import aio
from tests.client.brokers import Broker
from tests.client.conftest import Connect
from tests.client.steps import CAUSE, dead_letters, name_of, receive, send, with_redelivery

LIMIT_SECONDS: Final = 40.0


def test_C1_a_consumer_is_iterated_over_where_it_is_made(broker: Broker, queue: str) -> None:
    async def main() -> list[str]:
        async with aio.connect(broker.url) as connection, connection.session() as session:
            for number in range(3):
                await session.send(queue, f"m{number}")
            texts = []
            async for message in session.consumer(queue):
                texts.append(message.body)
                if len(texts) == 3:
                    break
            looked = [message async for message in session.browser(queue)]
            assert looked == []
            return texts

    assert asyncio.run(asyncio.wait_for(main(), LIMIT_SECONDS)) == ["m0", "m1", "m2"]


def test_A4_json_goes_there_and_back(connection: ackwire.Connection, queue: str) -> None:
    value = {"customer": 4711, "items": ["apple", "apple"], "名": None}
    with connection.session() as session:
        session.send_json(queue, value, correlation_id="17")
        session.producer(queue).send_json(value)
        consumer = session.consumer(queue)
        first, second = receive(consumer), receive(consumer)
    assert first.json() == second.json() == value
    assert first.correlation_id == "17"


@pytest.mark.parametrize("mode", [ackwire.AckMode.SESSION_TRANSACTED, ackwire.AckMode.CLIENT])
def test_F4_a_dead_letter_names_the_exception_that_was_handled(
    broker: Broker, connect: Connect, queue: str, mode: ackwire.AckMode
) -> None:
    connection = connect(with_redelivery(broker, maximumRedeliveries=0))
    send(connection, queue, "bad", correlation_id=name_of(queue))
    with connection.session(mode) as session:
        receive(session.consumer(queue))
        try:
            raise LookupError("no such order")
        except LookupError:
            if mode is ackwire.AckMode.CLIENT:
                session.recover()
            else:
                session.rollback()
        (letter,) = dead_letters(connection, name_of(queue), 1)
    assert "LookupError('no such order')" in str(letter.properties[CAUSE])
