"""What a broker loads before it is ready."""

import subprocess
import sys

PROGRAM = """
import sys
from ackwire.cli import main
import ackwire.app
print(*(name for name in sys.modules if name.startswith(("ackwire.client", "ackwire.spark", "pyarrow", "pandas"))))
"""


def test_a_broker_starts_without_loading_the_client_or_arrow() -> None:
    """They take as long as all the rest."""
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
