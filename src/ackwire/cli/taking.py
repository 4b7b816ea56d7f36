"""Take messages from a consumer, write them, and only then acknowledge them: what `receive` and `subscribe` share.

Written messages are gathered while more are at hand; then the output is flushed, and what it has taken is acknowledged.
Whatever ends the work in between (an error, a closed pipe, Ctrl-C, a crash), what was not acknowledged comes again.
"""

import argparse
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Final

from ackwire.cli import amounts
from ackwire.cli.connecting import EXIT_INCOMPLETE, EXIT_NOTHING_CAME, Where, exit_code, say
from ackwire.cli.interrupts import Interrupts
from ackwire.cli.messages_out import Output
from ackwire.cli.tally import Pace, Tally
from ackwire.client import Consumer, JMSError, Message, RequestTimedOutError
from ackwire.client.settings import REQUEST_TIMEOUT_SECONDS
from ackwire.errors import AckwireError
from ackwire.util.plurals import agree

BATCH_MAX: Final = 100
"""Messages that are written before they are flushed and acknowledged, at most."""
_SLICE_SECONDS: Final = 0.5
"""How long a wait goes on before it looks whether somebody wants out."""


class Ending(Enum):
    """Why no more messages are taken."""

    COUNT = "as many as asked for"
    NOTHING_MORE = "nothing more is there"
    IDLE = "nothing came"
    INTERRUPTED = "interrupted"


class WriteFailed(AckwireError):
    """The output takes no more: a full disk, for instance. Nothing of the current batch was acknowledged."""


class Unreadable(AckwireError):
    """A message whose body or properties are broken: it stays where it is."""


class Taker:
    """Takes messages up to a count, at a rate, and hands them to an output; *check* raises if the connection failed."""

    def __init__(
        self,
        output: Output,
        tally: Tally,
        interrupts: Interrupts,
        *,
        acknowledge: Callable[[list[Message]], None],
        check: Callable[[], None] = lambda: None,
        count_max: int | None = None,
        rate: float | None = None,
    ) -> None:
        self._output = output
        self._tally = tally
        self._interrupts = interrupts
        self._acknowledge = acknowledge
        self._check = check
        self._count_max = count_max
        self._pace = Pace(rate, interrupts.sleep)
        self._batch: list[Message] = []

    @property
    def left(self) -> int | None:
        """How many more are wanted; None for all there are."""
        if self._count_max is None:
            return None
        return self._count_max - self._tally.count - len(self._batch)

    def take(self, consumer: Consumer, *, idle_seconds: float | None, is_pulling: bool) -> Ending:
        """Take messages until there are enough, or none came for *idle_seconds* (None: for ever).

        A consumer *is_pulling* with prefetch 0: it asks the broker for each message.

        Everything is settled when this returns. Raises `WriteFailed`, `Unreadable`, `BrokenPipeError` and `JMSError`.
        """
        ending: Ending | None = None
        while ending is None:
            if self.left == 0:
                ending = Ending.COUNT
            elif self._interrupts.pressed:
                ending = Ending.INTERRUPTED
            else:
                ending = self._take_one(consumer, idle_seconds, is_pulling)
        self.settle()
        return ending

    def take_one(self, consumer: Consumer) -> Ending | None:
        """Ask for one message: None if there was one, and it is settled."""
        ending = self._take_one(consumer, 0, True)
        self.settle()
        return ending

    def _take_one(self, consumer: Consumer, idle_seconds: float | None, is_pulling: bool) -> Ending | None:
        if self._pace.is_limited:
            self.settle()
            try:
                self._pace.wait()
            except KeyboardInterrupt:
                return Ending.INTERRUPTED
        # Asking a broker takes longer than writing: what is written already need not wait for the answer.
        message = None if is_pulling else consumer.receive_no_wait()
        if message is None:
            self.settle()
            message = self._wait(consumer, idle_seconds)
        if message is None:
            if self._interrupts.pressed:
                return Ending.INTERRUPTED
            return Ending.IDLE
        self.write(message)
        return None

    def _wait(self, consumer: Consumer, idle_seconds: float | None) -> Message | None:
        if idle_seconds == 0:
            return _asked(consumer)
        deadline = None if idle_seconds is None else time.monotonic() + idle_seconds
        while not self._interrupts.pressed:
            left = _SLICE_SECONDS if deadline is None else min(_SLICE_SECONDS, deadline - time.monotonic())
            if left <= 0:
                return None
            began = time.monotonic()
            message = consumer.receive(left)
            if message is not None:
                return message
            self._check()
            if time.monotonic() - began < left / 2:
                time.sleep(
                    left / 2
                )  # it did not wait: a lost connection that is not reported yet, or a broker's answer
        return None

    def write(self, message: Message) -> None:
        try:
            self._output.write(message)
        except BrokenPipeError:
            raise
        except JMSError as error:
            self.settle()
            raise Unreadable(f"message {message.message_id} cannot be read, and stays there: {error}") from error
        except OSError as error:
            raise _write_failed(error) from error
        self._batch.append(message)
        if len(self._batch) >= BATCH_MAX:
            self.settle()

    def settle(self) -> None:
        """Flush the output, and acknowledge what it has taken."""
        if not self._batch:
            return
        try:
            self._output.flush()
        except BrokenPipeError:
            raise
        except OSError as error:
            raise _write_failed(error) from error
        done, self._batch = self._batch, []
        self._acknowledge(done)
        self._tally.add(len(done))


def _asked(consumer: Consumer) -> Message | None:
    # Twice: while ActiveMQ works on an acknowledgement, it may answer one question with a message and with "none", and
    # that "none" is then taken for the answer to the next.
    return _asked_once(consumer) or _asked_once(consumer)


def _asked_once(consumer: Consumer) -> Message | None:
    began = time.monotonic()
    message = consumer.receive_no_wait()
    if message is None and time.monotonic() - began >= REQUEST_TIMEOUT_SECONDS:
        # No message, and no word either that there is none.
        raise RequestTimedOutError(
            f"the broker has not said within {REQUEST_TIMEOUT_SECONDS:g} s whether more is there"
        )
    return message


def _write_failed(error: OSError) -> WriteFailed:
    name = f"{error.filename}: " if error.filename else ""
    return WriteFailed(f"the output takes no more: {name}{error.strerror or error}")


def acknowledge_each(messages: list[Message]) -> None:
    for message in messages:
        message.acknowledge()


def acknowledge_nothing(messages: list[Message]) -> None:
    del messages


def tally_for(args: argparse.Namespace, verb: str = "received") -> Tally:
    """Its line would stand between messages that are written to the same terminal."""
    return Tally(verb, args.count, is_shown=not args.quiet and (bool(args.output) or not sys.stdout.isatty()))


# ---- the end ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Wanted:
    """The requested amount and time, which decide how the end is reported."""

    count: int | None
    idle_seconds: float | None
    follow: bool
    quiet: bool
    remark: str = ""
    """Added to the summary: what became of the messages, where they were not just acknowledged."""

    @classmethod
    def from_args(cls, args: argparse.Namespace, *, follow: bool, remark: str = "") -> "Wanted":
        return cls(args.count, args.timeout, follow, args.quiet, remark)


def told(ending: Ending, tally: Tally, where: Where, wanted: Wanted) -> int:
    """Print the sums to standard error, and return the exit code."""
    tally.clear()
    if not wanted.quiet:
        say(f"{tally.summary(f'from {where}')}{wanted.remark}{_reason(ending, wanted)}")
    is_short = wanted.count is not None and tally.count < wanted.count
    if ending is Ending.INTERRUPTED:
        # Who follows ends it so; who waits for a number did not get it.
        return EXIT_INCOMPLETE if is_short or not wanted.follow else 0
    return EXIT_NOTHING_CAME if is_short else 0


def _reason(ending: Ending, wanted: Wanted) -> str:
    asked = f"; {wanted.count} {agree(wanted.count, 'was', 'were')} asked for" if wanted.count is not None else ""
    match ending:
        case Ending.COUNT:
            return ""
        case Ending.IDLE if wanted.idle_seconds is not None:
            return f"; nothing came for {amounts.seconds_text(wanted.idle_seconds)}{asked}"
    return f"; {ending.value}{asked}"


def told_failure(error: AckwireError, tally: Tally, where: Where) -> int:
    """The same for an error in the middle of the work."""
    tally.clear()
    text = where.failure(error) if isinstance(error, JMSError) else f"{where}: {error}"
    is_early = tally.count == 0 and isinstance(error, JMSError)
    say(
        text
        if is_early
        else f"{text}: received {amounts.messages_text(tally.count)}; what was not acknowledged is still there"
    )
    if isinstance(error, WriteFailed):
        discard_standard_output()
    return exit_code(error, is_anything_done=tally.count > 0)


def discard_standard_output() -> None:
    """Redirect standard output to /dev/null, so that Python does not fail again when it closes it."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
