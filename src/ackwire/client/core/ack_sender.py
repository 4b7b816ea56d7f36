"""The acks of one consumer on the wire: one for a range of messages, or one for each (D)."""

from ackwire.client.core.connection import ConnectionCore
from ackwire.client.core.delivery import Delivery
from ackwire.client.core.reply import Reply
from ackwire.wire.openwire import commands
from ackwire.wire.openwire.client_encode import AckTemplate
from ackwire.wire.openwire.commands import AckType
from ackwire.wire.openwire.structures import Structure, Throwable


class AckSender:
    """Sends the acks of one consumer."""

    def __init__(self, connection: ConnectionCore, consumer_id: commands.ConsumerId) -> None:
        self._requests = connection.requests
        self._options = options = connection.options
        self._consumer_id = consumer_id
        self._keeps_order = not (options.message_priority_supported or options.non_blocking_redelivery)
        """Whether messages are consumed as they were dispatched, so that a range holds nothing else."""
        self.is_shuffled = False
        """Whether, on this link, messages that came again were taken ahead of others."""

    def send(
        self,
        ack_type: AckType,
        deliveries: list[Delivery],
        *,
        count: int | None = None,
        transaction_id: commands.TransactionId | None = None,
        cause: Throwable | None = None,
        wants_answer: bool = False,
    ) -> Reply[Structure] | None:
        """Send one ack, from the first of *deliveries* to the last."""
        last = deliveries[-1].dispatch
        template = last.channel.ack_template
        if transaction_id is not None:
            template = AckTemplate(self._consumer_id, last.destination, transaction_id)
        return self._requests.send_ack(
            template,
            ack_type,
            deliveries[0].dispatch.encoded_id,
            last.encoded_id,
            len(deliveries) if count is None else count,
            cause=cause,
            wants_answer=wants_answer,
        )

    def send_all(
        self,
        ack_type: AckType,
        deliveries: list[Delivery],
        transaction_id: commands.TransactionId | None = None,
    ) -> list[Reply[Structure]]:
        """Send as few acks as *deliveries* need; the broker answers them only with sendAcksAsync off."""
        wants_answer = (
            not self._options.send_acks_async and transaction_id is None and ack_type is not AckType.REDELIVERED
        )
        replies = [
            self.send(ack_type, group, transaction_id=transaction_id, wants_answer=wants_answer)
            for group in self.groups(deliveries)
        ]
        return [reply for reply in replies if reply is not None]

    def groups(self, deliveries: list[Delivery]) -> list[list[Delivery]]:
        """The parts that one ack may cover: everything, or each alone where other messages may lie between them."""
        is_range = self._keeps_order and not self.is_shuffled
        return [deliveries] if is_range else [[delivery] for delivery in deliveries]
