"""How a session acknowledges (SEMANTICS D); the numbers are JMS's."""

from difflib import get_close_matches
from enum import IntEnum

from ackwire.client.errors import IllegalArgumentError


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


def ack_mode_of(mode: AckMode | int | str) -> AckMode:
    """The mode that *mode* is, is the number of, or is the name of, in any case."""
    if isinstance(mode, str):
        found = AckMode.__members__.get(mode.upper())
    else:
        found = next((known for known in AckMode if known == mode), None)
    if found is None:
        raise IllegalArgumentError(f"{mode!r} is not an ack mode; choose one of {_choices()}{_did_you_mean(mode)}")
    return found


def session_mode(mode: AckMode | int | str, *, transacted: bool) -> AckMode:
    """The mode of a session. A transaction acknowledges by itself, so no other mode goes with it."""
    chosen = ack_mode_of(mode)
    if not transacted:
        return chosen
    if chosen not in (AckMode.AUTO, AckMode.SESSION_TRANSACTED):
        raise IllegalArgumentError(
            f"a transacted session acknowledges when it commits, so it cannot have AckMode.{chosen.name}: "
            "leave out one of the two"
        )
    return AckMode.SESSION_TRANSACTED


def _choices() -> str:
    return ", ".join(f"AckMode.{mode.name} ({mode.value})" for mode in AckMode)


def _did_you_mean(mode: int | str) -> str:
    near = get_close_matches(mode.upper(), AckMode.__members__, n=1) if isinstance(mode, str) else []
    return f"; did you mean {near[0]}?" if near else ""
