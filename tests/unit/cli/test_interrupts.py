"""Ctrl-C: noted while something is under way, raised while nothing is, and at once the second time."""

import os
import signal
import time

import pytest

from ackwire.cli import interrupts
from ackwire.cli.interrupts import Interrupts


class Left(Exception):
    """Instead of the end of the process."""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_is_noted_and_the_handlers_are_as_before(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with Interrupts() as noted:
        noted.check()
        signal.raise_signal(number)
        assert noted.pressed
        with pytest.raises(KeyboardInterrupt):
            noted.check()
    assert signal.getsignal(number) is before


def test_a_signal_is_raised_while_work_waits_and_if_it_came_before() -> None:
    with Interrupts() as noted:
        with pytest.raises(KeyboardInterrupt), noted.raising():
            signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt), noted.raising():
            pytest.fail("it came before")
        with pytest.raises(KeyboardInterrupt):
            noted.sleep(3600)


def test_the_second_one_ends_the_process_unless_it_is_the_same(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = 100.0

    def leave(code: int) -> None:
        assert code == 1
        raise Left

    monkeypatch.setattr(os, "_exit", leave)
    monkeypatch.setattr(time, "monotonic", lambda: now)
    with Interrupts():
        signal.raise_signal(signal.SIGTERM)
        now += interrupts.SAME_SIGNAL_SECONDS / 2
        signal.raise_signal(signal.SIGTERM)  # `timeout` signals the process, and then its group
        now += interrupts.SAME_SIGNAL_SECONDS
        with pytest.raises(Left):
            signal.raise_signal(signal.SIGINT)
    assert "SIGINT again" in capsys.readouterr().err
