"""What an advisory carries: the command that ActiveMQ would put into it."""

from ackwire.jms.message_editor import Advisory, AdvisoryKind, ConsumerDetails
from ackwire.wire.openwire import commands
from ackwire.wire.openwire.codec_fast import destination_to_wire
from ackwire.wire.openwire.id_text import consumer_id_of, producer_id_of
from ackwire.wire.openwire.structures import Structure


def payload_of(about: Advisory, message: commands.Message | None) -> Structure | None:
    """The command of an advisory; *message* is the one it is about, without its body."""
    match about.kind:
        case AdvisoryKind.CONNECTION_ADDED:
            return commands.ConnectionInfo(
                connection_id=_connection_id(about), client_id=about.client_id, password="", user_name=about.user
            )
        case AdvisoryKind.CONNECTION_REMOVED:
            return commands.RemoveInfo(object_id=_connection_id(about))
        case AdvisoryKind.CONSUMER_ADDED:
            assert about.consumer is not None
            return _consumer_info(about.consumer, about.client_id)
        case AdvisoryKind.CONSUMER_REMOVED:
            return commands.RemoveInfo(object_id=consumer_id_of(about.consumer_id))
        case AdvisoryKind.PRODUCER_ADDED:
            where = None if about.destination is None else destination_to_wire(about.destination)
            return commands.ProducerInfo(producer_id=producer_id_of(about.producer_id), destination=where)
        case AdvisoryKind.PRODUCER_REMOVED:
            return commands.RemoveInfo(object_id=producer_id_of(about.producer_id))
        case AdvisoryKind.DESTINATION_ADDED:
            return _destination_info(about, commands.DestinationOperation.ADD)
        case AdvisoryKind.DESTINATION_REMOVED:
            return _destination_info(about, commands.DestinationOperation.REMOVE)
        case AdvisoryKind.MESSAGE:
            assert message is not None
            return message
        case AdvisoryKind.PLAIN:
            return None


def _connection_id(about: Advisory) -> commands.ConnectionId:
    assert about.connection_id is not None
    return commands.ConnectionId(about.connection_id)


def _consumer_info(consumer: ConsumerDetails, client_id: str | None) -> commands.ConsumerInfo:
    return commands.ConsumerInfo(
        consumer_id=consumer_id_of(consumer.consumer_id),
        browser=consumer.browser,
        destination=destination_to_wire(consumer.destination),
        prefetch_size=consumer.prefetch,
        dispatch_async=True,
        selector=consumer.selector,
        client_id=client_id,
        subscription_name=consumer.subscription_name,
        no_local=consumer.no_local,
        exclusive=consumer.exclusive,
        priority=consumer.priority,
    )


def _destination_info(about: Advisory, operation: commands.DestinationOperation) -> commands.DestinationInfo:
    assert about.destination is not None
    return commands.DestinationInfo(
        connection_id=None if about.connection_id is None else _connection_id(about),
        destination=destination_to_wire(about.destination),
        operation_type=operation,
    )
