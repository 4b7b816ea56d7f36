"""Processes that are found by the session they belong to, and killed one by one.

A Spark driver starts a JVM, that starts executors, and those start Python workers, some in process groups of their
own; all of them stay in the driver's session.
"""

import os
import signal
import time
from collections.abc import Sequence

import psutil

_GONE_SECONDS_MAX = 20.0
EXECUTOR_CLASS = "CoarseGrainedExecutorBackend"


def members(session: int) -> list[int]:
    """The processes of a *session* that live."""
    return [pid for pid in psutil.pids() if _session_of(pid) == session and not _is_zombie(pid)]


def executors(session: int) -> list[int]:
    """The JVMs of a session in which tasks of Spark run."""
    return [pid for pid in members(session) if is_executor(pid)]


def is_executor(pid: int) -> bool:
    try:
        return any(EXECUTOR_CLASS in argument for argument in psutil.Process(pid).cmdline())
    except psutil.Error:
        return False


def kill(pid: int) -> None:
    """SIGKILL; it may be gone already."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def kill_session(session: int, known: Sequence[int] = ()) -> None:
    """SIGKILL for everything in a *session*, until nothing is left of it; for those *known* to be in it, at once."""
    deadline = time.monotonic() + _GONE_SECONDS_MAX
    left = [pid for pid in known if _session_of(pid) == session] or members(session)
    while left:
        for pid in sorted(left):  # parents first, or they would start new ones
            kill(pid)
        time.sleep(0.005)
        left = members(session)
        if left and time.monotonic() > deadline:
            raise TimeoutError(f"processes {left} of session {session} do not end")


def _session_of(pid: int) -> int | None:
    try:
        return os.getsid(pid)
    except OSError:
        return None


def _is_zombie(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return True
