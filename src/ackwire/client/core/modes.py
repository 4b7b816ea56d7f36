"""How a session acknowledges (SEMANTICS D); the numbers are JMS's."""

from enum import IntEnum


class AckMode(IntEnum):
    """Who says, and when, that a message is done with."""

    SESSION_TRANSACTED = 0
    """The transaction, when it commits (D5)."""
    AUTO = 1
    """The client: before `receive` returns a message, or after its listener returned (D1)."""
    CLIENT = 2
    """The application: `acknowledge` means everything the session was given so far (D3)."""
    DUPS_OK = 3
    """The client, in its own time: after a crash messages may come again (D4)."""
    INDIVIDUAL = 4
    """The application, one message at a time (D6)."""
