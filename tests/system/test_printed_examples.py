"""What README and guides print for the Python client runs as printed, against a real broker."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.helpers.processes import running_broker

pytestmark = pytest.mark.system

ROOT = Path(__file__).resolve().parents[2]
PAGES = ("README.md", "docs/guide/client.md", "docs/guide/coming-from.md", "docs/guide/patterns.md")
TIMEOUT_SECONDS = 60


def examples() -> list[tuple[str, str]]:
    """Every Python block of the pages that connects to a broker."""
    found = []
    for page in PAGES:
        blocks = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)
        found += [(f"{page}-{number}", block) for number, block in enumerate(blocks) if ":61616" in block]
    return found


EXAMPLES = examples()


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    with running_broker(["tcp://127.0.0.1:0"], log_path=tmp_path / "broker.log") as broker:
        yield f"127.0.0.1:{broker.ports[0]}"


def test_there_are_examples_for_both_clients() -> None:
    readme = [code for name, code in EXAMPLES if name.startswith("README.md")]
    assert len(readme) == 2
    assert any("aio.connect(" in code for code in readme)


@pytest.mark.parametrize("code", [code for _, code in EXAMPLES], ids=[name for name, _ in EXAMPLES])
def test_a_printed_example_runs(code: str, address: str) -> None:
    program = re.sub(r"(localhost|127\.0\.0\.1):61616", address, code)
    done = subprocess.run(
        [sys.executable, "-X", "dev", "-c", program],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    # Debugging asyncio complains of steps that take long, too, which they do on a busy machine.
    assert not [line for line in done.stderr.splitlines() if not line.startswith("Executing <")], done.stderr
    if "print(" in code and "was not stored" not in code:
        assert "apples" in done.stdout or "hello" in done.stdout
