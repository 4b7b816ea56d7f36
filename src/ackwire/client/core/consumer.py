"""One consumer: what waits for the application, what it has been given, and what the broker is told of it (C, D, E, F).

How it works. Dispatched messages wait in a channel. `take` gives the next one; `begin` notes it as delivered; `finish`
says that the application has it, or is done with it, and what happens then depends on the ack mode:

    AUTO                each message is acknowledged at once
    AUTO, optimized     and DUPS_OK on a queue: one range at 0.65 × prefetch or after a time (D2, D4)
    DUPS_OK on a topic  one range at 0.5 × prefetch, with no word before (D4)
    CLIENT, INDIVIDUAL  when the application says so; until then the broker hears at 0.5 × prefetch that messages have
    transacted          arrived (DELIVERED), so that it goes on pushing (D3); transactions acknowledge when they commit

`roll_back` puts what was delivered back in front of the channel, waits for the delay of the policy, and gives up on
messages that came too often (F). After the loss of a link the broker delivers again whatever was not acknowledged:
`interrupted` forgets what waits, and remembers what must not be processed twice.
"""

from collections.abc import Callable
from itertools import count, islice
from random import Random
from typing import Final, Protocol

from ackwire.client.core.connection import ConnectionCore
from ackwire.client.core.delivery import ByPriority, Channel, Delivery, Fifo, Key
from ackwire.client.core.modes import AckMode
from ackwire.client.core.redelivery import is_exceeded, next_delay_ms
from ackwire.client.core.reply import Reply
from ackwire.client.core.transaction import Transactions
from ackwire.client.errors import IllegalStateError
from ackwire.client.message import Message
from ackwire.client.options import RedeliveryPolicy
from ackwire.errors import RemoteProtocolError
from ackwire.jms.destinations import Destination
from ackwire.util.clock import Timer
from ackwire.util.lru import Recent
from ackwire.wire.openwire import commands
from ackwire.wire.openwire.client_decode import Dispatch
from ackwire.wire.openwire.client_encode import AckTemplate
from ackwire.wire.openwire.codec_fast import destination_to_wire
from ackwire.wire.openwire.commands import LAST_DELIVERED_NOTHING, AckType
from ackwire.wire.openwire.limits import DEFAULT_LIMITS
from ackwire.wire.openwire.structures import Structure, Throwable

OPTIMIZED_ACK_SHARE: Final = 0.65
"""Of prefetch: when a range of consumed messages is acknowledged (D2)."""
LAZY_ACK_SHARE: Final = 0.5
"""The same for DUPS_OK on a topic (D4)."""
DELIVERED_ACK_SHARE: Final = 0.5
"""Of prefetch: when the broker hears that messages have arrived (D3)."""
PULL_FOR_EVER: Final = 0
PULL_NO_WAIT: Final = -1
_STANDARD: Final = AckType.STANDARD  # members of an enumeration take time to look up
_INDIVIDUAL: Final = AckType.INDIVIDUAL
_THROWABLE: Final = "java.lang.Throwable"
_BEYOND_WINDOW_MAX: Final = 40_000
"""Messages that a broker may send beyond twice the prefetch, which it may have lowered meanwhile, before that is an
attack: none does, and memory has an end."""
_COUNTERS_MAX: Final = 100_000
"""Messages that a consumer may have had when a link was lost: more than the largest prefetch."""


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
        self.prefetch = info.prefetch_size
        self.policy = policy
        self.is_announced = False
        self.is_closed = False
        self.ending: IllegalStateError | None = None
        """Why it was closed, if not by the application."""
        self.wake: Callable[[], None] = _nothing
        """Called when something may be there to take, or the consumer has ended."""
        self.has_listener = False
        # A browser only looks: whatever its session does, what it has seen is acknowledged.
        self._mode = AckMode.AUTO if info.browser else session.ack_mode
        self._acks_in_ranges = (
            self.prefetch > 0
            and not info.browser
            and (self._mode is AckMode.DUPS_OK or (self._mode is AckMode.AUTO and self._options.optimize_acknowledge))
        )
        self._is_told = self._mode in (AckMode.CLIENT, AckMode.INDIVIDUAL)
        """Whether it is the application who acknowledges."""
        is_lazy = self._mode is AckMode.DUPS_OK and not destination.kind.is_queue
        self._range_share = LAZY_ACK_SHARE if is_lazy else OPTIMIZED_ACK_SHARE
        self._range_seconds = 0 if is_lazy else self._options.optimize_acknowledge_timeout_ms / 1000
        self._channel: Channel = ByPriority() if self._options.message_priority_supported else Fifo()
        self._keeps_order = not (self._options.message_priority_supported or self._options.non_blocking_redelivery)
        """Whether messages are consumed as they were dispatched, so that a range holds nothing else."""
        self._is_shuffled = False
        """Whether, on this link, messages that came again were taken ahead of others."""
        self._delivered: dict[Delivery, None] = {}
        """Given to the application and not acknowledged, oldest first."""
        self._delivered_count = 0
        self._ack_count = 0
        """Consumed and not yet acknowledged, while acknowledging in ranges."""
        self._told = 0
        """Of the delivered ones, how many the broker has been told of: its window is larger by so many."""
        self._first_untold: Delivery | None = None
        self._last_ack_at = session.connection.clock.monotonic()
        self._ack_timer: Timer | None = None
        self._arrivals = count()
        self._last_seen = LAST_DELIVERED_NOTHING
        """Of what is not acknowledged at the end: the last that the application has seen, in the broker's order."""
        self._delay_ms = 0
        self._delay_timer: Timer | None = None
        self._put_aside: list[tuple[Timer, list[Delivery]]] = []
        """Waiting for their redelivery beside the others (nonBlockingRedelivery)."""
        self._stale: dict[Key, Delivery] = {}
        """Given to the application on an earlier link: they will come again."""
        self._counters: Recent[Key, int] = Recent(_COUNTERS_MAX)
        """How often messages have been redelivered that will come again on another link: a broker that was restarted
        does not know that the application has seen them."""
        self._expected: dict[Key, bool] = {}
        """What the open transaction consumed on an earlier link: whether it has come again."""
        self._handed_over: dict[Delivery, None] = {}
        """What belongs to XA transactions that are not decided."""
        self._pulls = 0
        """Pulls that the broker has not answered."""
        self.is_at_end = False
        """Whether the broker has said that there is nothing (more)."""

    def info(self) -> commands.ConsumerInfo:
        return self._info

    @property
    def is_transacted(self) -> bool:
        """Whether what is consumed now belongs to a transaction."""
        return self._session.is_transacted and not self._info.browser

    # ---- from the broker ---------------------------------------------------------------------------------------

    def on_dispatch(self, dispatch: Dispatch) -> None:
        """Take what the broker sent."""
        if self.is_closed and not self._expected:  # one that is closed may still belong to a transaction
            return
        delivery = Delivery(dispatch, self._link.epoch, next(self._arrivals))
        if len(self._channel) > 2 * self.prefetch + _BEYOND_WINDOW_MAX:
            raise RemoteProtocolError(f"{len(self._channel)} messages wait here, and the prefetch is {self.prefetch}")
        if self._pulls:
            self._pulls -= 1
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
        self._pulls = max(0, self._pulls - 1)
        self.is_at_end = True
        self.wake()

    def _has_been_here(self, delivery: Delivery) -> bool:
        """Whether this needs no processing again, because of what happened on an earlier link (J4)."""
        key = delivery.key
        delivery.redelivery_counter = max(delivery.redelivery_counter, self._counters.pop(key) or 0)
        if self._was_acknowledged(delivery):
            return True
        if key in self._expected:
            self._expected[key] = True
            self._delivered[delivery] = None
            self._is_shuffled = True
            self._tell_later(delivery)
            self._session.wake()
            return True
        return False

    def _was_acknowledged(self, delivery: Delivery) -> bool:
        """Whether the application has acknowledged it before, and the word was lost; then it is given again."""
        acknowledged = self._connection.acknowledged
        if acknowledged is None or delivery.key not in acknowledged:
            return False
        self._ack(AckType.INDIVIDUAL, [delivery])
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
        channel, connection = self._channel, self._connection
        while channel and connection.is_started and self._delay_timer is None and not self.is_closed:
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
            self._remember_counters([delivery])
            self._ack(AckType.EXPIRED, [delivery])
            return False
        if self.is_transacted and self._came_too_often(delivery):
            self._poison([delivery], f"dispatch to {self.consumer_id} exceeds redelivery policy limit")
            return False
        return True

    def _came_too_often(self, delivery: Delivery) -> bool:
        """Whether to give it up unseen. Only in transactions, as ActiveMQ's client does: elsewhere the count is judged
        when it is to be given again."""
        return (
            self.policy.pre_dispatch_check
            and is_exceeded(self.policy, delivery.redelivery_counter)
            and not delivery.is_resent_by_broker
        )

    def _is_expired(self, delivery: Delivery) -> bool:
        is_checked = self._options.consumer_expiry_check_enabled and not self._info.browser
        return is_checked and delivery.is_expired(self._connection.clock.now_ms())

    def begin(self, delivery: Delivery) -> Message:
        """*delivery* goes to the application now."""
        self._delivered[delivery] = None
        if self.is_transacted:
            self._session.transactions.begin()
            if self._options.transacted_individual_ack:
                self._ack(AckType.INDIVIDUAL, [delivery], transaction_id=self._session.transactions.transaction_id)
            else:
                self._tell_later(delivery)
        if not self._is_told:
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
        if self._is_told:
            if delivery in self._delivered:  # not acknowledged while it was processed
                self._tell_later(delivery)
        elif delivery.epoch != self._link.epoch:
            if self._stale.pop(delivery.key, None) is not None:
                self._remember_acknowledged([delivery])
        elif self._acks_in_ranges:
            return self._acknowledge_in_ranges()
        else:
            return self._acknowledge_all_delivered()
        return []

    def _acknowledge_in_ranges(self) -> list[Reply[Structure]]:
        self._ack_count += 1
        clock = self._connection.clock
        is_due = self._range_seconds > 0 and clock.monotonic() >= self._last_ack_at + self._range_seconds
        if is_due or self._ack_count >= self.prefetch * self._range_share:
            return self.acknowledge_range()
        if self._options.optimized_ack_interval_ms > 0 and self._ack_timer is None:
            interval = self._options.optimized_ack_interval_ms / 1000
            self._ack_timer = clock.call_later(interval, self._acknowledge_on_time)
        return []

    def _acknowledge_on_time(self) -> None:
        self._ack_timer = None
        if not self.is_closed:
            self.acknowledge_range()

    def acknowledge_range(self) -> list[Reply[Structure]]:
        """Acknowledge what was consumed and kept for a range."""
        consumed = list(islice(self._delivered, self._ack_count))
        for delivery in consumed:
            del self._delivered[delivery]
        self._ack_count = 0
        self._last_ack_at = self._connection.clock.monotonic()
        return self._send_standard(consumed) if consumed else []

    def _acknowledge_all_delivered(self) -> list[Reply[Structure]]:
        delivered = list(self._delivered)
        self._delivered.clear()
        if len(delivered) == 1:
            return self._acknowledge_alone(_STANDARD, delivered[0])
        return self._send_standard(delivered) if delivered else []

    def _acknowledge_alone(self, ack_type: AckType, delivery: Delivery) -> list[Reply[Structure]]:
        """`_send_acks` of what comes all day, outside of transactions: 0.8 µs less."""
        if self._connection.acknowledged is not None or not self._options.send_acks_async:
            self._remember_acknowledged([delivery])
            return self._send_acks(ack_type, [delivery])
        self._link.acknowledge(ack_type, delivery.dispatch)
        return []

    def _tell_later(self, delivery: Delivery) -> None:
        """Not done, but the broker needs to know in time that it has arrived, to push more."""
        if delivery.epoch != self._link.epoch:
            return
        if self.is_pulling:  # nothing is pushed; and while ActiveMQ deals with it, it may answer a pull twice
            return
        self._delivered_count += 1
        if self._first_untold is None:
            self._first_untold = delivery
        count = self._delivered_count - self._told
        if count >= DELIVERED_ACK_SHARE * self.prefetch:
            first = self._first_untold if self._first_untold.arrival < delivery.arrival else delivery
            self._ack(AckType.DELIVERED, [first, delivery], count=count)
            self._told = self._delivered_count
            self._first_untold = None

    # ---- acknowledging, as the application asks ----------------------------------------------------------------

    def acknowledge(self) -> list[Reply[Structure]]:
        """Everything that the application was given (D3), and in a transaction what it consumed (D5)."""
        self._remember_stale()
        if self._acks_in_ranges:
            return self.acknowledge_range()
        delivered = list(self._delivered)
        self._first_untold = None
        if not delivered:
            return []
        if self.is_transacted:
            if not self._options.transacted_individual_ack:
                self._send_acks(AckType.STANDARD, delivered, self._session.transactions.transaction_id)
            return []
        self._take_back(delivered)
        self._remember_acknowledged(delivered)
        if self._mode is AckMode.INDIVIDUAL:  # others may lie between them
            return [reply for delivery in delivered for reply in self._send_acks(AckType.INDIVIDUAL, [delivery])]
        return self._send_acks(AckType.STANDARD, delivered)

    def acknowledge_one(self, delivery: Delivery) -> list[Reply[Structure]]:
        """This message alone (D6)."""
        if delivery in self._delivered:
            self._take_back([delivery])
            return self._acknowledge_alone(_INDIVIDUAL, delivery)
        stale = self._stale.pop(delivery.key, None)
        if stale is not None:
            self._remember_acknowledged([stale])
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
        self._first_untold = None
        if self._delivered_count:
            self._delivered_count = max(0, self._delivered_count - len(deliveries))
        if self._told:
            self._told = max(0, self._told - len(deliveries))

    def _remember_stale(self) -> None:
        if self._stale:
            self._remember_acknowledged(list(self._stale.values()))
            self._stale.clear()

    def _remember_acknowledged(self, deliveries: list[Delivery]) -> None:
        audit = self._connection.acknowledged
        if audit is not None:
            for delivery in deliveries:
                audit[delivery.key] = None

    # ---- transactions and redelivery ---------------------------------------------------------------------------

    def missing_redeliveries(self) -> int:
        """How much of what the transaction consumed has not come again on the new link."""
        return sum(not has_come for has_come in self._expected.values())

    @property
    def has_consumed(self) -> bool:
        """Whether the open transaction has consumed something here."""
        return bool(self._delivered or self._expected)

    def hand_over(self) -> list[Delivery]:
        """What was delivered now belongs to an XA transaction that will be decided later."""
        delivered = list(self._delivered)
        self._take_back(delivered)
        self._expected.clear()
        self._handed_over.update(dict.fromkeys(delivered))
        return delivered

    def decided(self, delivered: list[Delivery], *, committed: bool) -> None:
        """The end of what was handed over."""
        for delivery in delivered:
            self._handed_over.pop(delivery, None)
        if committed:
            self._remember_acknowledged(delivered)
        else:
            again = [delivery for delivery in delivered if delivery.epoch == self._link.epoch]
            if again and not self.is_closed:
                self._redeliver(again, None)

    def committed(self) -> None:
        """The transaction is done: so is what it consumed."""
        consumed = list(self._delivered)
        self._remember_acknowledged(consumed)
        self._take_back(consumed)
        self._expected.clear()
        self._stale.clear()
        self._delay_ms = 0

    def roll_back(self, cause: BaseException | None = None) -> None:
        """What was delivered and not acknowledged comes again, or is given up (F1)."""
        self._expected.clear()
        self._stale.clear()
        if self._acks_in_ranges:
            self.acknowledge_range()  # these were consumed, and only the word to the broker waits
        delivered = list(self._delivered)
        if delivered:
            self._take_back(delivered)
            self._redeliver(delivered, cause)

    def _redeliver(self, delivered: list[Delivery], cause: BaseException | None) -> None:
        was_redelivered = delivered[-1].redelivery_counter > 0
        self._delay_ms = next_delay_ms(
            self.policy, self._delay_ms, is_first=not was_redelivered, random=self._session.random
        )
        for delivery in delivered:
            delivery.redelivery_counter += 1
        exceeded = [delivery for delivery in delivered if is_exceeded(self.policy, delivery.redelivery_counter)]
        if exceeded:
            reason = f"exceeded redelivery policy limit of {self.policy.redeliveries_max}"
            for group in [exceeded] if len(exceeded) == len(delivered) else [[delivery] for delivery in exceeded]:
                self._poison(group, reason, cause)
            delivered = [delivery for delivery in delivered if delivery not in exceeded]
        if not delivered:
            self._delay_ms = 0
            return
        if was_redelivered:
            self._send_acks(AckType.REDELIVERED, delivered)
        if self._options.non_blocking_redelivery:
            self._redeliver_beside(delivered)
        else:
            self._is_shuffled |= bool(self._delivered or self._handed_over)  # those are not behind them
            self._channel.put_back(delivered)
            self._pause()

    def _pause(self) -> None:
        """Deliver nothing until the delay is over, so that order holds (H1)."""
        if self._delay_timer is not None:
            self._delay_timer.cancel()
            self._delay_timer = None
        if self._delay_ms > 0:
            self._delay_timer = self._connection.clock.call_later(self._delay_ms / 1000, self._go_on)
        else:
            self.wake()

    def _go_on(self) -> None:
        self._delay_timer = None
        self.wake()

    def _redeliver_beside(self, delivered: list[Delivery]) -> None:
        entry: list[tuple[Timer, list[Delivery]]] = []

        def due() -> None:
            if entry and entry[0] in self._put_aside:
                self._put_aside.remove(entry[0])
                for delivery in delivered:
                    self._channel.put(delivery)
                self.wake()

        entry.append((self._connection.clock.call_later(self._delay_ms / 1000, due), delivered))
        self._put_aside.append(entry[0])

    def _poison(self, deliveries: list[Delivery], reason: str, cause: BaseException | None = None) -> None:
        """Give up on them: the broker makes them dead letters (F3)."""
        self._remember_counters(deliveries)
        text = f"{reason}, cause: {cause!r}" if cause is not None else reason
        for group in self._groups(deliveries):
            self._ack(AckType.POISON, group, cause=Throwable(_THROWABLE, text))

    def _remember_counters(self, deliveries: list[Delivery]) -> None:
        """If what is said of them now is lost with the link, they come again."""
        if self._connection.is_failover:
            self._counters.update((it.key, it.redelivery_counter) for it in deliveries if it.redelivery_counter)

    # ---- acks on the wire --------------------------------------------------------------------------------------

    def _ack(
        self,
        ack_type: AckType,
        deliveries: list[Delivery],
        *,
        count: int | None = None,
        transaction_id: commands.TransactionId | None = None,
        cause: Throwable | None = None,
        wants_answer: bool = False,
    ) -> Reply[Structure] | None:
        """One ack, from the first of *deliveries* to the last."""
        last = deliveries[-1].dispatch
        template = last.channel.ack_template
        if transaction_id is not None:
            template = AckTemplate(self.consumer_id, last.destination, transaction_id)
        return self._requests.send_ack(
            template,
            ack_type,
            deliveries[0].dispatch.encoded_id,
            last.encoded_id,
            len(deliveries) if count is None else count,
            cause=cause,
            wants_answer=wants_answer,
        )

    def _groups(self, deliveries: list[Delivery]) -> list[list[Delivery]]:
        """What one ack may cover: everything, or each alone where others may lie between them."""
        is_range = self._keeps_order and not self._is_shuffled
        return [deliveries] if is_range else [[delivery] for delivery in deliveries]

    def _send_standard(self, deliveries: list[Delivery]) -> list[Reply[Structure]]:
        self._remember_acknowledged(deliveries)
        return self._send_acks(AckType.STANDARD, deliveries)

    def _send_acks(
        self,
        ack_type: AckType,
        deliveries: list[Delivery],
        transaction_id: commands.TransactionId | None = None,
    ) -> list[Reply[Structure]]:
        """Acks are one-way unless the application wants it otherwise (sendAcksAsync)."""
        wants_answer = (
            not self._options.send_acks_async and transaction_id is None and ack_type is not AckType.REDELIVERED
        )
        replies = [
            self._ack(ack_type, group, transaction_id=transaction_id, wants_answer=wants_answer)
            for group in self._groups(deliveries)
        ]
        return [reply for reply in replies if reply is not None]

    # ---- pulling (C3) ------------------------------------------------------------------------------------------

    @property
    def is_pulling(self) -> bool:
        return self.prefetch == 0 and not self._info.browser

    def pull(self, timeout_ms: int) -> bool:
        """Ask for one message; whether the broker could be asked."""
        if len(self._channel):
            return True
        pull = commands.MessagePull(
            consumer_id=self.consumer_id, destination=destination_to_wire(self.destination), timeout=timeout_ms
        )
        is_sent = self._link.one_way(pull)
        self._pulls += is_sent
        self.is_at_end = False
        return is_sent

    @property
    def is_pull_unanswered(self) -> bool:
        return self._pulls > 0

    # ---- links -------------------------------------------------------------------------------------------------

    def interrupted(self) -> None:
        """The link is lost: the broker will deliver again what it was not told of."""
        waiting = self._channel.take_all()
        for timer, deliveries in self._put_aside:
            timer.cancel()
            waiting += deliveries
        self._put_aside.clear()
        if self._delay_timer is not None:
            self._delay_timer.cancel()
            self._delay_timer = None
        self._remember_counters(waiting)
        self._first_untold = None
        self._is_shuffled = False
        self._delivered_count = self._told = self._pulls = 0
        self._forget_delivered()
        self.wake()

    def _forget_delivered(self) -> None:
        delivered = list(self._delivered)
        self._delivered.clear()
        self._counters.update((delivery.key, delivery.redelivery_counter + 1) for delivery in delivered)
        if self._session.transactions.is_in_xa:
            return  # the branch is lost with the link, and its messages come again as any others
        if self.is_transacted:
            self._expected = dict.fromkeys((*self._expected, *(delivery.key for delivery in delivered)), False)
            return
        consumed = self._ack_count if self._acks_in_ranges else 0
        self._remember_acknowledged(delivered[:consumed])
        self._ack_count = 0
        self._stale.update((delivery.key, delivery) for delivery in delivered[consumed:])

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
            if self._acks_in_ranges:
                self.acknowledge_range()
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
        waiting = self._channel.take_all()
        for timer, deliveries in self._put_aside:
            timer.cancel()
            waiting += deliveries
        self._put_aside.clear()
        # The broker marks as redelivered what it dispatched up to this one, as far as it still has it.
        seen = [
            *self._delivered,
            *self._handed_over,
            *(delivery for delivery in waiting if delivery.is_redelivered_here),
        ]
        last = max(seen, key=lambda delivery: delivery.arrival, default=None)
        self._last_seen = LAST_DELIVERED_NOTHING if last is None else last.dispatch.broker_sequence
        for timer_or_none in (self._delay_timer, self._ack_timer):
            if timer_or_none is not None:
                timer_or_none.cancel()
        self.wake()


def _nothing() -> None:
    pass


def _nothing_to_acknowledge(_: Message) -> None:
    """Where the session acknowledges by itself, the application's word is ignored, as JMS says."""
