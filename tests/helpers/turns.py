"""Turns of an event loop, counted and not timed."""

import asyncio


def run_turns(loop: asyncio.AbstractEventLoop, turns: int = 6) -> None:
    """Let *loop* do what is due in so many turns."""

    async def wait() -> None:
        for _ in range(turns):
            await asyncio.sleep(0)

    loop.run_until_complete(wait())
