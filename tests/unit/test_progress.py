"""The line that tells how far long work is: on a terminal only, and gone at the end."""

import io

from ackwire.cli.progress import ProgressLine


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_tells_share_speed_and_time_left() -> None:
    times = iter((0.0, 0.0, 2.0))
    out = Terminal()
    with ProgressLine(out, lambda: next(times)) as progress:
        progress("reading", 0, 4 << 20)
        progress("reading", 1 << 20, 4 << 20)
        assert out.getvalue() == "\r\x1b[Kreading: 25 %, 512 KiB/s, 6 s left"
    assert out.getvalue().endswith("\r\x1b[K")


def test_progress_is_silent_where_nobody_watches_and_about_short_work() -> None:
    file, terminal = io.StringIO(), Terminal()
    for out in (file, terminal):
        times = iter((0.0, 0.0, 0.1))
        with ProgressLine(out, lambda times=times: next(times)) as progress:  # type: ignore[misc]
            progress("reading", 0, 100)
            progress("reading", 100, 100)
        assert out.getvalue() == ""


def test_progress_goes_away_when_the_work_is_interrupted() -> None:
    times = iter((0.0, 0.0, 7300.0))
    out = Terminal()
    try:
        with ProgressLine(out, lambda: next(times)) as progress:
            progress("reading", 0, 300)
            progress("reading", 100, 300)
            raise KeyboardInterrupt
    except KeyboardInterrupt:
        pass
    assert out.getvalue() == "\r\x1b[Kreading: 33 %, 0 B/s, 4 h 3 min left\r\x1b[K"
