"""Names that are the broker's own: clients may ask there, and do nothing else.

Every queue and topic whose name begins with `Ackwire.` belongs to the broker. Clients send questions to `Ackwire.Why`
(`ackwire.question`). They cannot consume or browse there, through wildcards neither, so that no client can answer in
the broker's place; and they cannot create or delete such a destination.
"""

from typing import Final

from ackwire.destinations import Destination
from ackwire.errors import NotAuthorised
from ackwire.question import QUESTIONS

RESERVED_PREFIX: Final = "Ackwire."


def is_reserved(where: Destination) -> bool:
    """Whether *where* is the broker's own. Names of temporary destinations begin with a connection id instead."""
    return where.name.startswith(RESERVED_PREFIX) and not where.kind.is_temporary


def refuse_reserved(where: Destination, verb: str) -> None:
    """Raise `NotAuthorised` if *where* is the broker's own; *verb* is what a client wanted to do with it."""
    if is_reserved(where):
        raise NotAuthorised(
            f"a client cannot {verb} {where!r}: names that begin with {RESERVED_PREFIX} are the broker's own; "
            "choose another name"
        )


def refuse_unknown_reserved(where: Destination) -> None:
    """Raise `NotAuthorised` for a destination that would be made under a name of the broker's, the questions aside."""
    if where != QUESTIONS:
        refuse_reserved(where, "use")
