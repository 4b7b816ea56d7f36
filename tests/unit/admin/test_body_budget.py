"""BodyBudget for bodies: bounded, in order, and given back however a request ends."""

import asyncio

from ackwire.admin.body_budget import BodyBudget


def test_who_finds_no_room_waits_and_nobody_overtakes() -> None:
    async def test() -> None:
        room, log, leave = BodyBudget(10), list[str](), {name: asyncio.Event() for name in "abc"}

        async def guest(name: str, size_bytes: int) -> None:
            async with room.reserve(size_bytes):
                log.append(f"+{name}")
                await leave[name].wait()
            log.append(f"-{name}")

        tasks = [asyncio.ensure_future(guest(*it)) for it in (("a", 6), ("b", 6), ("c", 1))]
        await asyncio.sleep(0.01)
        assert log == ["+a"]
        leave["a"].set()
        await tasks[0]
        await asyncio.sleep(0.01)
        assert log == ["+a", "-a", "+b", "+c"]
        leave["b"].set()
        leave["c"].set()
        await asyncio.gather(*tasks)

    asyncio.run(test())


def test_who_gives_up_waiting_leaves_no_gap() -> None:
    async def test() -> None:
        room = BodyBudget(10)
        async with room.reserve(10):
            waiting = asyncio.ensure_future(room.reserve(10).__aenter__())
            await asyncio.sleep(0)
            waiting.cancel()
            await asyncio.wait([waiting])
        async with asyncio.timeout(5), room.reserve(10):
            pass

    asyncio.run(test())


def test_room_given_to_one_who_is_cancelled_in_the_same_turn_comes_back() -> None:
    async def test() -> None:
        room = BodyBudget(10)
        first = room.reserve(10)
        await first.__aenter__()
        waiting = asyncio.ensure_future(room.reserve(10).__aenter__())
        await asyncio.sleep(0)
        await first.__aexit__(None, None, None)
        waiting.cancel()
        await asyncio.wait([waiting])
        async with asyncio.timeout(5), room.reserve(10):
            pass

    asyncio.run(test())


def test_more_than_there_is_means_all_of_it() -> None:
    async def test() -> None:
        async with asyncio.timeout(5), BodyBudget(10).reserve(1000):
            pass

    asyncio.run(test())
