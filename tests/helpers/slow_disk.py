"""The `ackwire` command on a disk whose syncs take longer, by as many seconds as its first argument says."""

import os
import sys
import time
from pathlib import Path


def slow_disk_program(seconds: float) -> tuple[str, ...]:
    """What to start instead of `ackwire`."""
    return (sys.executable, str(Path(__file__)), str(seconds))


def _main() -> int:
    from ackwire.cli.main import main  # whoever only names the program need not have it

    seconds, sync = float(sys.argv.pop(1)), os.fdatasync

    def slow_sync(descriptor: int) -> None:
        time.sleep(seconds)
        sync(descriptor)

    os.fdatasync = slow_sync  # type: ignore[assignment]
    return main()


if __name__ == "__main__":
    sys.exit(_main())
