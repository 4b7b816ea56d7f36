"""What the commands have in common that kill brokers and databases: requirements, a folder, progress, the report."""

import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from tests.crash.rounds import Report
from tests.helpers.java import missing_requirements

_JAVA_CACHE: Final = Path(__file__).parents[2] / ".pytest_cache/d/ackwire-java"
"""Where tests keep compiled programs, too."""


def run_and_report(run: Callable[..., Report], prefix: str, jars: Sequence[str]) -> int:
    """Call *run* with a new folder and print what it reports; returns the exit status. A violation keeps the folder."""
    if problem := missing_requirements(jars):
        print(problem)
        return 1
    _JAVA_CACHE.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=prefix))
    report = run(folder=folder, java_cache=_JAVA_CACHE, progress=_show if sys.stdout.isatty() else None)
    for line in report.lines():
        print(line)
    if report.violations:
        print(f"kept: {folder}")
        return 1
    shutil.rmtree(folder)
    return 0


def _show(text: str) -> None:
    print(f"\r{text} ", end="", flush=True)
