"""Resumes dispatch to a consumer that has room again, and answers pulls (SEMANTICS C3–C5)."""

from functools import partial
from typing import Final, final

from ackwire.broker.advisory import Advisories
from ackwire.broker.advisory_replay import Replays
from ackwire.broker.auditing import Event
from ackwire.broker.browsers import Browsers
from ackwire.broker.consumer_queues import ConsumerQueues, only
from ackwire.broker.fetching import Fetch
from ackwire.broker.registry import Registry
from ackwire.broker.slices import Budget, Slices
from ackwire.broker.subscription import BrowserSubscription, QueueSubscription, Subscription, TopicSubscription
from ackwire.broker.topic import Topic
from ackwire.errors import BrokerError, ResourceLimit
from ackwire.jms.message import Message
from ackwire.util.clock import Clock

_PULLS_MAX: Final = 1000
"""Pulls of one consumer that may wait; clients have one."""


@final
class _Look:
    """A pull that ends when all messages that are being paged in for it were looked at: a `Timer`."""

    __slots__ = ("is_over",)

    def __init__(self) -> None:
        self.is_over = False
        """The pull was answered, or its consumer has left."""

    def cancel(self) -> None:
        self.is_over = True


@final
class Pump:
    """Sends to consumers as far as they have room."""

    def __init__(
        self,
        *,
        clock: Clock,
        slices: Slices,
        queues: ConsumerQueues,
        browsers: Browsers,
        replays: Replays,
        registry: Registry,
        advisories: Advisories,
    ) -> None:
        self._clock = clock
        self._slices = slices
        self._queues = queues
        self._browsers = browsers
        self._replays = replays
        self._registry = registry
        self._advisories = advisories
        self.rounds: dict[QueueSubscription, int] = {}
        """Consumers of several queues whose queues are asked, a slice at a time, whether they have something; and how
        many queues the round has left."""

    def pull(self, subscription: Subscription, timeout_ms: int) -> None:
        """One message now, or later, or an empty answer."""
        if not subscription.is_pull:
            raise BrokerError(f"{subscription!r} has a prefetch of {subscription.prefetch} and does not pull")
        if subscription.pulls >= _PULLS_MAX:
            raise ResourceLimit(f"{subscription!r} has asked for {subscription.pulls} messages at once, the limit")
        subscription.pulls += 1
        without_deadline = subscription.pulls - len(subscription.pull_timers)  # this one has none yet
        self.pump(subscription)
        if subscription.pulls - len(subscription.pull_timers) < without_deadline or timeout_ms == 0:
            return
        if timeout_ms < 0:
            self._give_up_when_looked(subscription, None)
        else:
            timer = self._clock.call_later(timeout_ms / 1000, lambda: subscription.give_up_pull(timer))
            subscription.pull_timers.append(timer)

    def _give_up_when_looked(self, subscription: Subscription, look: "_Look | None") -> None:
        """Answer a pull that does not wait: not before messages that are being paged in for it have arrived. *look*
        stands for the pull once it has to wait for them."""
        if look is not None and (look.is_over or subscription.is_leaving):
            return
        fetch = self._fetch_for(subscription)
        if fetch is None:
            subscription.give_up_pull(look)
            return
        if look is None:
            look = _Look()
            subscription.pull_timers.append(look)
        fetch.when_arrived(partial(self._give_up_when_looked, subscription, look))

    def _fetch_for(self, subscription: Subscription) -> Fetch | None:
        """A page-in that may bring a message for *subscription*."""
        if not isinstance(subscription, QueueSubscription):
            return None
        for queue in self._queues.of.get(subscription, {}).values():
            fetch = queue.dispatcher.page_in_for(subscription)
            if fetch is not None:
                return fetch
        return None

    def pump(self, subscription: Subscription) -> None:
        """Send what there is for *subscription*, as far as it has room."""
        if isinstance(subscription, QueueSubscription):
            if subscription.has_several_queues:
                self._pump_several(subscription)
            else:
                only(self._queues.of[subscription]).dispatcher.resume(subscription)
        elif isinstance(subscription, TopicSubscription):
            if subscription.pending:
                self._pump_topic(subscription)
            if subscription.replay is not None:
                self._replays.go_on(subscription)
        elif isinstance(subscription, BrowserSubscription):
            self._browsers.show(subscription)

    def _pump_several(self, subscription: QueueSubscription) -> None:
        """Ask the queues that had something for *subscription* when it was full, each once; anew if that goes on."""
        is_asking = subscription in self.rounds
        self.rounds[subscription] = len(subscription.passed_over)
        if not is_asking and self._ask_more(subscription, self._slices.budget()):
            self._slices.start(partial(self._ask_more, subscription))

    def _ask_more(self, subscription: QueueSubscription, budget: Budget) -> bool:
        """Go on with the round of *subscription*; whether some are left. A queue that must keep what it has for
        *subscription* is passed over again, and waits for the next round: a round ends."""
        attached = self._queues.of.get(subscription)
        if attached is not None:
            passed_over = subscription.passed_over
            while passed_over and subscription.has_room and self.rounds[subscription] > 0:
                self.rounds[subscription] -= 1
                place, _none = passed_over.popitem(last=False)
                queue = attached.get(place)
                if queue is None:  # it was deleted
                    continue
                queue.dispatcher.resume(subscription)
                if place in subscription.waiting_in:
                    passed_over[place] = None
                if budget.is_spent and self.rounds[subscription] > 0:
                    return True
        del self.rounds[subscription]
        return False

    def _pump_topic(self, subscription: TopicSubscription) -> None:
        for message in subscription.pump(self._clock.now_ms()):
            self._tell_expired_copy(subscription, message)
            self._advisories.expired(message.destination, message)

    def _tell_expired_copy(self, subscription: TopicSubscription, message: Message) -> None:
        topic = self._registry.router.get(message.destination)
        if isinstance(topic, Topic) and topic.audit is not None:
            topic.audit.happened(Event.EXPIRED, topic, message, subscription)
