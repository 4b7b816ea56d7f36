"""One consumer: which messages wait for the application, which it has, and which acks the broker gets (C, D, E, F).

How it works. Dispatched messages wait in a channel. `take` returns the next; `begin` notes it as delivered; `finish`
says that the application has it, or is done with it. When it is acknowledged depends on the ack mode:

    AUTO                at once
    AUTO, optimized     and DUPS_OK on a queue: in ranges of 0.65 × prefetch, or after a time (D2, D4; `range_acks.py`)
    DUPS_OK on a topic  in ranges of 0.5 × prefetch (D4)
    CLIENT, INDIVIDUAL  when the application says so
    transacted          when the transaction commits

In the last two, DELIVERED acks report at 0.5 × prefetch that messages have arrived, so that the broker pushes more (D3,
`delivered_acks.py`).

`roll_back` puts what was delivered back in front of the channel, waits for the delay of the policy, and gives up on
messages that came too often (F, `redelivery.py`). After the loss of a link the broker delivers again what was not
acknowledged: `interrupted` empties the channel, and `link_memory.py` remembers what must not be processed twice.
"""

from collections.abc import Callable
from itertools import count
from random import Random
from typing import Final, Protocol

from ackwire.client.core.ack_sender import AckSender
from ackwire.client.core.connection import ConnectionCore
from ackwire.client.core.delivered_acks import DeliveredAcks
from ackwire.client.core.delivery import ByPriority, Channel, Delivery, Fifo
from ackwire.client.core.link_memory import LinkMemory
from ackwire.client.core.modes import AckMode
from ackwire.client.core.pulling import Pulls
from ackwire.client.core.range_acks import range_acks
from ackwire.client.core.redelivery import Redelivery
from ackwire.client.core.reply import Reply
from ackwire.client.core.transaction import Transactions
from ackwire.client.errors import IllegalStateError
from ackwire.client.message import Message
from ackwire.client.options import RedeliveryPolicy
from ackwire.errors import RemoteProtocolError
from ackwire.jms.destinations import Destination
from ackwire.wire.openwire import commands
from ackwire.wire.openwire.client_decode import Dispatch
from ackwire.wire.openwire.commands import LAST_DELIVERED_NOTHING, AckType
from ackwire.wire.openwire.limits import DEFAULT_LIMITS
from ackwire.wire.openwire.structures import Structure

_STANDARD: Final = AckType.STANDARD  # members of an enumeration take time to look up
_INDIVIDUAL: Final = AckType.INDIVIDUAL
_BEYOND_WINDOW_MAX: Final = 40_000
"""Messages that a broker may send beyond twice the prefetch, which it may have lowered meanwhile, before that is an
attack: none does, and memory has an end."""


class ConsumingSession(Protocol):
    """A session, as its consumers see it."""

    @property
    def connection(self) -> ConnectionCore: ...

    @property
    def transactions(self) -> Transactions: ...

    @property
    def ack_mode(self) -> AckMode: ...

    @property
    def random(self) -> Random: ...

    @property
    def is_transacted(self) -> bool: ...

    @property
    def acknowledge_from_message(self) -> Callable[[Message], None]: ...

    @property
    def acknowledge_one(self) -> "Callable[[ConsumerCore, Delivery], None]": ...

    @property
    def reject_one(self) -> "Callable[[ConsumerCore, Delivery, BaseException], None]": ...

    def wake(self) -> None: ...

    def remove_consumer(self, consumer: "ConsumerCore") -> None: ...

    def leave_at_end(self, consumer: "ConsumerCore") -> None:
        """*consumer* is closed, and leaves when the transaction that consumed from it is decided."""


class ConsumerCore:
    """The state of one consumer."""

    def __init__(
        self,
        session: ConsumingSession,
        info: commands.ConsumerInfo,
        destination: Destination,
        policy: RedeliveryPolicy,
    ) -> None:
        assert info.consumer_id is not None
        self._session = session
        self._connection = session.connection
        self._link = session.connection.link
        self._requests = session.connection.requests
        self._options = session.connection.options
        self._info = info
        self.consumer_id = info.consumer_id
        self.destination = destination
        self._prefetch = info.prefetch_size
        self.is_announced = False
        self.is_closed = False
        self.ending: IllegalStateError | None = None
        """Why it was closed, if not by the application."""
        self.wake: Callable[[], None] = _nothing
        """Called when something may be there to take, or the consumer has ended."""
        # A browser only looks: whatever its session does, what it has seen is acknowledged.
        self._mode = AckMode.AUTO if info.browser else session.ack_mode
        self._application_acknowledges = self._mode in (AckMode.CLIENT, AckMode.INDIVIDUAL)
        self._channel: Channel = ByPriority() if self._options.message_priority_supported else Fifo()
        self._delivered: dict[Delivery, None] = {}
        """Given to the application and not acknowledged, oldest first."""
        self._handed_over: dict[Delivery, None] = {}
        """What belongs to XA transactions that are not decided."""
        self._acks = AckSender(self._connection, self.consumer_id)
        self._delivered_acks = DeliveredAcks(self._acks, self.prefetch)
        self._memory = LinkMemory(self._connection)
        self.redelivery = Redelivery(
            policy, self._channel, self._acks, self._memory, self._connection, session.random, lambda: self.wake()
        )
        self._ranges = (
            None
            if info.browser
            else range_acks(
                self._mode, destination, self._delivered, self._send_standard, self._connection, self.prefetch
            )
        )
        """For modes that acknowledge in ranges; None for the others."""
        self._arrivals = count()
        self._last_seen = LAST_DELIVERED_NOTHING
        """Of what is not acknowledged at the end: the last that the application has seen, in the broker's order."""
        self.pulls = Pulls(self._link, self.consumer_id, destination)

    def info(self) -> commands.ConsumerInfo:
        return self._info

    @property
    def is_transacted(self) -> bool:
        """Whether what is consumed now belongs to a transaction."""
        return self._session.is_transacted and not self._info.browser

    @property
    def prefetch(self) -> int:
        """How many messages the broker pushes ahead."""
        return self._prefetch

    @prefetch.setter
    def prefetch(self, prefetch: int) -> None:
        """The broker may change it (ConsumerControl)."""
        self._prefetch = self._delivered_acks.prefetch = prefetch
        if self._ranges is not None:
            self._ranges.prefetch = prefetch

    @property
    def is_pulling(self) -> bool:
        """Whether it asks for each message, and the broker pushes none (C3)."""
        return self._prefetch == 0 and not self._info.browser

    def pull(self, timeout_ms: int) -> bool:
        """Ask for one message, unless one is here; False if there is no link."""
        return len(self._channel) > 0 or self.pulls.ask(timeout_ms)

    # ---- from the broker ---------------------------------------------------------------------------------------

    def on_dispatch(self, dispatch: Dispatch) -> None:
        """Take what the broker sent."""
        if self.is_closed and not self._memory.awaits_redeliveries:
            return  # a closed consumer takes only what its transaction must have again
        delivery = Delivery(dispatch, self._link.epoch, next(self._arrivals))
        if len(self._channel) > 2 * self._prefetch + _BEYOND_WINDOW_MAX:
            raise RemoteProtocolError(f"{len(self._channel)} messages wait here, and the prefetch is {self.prefetch}")
        self.pulls.answered()
        if self._connection.is_failover and not self._info.browser and self._has_been_here(delivery):
            return
        if self.is_closed:
            return
        # A caller waits only if it has seen that nothing was there: later messages need not wake it.
        is_first = not self._channel
        self._channel.put(delivery)
        if is_first:
            self.wake()

    def on_end_of_messages(self) -> None:
        """The broker has none: a pull found nothing, or a browse is at its end."""
        self.pulls.ended()
        self.wake()

    def _has_been_here(self, delivery: Delivery) -> bool:
        """Whether this needs no processing again, because of what happened on an earlier link (J4)."""
        self._memory.restore_counter(delivery)
        if self._was_acknowledged(delivery):
            return True
        if self._memory.came_again(delivery):
            self._delivered[delivery] = None
            self._acks.is_shuffled = True
            self._report_delivered(delivery)
            self._session.wake()
            return True
        return False

    def _was_acknowledged(self, delivery: Delivery) -> bool:
        """Whether the application acknowledged it on an earlier link; then it is acknowledged again."""
        if not self._memory.has_acknowledged(delivery):
            return False
        self._acks.send(AckType.INDIVIDUAL, [delivery])
        return True

    def closed_by_broker(self) -> None:
        """The broker has ended this consumer."""
        self.ending = IllegalStateError(f"the broker has closed this consumer of {self.destination!r}")
        self._connection.hooks.failed(self.ending)
        self._session.remove_consumer(self)
        self._end()

    # ---- to the application ------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._channel)

    def take(self) -> Delivery | None:
        """The next message that is good; None if there is none."""
        if self._session.transactions.deciding is not None and self.is_transacted:
            return None  # it would belong to neither transaction
        channel, connection, redelivery = self._channel, self._connection, self.redelivery
        while channel and connection.is_started and redelivery.delay_timer is None and not self.is_closed:
            delivery = channel.take()
            if self._is_new(delivery) or self._is_good(delivery):
                return delivery
        return None

    def _is_new(self, delivery: Delivery) -> bool:
        """Whether there is nothing that could be wrong with it."""
        return not (self._connection.is_failover or delivery.dispatch.expiration or delivery.redelivery_counter)

    def _is_good(self, delivery: Delivery) -> bool:
        if self._connection.is_failover and not self._info.browser and self._was_acknowledged(delivery):
            return False  # while it was waiting here
        if delivery.dispatch.expiration and self._is_expired(delivery):
            self.redelivery.remember_counters([delivery])
            self._acks.send(AckType.EXPIRED, [delivery])
            return False
        # Only in transactions, as ActiveMQ's client does: elsewhere the count matters when it is to be given again.
        if self.is_transacted and self.redelivery.came_too_often(delivery):
            self.redelivery.give_up([delivery], f"dispatch to {self.consumer_id} exceeds redelivery policy limit")
            return False
        return True

    def _is_expired(self, delivery: Delivery) -> bool:
        is_checked = self._options.consumer_expiry_check_enabled and not self._info.browser
        return is_checked and delivery.is_expired(self._connection.clock.now_ms())

    def begin(self, delivery: Delivery) -> Message:
        """*delivery* goes to the application now."""
        self._delivered[delivery] = None
        if self.is_transacted:
            self._session.transactions.begin()
            if self._options.transacted_individual_ack:
                transaction_id = self._session.transactions.transaction_id
                self._acks.send(AckType.INDIVIDUAL, [delivery], transaction_id=transaction_id)
            else:
                self._report_delivered(delivery)
        if not self._application_acknowledges:
            return delivery.new_message(_nothing_to_acknowledge, DEFAULT_LIMITS)
        if self._mode is AckMode.CLIENT:
            return delivery.new_message(self._session.acknowledge_from_message, DEFAULT_LIMITS)
        message = delivery.new_message(lambda _: self._session.acknowledge_one(self, delivery), DEFAULT_LIMITS)
        message.rejecter = lambda cause: self._session.reject_one(self, delivery, cause)
        return message

    def finish(self, delivery: Delivery) -> list[Reply[Structure]]:
        """The application has it (receive), or its listener returned."""
        if self.is_transacted:
            return []
        if self._application_acknowledges:
            if delivery in self._delivered:  # not acknowledged while it was processed
                self._report_delivered(delivery)
        elif delivery.epoch != self._link.epoch:
            self._memory.acknowledge_one(delivery)
        elif self._ranges is not None:
            return self._ranges.consumed()
        else:
            return self._acknowledge_all_delivered()
        return []

    def _acknowledge_all_delivered(self) -> list[Reply[Structure]]:
        delivered = list(self._delivered)
        self._delivered.clear()
        if len(delivered) == 1:
            return self._acknowledge_alone(_STANDARD, delivered[0])
        return self._send_standard(delivered) if delivered else []

    def _acknowledge_alone(self, ack_type: AckType, delivery: Delivery) -> list[Reply[Structure]]:
        """`AckSender.send_all` for one message outside of transactions, which is the usual case: 0.8 µs less."""
        if self._connection.acknowledged is not None or not self._options.send_acks_async:
            self._memory.remember_acknowledged([delivery])
            return self._acks.send_all(ack_type, [delivery])
        self._link.acknowledge(ack_type, delivery.dispatch)
        return []

    def _send_standard(self, deliveries: list[Delivery]) -> list[Reply[Structure]]:
        self._memory.remember_acknowledged(deliveries)
        return self._acks.send_all(_STANDARD, deliveries)

    def _report_delivered(self, delivery: Delivery) -> None:
        """It is not done, but the broker needs to know in time that it has arrived, to push more."""
        # A consumer that pulls gets nothing pushed; and while ActiveMQ handles the ack, it may answer a pull twice.
        if delivery.epoch == self._link.epoch and not self.is_pulling:
            self._delivered_acks.note(delivery)

    # ---- acknowledging, as the application asks ----------------------------------------------------------------

    def acknowledge(self) -> list[Reply[Structure]]:
        """Everything that the application was given (D3), and in a transaction what it consumed (D5)."""
        self._memory.acknowledge_all()
        if self._ranges is not None:
            replies = self._ranges.acknowledge()
            if not self.is_transacted:
                return replies
        delivered = list(self._delivered)
        self._delivered_acks.forget_first()
        if not delivered:
            return []
        if self.is_transacted:
            if not self._options.transacted_individual_ack:
                self._acks.send_all(AckType.STANDARD, delivered, self._session.transactions.transaction_id)
            return []
        self._take_back(delivered)
        self._memory.remember_acknowledged(delivered)
        if self._mode is AckMode.INDIVIDUAL:  # others may lie between them
            return [reply for delivery in delivered for reply in self._acks.send_all(AckType.INDIVIDUAL, [delivery])]
        return self._acks.send_all(AckType.STANDARD, delivered)

    def acknowledge_one(self, delivery: Delivery) -> list[Reply[Structure]]:
        """This message alone (D6)."""
        if delivery in self._delivered:
            self._take_back([delivery])
            return self._acknowledge_alone(_INDIVIDUAL, delivery)
        self._memory.acknowledge_one(delivery)
        return []

    def reject(self, delivery: Delivery, cause: BaseException) -> None:
        """This message alone could not be processed: it comes again, or is given up (F)."""
        if delivery in self._delivered:
            self._take_back([delivery])
            self._redeliver([delivery], cause)

    def _take_back(self, deliveries: list[Delivery]) -> None:
        """They are no longer with the application."""
        for delivery in deliveries:
            self._delivered.pop(delivery, None)
        self._delivered_acks.take_back(len(deliveries))

    # ---- transactions and redelivery ---------------------------------------------------------------------------

    def missing_redeliveries(self) -> int:
        """How much of what the transaction consumed has not come again on the new link."""
        return self._memory.missing_redeliveries()

    @property
    def has_consumed(self) -> bool:
        """Whether the open transaction has consumed something here."""
        return bool(self._delivered) or self._memory.awaits_redeliveries

    def hand_over(self) -> list[Delivery]:
        """What was delivered now belongs to an XA transaction that will be decided later."""
        delivered = list(self._delivered)
        self._take_back(delivered)
        self._memory.end_transaction()
        self._handed_over.update(dict.fromkeys(delivered))
        return delivered

    def decided(self, delivered: list[Delivery], *, committed: bool) -> None:
        """The end of what was handed over."""
        for delivery in delivered:
            self._handed_over.pop(delivery, None)
        if committed:
            self._memory.remember_acknowledged(delivered)
        else:
            again = [delivery for delivery in delivered if delivery.epoch == self._link.epoch]
            if again and not self.is_closed:
                self._redeliver(again, None)

    def committed(self) -> None:
        """The transaction is done: so is what it consumed."""
        consumed = list(self._delivered)
        self._memory.remember_acknowledged(consumed)
        self._take_back(consumed)
        self._memory.clear()
        self.redelivery.reset_delay()

    def roll_back(self, cause: BaseException | None = None) -> None:
        """What was delivered and not acknowledged comes again, or is given up (F1)."""
        self._memory.clear()
        if self._ranges is not None:
            self._ranges.acknowledge()  # these were consumed, and only their ack was kept back
        delivered = list(self._delivered)
        if delivered:
            self._take_back(delivered)
            self._redeliver(delivered, cause)

    def _redeliver(self, delivered: list[Delivery], cause: BaseException | None) -> None:
        self.redelivery.redeliver(delivered, cause, others_in_flight=bool(self._delivered or self._handed_over))

    # ---- links -------------------------------------------------------------------------------------------------

    def interrupted(self) -> None:
        """The link is lost: the broker will deliver again what it was not told of."""
        waiting = self._channel.take_all() + self.redelivery.cancel()
        self.redelivery.remember_counters(waiting)
        self._delivered_acks.reset()
        self._acks.is_shuffled = False
        self.pulls.interrupted()
        self._forget_delivered()
        self.wake()

    def _forget_delivered(self) -> None:
        delivered = list(self._delivered)
        self._delivered.clear()
        self._memory.remember_counters(delivered, increment=1)
        if self._ranges is not None:
            consumed = self._ranges.take_count()
            self._memory.remember_acknowledged(delivered[:consumed])
            delivered = delivered[consumed:]
        if self._session.transactions.is_in_xa:
            return  # the branch is lost with the link, and its messages come again as any others
        if self.is_transacted:
            self._memory.expect_again(delivered)
        else:
            self._memory.keep_with_application(delivered)

    # ---- end ---------------------------------------------------------------------------------------------------

    def close(self) -> Reply[Structure] | None:
        """Leave; what was not acknowledged goes back (D7). The reply comes when it has."""
        if self.is_closed:
            return None
        self.prepare_to_close()
        if self.is_transacted and self._delivered and self._session.transactions.is_active:
            # What the transaction consumed must stay in flight until it is decided.
            self._session.leave_at_end(self)
            return None
        return self.leave()

    def prepare_to_close(self) -> None:
        """Give out nothing more, and keep no acknowledgement back."""
        if not self.is_closed:
            if self._ranges is not None:
                self._ranges.acknowledge()
            self._end()

    def leave(self) -> Reply[Structure] | None:
        """Tell the broker that this consumer is no more."""
        self._session.remove_consumer(self)
        if not self._link.is_up:
            return None
        return self._requests.request(self._leave_info(), survives=False)

    def leave_unanswered(self) -> None:
        """The same, as part of something that is answered."""
        self._session.remove_consumer(self)
        self._link.one_way(self._leave_info())

    def _leave_info(self) -> commands.RemoveInfo:
        return commands.RemoveInfo(object_id=self.consumer_id, last_delivered_sequence_id=self._last_seen)

    def _end(self) -> None:
        self.is_closed = True
        waiting = self._channel.take_all() + self.redelivery.cancel()
        # The broker marks as redelivered what it dispatched up to this one, as far as it still has it.
        seen = [
            *self._delivered,
            *self._handed_over,
            *(delivery for delivery in waiting if delivery.is_redelivered_here),
        ]
        last = max(seen, key=lambda delivery: delivery.arrival, default=None)
        self._last_seen = LAST_DELIVERED_NOTHING if last is None else last.dispatch.broker_sequence
        if self._ranges is not None:
            self._ranges.end()
        self.wake()


def _nothing() -> None:
    pass


def _nothing_to_acknowledge(_: Message) -> None:
    """Where the session acknowledges by itself, the application's word is ignored, as JMS says."""
