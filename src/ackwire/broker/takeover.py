"""Connection takeover: a connection id in use goes to the same client, once its old connection is dead (ADR 15).

A client with failover comes back with its old connection id, often before the broker has noticed that the old socket
is dead. Anyone can read a connection id in a message id, so the id alone proves nothing. The newcomer must be the same
client by what it says (`Connection.is_of`), and its login waits until the old connection is gone or does not answer a
probe. A client that answers keeps its connection.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import final

from ackwire.broker.session import Connection
from ackwire.errors import BrokerError, InvalidClientId
from ackwire.util.clock import Clock


@final
@dataclass(frozen=True, slots=True, eq=False)
class Claim:
    """A login that waits for the connection id of another connection."""

    proceed: Callable[[], None]
    refuse: Callable[[BrokerError], None]


@final
class Takeovers:
    """The claims on connections that exist: one for each connection at most."""

    def __init__(self, clock: Clock, drop: Callable[[Connection], None]) -> None:
        self._clock = clock
        self._drop = drop
        """Disconnects a client that does not answer."""
        self._claims: dict[Connection, Claim] = {}

    def begin(self, holder: Connection, claim: Claim) -> bool:
        """Probe *holder*; *claim* proceeds when it is gone, and is refused when it answers. Whether it has to wait."""
        if holder in self._claims:
            raise InvalidClientId(
                f"connection id {holder.connection_id} is in use, and another login waits for it; try again later"
            )
        self._claims[holder] = claim
        holder.port.challenge(partial(self._judge, holder, claim))
        return self._claims.get(holder) is claim

    def _judge(self, holder: Connection, claim: Claim, is_alive: bool) -> None:
        if self._claims.get(holder) is not claim:
            return  # the holder left meanwhile, or the newcomer did
        del self._claims[holder]
        if is_alive:
            claim.refuse(
                InvalidClientId(
                    f"connection id {holder.connection_id} is in use by a client that answers; "
                    "it can be taken over once that connection is closed"
                )
            )
        else:
            self._drop(holder)
            claim.proceed()

    def left(self, holder: Connection) -> None:
        """*holder* is disconnected: a login that waits for its id goes on, after what is being done now."""
        claim = self._claims.pop(holder, None)
        if claim is not None:
            self._clock.call_later(0, claim.proceed)

    def withdraw(self, claim: Claim) -> None:
        """The newcomer has gone."""
        for holder in [it for it, other in self._claims.items() if other is claim]:
            del self._claims[holder]
