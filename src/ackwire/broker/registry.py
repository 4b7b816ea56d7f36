"""The destinations that exist, who made the temporary ones, and the durable subscriptions (SEMANTICS A3, A8)."""

import logging
from collections.abc import Callable, Iterator
from functools import partial
from typing import Final, Protocol, final

from ackwire.broker.advisory import Advisories, is_about_destination, is_advisory
from ackwire.broker.attaching import Attaching
from ackwire.broker.auditing import Audit
from ackwire.broker.dispatch_gate import DispatchGate
from ackwire.broker.live_settings import LiveSettings
from ackwire.broker.numbered_set import NumberedSet
from ackwire.broker.paging import Pager
from ackwire.broker.queue import Queue, QueueEvents
from ackwire.broker.reserved_names import OWN_QUEUES, refuse_reserved, refuse_unknown_reserved
from ackwire.broker.router import Router, is_virtual_pattern
from ackwire.broker.session import Connection
from ackwire.broker.slices import Budget, Slices
from ackwire.broker.topic import DurableSubscription, Topic, TopicEvents
from ackwire.config.policy import DestinationPolicy, Policies
from ackwire.errors import (
    BrokerError,
    DestinationGone,
    InvalidDestination,
    InvalidSelector,
    NotAuthorised,
    ResourceLimit,
)
from ackwire.jms.destinations import Destination, Kind, matches_pattern
from ackwire.jms.message_editor import MessageEditor
from ackwire.selector import Selector
from ackwire.store.contract import DurableKey, DurableRecord, Place, Store
from ackwire.util.clock import Clock
from ackwire.util.plurals import counted

_NAMED_MAX: Final = 3


def is_durable(where: Destination) -> bool:
    """Whether a destination survives a restart: those made by clients and operators do, unless they are temporary.
    The broker creates its own (advisories, requests) when it needs them."""
    return not where.kind.is_temporary and not is_advisory(where) and where not in OWN_QUEUES


_log = logging.getLogger(__name__)


class DestinationEvents(QueueEvents, TopicEvents, Protocol):
    """The events of queues and topics."""


class DestinationConsumers(Protocol):
    """Serves the consumers of destinations, and takes them off one that goes."""

    def let_go_of(self, topic: Topic) -> bool:
        """Take subscribers by pattern off *topic*, which is to be removed; False if others subscribe to its name."""
        ...

    def drop_consumers(self, target: Queue | Topic) -> None:
        """*target* goes away under its consumers."""
        ...

    def drop_leaving(self, target: Queue | Topic) -> None:
        """Remove the consumers of *target* that are about to be removed anyway."""
        ...


Objection = Callable[[Destination], str | None]
"""Says why a destination cannot be removed, or None."""


@final
class Registry:
    """Finds, makes and removes queues, topics and durable subscriptions."""

    _events: DestinationEvents
    _consumers: DestinationConsumers

    def __init__(
        self,
        *,
        clock: Clock,
        store: Store,
        editor: MessageEditor,
        settings: LiveSettings,
        policies: Policies,
        advisories: Advisories,
        pager: Pager,
        gate: DispatchGate,
        slices: Slices,
        audit: Audit | None,
    ) -> None:
        self._clock = clock
        self._store = store
        self._editor = editor
        self._settings = settings
        self._policies = policies
        self._advisories = advisories
        self._pager = pager
        self._gate = gate
        self._slices = slices
        self._audit = audit
        self.objections: list[Objection] = []
        """Asked before a destination is removed; parts that keep something for one add theirs."""
        self.has_memory_limits = policies.limit_memory
        """Whether any queue may have a limit of its own; most brokers have none, and need not look."""
        self._owners: dict[Destination, Connection] = {}
        self._makers: dict[Destination | DurableKey, Connection] = {}
        """Which client made a destination that is not temporary, or a durable subscription, while it is connected."""
        self._told_about: dict[Destination, dict[Topic, None]] = {}
        """For each destination the advisory topics that the broker made about it."""
        self._about: dict[Topic, Destination] = {}
        """What each of them is about. They do not count: clients' destinations have the limit to themselves."""
        self.leaving_owners: set[Connection] = set()
        """Connections that have ended, and may still have temporary destinations here."""
        self.router: Router[Queue | Topic] = Router()
        self.attaching = Attaching(self.router, slices)
        self.durables: dict[DurableKey, DurableSubscription] = {}
        self.retaining: dict[Topic, None] = {}
        """The topics that keep messages for retroactive subscribers."""

    def bind(self, events: DestinationEvents, consumers: DestinationConsumers) -> None:
        """Set the listeners for events of queues and topics. They need this part, so they are constructed later."""
        self._events = events
        self._consumers = consumers

    # ---- finding -----------------------------------------------------------------------------------------------

    def get_or_make(self, destination: Destination, maker: Connection | None = None) -> Queue | Topic:
        """The queue or topic of that name, made on first use, for *maker*; temporary ones must have been announced."""
        existing = self.router.get(destination)
        if existing is not None and not (self.leaving_owners and self._owners.get(destination) in self.leaving_owners):
            return existing
        if destination.kind.is_temporary:
            raise DestinationGone(f"{destination!r} does not exist: it was deleted or never made")
        if maker is not None:
            maker.check_destinations()
        made = self._make(destination, None)
        if maker is not None:
            self.note_maker(destination, maker)
        return made

    def needed_queue(self, where: Destination) -> Queue:
        """A queue for dead letters or of an earlier run, made beyond the limit too: messages have no other place."""
        existing = self._needed(where)
        assert isinstance(existing, Queue)
        return existing

    def _needed(self, where: Destination) -> Queue | Topic:
        return self.router.get(where) or self._make(where, None, is_limited=False)

    def advisory_topic(self, where: Destination, about: Destination | None) -> Topic:
        """An advisory topic of the broker. It is created even beyond the limit of destinations.

        It is *about* a destination, and goes when that goes.
        """
        is_new = self.router.get(where) is None
        existing = self._needed(where)
        assert isinstance(existing, Topic)
        if is_new and about is not None:
            self._told_about.setdefault(about, {})[existing] = None
            self._about[existing] = about
        return existing

    def forget_if_gone(self, topic: Topic, about: Destination) -> None:
        """Remove the advisory *topic* if what it is *about* is a temporary destination that has gone."""
        if about.kind.is_temporary and about not in self._owners and topic in self._told_about.get(about, ()):
            self._forget_told(about)

    def _forget_told(self, about: Destination) -> None:
        """Remove advisory topics about *about*, but for those that a client subscribes to by their name."""
        for topic in self._told_about.pop(about, ()):
            del self._about[topic]
            if self._consumers.let_go_of(topic):
                self.router.remove(topic.destination)

    def forget_unheard(self, topic: Topic) -> None:
        """The last subscriber of *topic* has gone: so does the topic if it is an advisory topic about a destination."""
        if not is_about_destination(topic.destination) or self.router.get(topic.destination) is not topic:
            return
        self.router.remove(topic.destination)
        about = self._about.pop(topic, None)
        if about is not None:
            del self._told_about[about][topic]
            if not self._told_about[about]:
                del self._told_about[about]

    def queues(self) -> list[Queue]:
        """Every queue, those of durable subscriptions included."""
        queues = [made for made in self.router if isinstance(made, Queue)]
        return queues + [durable.queue for durable in self.durables.values()]

    def destinations(self, kind: Kind) -> list[tuple[Destination, Connection | None]]:
        """Every destination of *kind* with its owner, advisory topics aside."""
        if kind.is_temporary:
            return [(where, owner) for where, owner in self._owners.items() if where.kind is kind]
        return [(where, None) for where in self.router.names() if where.kind is kind and not is_advisory(where)]

    def names_of(self, kind: Kind) -> NumberedSet[Destination]:
        """The names of that kind in the order of their making."""
        return self.router.numbered(kind)

    def consumer_count(self, where: Destination) -> int:
        existing = self.router.get(where)
        return 0 if existing is None else existing.consumer_count

    def has_listeners(self, topic: Destination) -> bool:
        existing = self.router.get(topic)
        if existing is None:
            return self.router.is_watched(topic)
        if not isinstance(existing, Topic):
            return False
        if self.attaching.is_busy:
            self.attaching.complete(existing)
        return existing.has_subscribers

    def policy_for(self, where: Destination) -> DestinationPolicy:
        return self._policies.for_destination(where)

    def use(self, policies: Policies) -> None:
        """Go by other policies from now on; destinations that exist follow in slices of the loop."""
        self._policies = policies
        self.has_memory_limits = policies.limit_memory
        existing = list(zip(self.router, self.router.names(), strict=True))
        existing += [(durable.queue, durable.record.destination) for durable in self.durables.values()]
        job = partial(self._apply, policies, iter(existing))
        if job(self._slices.budget()):
            self._slices.start(job)

    def _apply(self, policies: Policies, left: "Iterator[tuple[Queue | Topic, Destination]]", budget: Budget) -> bool:
        """Give those that are *left* their policy; whether there are more."""
        for made, where in left:
            if policies is not self._policies:
                return False  # others came meanwhile
            made.use(policies.for_destination(where))
            if isinstance(made, Topic) and self.router.get(where) is made:
                self._note_retaining(made)
            if budget.spend():
                return True
        return False

    def _note_retaining(self, topic: Topic) -> None:
        if topic.policy.retained_messages_max:
            self.retaining[topic] = None
        else:
            self.retaining.pop(topic, None)

    def owner(self, temporary: Destination) -> Connection | None:
        return self._owners.get(temporary)

    # ---- making ------------------------------------------------------------------------------------------------

    def add(self, destination: Destination, owner: Connection) -> None:
        """Create *destination* unless it exists. The name of a temporary one is its owner's connection id and a number.

        A looser rule would let a client make the reply queue of another one before that one does, and read its replies.
        """
        refuse_reserved(destination, "create")
        is_temporary = destination.kind.is_temporary
        if is_temporary and destination.name.rpartition(":")[0] != owner.connection_id:
            raise NotAuthorised(f"{destination!r} does not carry the id of {owner!r}, whose it would be")
        former = self._owners.get(destination)
        if former is not None and former is not owner and not former.is_open:
            self.remove_temporary(destination, former)  # its client has come back before all of it was gone
        if self.router.get(destination) is None:
            owner.check_destinations()
            self._make(destination, owner if is_temporary else None)
            if not is_temporary:
                self.note_maker(destination, owner)

    def note_maker(self, made: Destination | DurableKey, maker: Connection) -> None:
        """*made* counts for *maker* until one of them goes."""
        self._makers[made] = maker
        maker.made.add(made)

    def forget_maker(self, connection: Connection) -> None:
        """*connection* has gone, and what it made stays."""
        for made in connection.made:
            self._makers.pop(made, None)
        connection.made.clear()

    def _forget_made(self, made: Destination | DurableKey) -> None:
        maker = self._makers.pop(made, None)
        if maker is not None:
            maker.made.discard(made)

    def _make(self, destination: Destination, owner: Connection | None, *, is_limited: bool = True) -> Queue | Topic:
        if destination.is_wildcard and not is_virtual_pattern(destination):
            raise InvalidDestination(f"{destination!r} is a pattern, not a destination")
        if is_limited:
            refuse_unknown_reserved(destination)
        limit = self._settings.current.destinations.count_max
        if is_limited and len(self.router) - len(self._about) >= limit:
            raise ResourceLimit(f"{destination!r} cannot be created: {limit} destinations exist, the limit")
        if owner is None and is_durable(destination):
            self._store.add_destination(destination)
        made: Queue | Topic
        made = self._queue(destination, destination) if destination.kind.is_queue else self._topic(destination)
        if owner is not None:
            self._owners[destination] = owner
            owner.temporary.add(destination)
        if isinstance(made, Topic):
            self._note_retaining(made)
        self.router.add(destination, made)
        if not is_advisory(destination):
            self._advisories.destination_added(destination, owner)
        return made

    def _queue(self, place: Place, policy_from: Destination) -> Queue:
        return Queue(
            place,
            store=self._store,
            clock=self._clock,
            editor=self._editor,
            policy=self._policies.for_destination(policy_from),
            events=self._events,
            pager=self._pager,
            gate=self._gate,
            audit=None if place in OWN_QUEUES else self._audit,
            slices=self._slices,
        )

    def _topic(self, destination: Destination) -> Topic:
        return Topic(
            destination,
            store=self._store,
            editor=self._editor,
            policy=self._policies.for_destination(destination),
            events=self._events,
            audit=None if is_advisory(destination) else self._audit,
        )

    # ---- removing ----------------------------------------------------------------------------------------------

    def remove(self, destination: Destination, connection: Connection | None) -> None:
        """Delete *destination* and all that is on it. Refused while it has consumers, or to other than its owner."""
        refuse_reserved(destination, "delete")
        existing = self.router.get(destination)
        if existing is None:
            return
        owner = self._owners.get(destination)
        if owner is not None and owner is not connection:
            raise NotAuthorised(f"{destination!r} belongs to another connection")
        self.attaching.forget_leaving(destination)
        self._consumers.drop_leaving(existing)
        if existing.consumer_count:
            raise BrokerError(
                f"{destination!r} still has an active subscription ({counted(existing.consumer_count, 'consumer')}) "
                "and cannot be removed"
            )
        if isinstance(existing, Queue) and existing.reservations.holders:
            holders = ", ".join(sorted(map(repr, existing.reservations.holders))[:_NAMED_MAX])
            raise BrokerError(f"{destination!r} cannot be removed: messages in it belong to {holders}")
        if isinstance(existing, Topic) and existing.durables:
            raise BrokerError(f"{destination!r} still has {len(existing.durables)} durable subscriptions")
        for objection in self.objections:
            if (why := objection(destination)) is not None:
                raise BrokerError(f"{destination!r} cannot be removed: {why}")
        self._forget(destination, existing)

    def remove_temporary(self, destination: Destination, owner: Connection) -> None:
        """*owner* has gone: delete its temporary destination, even if it is in use; another connection's stays."""
        existing = self.router.get(destination)
        if existing is not None and self._owners.get(destination) is owner:
            self._consumers.drop_consumers(existing)
            self._forget(destination, existing)

    def _forget(self, destination: Destination, existing: Queue | Topic) -> None:
        self.router.remove(destination)
        if isinstance(existing, Topic):
            self.retaining.pop(existing, None)
            self._store.remove_place(destination)
        elif existing.removal.close(partial(self._forget_emptied, destination)):
            self._store.remove_place(destination)
        owner = self._owners.pop(destination, None)
        if owner is not None:
            owner.temporary.discard(destination)
        self._forget_made(destination)
        if not is_advisory(destination):
            self._advisories.destination_removed(destination, owner)
            if destination in self._told_about:
                self._forget_told(destination)

    def _forget_emptied(self, place: Place) -> None:
        """A store that keeps everything in memory has nothing left of a place that went, unless it was made again."""
        if place not in self.durables and (not isinstance(place, Destination) or self.router.get(place) is None):
            self._store.remove_place(place)

    # ---- durable subscriptions ---------------------------------------------------------------------------------

    def restore_destination(self, where: Destination) -> None:
        """A destination of an earlier run, whatever the limits are today."""
        self._needed(where)

    def restore_durable(self, record: DurableRecord) -> None:
        """A durable subscription of an earlier run, whatever the limits are today."""
        if not record.destination.is_wildcard:
            self._needed(record.destination)
        self._add_durable(record, self._restored_selector(record))

    def _restored_selector(self, record: DurableRecord) -> Selector | None:
        """The selector of a subscription of an earlier run. If it is not accepted any more, because the settings are
        others now, everything is kept for it: too much can be consumed, too little is lost."""
        try:
            return self._settings.compile_selector(record.selector) if record.selector else None
        except InvalidSelector as error:
            _log.error("%r keeps every message: its selector is not accepted any more: %s", record.key, error)
            return None

    def durable(self, record: DurableRecord) -> DurableSubscription:
        """The durable subscription on these terms; other terms than before make it a new one (A3)."""
        existing = self.durables.get(record.key)
        if existing is not None and existing.record == record:
            return existing
        selector = self._settings.compile_selector(record.selector) if record.selector else None
        if not record.destination.is_wildcard:
            self.get_or_make(record.destination)  # may raise, before the old one is gone
        limit = self._settings.current.destinations.count_max
        if existing is not None:
            self.end_durable(existing)
        elif len(self.durables) >= limit:
            raise ResourceLimit(f"{record.key!r} cannot be created: {limit} durable subscriptions exist, the limit")
        durable = self._add_durable(record, selector)
        self._store.add_durable(record)
        return durable

    def _add_durable(self, record: DurableRecord, selector: Selector | None) -> DurableSubscription:
        durable = DurableSubscription(record, selector, self._queue(record.key, record.destination))
        self._attach_durable(durable)
        self.durables[record.key] = durable
        return durable

    def durables_beside(self, name: Destination) -> list[DurableSubscription]:
        """The durable subscriptions that may hear a topic which *name*, a topic or a pattern, stands for."""
        if not name.is_wildcard:
            topic = self.get_or_make(name)
            assert isinstance(topic, Topic)
            self.attaching.complete(topic)
            return list(topic.durables)
        return [
            durable
            for durable in self.durables.values()
            if durable.record.destination.is_wildcard or matches_pattern(name.name, durable.record.destination.name)
        ]

    def _attach_durable(self, durable: DurableSubscription) -> None:
        """Subscribe it to its topic, or to all present and future topics that match its pattern."""
        name = durable.record.destination
        if not name.is_wildcard:
            durable.hear(self.get_or_make(name))
            return

        def hear(_where: Destination, topic: Queue | Topic) -> None:
            durable.hear(topic)

        durable.stop_watching = self.router.watch(name, hear)
        self.attaching.begin(name, hear, lambda: not durable.queue.is_gone)

    def end_durable(self, durable: DurableSubscription) -> None:
        """Drop a durable subscription and all that waits for it."""
        durable.stop_watching()
        for topic in durable.topics:
            topic.durables.remove(durable)
        del self.durables[durable.key]
        self._forget_made(durable.key)
        if durable.queue.removal.close(partial(self._forget_emptied, durable.key)):
            self._store.remove_place(durable.key)
