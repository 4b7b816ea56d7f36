"""How stores keep what only OpenWire can read: `ackwire.store.contract.StoredForm`."""

from collections.abc import Hashable
from typing import cast

from ackwire.errors import RemoteProtocolError
from ackwire.jms.destinations import derived_destination
from ackwire.jms.message import Message
from ackwire.wire.openwire import commands
from ackwire.wire.openwire.codec_fast import CANONICAL, FastDecoder
from ackwire.wire.openwire.layout import LONG, SIZE_BYTES
from ackwire.wire.openwire.limits import DEFAULT_LIMITS, WireLimits
from ackwire.wire.openwire.marshal import Codec


class OpenWireStoredForm:
    """Implements `StoredForm` on canonical frames. `JdbcRows` adds what stands in ActiveMQ's tables."""

    __slots__ = ("_decoder", "_plain")

    def __init__(self, limits: WireLimits = DEFAULT_LIMITS) -> None:
        self._decoder = FastDecoder(limits, derived_destination)
        self._plain = Codec(CANONICAL, limits)

    def message(self, frame: bytes) -> Message:
        """The message in *frame*, which was stamped before it was kept."""
        message = self._decoder.message(frame)
        message.sequence = LONG.unpack_from(frame, message.origin.id_end)[0]
        message.redelivery_counter = 0
        return message

    def transaction_to_bytes(self, transaction_id: Hashable) -> bytes:
        return self._plain.encode(cast(commands.TransactionId, transaction_id))[SIZE_BYTES:]

    def transaction_from_bytes(self, data: bytes) -> Hashable:
        transaction_id = self._plain.decode(data)
        if not isinstance(transaction_id, commands.TransactionId):
            raise RemoteProtocolError(f"{type(transaction_id).__name__} is no transaction id")
        return cast(Hashable, transaction_id)
