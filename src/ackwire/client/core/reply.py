"""Something that will be answered: with a value or with an error, once."""

from collections.abc import Callable
from typing import Generic, TypeVar, final

T = TypeVar("T")


@final
class Reply(Generic[T]):
    """An answer to come. Callbacks run when it comes, or at once if it has, in the order they were given."""

    __slots__ = ("_callbacks", "_error", "_value", "is_done")

    def __init__(self) -> None:
        self.is_done = False
        self._value: T | None = None
        self._error: BaseException | None = None
        self._callbacks: list[Callable[[Reply[T]], None]] = []

    @property
    def error(self) -> BaseException | None:
        return self._error

    def result(self) -> T:
        """The value; raises the error if there is one."""
        assert self.is_done, "not answered yet"
        if self._error is not None:
            raise self._error
        return self._value  # type: ignore[return-value]

    def settle(self, value: T) -> None:
        """Answer it, unless that has happened."""
        if not self.is_done:
            self._value = value
            self._finish()

    def fail(self, error: BaseException) -> None:
        """Answer it with an error, unless it has been answered."""
        if not self.is_done:
            self._error = error
            self._finish()

    def then(self, callback: "Callable[[Reply[T]], None]") -> None:
        """Call *callback* with this reply when it is answered."""
        if self.is_done:
            callback(self)
        else:
            self._callbacks.append(callback)

    def _finish(self) -> None:
        self.is_done = True
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback(self)


def settled(value: T) -> Reply[T]:
    """A reply that has its answer already."""
    reply: Reply[T] = Reply()
    reply.settle(value)
    return reply
