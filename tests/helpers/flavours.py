"""One test for both clients: the blocking one, and the asynchronous one driven from a blocking test.

    def test_something(flavour: Flavour) -> None:
        with flavour.using(flavour.patterns.PooledConsumer(...)) as pool: ...

`flavour.run(…)` does what `await` does. Handlers of a test are plain functions that may wait: `flavour.handler` makes
them into what the client wants.
"""

import asyncio
import inspect
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from types import ModuleType, SimpleNamespace
from typing import Any

WAIT_SECONDS = 60.0  # far more than anything takes; a test that waits so long has failed


class Blocking:
    """The blocking client, as it is."""

    name = "sync"

    def __init__(self, **modules: ModuleType) -> None:
        self.modules = SimpleNamespace(**modules)

    def run(self, value: Any) -> Any:
        return value

    def make(self, make: Callable[[], Any]) -> Any:
        return make()

    def handler(self, function: Callable[..., Any]) -> Callable[..., Any]:
        return function

    def close(self) -> None: ...

    @contextmanager
    def using(self, thing: Any) -> Iterator[Any]:
        with thing as entered:
            yield entered


class Async:
    """The asynchronous client: its loop runs in a thread, and each call waits for its result."""

    name = "aio"

    def __init__(self, **modules: ModuleType) -> None:
        self.modules = SimpleNamespace(**modules)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="aio flavour")
        self._thread.start()

    def run(self, value: Any) -> Any:
        if not inspect.isawaitable(value):
            return value

        async def awaited() -> Any:
            return await value

        return asyncio.run_coroutine_threadsafe(awaited(), self._loop).result(WAIT_SECONDS)

    def make(self, make: Callable[[], Any]) -> Any:
        """What *make* returns, made in the loop's thread."""

        async def made() -> Any:
            return make()

        return self.run(made())

    def handler(self, function: Callable[..., Any]) -> Callable[..., Any]:
        async def handle(*arguments: Any) -> Any:
            return await asyncio.to_thread(function, *arguments)

        return handle

    def close(self) -> None:
        self.run(self._loop.shutdown_default_executor())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(WAIT_SECONDS)
        self._loop.close()

    @contextmanager
    def using(self, thing: Any) -> Iterator[Any]:
        entered = self.run(thing.__aenter__())
        try:
            yield entered
        finally:
            self.run(thing.__aexit__(None, None, None))


Flavour = Blocking | Async


class Shell:
    """The asynchronous form of a blocking stand-in: every method is a coroutine, what it returns is in a shell too."""

    def __init__(self, inner: Any) -> None:
        object.__setattr__(self, "inner", inner)

    def __getattr__(self, name: str) -> Any:
        value = getattr(self.inner, name)
        if not callable(value):
            return value

        async def called(*arguments: Any, **keywords: Any) -> Any:
            result = await asyncio.to_thread(value, *arguments, **keywords)
            if isinstance(result, Future):
                return asyncio.wrap_future(result)
            return Shell(result) if getattr(result, "has_async_form", False) else result

        return called

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self.inner, name, value)

    async def __aenter__(self) -> "Shell":
        return self

    async def __aexit__(self, *exception: object) -> None:
        await asyncio.to_thread(self.inner.close)
