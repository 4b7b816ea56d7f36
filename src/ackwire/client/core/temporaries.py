"""Temporary destinations (A8): those of this connection, and which of all connections' are known to be gone.

The broker announces on advisory topics when temporary destinations are made and deleted; sending to one that was
deleted then fails here and at once, instead of in a log of the broker (B3). One without an advisory may be all right.
"""

import itertools
from typing import Final

from ackwire.client.core.members import Members
from ackwire.client.core.reply import Reply
from ackwire.client.core.requests import Requests
from ackwire.client.core.wire_link import WireLink
from ackwire.client.errors import IllegalStateError, InvalidDestinationError
from ackwire.errors import AckwireError
from ackwire.jms.destinations import Destination, Kind, destination
from ackwire.util.lru import Recent
from ackwire.wire.openwire import commands
from ackwire.wire.openwire.client_decode import Dispatch
from ackwire.wire.openwire.codec_fast import destination_from_wire, destination_to_wire
from ackwire.wire.openwire.commands import AckType, DestinationOperation
from ackwire.wire.openwire.structures import Structure

_ADVISORIES: Final = commands.ActiveMQTopic("ActiveMQ.Advisory.TempQueue,ActiveMQ.Advisory.TempTopic")
_WATCH_SESSION: Final = -1
"""The session that every connection has without asking."""
_WATCH_PREFETCH: Final = 1000
_WATCH_ACK_AT: Final = 750
_GONE_REMEMBERED: Final = 10_000


class Temporaries:
    """The temporary destinations that one connection knows of."""

    def __init__(
        self, connection_id: commands.ConnectionId, link: WireLink, requests: Requests, members: Members
    ) -> None:
        self._connection_id = connection_id
        self._link = link
        self._requests = requests
        self._members = members
        self._numbers = itertools.count(1)
        self._own: dict[Destination, bool] = {}
        """Those of this connection; whether the broker has confirmed them."""
        self._gone: Recent[Destination, None] = Recent(_GONE_REMEMBERED)
        self._watch_id = commands.ConsumerId(connection_id.value, _WATCH_SESSION, 1)
        self._unacknowledged = 0

    def create(self, kind: Kind) -> tuple[Destination, Reply[Structure]]:
        """A new one; it can be used when the reply is there."""
        where = destination(kind, f"{self._connection_id.value}:{next(self._numbers)}")
        self._own[where] = False
        reply = self._requests.request(self._info(where, DestinationOperation.ADD))

        def answered(answer: Reply[Structure]) -> None:
            if answer.error is None and where in self._own:
                self._own[where] = True
            else:
                self._own.pop(where, None)

        reply.then(answered)
        return where, reply

    def delete(self, where: Destination) -> Reply[Structure]:
        """Delete one of this connection's own."""
        if not where.kind.is_temporary:
            raise InvalidDestinationError(f"{where!r} is not temporary")
        if where not in self._own:
            raise InvalidDestinationError(f"{where!r} does not belong to this connection, or is deleted")
        if self._members.consumes_from(where):
            raise IllegalStateError(f"{where!r} has a consumer: close it first")
        del self._own[where]
        self._gone[where] = None
        return self._requests.request(self._info(where, DestinationOperation.REMOVE), survives=False)

    def discard(self, where: Destination) -> None:
        """Delete one that is not used any more, without waiting for it; without a link the broker has forgotten it."""
        self._own.pop(where, None)
        self._gone[where] = None
        self._link.one_way(self._info(where, DestinationOperation.REMOVE))

    def check_not_gone(self, where: Destination) -> None:
        if where in self._gone:
            raise InvalidDestinationError(f"{where!r} is deleted: nothing can be sent to it")

    def check_own(self, where: Destination) -> None:
        """Only the connection that made it consumes from it."""
        if where not in self._own:
            raise InvalidDestinationError(
                f"{where!r} belongs to another connection, or is deleted: only its own can consume from it"
            )

    def restore(self) -> None:
        """Make the confirmed ones again, on a new link; the other requests are repeated anyway."""
        for where, is_confirmed in self._own.items():
            if is_confirmed:
                reply = self._requests.request(self._info(where, DestinationOperation.ADD), survives=False)
                reply.then(self._requests.report)

    def _info(self, where: Destination, operation: DestinationOperation) -> commands.DestinationInfo:
        return commands.DestinationInfo(
            connection_id=self._connection_id,
            destination=destination_to_wire(where),
            operation_type=operation,
        )

    # ---- advisories --------------------------------------------------------------------------------------------

    def watch(self) -> None:
        """Ask the broker to tell of temporary destinations; one that does not do so is all right too."""
        self._unacknowledged = 0
        info = commands.ConsumerInfo(
            consumer_id=self._watch_id,
            destination=_ADVISORIES,
            prefetch_size=_WATCH_PREFETCH,
            dispatch_async=True,
            no_local=True,
        )
        self._requests.request(info, survives=False)

    def is_watching(self, consumer_id: commands.ConsumerId) -> bool:
        return consumer_id == self._watch_id

    def on_advisory(self, dispatch: Dispatch) -> None:
        self._unacknowledged += 1
        if self._unacknowledged >= _WATCH_ACK_AT:
            self._acknowledge(dispatch)
        info = dispatch.extras.data_structure
        if not isinstance(info, commands.DestinationInfo):
            return
        try:
            where = destination_from_wire(info.destination)
        except AckwireError:  # the broker's own affair
            return
        if info.operation_type == DestinationOperation.REMOVE:
            self._gone[where] = None
        elif not self._has_own_name(where):  # we know better: news of its making may come after we deleted it
            self._gone.pop(where)

    def _has_own_name(self, where: Destination) -> bool:
        return where.name.startswith(f"{self._connection_id.value}:")

    def _acknowledge(self, last: Dispatch) -> None:
        self._requests.send_ack(
            last.channel.ack_template,
            AckType.STANDARD,
            None,
            last.encoded_id,
            self._unacknowledged,
            cause=None,
            wants_answer=False,
        )
        self._unacknowledged = 0
