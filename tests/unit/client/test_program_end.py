"""A program that ends without closing its buffered producer, in both clients; each in a process of its own."""

import subprocess
import sys
import textwrap

import pytest

COMMON = """
    import asyncio, atexit, sys
    from tests.helpers.stand_in import StandInBroker, StandInFactory
    from tests.helpers.flavours import Shell
    broker = StandInBroker()
    factory = StandInFactory(broker)
    atexit.register(lambda: print("sent", *broker.sent))
"""

BLOCKING = """
    from ackwire.client.sync.buffered import BufferedProducer
    broker.is_reachable = False
    producer = BufferedProducer(factory, "orders", close_timeout_seconds=SECONDS)
    producer.send("a")
    producer.send("b")
    broker.wait_until(lambda: len(broker.attempts) > 0)
    broker.is_reachable = REACHABLE
    END
"""

ASYNC = """
    from ackwire.client.aio.buffered import BufferedProducer
    async def main():
        broker.is_reachable = False
        producer = BufferedProducer(Shell(factory), "orders", close_timeout_seconds=SECONDS)
        await producer.send("a")
        await producer.send("b")
        await asyncio.to_thread(broker.wait_until, lambda: len(broker.attempts) > 0)
        broker.is_reachable = REACHABLE
        END
    asyncio.run(main())
"""


def result_of(program: str, **values: object) -> subprocess.CompletedProcess[str]:
    source = textwrap.dedent(COMMON) + textwrap.dedent(program)
    for name, value in values.items():
        source = source.replace(name, str(value))
    return subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, timeout=100)


@pytest.mark.parametrize("end", ["pass", "raise ValueError('unhandled')", "sys.exit(3)"])
@pytest.mark.parametrize("program", [BLOCKING, ASYNC], ids=["sync", "aio"])
def test_M2_what_waits_is_sent_before_the_program_ends(program: str, end: str) -> None:
    result = result_of(program, REACHABLE=True, SECONDS=30, END=end)
    assert result.stdout == "sent a b\n", result
    assert result.returncode == {"pass": 0, "sys.exit(3)": 3}.get(end, 1)


@pytest.mark.parametrize("program", [BLOCKING, ASYNC], ids=["sync", "aio"])
def test_M2_a_program_ends_without_a_broker_too_and_says_what_is_lost(program: str) -> None:
    result = result_of(program, REACHABLE=False, SECONDS=0.3, END="pass")
    assert result.returncode == 0
    assert "the program ends before all was sent to queue://orders: 2 messages" in result.stderr
    assert "nobody answers" in result.stderr
