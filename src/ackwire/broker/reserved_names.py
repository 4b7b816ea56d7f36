"""Reserved names: destinations of the broker itself, to which clients may only send requests.

Every queue and topic whose name begins with `Ackwire.` belongs to the broker. Clients send questions to `Ackwire.Why`
(`ackwire.why.protocol`), and operators send requests to `Ackwire.Operations` (`ackwire.operation`). Clients cannot
consume or browse them, not even by wildcard: otherwise a client could answer for the broker. Nor can they create or
delete such a destination.
"""

from typing import Final

from ackwire.errors import NotAuthorised
from ackwire.jms.destinations import Destination
from ackwire.operation import OPERATIONS
from ackwire.why.protocol import QUESTIONS

OWN_QUEUES: Final = frozenset((QUESTIONS, OPERATIONS))
"""Where clients send what the broker itself answers."""
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
    """Raise `NotAuthorised` for a destination that would be made under a name of the broker's, its queues aside."""
    if where not in OWN_QUEUES:
        refuse_reserved(where, "use")
