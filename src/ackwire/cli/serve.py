"""`ackwire serve`: run a broker until a signal says stop.

SIGTERM and SIGINT drain and exit with 0; a second one exits at once with 1. `timeout` and some supervisors signal the
process and then its whole group, so what follows within a moment is still the first one. SIGHUP reads the settings
again, and never ends the broker. A store that cannot write ends it with 74, so that a supervisor can tell.
"""

import argparse
import asyncio
import gc
import logging
import os
import signal
import sys
from typing import TYPE_CHECKING, Final

from ackwire import __version__
from ackwire.cli.config import add_settings_options, settings_from
from ackwire.compilation import HOW_TO_COMPILE, is_compiled
from ackwire.config import Settings, settings_file
from ackwire.errors import ConfigError, StoreFailed
from ackwire.util import logs
from ackwire.util.clock import Clock, SystemClock
from ackwire.util.service_manager import ServiceManager

if TYPE_CHECKING:
    from ackwire.app import Serving
    from ackwire.cli.config import Commands
    from ackwire.cluster.roles import Standing
    from ackwire.config import Reload

EXIT_STORE_FAILED: Final = 74
"""The store could not write or sync: nothing more was acknowledged. The number is that of EX_IOERR."""

_GC_THRESHOLDS_AT_START: Final = (50_000, 20, 20)
"""When Python looks for garbage until the broker is ready: no client waits yet, and nearly all that is made stays."""

_SWITCH_SECONDS: Final = 0.0002
"""How long the loop waits for a thread of ours that computes, each time it comes back from the operating system. With
Python's 5 ms three small sends and receives beside such a thread took 5 ms, and 31 ms at the 99th percentile; with
this 0.04 and 0.6 ms, and the thread does as much."""

SAME_SIGNAL_SECONDS: Final = 0.25
"""Signals this close together count as one Ctrl-C."""

_EPILOG: Final = f"""\
An option overrides the file. All settings: ackwire config show

exit codes:
  0  stopped by SIGTERM or SIGINT
  1  a second signal ended it at once, or something unforeseen happened
  2  it could not start, for a reason that you can put right; nothing is left behind
 {EXIT_STORE_FAILED}  the store could not write: a full or broken disk; nothing was acknowledged after that
"""

_log = logging.getLogger(__name__)


def add_command(commands: "Commands") -> None:
    """Add `serve`."""
    parser = commands.add_parser(
        "serve",
        help="run a broker",
        description="Runs a broker until SIGTERM or SIGINT. Prints one line on standard output when it is\n"
        "ready, and logs to standard error. SIGHUP reads the settings and certificates again.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add_settings_options(parser)
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # until there is something to reload
    try:
        return _run_unhindered(args)
    finally:
        signal.signal(signal.SIGHUP, before)


def _run_unhindered(args: argparse.Namespace) -> int:
    gc.set_threshold(*_GC_THRESHOLDS_AT_START)
    settings = settings_from(args)
    logs.set_up(settings.log)
    if (file := settings_file.find(args.config)) is not None:
        _log.info("settings of %s", file.absolute())
    try:
        with asyncio.Runner(loop_factory=_new_loop) as runner:
            runner.run(_serve_until_signal(args, settings))
    except StoreFailed:
        return EXIT_STORE_FAILED  # it has said why
    return 0


def _new_loop() -> asyncio.AbstractEventLoop:
    if sys.platform != "linux":
        return asyncio.new_event_loop()
    from ackwire.server.loop import TurnLoop

    return TurnLoop()


async def _serve_until_signal(args: argparse.Namespace, settings: Settings) -> None:
    # Imported here, so that the other commands start without loading a broker.
    from ackwire import app
    from ackwire.cluster.roles import Role
    from ackwire.server.allocator import return_large_blocks
    from ackwire.server.collector import Collector

    return_large_blocks()
    clock = SystemClock()
    signals, manager = StopSignals(clock), ServiceManager()
    collector: Collector | None = None
    has_waited = False
    loop = asyncio.get_running_loop()
    for signum in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(signum, signals.on_signal, signum)

    def ready(serving: "Serving") -> None:
        nonlocal collector
        collector = Collector(clock)
        collector.start(clients_wait=has_waited)
        sys.setswitchinterval(_SWITCH_SECONDS)
        if not is_compiled():
            _log.info(
                "running as plain Python, which takes six times as long for a message; faster: %s", HOW_TO_COMPILE
            )
        loop.add_signal_handler(signal.SIGHUP, Reloading(args, serving).on_hangup)
        _print_ready(serving)

    def changed(standing: "Standing") -> None:
        """Tell who waits for it what this broker is now, and clear up behind a term."""
        nonlocal collector, has_waited
        if standing.role is Role.WAITING:
            has_waited = True
            if collector is not None:
                collector.stop()
                collector = None
                loop.add_signal_handler(signal.SIGHUP, _ignore_hangup)
                gc.unfreeze()
                gc.collect()
            print(f"ackwire {__version__} waiting: {standing.why}", flush=True)
        if standing.role in (Role.WAITING, Role.MASTER):
            manager.ready(f"{standing.word}, epoch {standing.epoch}: {standing.why}")
        elif standing.role in (Role.STEPPING_DOWN, Role.STOPPED) and signals.stop.is_set():
            manager.stopping()

    try:
        await app.serve(settings, ready=ready, stop=signals.stop, changed=changed)
    finally:
        if collector is not None:
            collector.stop()


def _ignore_hangup() -> None:
    _log.info("SIGHUP: nothing to reload: this broker is a slave")


class Reloading:
    """Reads the settings again at SIGHUP, one time after the other, and says what became of them."""

    def __init__(self, args: argparse.Namespace, serving: "Serving") -> None:
        self._args = args
        self._serving = serving
        self._task: asyncio.Task[None] | None = None
        self._is_wanted_again = False

    def on_hangup(self) -> None:
        if self._task is not None and not self._task.done():
            self._is_wanted_again = True
            return
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        while True:
            self._is_wanted_again = False
            try:
                # The disk that holds the file may be slow.
                settings = await asyncio.to_thread(settings_from, self._args)
                self._tell(self._serving.reload(settings))
            except ConfigError as error:
                _log.error("SIGHUP: nothing was changed: %s", error)
            except Exception:
                _log.exception("SIGHUP: the settings could not be reloaded")
            if not self._is_wanted_again:
                return

    def _tell(self, done: "Reload") -> None:
        if any(name.startswith("log.") for name in done.changed):
            logs.set_up(done.settings.log)
        file = settings_file.find(self._args.config)
        source = "certificates were read again" if file is None else f"{file} and certificates were read again"
        _log.info("SIGHUP: %s; changed: %s", source, ", ".join(done.changed) or "nothing")
        if done.waiting:
            _log.warning("SIGHUP: these settings need a restart: %s", ", ".join(done.waiting))


class StopSignals:
    """Sets `stop` at the first signal and ends the process at the second."""

    def __init__(self, clock: Clock) -> None:
        self.stop = asyncio.Event()
        self._clock = clock
        self._first_at = 0.0

    def on_signal(self, signum: signal.Signals) -> None:
        now = self._clock.monotonic()
        if not self.stop.is_set():
            _log.info("%s: stopping", signum.name)
            self._first_at = now
            self.stop.set()
        elif now - self._first_at >= SAME_SIGNAL_SECONDS:
            _log.warning("%s again: exiting without waiting for peers", signum.name)
            os._exit(1)


def _print_ready(serving: "Serving") -> None:
    addresses = [*serving.addresses, *([] if serving.http_address is None else [serving.http_address])]
    print(f"ackwire {__version__} ready: {', '.join(addresses)}", flush=True)
