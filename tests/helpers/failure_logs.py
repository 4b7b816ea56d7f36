"""What processes logged, shown with the test that failed."""

from collections.abc import Callable, Generator
from pathlib import Path

import pytest

from tests.helpers.processes import LOG_TAIL_BYTES

Logs = pytest.StashKey[list[Path]]
"""Where a session keeps the log files that matter at the moment."""

_Report = Generator[None, pytest.TestReport, pytest.TestReport]


def shown_on_failure(logs: Logs) -> Callable[[pytest.Item, pytest.CallInfo[None]], _Report]:
    """A `pytest_runtest_makereport` for a conftest: the report of a failed test ends with the end of each of *logs*."""

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> _Report:
        report = yield
        if report.failed:
            for log in item.session.stash.get(logs, []):
                text = log.read_bytes()[-LOG_TAIL_BYTES:].decode(errors="replace")
                report.sections.append((f"end of {log.name} ({call.when})", text))
        return report

    return pytest_runtest_makereport
