"""How finely events are counted over time: in minutes, or in a few seconds on a day with events of few hours."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

SLOT_SECONDS: Final = 60
FINE_SLOT_SECONDS: Final = 5
_FINE_HOURS_MAX: Final = 2
"""Two hours have as many fine slots as a day has minutes, so no table gets longer by them."""


def slot_seconds_for(files: Sequence[str]) -> int:
    """How long a slot is for a day of these *files*, which are in a folder for each hour."""
    hours = {Path(file).parent for file in files}
    return FINE_SLOT_SECONDS if len(hours) <= _FINE_HOURS_MAX else SLOT_SECONDS
