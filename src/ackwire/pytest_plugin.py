"""Fixtures for tests of programs that use a broker; docs/guide/testing.md tells how.

pytest loads this module in every run (entry point `ackwire` of the group `pytest11`), also in those that need no
broker: so nothing of Ackwire is imported before a fixture is used.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from ackwire.config import Settings
    from ackwire.util.clock import AdjustableClock
    from ackwire.vm import EmbeddedBroker


@pytest.fixture
def ackwire_settings() -> "Settings | None":
    """Override this one to give `ackwire_broker` other settings, policies for example; its store stays in memory."""
    return None


@pytest.fixture
def ackwire_clock() -> "AdjustableClock":
    """The broker's time: expiry, redelivery delays, schedules. `advance(seconds)` moves it on, and returns when what
    was due has been done. Clients keep the machine's time.
    """
    from ackwire.util.clock import AdjustableClock

    return AdjustableClock()


@pytest.fixture
def ackwire_broker(ackwire_clock: "AdjustableClock", ackwire_settings: "Settings | None") -> "Iterator[EmbeddedBroker]":
    """A real broker in this process, on a free port of this machine, with nothing in it: `url`, `port`, `clock`."""
    from ackwire.config import Settings, StoreSettings
    from ackwire.vm import EmbeddedBroker

    settings = replace(ackwire_settings or Settings(), store=StoreSettings(kind="memory"))
    with EmbeddedBroker("pytest", settings, clock=ackwire_clock) as broker:
        yield broker


@pytest.fixture
def ackwire_connection(ackwire_broker: "EmbeddedBroker", request: pytest.FixtureRequest) -> Iterator[Any]:
    """An `ackwire.Connection` to `ackwire_broker`, started; closed after the test."""
    import ackwire

    if "assert_dlq_empty" in request.fixturenames:
        request.getfixturevalue("assert_dlq_empty")  # made before this one, so it looks when this one is closed
    with ackwire.connect(ackwire_broker.url) as connection:
        yield connection


@pytest.fixture
def assert_dlq_empty(ackwire_broker: "EmbeddedBroker") -> Iterator[Callable[[], None]]:
    """Call it to fail if a message has become a dead letter. At the end of the test it is called anyway."""
    has_failed = False

    def check() -> None:
        nonlocal has_failed
        __tracebackhide__ = True
        letters = ackwire_broker.dead_letters()
        if letters:
            has_failed = True
            lines = "".join(f"\n  {letter}" for letter in letters)
            pytest.fail(f"{len(letters)} in ActiveMQ.DLQ:{lines}", pytrace=False)

    yield check
    if not has_failed:  # else the test has told
        check()
