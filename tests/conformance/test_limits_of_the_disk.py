"""A broker whose memory is small and whose disk is nearly full: it pages, spills, and then lets producers wait (B6)."""

import pytest

from tests.conformance.jms import (
    ABSENCE_MS,
    NON_PERSISTENT,
    PERSISTENT,
    Jms,
    Outgoing,
    Received,
    bodies,
    text,
    with_options,
)
from tests.conformance.routes import AGAINST_ACTIVEMQ
from tests.conformance.scenarios import numbered

pytestmark = pytest.mark.skipif(AGAINST_ACTIVEMQ, reason="the limits are set for our store's files")

BROKER_VARIANT = "full disk"
FITS_ON_DISK = 20
"""Messages of 10 kB: three times what memory holds."""
DOES_NOT_FIT = 200


def large(count: int) -> list[Outgoing]:
    return [text(f"m{number}" + " " * 10_000) for number in range(count)]


def names(received: list[Received]) -> list[str]:
    return [body.strip() for body in bodies(received)]


MODES = pytest.mark.parametrize("delivery_mode", [PERSISTENT, NON_PERSISTENT], ids=["persistent", "non-persistent"])


@MODES
def test_B6_more_than_memory_holds_is_on_disk(jms: Jms, tcp: str, queue: str, delivery_mode: int) -> None:
    """B6: nobody waits, and everything comes in order."""
    synchronous = with_options(tcp, jms__alwaysSyncSend=True)
    jms.send(synchronous, queue, *large(FITS_ON_DISK), delivery_mode=delivery_mode)
    received = jms.connect(tcp).session().consumer(queue).receive_expected(FITS_ON_DISK)
    assert names(received) == numbered(range(FITS_ON_DISK))


@MODES
def test_B6_producers_wait_while_the_disk_is_full_and_go_on_when_it_is_not(
    jms: Jms, tcp: str, queue: str, delivery_mode: int
) -> None:
    """B6: store full for persistent messages, temp full for others; consumers drain, and all recovers by itself."""
    synchronous = with_options(tcp, jms__alwaysSyncSend=True)
    sending = (
        jms.connect(synchronous).session().producer(queue).begin_send(*large(DOES_NOT_FIT), delivery_mode=delivery_mode)
    )
    assert not sending.is_done(ABSENCE_MS)
    other = PERSISTENT if delivery_mode == NON_PERSISTENT else NON_PERSISTENT
    jms.send(tcp, f"{queue}.other", text("the other kind has room"), delivery_mode=other)
    consumer = jms.connect(tcp).session().consumer(queue, listen=True)
    assert names(consumer.hear_expected(DOES_NOT_FIT)) == numbered(range(DOES_NOT_FIT))
    sending.result()
    assert bodies(jms.connect(tcp).session().consumer(f"{queue}.other").receive_expected(1)) == [
        "the other kind has room"
    ]


def test_B6_a_browser_sees_what_is_on_disk(jms: Jms, tcp: str, queue: str) -> None:
    """B6: and takes nothing."""
    jms.send(tcp, queue, *large(FITS_ON_DISK))
    session = jms.connect(tcp).session()
    assert names(session.browse(queue)) == numbered(range(FITS_ON_DISK))
    assert names(session.consumer(queue).receive_expected(FITS_ON_DISK)) == numbered(range(FITS_ON_DISK))
