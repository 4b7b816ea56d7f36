"""What can be wrong with a database, in the words of an operator."""

from dataclasses import dataclass
from enum import Enum
from typing import Final

from ackwire.errors import AckwireError


class UnusableDatabase(AckwireError):
    """A database that cannot be used as it is. The sentence says what to do; nothing in the database was changed."""


class Locked(UnusableDatabase):
    """Another broker has the database, or the server has not noticed yet that a connection of ours is gone."""

    def __init__(self, description: str, holder: str = "another broker") -> None:
        super().__init__(f"{description} is in use by {holder}; stop that one first, or choose another database")


class DatabaseRefused(AckwireError):
    """A transaction that a database has refused and will refuse again. The sentence says what to do."""


class MissingTables(UnusableDatabase):
    """Tables are missing, and must not be created."""


class UnfinishedCopy(UnusableDatabase):
    """A copy to this database was interrupted, so it holds a part of a store."""

    def __init__(self, description: str) -> None:
        super().__init__(
            f'{description} holds an unfinished copy of another store; run "ackwire store copy" again, which begins '
            "anew, or choose another database"
        )


class DatabaseAway(AckwireError):
    """A database that could not be reached for `sql.reconnect_seconds_max`."""


class Superseded(AckwireError):
    """Another broker has begun a run on this database, so this one may not write any more."""

    def __init__(self) -> None:
        super().__init__("another broker has taken over this database; only one can use it at a time")


class Trouble(Enum):
    """What an error of a database means for the transaction that met it."""

    LOST = "the connection is lost, and the outcome of a commit is not known"
    REPEAT = "the transaction was rolled back, and may succeed when it is repeated"
    SUPERSEDED = "the guard of the transaction did not match"
    FATAL = "repeating it does not help"


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """An error of a driver, explained."""

    trouble: Trouble
    sentence: str
    """Lower case, one line, without credentials."""
    advice: str = ""
    """What an operator can do about it, if that is known."""
    is_unforeseen: bool = False
    """It is no error of the database, so it is ours."""

    @property
    def explanation(self) -> str:
        """The sentence, and what to do."""
        return f"{self.sentence}; {self.advice}" if self.advice else self.sentence


GRANT_ADVICE: Final = (
    "grant SELECT, INSERT, UPDATE and DELETE on all ACTIVEMQ_ and ACKWIRE_ tables to the user of the broker"
)
SPACE_ADVICE: Final = "free space on the disk of the database, or raise the limit of its table space"


def first_line(error: BaseException) -> str:
    """The first line of what *error* says; drivers add positions and hints below it."""
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
