"""The client's engine on loopback: connecting, losing the connection, finding it again (SEMANTICS J2 to J4)."""

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from ackwire.client.engine import Engine
from ackwire.client.errors import ConnectionFailedError, JMSSecurityError
from ackwire.errors import ConfigError
from ackwire.jms.message import Message
from ackwire.wire.openwire import commands
from ackwire.wire.openwire.commands import KeepAliveInfo
from ackwire.wire.openwire.negotiation import Preferences
from ackwire.wire.openwire.structures import Structure, Throwable
from tests.helpers.client_engine import Script, ScriptedBroker, ScriptedCore, engine_for, run

pytestmark = pytest.mark.system

WRONG_PASSWORD = Throwable("java.lang.SecurityException", "User name or password is invalid.")
CLIENT_ID_IN_USE = Throwable("javax.jms.InvalidClientIDException", "client id in use")


async def unused_port() -> int:
    async with ScriptedBroker() as broker:
        return broker.port


def congested(engine: Engine) -> bool:
    """A call, because its answer changes."""
    return engine.writer.is_congested


def messages(broker: ScriptedBroker) -> list[Message]:
    return [command for command in broker.commands if isinstance(command, Message)]


# ---- the first connection --------------------------------------------------------------------------------------


def test_open_returns_when_the_wire_format_is_settled_and_the_login_follows() -> None:
    async def test() -> None:
        core = ScriptedCore()
        async with ScriptedBroker() as broker, engine_for(broker.address, core) as engine:
            await engine.open()
            assert core.told[:2] == [f"connected {broker.address}", "agreed"]
            await core.until("restored")
            assert core.errors == []

    run(test)


def test_refused_port_is_reported_with_its_address_and_is_final() -> None:
    async def test() -> None:
        port = await unused_port()
        core = ScriptedCore()
        async with engine_for(f"tcp://127.0.0.1:{port}", core) as engine:
            with pytest.raises(ConnectionFailedError) as caught:
                await engine.open()
            assert str(caught.value) == f"tcp://127.0.0.1:{port}: connection refused"
            assert isinstance(caught.value.__cause__, ConnectionRefusedError)
            assert core.told == ["ended"]

    run(test)


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("negotiateTimeout=100", "did not say anything within 0.1 s (negotiateTimeout)"),
        ("connectAttemptTimeout=100", "said nothing for 0.1 s (connectAttemptTimeout)"),
    ],
)
def test_broker_that_says_nothing_is_given_up(option: str, words: str) -> None:
    async def test() -> None:
        core = ScriptedCore()
        script = Script(says_nothing=True)
        async with ScriptedBroker(script) as broker, engine_for(f"{broker.address}?{option}", core) as engine:
            with pytest.raises(ConnectionFailedError) as caught:
                await engine.open()
            assert words in str(caught.value)
            assert broker.address in str(caught.value)
            assert core.told == [f"connected {broker.address}", "ended"]
            await broker.until(lambda it: not it.sessions, "the end of the connection")

    run(test)


@contextmanager
def port_that_swallows_packets() -> Iterator[int]:
    """A port on loopback whose queue of connections is full: Linux drops what else wants to connect."""
    with ExitStack() as stack:
        listener = stack.enter_context(socket.socket())
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for _ in range(3):
            filler = stack.enter_context(socket.socket())
            filler.setblocking(False)
            filler.connect_ex(listener.getsockname())
        yield listener.getsockname()[1]


def test_connecting_takes_no_longer_than_connection_timeout() -> None:
    async def test() -> None:
        core = ScriptedCore()
        with port_that_swallows_packets() as port:
            async with engine_for(f"tcp://127.0.0.1:{port}?connectionTimeout=100", core) as engine:
                with pytest.raises(ConnectionFailedError) as caught:
                    await engine.open()
        assert str(caught.value) == f"tcp://127.0.0.1:{port}: no connection within 0.1 s (connectionTimeout)"
        assert core.told == ["ended"]

    run(test)


def test_too_old_a_broker_is_refused_before_the_login() -> None:
    async def test() -> None:
        core = ScriptedCore()
        script = Script(wants=Preferences(version=5, inactivity_ms=0))
        url = "?minmumWireFormatVersion=9"
        async with ScriptedBroker(script) as broker, engine_for(broker.address + url, core) as engine:
            with pytest.raises(ConnectionFailedError, match="OpenWire 5 is what it speaks"):
                await engine.open()
            await broker.until(lambda it: not it.sessions, "the end")
            assert not [c for c in broker.commands if isinstance(c, commands.ConnectionInfo)]

    run(test)


def test_every_address_is_named_when_none_answers() -> None:
    async def test() -> None:
        ports = [await unused_port(), await unused_port()]
        uris = [f"tcp://127.0.0.1:{port}" for port in ports]
        core = ScriptedCore()
        url = f"failover:({','.join(uris)})?startupMaxReconnectAttempts=2&initialReconnectDelay=1"
        async with engine_for(url, core) as engine:
            with pytest.raises(ConnectionFailedError) as caught:
                await engine.open()
            assert "after 2 attempts" in str(caught.value)
            for uri in uris:
                assert f"{uri}: connection refused" in str(caught.value)
            assert core.told == ["ended"]

    run(test)


def test_open_waits_for_a_broker_that_is_not_there_yet() -> None:
    async def test() -> None:
        broker = ScriptedBroker()
        broker.port = await unused_port()
        core = ScriptedCore()
        async with engine_for(f"failover:({broker.address})?initialReconnectDelay=5", core) as engine:
            opening = asyncio.ensure_future(engine.open())
            await asyncio.sleep(0.02)
            assert not opening.done()
            async with broker:
                await opening
                await core.until("restored")
                assert core.told == [f"connected {broker.address}", "agreed", "restored"]
                await engine.close(1.0)

    run(test)


def test_cancelled_open_leaves_nothing_behind() -> None:
    async def test() -> None:
        core = ScriptedCore()
        async with ScriptedBroker(Script(says_nothing=True)) as broker, engine_for(broker.address, core) as engine:
            opening = asyncio.ensure_future(engine.open())
            await broker.until(lambda it: it.received_bytes > 0, "the WireFormatInfo")
            opening.cancel()
            with pytest.raises(asyncio.CancelledError):
                await opening
            await broker.until(lambda it: not it.sessions, "the end of the connection")

    run(test)


def test_close_ends_an_open_that_is_under_way() -> None:
    async def test() -> None:
        port = await unused_port()
        core = ScriptedCore()
        async with engine_for(f"failover:(tcp://127.0.0.1:{port})?initialReconnectDelay=60000", core) as engine:
            opening = asyncio.ensure_future(engine.open())
            await asyncio.sleep(0.02)
            await engine.close(1.0)
            with pytest.raises(ConnectionFailedError, match="closed before it was made"):
                await opening

    run(test)


# ---- loss and return -------------------------------------------------------------------------------------------


def test_loss_without_failover_is_final() -> None:
    async def test() -> None:
        core = ScriptedCore()
        async with ScriptedBroker() as broker, engine_for(broker.address, core) as engine:
            await engine.open()
            await core.until("restored")
            broker.drop()
            await core.until("ended")
            assert core.count("lost") == 0
            assert broker.address in str(core.errors[-1])

    run(test)


def test_lost_connection_is_made_again() -> None:
    async def test() -> None:
        core = ScriptedCore()
        async with ScriptedBroker() as broker, engine_for(f"failover:({broker.address})", core) as engine:
            await engine.open()
            for times in (1, 2, 3):
                await core.until("restored", times)
                broker.drop()
                await core.until("lost", times)
            await core.until("restored", 4)
            assert core.told[3:6] == ["lost", f"connected again {broker.address}", "agreed"]
            assert core.count("ended") == 0

    run(test)


def test_attempts_end_and_the_core_is_told_once() -> None:
    async def test() -> None:
        core = ScriptedCore()
        broker = ScriptedBroker()
        await broker.start()
        url = f"failover:({broker.address})?maxReconnectAttempts=3&initialReconnectDelay=1"
        async with engine_for(url, core) as engine:
            await engine.open()
            await core.until("restored")
            await broker.stop()
            await core.until("ended")
            assert core.told[3:] == ["lost", "ended"]
            assert "after 3 attempts" in str(core.errors[-1])
            assert "connection refused" in str(core.errors[-1])

    run(test)


def test_next_broker_in_the_list_takes_over() -> None:
    async def test() -> None:
        core = ScriptedCore()
        async with ScriptedBroker() as first, ScriptedBroker() as second:
            url = f"failover:({first.address},{second.address})?randomize=false"
            async with engine_for(url, core) as engine:
                await engine.open()
                await core.until("restored")
                assert first.sessions
                await first.stop()
                await core.until("restored", 2)
                assert f"connected again {second.address}" in core.told

    run(test)


def test_broker_that_dropped_the_connection_is_the_last_to_be_tried_again() -> None:
    async def test() -> None:
        core = ScriptedCore()
        async with ScriptedBroker() as first, ScriptedBroker() as second:
            url = f"failover:({first.address},{second.address})?randomize=false"
            async with engine_for(url, core) as engine:
                await engine.open()
                await core.until("restored")
                first.drop()
                await core.until("restored", 2)
                assert core.told[4] == f"connected again {second.address}"

    run(test)


def test_same_failure_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        port = await unused_port()
        options = "startupMaxReconnectAttempts=6&initialReconnectDelay=1&warnAfterReconnectAttempts=3"
        async with engine_for(f"failover:(tcp://127.0.0.1:{port})?{options}", ScriptedCore()) as engine:
            with pytest.raises(ConnectionFailedError):
                await engine.open()

    with caplog.at_level("INFO", logger="ackwire.client"):
        run(test)
    attempts = [record for record in caplog.records if "an attempt failed" in record.message]
    warnings = [record.message for record in caplog.records if "trying on" in record.message]
    assert len(attempts) == 1
    assert [text[:31] for text in warnings] == ["no connection after 3 attempts,", "no connection after 6 attempts,"]


def test_dropped_by_the_core_counts_as_lost() -> None:
    async def test() -> None:
        core = ScriptedCore()
        async with ScriptedBroker() as broker, engine_for(f"failover:({broker.address})", core) as engine:
            await engine.open()
            await core.until("restored")
            error = ConnectionFailedError("the broker says goodbye")
            engine.drop(error)
            assert core.count("lost") == 0, "not while the core is in the middle of something"
            await core.until("restored", 2)
            assert core.errors == [error]

    run(test)


def test_broken_protocol_ends_the_link() -> None:
    async def test() -> None:
        core = ScriptedCore()
        async with ScriptedBroker() as broker, engine_for(broker.address, core) as engine:
            await engine.open()
            await core.until("restored")
            broker.sessions[0].transport.write(b"\xff" * 100)
            await core.until("ended")
            assert "the broker broke the protocol" in str(core.errors[0])

    run(test)


# ---- logins ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("refusal", [WRONG_PASSWORD, CLIENT_ID_IN_USE])
@pytest.mark.parametrize("failover", [True, False])
def test_refused_first_login_is_final(refusal: Throwable, failover: bool) -> None:
    async def test() -> None:
        core = ScriptedCore()
        async with (
            ScriptedBroker(Script(refusal=refusal)) as broker,
            engine_for(f"failover:({broker.address})" if failover else broker.address, core) as engine,
        ):
            await engine.open()
            await core.until("ended")
            assert core.told[1:] == ["agreed", "refused", "ended"]
            assert refusal.message == str(core.errors[0])
            assert broker.connections == 1

    run(test)


def test_refused_login_after_a_loss_is_tried_again() -> None:
    async def test() -> None:
        core = ScriptedCore()
        async with ScriptedBroker() as broker, engine_for(f"failover:({broker.address})", core) as engine:
            await engine.open()
            await core.until("restored")
            broker.script.refusal = CLIENT_ID_IN_USE
            broker.drop()
            await core.until("refused", 2)
            broker.script.refusal = None
            await core.until("restored", 2)
            assert core.count("ended") == 0

    run(test)


def test_other_refusals_of_the_first_login_are_tried_again() -> None:
    async def test() -> None:
        core = ScriptedCore()
        refusal = Throwable("javax.jms.ResourceAllocationException", "too many connections")
        async with (
            ScriptedBroker(Script(refusal=refusal)) as broker,
            engine_for(f"failover:({broker.address})", core) as engine,
        ):
            await engine.open()
            await core.until("refused", 2)
            broker.script.refusal = None
            await core.until("restored")
            assert not isinstance(core.errors[0], JMSSecurityError)

    run(test)


# ---- output ----------------------------------------------------------------------------------------------------


def test_output_of_one_turn_leaves_in_one_write() -> None:
    async def test() -> None:
        core = ScriptedCore()
        async with ScriptedBroker() as broker, engine_for(broker.address, core) as engine:
            await engine.open()
            await core.until("restored")
            before = broker.chunks
            flushes = 0
            flush = engine.writer.flush

            def count_flush() -> None:
                nonlocal flushes
                flushes += 1
                flush()

            engine.writer.flush = count_flush  # type: ignore[method-assign]
            for _ in range(100):
                core.send(KeepAliveInfo())
            await broker.until(lambda it: sum(isinstance(c, KeepAliveInfo) for c in it.commands) == 100, "all")
            assert (broker.chunks, flushes) == (before + 1, 1)

    run(test)


def test_output_may_come_from_another_thread() -> None:
    async def test() -> None:
        core = ScriptedCore()
        guard = threading.RLock()

        def send() -> None:
            for _ in range(50):
                with guard:
                    core.send(KeepAliveInfo())

        async with ScriptedBroker() as broker, engine_for(broker.address, core, guard=guard) as engine:
            await engine.open()
            await core.until("restored")
            threads = [threading.Thread(target=send) for _ in range(4)]
            for thread in threads:
                thread.start()
            await broker.until(lambda it: sum(isinstance(c, KeepAliveInfo) for c in it.commands) == 200, "all")
            for thread in threads:
                thread.join()

    run(test)


def big(count: int) -> list[commands.ActiveMQBytesMessage]:
    """So many messages of one MiB."""
    producer = commands.ProducerId("ID:engine", 1, 1)
    return [
        commands.ActiveMQBytesMessage(
            producer_id=producer,
            message_id=commands.MessageId(producer_id=producer, producer_sequence_id=number),
            destination=commands.ActiveMQQueue("big"),
            content=bytes(1024 * 1024),
        )
        for number in range(count)
    ]


def test_congestion_is_shown_and_ends_when_the_broker_reads() -> None:
    async def test() -> None:
        core = ScriptedCore()
        async with ScriptedBroker() as broker, engine_for(broker.address, core) as engine:
            writable = asyncio.Event()
            engine.writer.on_writable = writable.set
            await engine.open()
            await core.until("restored")
            assert not congested(engine)
            broker.sessions[0].transport.pause_reading()
            for message in big(32):
                core.send(message)
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            assert congested(engine)
            assert engine.writer.waiting_bytes > 1024 * 1024
            assert not writable.is_set()
            broker.script.says_nothing = True  # what it reads does not matter
            broker.sessions[0].transport.resume_reading()
            await asyncio.wait_for(writable.wait(), 20)
            assert not congested(engine)

    run(test)


def test_congestion_ends_with_the_link() -> None:
    async def test() -> None:
        core = ScriptedCore()
        async with ScriptedBroker() as broker, engine_for(broker.address, core) as engine:
            writable = asyncio.Event()
            engine.writer.on_writable = writable.set
            await engine.open()
            await core.until("restored")
            broker.sessions[0].transport.pause_reading()
            for message in big(32):
                core.send(message)
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            assert congested(engine)
            broker.drop()
            await core.until("ended")
            assert writable.is_set()
            assert not congested(engine)
            assert engine.writer.waiting_bytes == 0

    run(test)


def test_write_that_is_stuck_fails_the_connection() -> None:
    async def test() -> None:
        core = ScriptedCore()
        async with (
            ScriptedBroker() as broker,
            engine_for(f"{broker.address}?soWriteTimeout=100", core) as engine,
        ):
            await engine.open()
            await core.until("restored")
            broker.sessions[0].transport.pause_reading()
            for message in big(32):
                core.send(message)
            await core.until("ended")
            assert "(soWriteTimeout)" in str(core.errors[0])

    run(test)


# ---- who writes ------------------------------------------------------------------------------------------------


def in_thread(work: Callable[[], None]) -> None:
    """Do *work* in another thread while the loop stands still."""
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


def send_and_wait(engine: Engine, core: ScriptedCore, guard: AbstractContextManager[Any], command: Structure) -> None:
    """As a thread does that will wait for the answer."""
    with guard:
        engine.writer.hold()
        core.send(command)
        engine.writer.release()


def test_thread_that_will_wait_writes_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        core, guard = ScriptedCore(), threading.RLock()
        async with ScriptedBroker() as broker, engine_for(broker.address, core, guard=guard) as engine:
            await engine.open()
            await core.until("restored")
            scheduled: list[object] = []
            with monkeypatch.context() as patch:
                patch.setattr(engine._loop, "call_soon_threadsafe", lambda *call: scheduled.append(call))
                in_thread(lambda: send_and_wait(engine, core, guard, big(1)[0]))
            assert core.waiting_bytes == engine.writer.waiting_bytes == 0
            assert scheduled == [], "the loop has nothing to do with it"
            await broker.until(lambda it: len(messages(it)) == 1, "the message")

    run(test)


def test_nothing_is_written_between_hold_and_release() -> None:
    async def test() -> None:
        core = ScriptedCore()
        async with ScriptedBroker() as broker, engine_for(broker.address, core) as engine:
            await engine.open()
            await core.until("restored")
            engine.writer.hold()
            core.send(big(1)[0])
            core.on_much_output()
            assert core.waiting_bytes > 0
            engine.writer.release()
            assert core.waiting_bytes == 0
            engine.writer.hold()
            engine.writer.release()  # with nothing to write
            await broker.until(lambda it: len(messages(it)) == 1, "the message")

    run(test)


def test_much_output_is_written_at_once_on_the_loop_and_soon_from_elsewhere() -> None:
    async def test() -> None:
        core, guard = ScriptedCore(), threading.RLock()
        async with ScriptedBroker() as broker, engine_for(broker.address, core, guard=guard) as engine:
            await engine.open()
            await core.until("restored")
            core.put(KeepAliveInfo())
            core.on_much_output()
            assert core.waiting_bytes == 0
            core.put(KeepAliveInfo())
            in_thread(core.on_much_output)
            assert core.waiting_bytes > 0
            await broker.until(lambda it: sum(isinstance(c, KeepAliveInfo) for c in it.commands) == 2, "both")

    run(test)


@pytest.mark.parametrize("options", ["", "?trace=true"])
def test_order_holds_whoever_writes_and_however_little_the_system_takes(options: str) -> None:
    """Threads that write by themselves, others that leave it to the loop, and a broker that reads now and then."""

    async def test() -> None:
        core, guard = ScriptedCore(), threading.RLock()
        async with ScriptedBroker() as broker, engine_for(f"{broker.address}{options}", core, guard=guard) as engine:
            await engine.open()
            await core.until("restored")
            reading = broker.sessions[0].transport
            waiting = iter(big(60))
            partly = 0

            def send_next(alone: bool) -> None:
                nonlocal partly
                with guard:
                    message = next(waiting)
                    if alone:
                        send_and_wait(engine, core, guard, message)
                        partly += bool(engine.writer._unwritten)
                    else:
                        core.send(message)

            def send_all(ways: list[bool]) -> None:
                for way in ways:
                    send_next(way)

            for number in range(15):
                reading.pause_reading()
                ways = [(number + sender) % 4 > 0 for sender in range(4)]
                if number % 2:  # while the loop stands still
                    in_thread(partial(send_all, ways))
                else:
                    await asyncio.gather(*(asyncio.to_thread(send_next, way) for way in ways))
                reading.resume_reading()
                earlier = 4 * number
                await broker.until(lambda it, earlier=earlier: len(messages(it)) >= earlier, "earlier ones")  # type: ignore[misc]
            await broker.until(lambda it: len(messages(it)) == 60, "all")
            numbers = [int.from_bytes(message.key[-8:]) for message in messages(broker)]
            assert numbers == list(range(60))
            assert partly > 0, "the system took everything at once, always"
            assert core.errors == []

    run(test)


def test_thread_finds_the_link_gone() -> None:
    async def test() -> None:
        core, guard = ScriptedCore(), threading.RLock()
        async with ScriptedBroker() as broker, engine_for(broker.address, core, guard=guard) as engine:
            await engine.open()
            await core.until("restored")
            broker.drop()
            await broker.until(lambda it: not it.sessions, "the end")
            for _ in range(3):  # the first write goes nowhere, the next ones fail
                in_thread(lambda: send_and_wait(engine, core, guard, big(1)[0]))
            assert core.count("ended") == 0, "the loop has not heard of it yet"
            await core.until("ended")

    run(test)


def test_close_sends_what_is_waiting() -> None:
    async def test() -> None:
        core = ScriptedCore()
        async with ScriptedBroker() as broker, engine_for(broker.address, core) as engine:
            await engine.open()
            await core.until("restored")
            for message in big(8):
                core.send(message)
            core.send(commands.ShutdownInfo())
            await engine.close(20.0)
            await engine.close(20.0)
            await broker.until(lambda it: isinstance(it.commands[-1], commands.ShutdownInfo), "the last command")
            assert core.count("ended") == 0, "it closed by itself"

    run(test)


def test_close_does_not_wait_for_a_broker_that_does_not_read() -> None:
    async def test() -> None:
        core = ScriptedCore()
        async with ScriptedBroker() as broker, engine_for(broker.address, core) as engine:
            await engine.open()
            await core.until("restored")
            broker.sessions[0].transport.pause_reading()
            for message in big(32):
                core.send(message)
            await engine.close(0.1)
            assert not engine._links, "it was cut off"
            broker.sessions[0].transport.resume_reading()
            broker.script.says_nothing = True
            await broker.until(lambda it: not it.sessions, "the end")

    run(test)


def test_abort_ends_at_once() -> None:
    async def test() -> None:
        core = ScriptedCore()
        async with ScriptedBroker() as broker, engine_for(f"failover:({broker.address})", core) as engine:
            await engine.open()
            await core.until("restored")
            engine.abort()
            await broker.until(lambda it: not it.sessions, "the end")
            core.on_output()
            assert core.told[-1] == "restored"

    run(test)


# ---- keep-alive ------------------------------------------------------------------------------------------------

SHORT = Preferences(inactivity_ms=300, inactivity_initial_delay_ms=50)


def test_idle_connection_sends_keep_alives() -> None:
    async def test() -> None:
        core = ScriptedCore(SHORT)
        async with ScriptedBroker(Script(wants=SHORT)) as broker:
            url = f"{broker.address}?keepAliveResponseRequired=true"
            async with engine_for(url, core) as engine:
                await engine.open()
                await broker.until(lambda it: sum(isinstance(c, KeepAliveInfo) for c in it.commands) >= 2, "two")
                sent = [c for c in broker.commands if isinstance(c, KeepAliveInfo)]
                assert all(command.response_required for command in sent)

    run(test)


def test_silent_broker_is_lost() -> None:
    async def test() -> None:
        core = ScriptedCore(SHORT)
        async with ScriptedBroker(Script(wants=SHORT)) as broker, engine_for(broker.address, core) as engine:
            await engine.open()
            await core.until("ended")
            assert "nothing was heard from the broker" in str(core.errors[0])

    run(test)


@pytest.mark.parametrize("option", ["useInactivityMonitor=false", "useKeepAlive=false"])
def test_monitor_and_keep_alives_can_be_turned_off(option: str) -> None:
    async def test() -> None:
        core = ScriptedCore(SHORT)
        async with (
            ScriptedBroker(Script(wants=SHORT)) as broker,
            engine_for(f"{broker.address}?{option}", core) as engine,
        ):
            await engine.open()
            if option.startswith("useKeep"):
                await core.until("ended")
            else:
                await asyncio.sleep(1.0)  # more than three times the agreed time
                assert core.told[-1] == "restored"
            assert not [c for c in broker.commands if isinstance(c, KeepAliveInfo)]

    run(test)


# ---- better places ---------------------------------------------------------------------------------------------


def test_preferred_broker_is_returned_to_when_it_is_back() -> None:
    async def test() -> None:
        core = ScriptedCore()
        local = ScriptedBroker()
        local.port = await unused_port()
        async with ScriptedBroker() as remote:
            url = f"failover:({local.address},{remote.address})?priorityBackup=true"
            async with engine_for(url, core) as engine:
                await engine.open()
                await core.until("restored")
                assert core.told[0] == f"connected {remote.address}"
                async with local:
                    await core.until("restored", 2)
                    assert core.told[3:5] == ["lost", f"connected again {local.address}"]
                    assert "left for" in str(core.errors[0])
                    await remote.until(lambda it: not it.sessions, "the end of the other one")
                    await engine.close(1.0)

    run(test)


def test_preferred_broker_that_does_not_speak_is_not_moved_to() -> None:
    async def test() -> None:
        core = ScriptedCore()
        local = ScriptedBroker(Script(says_nothing=True))
        local.port = await unused_port()
        async with ScriptedBroker() as remote:
            url = f"failover:({local.address}?negotiateTimeout=50,{remote.address})?priorityBackup=true"
            async with engine_for(url, core) as engine:
                await engine.open()
                await core.until("restored")
                async with local:
                    await local.until(lambda it: it.connections >= 2, "two attempts")
                    assert core.told[-1] == "restored"
                    await engine.close(1.0)

    run(test)


def test_spare_connection_takes_over_without_another_handshake() -> None:
    async def test() -> None:
        core = ScriptedCore()
        async with ScriptedBroker() as first, ScriptedBroker() as second:
            url = f"failover:({first.address},{second.address})?backup=true&randomize=false"
            async with engine_for(url, core) as engine:
                await engine.open()
                await core.until("restored")
                await second.until(lambda it: it.connections == 1 and len(it.commands) == 1, "the spare")
                await first.stop()
                await core.until("restored", 2)
                assert core.told[3:5] == ["lost", f"connected again {second.address}"]
                assert second.connections == 1
                assert len(second.sessions) == 1

    run(test)


def test_each_broker_gets_one_spare_connection() -> None:
    async def test() -> None:
        core = ScriptedCore()
        async with ScriptedBroker() as first, ScriptedBroker() as second, ScriptedBroker() as third:
            uris = ",".join(broker.address for broker in (first, second, third))
            url = f"failover:({uris})?backup=true&backupPoolSize=2&randomize=false"
            async with engine_for(url, core) as engine:
                await engine.open()
                await third.until(lambda it: bool(it.sessions), "the second spare")
                third.drop()
                await third.until(lambda it: it.connections == 2 and bool(it.sessions), "its successor")
                assert (first.connections, second.connections) == (1, 1)

    run(test)


def test_search_for_spares_ends_with_the_connection_it_was_for() -> None:
    async def test() -> None:
        core = ScriptedCore()
        async with ScriptedBroker() as first, ScriptedBroker() as second:
            url = f"failover:({first.address},{second.address})?backup=true&randomize=false"
            async with engine_for(url, core) as engine:
                await engine.open()
                for times, broker in enumerate((first, second, first), 1):
                    await core.until("restored", times)
                    broker.drop()
                await core.until("restored", 4)
                await asyncio.sleep(0.05)
                assert len(engine._tasks.background) == 1

    run(test)


def test_spare_connection_that_ended_is_replaced() -> None:
    async def test() -> None:
        core = ScriptedCore()
        async with ScriptedBroker() as first, ScriptedBroker() as second:
            url = f"failover:({first.address},{second.address})?backup=true&randomize=false"
            async with engine_for(url, core) as engine:
                await engine.open()
                await second.until(lambda it: bool(it.sessions), "the spare")
                second.drop()
                await second.until(lambda it: it.connections == 2 and bool(it.sessions), "the next spare")
                assert core.count("lost") == 0

    run(test)


def test_brokers_named_by_the_broker_are_used_after_a_loss() -> None:
    async def test() -> None:
        core = ScriptedCore()
        async with ScriptedBroker() as second:
            named = commands.ConnectionControl(connected_brokers=f"{second.address},vm://x,tcp://nowhere:bad")
            async with (
                ScriptedBroker(Script(after_login=[named])) as first,
                engine_for(f"failover:({first.address})", core) as engine,
            ):
                await engine.open()
                await core.until("restored")
                await first.stop()
                await core.until("restored", 2)
                assert f"connected again {second.address}" in core.told

    run(test)


@pytest.mark.parametrize("option", ["", "?reconnectSupported=false"])
def test_broker_may_send_its_client_elsewhere(option: str) -> None:
    async def test() -> None:
        core = ScriptedCore()
        async with ScriptedBroker() as second:
            control = commands.ConnectionControl(reconnect_to=second.address)
            async with (
                ScriptedBroker(Script(after_login=[control, KeepAliveInfo()])) as first,
                engine_for(f"failover:({first.address}){option}", core) as engine,
            ):
                await engine.open()
                await core.until("restored")
                if option:
                    await core.until_command(KeepAliveInfo)
                    await asyncio.sleep(0.05)
                    assert core.told[-1] == "restored"
                else:
                    await core.until(f"connected again {second.address}")
                    await core.until("restored", 2)

    run(test)


def test_rebalance_moves_to_a_broker_that_answers() -> None:
    async def test() -> None:
        core = ScriptedCore()
        async with ScriptedBroker() as second:
            control = commands.ConnectionControl(connected_brokers=second.address, rebalance_connection=True)
            async with (
                ScriptedBroker(Script(after_login=[control])) as first,
                engine_for(f"failover:({first.address})?randomize=false", core) as engine,
            ):
                await engine.open()
                await core.until(f"connected again {second.address}")
                await core.until("restored", 2)

    run(test)


def test_connection_stays_where_a_named_broker_does_not_answer(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        core = ScriptedCore()
        nobody = f"tcp://127.0.0.1:{await unused_port()}"
        control = commands.ConnectionControl(reconnect_to=nobody)
        async with (
            ScriptedBroker(Script(after_login=[control])) as first,
            engine_for(f"failover:({first.address})", core) as engine,
        ):
            await engine.open()
            await core.until("restored")
            while "none of" not in caplog.text:
                await asyncio.sleep(0.01)
            assert core.told[-1] == "restored"
            assert nobody in caplog.text

    run(test)


def test_more_uris_come_from_a_file(tmp_path: Path) -> None:
    async def test() -> None:
        core = ScriptedCore()
        async with ScriptedBroker() as broker:
            (tmp_path / "uris.txt").write_text(f"# ours\n{broker.address}?soWriteTimeout=1000\n")
            async with engine_for(f"failover:()?updateURIsURL=file://{tmp_path}/uris.txt", core) as engine:
                await engine.open()
                await core.until("restored")
            core = ScriptedCore()
            async with engine_for(f"failover:()?updateURIsURL={tmp_path}/none.txt", core) as engine:
                with pytest.raises(ConfigError, match="cannot be read: no such file"):
                    await engine.open()
                assert core.told == ["ended"]

    run(test)
