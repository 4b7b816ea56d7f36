"""Puts the parts of an audit together: spool, recorder, and the thread that makes Parquet files."""

import os
import socket
import time
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from ackwire.audit.child import ConvertingChild
from ackwire.audit.converter import Converter
from ackwire.audit.events import AuditLog, run_name
from ackwire.audit.records import Run
from ackwire.audit.spool import AuditUnusable, Spool, leftover_chunks
from ackwire.config import Settings
from ackwire.errors import ConfigError
from ackwire.store.files import LockHeld, OsFiles
from ackwire.util.clock import Clock, SystemClock, Turns

_CONVERT_SECONDS_MAX: Final = 15.0
"""How long a stop waits for the last files."""


def convert_leftovers(settings: Settings) -> None:
    """Have what a killed broker left in its spool turned into files, before it waits as a slave: it opens its audit
    only when it is the master again. Blocks; does nothing if another broker uses the directory."""
    directory = Path(settings.audit.directory)
    left = leftover_chunks(directory) if settings.audit.directory else []
    if not left:
        return
    child = ConvertingChild()
    try:
        lock = OsFiles().lock(directory / "lock", _holder(settings))
    except (LockHeld, OSError):  # the next master says what is wrong with it
        return
    try:
        child.start()
        converter = Converter(directory, child.convert)
        for chunk in left:
            converter.add(chunk)
        converter.start()
        converter.stop(_CONVERT_SECONDS_MAX)
        child.stop()
    finally:
        lock.release()


def _holder(settings: Settings) -> str:
    return f"broker {settings.broker.name}, process {os.getpid()} on {socket.gethostname()}"


@contextmanager
def opened_audit(
    settings: Settings,
    clock: Clock,
    turns: Turns | None,
    *,
    producer_text: Callable[[bytes], str],
    transaction_text: Callable[[Hashable], str],
) -> Iterator[AuditLog | None]:
    """The audit that *settings* ask for, or None; closed at the end. Raises `ConfigError` if there can be none. *turns*
    are those of the loop, if it counts them."""
    if not settings.audit.directory:
        yield None
        return
    child = ConvertingChild()
    try:
        child.start()
    except OSError as error:
        raise ConfigError(f'audit.directory needs pyarrow and numpy: pip install "ackwire[audit]" ({error})') from None
    directory = Path(settings.audit.directory)
    converter = Converter(directory, child.convert)
    run = Run(run_name(settings.broker.name, clock.now_ms()), settings.broker.name)
    try:
        spool = Spool(
            directory, run, settings.audit, clock=SystemClock(), holder=_holder(settings), on_chunk=converter.add
        )
    except AuditUnusable as error:
        child.stop()
        raise ConfigError(f"the audit cannot be written: {error}") from None
    is_real = isinstance(clock, SystemClock)
    log = AuditLog(
        spool,
        clock=SystemClock(),
        now_ns=time.time_ns if is_real else lambda: clock.now_ms() * 1_000_000,
        turns=turns if is_real else None,  # any other time may move on within a turn
        producer_text=producer_text,
        transaction_text=transaction_text,
    )
    converter.start()
    try:
        yield log
    finally:
        log.close()
        converter.stop(_CONVERT_SECONDS_MAX)
        child.stop()
        spool.release()
