"""Scheduled delivery: messages that are meant for later, once or again and again (SEMANTICS I).

A message with `AMQ_SCHEDULED_DELAY`, `_PERIOD` or `_CRON` becomes a job and is delivered when the job falls due, with
these properties replaced by `scheduledJobId`. `_REPEAT` is the number of deliveries after the first; below zero they do
not end. As in ActiveMQ the first one comes after the delay, or after the period if there is no delay; with cron, that
long after the first moment of the cron entry. Cron with a repeat count makes every such moment start a series of its
own. Messages to `ActiveMQ.Scheduler.Management` list and remove jobs.

Jobs live in the store (I2). A delivery and what it changes about its job are recorded together. One timer waits for
the job that is due next, whatever their number; what fell due while the broker was down comes at once, a missed series
once. While memory is full nothing is delivered: jobs wait as producers do, and do not pile up.

Where this departs from ActiveMQ: due times are kept to the millisecond (not rounded up to the next half second),
periods do not drift, wrong values are refused when they are sent, and a delivery that fails is a dead letter (ActiveMQ
logs an error and drops it).
"""

import logging
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import tzinfo
from functools import partial
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Final, final

from ackwire.broker.auditing import Audit
from ackwire.broker.cron import local_zone, next_time_ms
from ackwire.broker.dead_letters import DeadLetters
from ackwire.broker.dispatch_gate import DispatchGate
from ackwire.broker.limits import FlowControl
from ackwire.broker.live_settings import LiveSettings
from ackwire.broker.publishing import Publisher
from ackwire.broker.session import Connection
from ackwire.errors import (
    AckwireError,
    BrokerError,
    InvalidDestination,
    RemoteProtocolError,
    ResourceLimit,
    StoreFailed,
)
from ackwire.jms.destinations import Destination, parse_destination
from ackwire.jms.message import Message
from ackwire.jms.message_editor import MessageEditor
from ackwire.jms.types import Value
from ackwire.store.contract import ScheduledJob, Store
from ackwire.util.clock import Clock, Timer

JOB_ID: Final = "scheduledJobId"
"""The property that names a job; a message that has it is never scheduled again."""

_DELAY: Final = "AMQ_SCHEDULED_DELAY"
_PERIOD: Final = "AMQ_SCHEDULED_PERIOD"
_REPEAT: Final = "AMQ_SCHEDULED_REPEAT"
_CRON: Final = "AMQ_SCHEDULED_CRON"
_SCHEDULE: Final = (_DELAY, _PERIOD, _REPEAT, _CRON)

_MANAGEMENT: Final = "activemq.scheduler.management"
"""What the name of the management destination begins with; ActiveMQ ignores case here."""
_ACTION: Final = "AMQ_SCHEDULER_ACTION"
_ACTION_START: Final = "ACTION_START_TIME"
_ACTION_END: Final = "ACTION_END_TIME"

SCHEDULER_MARK: Final = b"AMQ_SCHEDULE"
"""Stands in the bytes of every message that the scheduler has to look at."""

_REPEAT_MAX: Final = 1000
"""ActiveMQ's limit, against series that are repeated by mistake."""
_TIME_MS_MAX: Final = 100 * 366 * 86_400_000
"""A delay or period of more than a century is a mistake."""
_PACE_MS: Final = 100
"""The period of a series that has none; ActiveMQ's scheduler is no faster."""

LATEST_MS: Final = 2**63 - 1
"""The last moment that a message can name."""

_DELIVERIES_PER_TURN: Final = 1000
"""Before others get their turn."""
_WAIT_SECONDS_MAX: Final = 60.0
"""After this long the wall clock is asked again: it may have been set."""
_FULL_WAIT_SECONDS: Final = 0.1
"""How long due jobs wait before they look for space again."""
_STALE_MAX: Final = 1000
"""Entries of removed jobs in the heap, above which they are cleared if they are the greater part."""

_log = logging.getLogger(__name__)


def mentions_scheduler(message: Message) -> bool:
    """Whether *message*, which has properties, may be for the scheduler."""
    return message.frame.find(SCHEDULER_MARK, message.properties_offset) >= 0


@dataclass(frozen=True, slots=True)
class _Order:
    """The schedule that a message's properties ask for."""

    delay_ms: int
    period_ms: int
    repeats: int
    cron: str

    @property
    def first_wait_ms(self) -> int:
        return self.delay_ms if self.delay_ms > 0 else self.period_ms


@dataclass(slots=True)
class _Share:
    """The scheduled jobs of one client that are still to come."""

    jobs: int = 0
    used_bytes: int = 0


@final
class Scheduler:
    """Keeps jobs and delivers their messages when they are due."""

    def __init__(
        self,
        *,
        clock: Clock,
        store: Store,
        editor: MessageEditor,
        settings: LiveSettings,
        flow: FlowControl,
        dead_letters: DeadLetters,
        publisher: Publisher,
        gate: DispatchGate,
        audit: Audit | None,
        zone: tzinfo | None = None,
    ) -> None:
        self._clock = clock
        self._store = store
        self._editor = editor
        self._settings = settings
        self._flow = flow
        self._dead_letters = dead_letters
        self._publisher = publisher
        self._gate = gate
        self._audit = audit
        self.zone = zone or local_zone()
        """The time zone of cron entries."""
        self._shares: dict[Connection, _Share] = {}
        """Of clients that are connected."""
        self._share_of: dict[str, _Share] = {}
        """By job: that of the client that scheduled it in this run of the broker."""
        self._jobs: dict[str, ScheduledJob] = {}
        self._heap: list[tuple[int, int, ScheduledJob]] = []
        """Due time, order, job; entries of jobs that were removed or changed since stay until their turn comes."""
        self._order = count()
        # Job ids must not repeat after a restart, when clients may still have the same producers.
        self._numbers = count(clock.now_ms() * 1000)
        self._timer: Timer | None = None
        self._timer_due_ms: int | None = None
        self.used_bytes = 0
        """Bytes of the messages that wait."""

    # ---- what is there -----------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._jobs)

    def jobs(self) -> list[ScheduledJob]:
        """Every job, the next one first."""
        return sorted(self._jobs.values(), key=lambda job: job.due_ms)

    def find(self, job_id: str) -> ScheduledJob | None:
        return self._jobs.get(job_id)

    def restore(self, job: ScheduledJob) -> None:
        """Know a job that the store has kept (I2); none runs before `start`."""
        if job.job_id not in self._jobs:
            self._keep(job)

    def start(self) -> None:
        """Run what is due, from now on."""
        self._wait()

    # ---- messages come in --------------------------------------------------------------------------------------

    def check(self, message: Message, sender: Connection | None) -> None:
        """Raise what `take` would raise, before anything has happened."""
        properties = self._properties(message)
        if _is_management(message.destination):
            _times(properties)
        elif _is_scheduled(properties):
            self._first_due_ms(_order(properties))
            self._check_space(message, sender)

    def take(self, message: Message, sender: Connection | None = None) -> bool:
        """Schedule *message*, or carry out what it tells the scheduler; False: it is an ordinary one after all."""
        properties = self._properties(message)
        if _is_management(message.destination):
            self._manage(message, properties)
            return True
        if not _is_scheduled(properties):
            return False
        order = _order(properties)
        due_ms = self._first_due_ms(order)
        if message.origin.transaction is None:  # in a transaction that was checked before all of it
            self._check_space(message, sender)
        where = message.destination
        with self._store.atomically():  # all parts of a composite, or none: its producer sends it again as a whole
            for part in self._publisher.parts(where):
                copy = message if part is where else self._publisher.copy_for(message, part, original=where)
                self._add(copy, order, due_ms, self._share(sender))
        self._wait()
        return True

    def _share(self, sender: Connection | None) -> _Share | None:
        return None if sender is None or not sender.is_open else self._shares.setdefault(sender, _Share())

    def forget_client(self, connection: Connection) -> None:
        """*connection* has gone; what it has scheduled stays."""
        self._shares.pop(connection, None)

    def share_of(self, connection: Connection) -> tuple[int, int]:
        """How many jobs of *connection* wait, and the bytes of their messages."""
        share = self._shares.get(connection)
        return (0, 0) if share is None else (share.jobs, share.used_bytes)

    def _properties(self, message: Message) -> dict[str, Value]:
        try:
            return self._editor.properties(message)
        except RemoteProtocolError as error:
            raise BrokerError(
                f"the properties of a message to {message.destination!r} cannot be read: {error}"
            ) from None

    def _first_due_ms(self, order: _Order) -> int:
        now_ms = self._clock.now_ms()
        base_ms = next_time_ms(order.cron, now_ms, self.zone) if order.cron else now_ms
        return base_ms + order.first_wait_ms

    def _check_space(self, message: Message, sender: Connection | None) -> None:
        """Raise `ResourceLimit` if all parts of *message* do not fit: into what all clients, and *sender*, may have."""
        limits = self._settings.current.scheduler
        parts = len(self._publisher.parts(message.destination))
        needed = parts * message.size_bytes
        what = f"a message of {message.size_bytes} bytes to {message.destination!r} cannot be scheduled"
        _check(what, "jobs wait", len(self._jobs), parts, limits.jobs_max, "scheduler.jobs_max")
        in_use = "bytes of scheduled messages wait"
        _check(what, in_use, self.used_bytes, needed, limits.job_bytes_max, "scheduler.job_bytes_max")
        if sender is not None:
            jobs, used_bytes = self.share_of(sender)
            of_client = f"of {sender!r} wait"
            name = "scheduler.connection_jobs_max"
            _check(what, f"jobs {of_client}", jobs, parts, limits.connection_jobs_max, name)
            name = "scheduler.connection_bytes_max"
            _check(what, f"bytes {of_client}", used_bytes, needed, limits.connection_bytes_max, name)

    def _add(self, message: Message, order: _Order, due_ms: int, share: _Share | None) -> None:
        job = ScheduledJob(
            job_id=self._new_id(message),
            message=message,
            start_ms=self._clock.now_ms(),
            due_ms=due_ms,
            delay_ms=order.delay_ms,
            period_ms=order.period_ms,
            repeats_left=order.repeats,
            cron=order.cron,
            fresh_ids=order.repeats != 0 or order.cron != "",
        )
        self._store.add_job(job)
        self._keep(job)
        if share is not None:
            share.jobs += 1
            share.used_bytes += message.size_bytes
            self._share_of[job.job_id] = share

    def _new_id(self, message: Message) -> str:
        producer = self._editor.message_id(message).rpartition(":")[0]
        job_id = f"{producer}:{next(self._numbers)}"
        while job_id in self._jobs:  # of an earlier run: the clock was set back since
            job_id = f"{producer}:{next(self._numbers)}"
        return job_id

    def _keep(self, job: ScheduledJob) -> None:
        """Have *job* in place of what was known of it."""
        if job.job_id not in self._jobs:
            self.used_bytes += job.message.size_bytes
        self._jobs[job.job_id] = job
        heappush(self._heap, (job.due_ms, next(self._order), job))

    def _forget(self, job: ScheduledJob) -> None:
        del self._jobs[job.job_id]
        self.used_bytes -= job.message.size_bytes
        share = self._share_of.pop(job.job_id, None)
        if share is not None:
            share.jobs -= 1
            share.used_bytes -= job.message.size_bytes
        self._store.remove_job(job.job_id)
        if len(self._heap) > 2 * len(self._jobs) + _STALE_MAX:
            self._heap = [entry for entry in self._heap if self._is_current(entry[2])]
            heapify(self._heap)

    def _is_current(self, job: ScheduledJob) -> bool:
        return self._jobs.get(job.job_id) is job

    # ---- time passes -------------------------------------------------------------------------------------------

    def _wait(self) -> None:
        """Have the one timer run when the next job is due."""
        while self._heap and not self._is_current(self._heap[0][2]):
            heappop(self._heap)
        due_ms = self._heap[0][0] if self._heap else None
        if due_ms == self._timer_due_ms:
            return
        self._cancel_timer()
        if due_ms is not None:
            wait_seconds = (due_ms - self._clock.now_ms()) / 1000
            self._timer_due_ms = due_ms
            self._set_timer(min(max(wait_seconds, 0.0), _WAIT_SECONDS_MAX))

    def _set_timer(self, wait_seconds: float) -> None:
        self._timer = self._clock.call_later(wait_seconds, self._deliver_due)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None
        self._timer_due_ms = None

    def _deliver_due(self) -> None:
        """Deliver the jobs that are due. A persistent one leaves after the store has recorded that.

        After a crash a job would run again, and consumers would have as new what they have seen (A2).
        """
        self._cancel_timer()
        self._gate.begin_group()
        try:
            self._run_due(self._clock.now_ms())
        finally:
            self._store.when_durable(_nothing)
            self._gate.end_group()

    def _run_due(self, now_ms: int) -> None:
        for _ in range(_DELIVERIES_PER_TURN):
            if not self._heap or self._heap[0][0] > now_ms:
                break
            if self._flow.is_full() is not None:
                self._timer_due_ms = self._heap[0][0]
                self._set_timer(_FULL_WAIT_SECONDS)
                return
            job = heappop(self._heap)[2]
            if self._is_current(job):
                self._run_safely(job, now_ms)
        self._wait()

    def _run_safely(self, job: ScheduledJob, now_ms: int) -> None:
        """One job that cannot be run stops no other."""
        try:
            self._run(job, now_ms)
        except StoreFailed:
            _log.debug("scheduled job %s waits for the next start: the store has failed", job.job_id)
        except AckwireError:
            _log.exception("scheduled job %s could not be run", job.job_id)

    def _run(self, job: ScheduledJob, now_ms: int) -> None:
        """A delivery of *job* is due: make it, and settle when the next one is."""
        with self._store.atomically():
            self._settle(job, now_ms)
            if job.cron and job.repeats_left:
                self._start_series(job, now_ms)
            else:
                self._deliver(job, now_ms)

    def _settle(self, job: ScheduledJob, now_ms: int) -> None:
        if job.cron:
            later = replace(job, due_ms=next_time_ms(job.cron, now_ms, self.zone))
        elif job.repeats_left:
            period_ms = job.period_ms if job.period_ms > 0 else _PACE_MS
            due_ms = job.due_ms + period_ms
            later = replace(
                job,
                due_ms=due_ms if due_ms > now_ms else now_ms + period_ms,  # what was missed is not made up for
                repeats_left=job.repeats_left - 1 if job.repeats_left > 0 else job.repeats_left,
            )
        else:
            self._forget(job)
            return
        self._store.add_job(later)
        self._keep(later)

    def _start_series(self, job: ScheduledJob, now_ms: int) -> None:
        order = _Order(job.delay_ms, job.period_ms, job.repeats_left, cron="")
        try:
            self._check_space(job.message, None)
        except ResourceLimit as error:
            _log.warning("a series of scheduled job %s is left out: %s", job.job_id, error)
            return
        self._add(job.message, order, now_ms + order.first_wait_ms, self._share_of.get(job.job_id))

    def _deliver(self, job: ScheduledJob, now_ms: int) -> None:
        editor = self._editor
        message = editor.readdressed(
            job.message,
            job.message.destination,
            properties={JOB_ID: job.job_id},
            removed_properties=_SCHEDULE,
            new_id=job.fresh_ids,
        )
        lifetime_ms = message.expiration - message.timestamp
        if message.timestamp > 0 and message.expiration > 0 and lifetime_ms > 0:
            # The delay does not count as its life.
            editor.with_expiration(message, min(now_ms + lifetime_ms, LATEST_MS), now_ms)
        message.is_send_unaudited = self._audit is not None
        try:
            self._publisher.put(None, message)
        except BrokerError as error:
            self._dead_letter(job, message, error)

    def _dead_letter(self, job: ScheduledJob, message: Message, error: BrokerError) -> None:
        """The destination refuses it: it becomes a dead letter (A6, F4)."""
        _log.warning("scheduled job %s could not deliver to %r: %s", job.job_id, message.destination, error)
        if isinstance(error, InvalidDestination) and job.job_id in self._jobs:
            self._forget(self._jobs[job.job_id])  # it is gone for good
        self._publisher.tell_sent(message)
        self._dead_letters.keep_unrouted(message, f"scheduled job {job.job_id} could not deliver: {error}")

    # ---- management --------------------------------------------------------------------------------------------

    def remove(self, job_id: str) -> bool:
        """End a job; False if there is none of that id."""
        job = self._jobs.get(job_id)
        if job is None:
            return False
        self._forget(job)
        self._wait()
        return True

    def remove_all(self, start_ms: int = 0, end_ms: int = 2**63 - 1) -> int:
        """Remove the jobs that are due between *start_ms* and *end_ms*, and return how many."""
        jobs = [job for job in self._jobs.values() if start_ms <= job.due_ms <= end_ms]
        for job in jobs:
            self._forget(job)
        self._wait()
        return len(jobs)

    def _manage(self, message: Message, properties: Mapping[str, Value]) -> None:
        """Carry out a request of a client. A senseless one (no such job) is ignored, as in ActiveMQ."""
        action = properties.get(_ACTION)
        times = _times(properties)
        if action == "BROWSE":
            reply_to = self._editor.lookup(message)("JMSReplyTo")
            if isinstance(reply_to, str):
                start_ms, end_ms = times or (0, 2**63 - 1)
                jobs = deque(job for job in self.jobs() if start_ms <= job.due_ms <= end_ms)
                self._show(jobs, parse_destination(reply_to))
        elif action == "REMOVE":
            self.remove(str(properties.get(JOB_ID)))
        elif action == "REMOVEALL":
            self.remove_all(*(times or ()))

    def _show(self, jobs: deque[ScheduledJob], reply_to: Destination) -> None:
        """Send one message for each of *jobs*; a long list in turns, and not while memory is full."""
        for _ in range(_DELIVERIES_PER_TURN):
            if not jobs or self._flow.is_full() is not None:
                break
            job = jobs.popleft()
            if job.job_id not in self._jobs:
                continue
            try:
                self._publisher.put(None, self._picture(job, reply_to))
            except BrokerError as error:
                _log.warning("the list of scheduled jobs cannot be sent to %r: %s", reply_to, error)
                return
        if jobs:
            wait_seconds = 0.0 if self._flow.is_full() is None else _FULL_WAIT_SECONDS
            self._clock.call_later(wait_seconds, partial(self._show, jobs, reply_to))

    def _picture(self, job: ScheduledJob, reply_to: Destination) -> Message:
        return self._editor.readdressed(
            job.message,
            reply_to,
            original_destination=job.message.destination,
            properties={JOB_ID: job.job_id},
            expiration=0,
            persistent=False,
            new_id=True,
        )


def _check(what: str, state: str, used: int, needed: int, limit: int, setting: str) -> None:
    if used + needed > limit:
        raise ResourceLimit(f"{what}: {used} {state}, the limit is {limit} ({setting})")


def _is_management(where: Destination) -> bool:
    return where.name.lower().startswith(_MANAGEMENT)


def _is_scheduled(properties: Mapping[str, Value]) -> bool:
    """Whether the message is meant for later. A repeat count alone says nothing, as in ActiveMQ."""
    if properties.get(JOB_ID) is not None:
        return False
    return any(properties.get(name) is not None for name in (_DELAY, _PERIOD, _CRON))


def _order(properties: Mapping[str, Value]) -> _Order:
    cron = properties.get(_CRON)
    if cron is not None and not isinstance(cron, str):
        raise BrokerError(f"property {_CRON} must be a text, not {cron!r}")
    return _Order(
        delay_ms=_number(properties, _DELAY, _TIME_MS_MAX),
        period_ms=_number(properties, _PERIOD, _TIME_MS_MAX),
        repeats=_number(properties, _REPEAT, _REPEAT_MAX),
        cron=(cron or "").strip(),
    )


def _times(properties: Mapping[str, Value]) -> tuple[int, int] | None:
    """From when to when; None unless both are given."""
    if properties.get(_ACTION_START) is None or properties.get(_ACTION_END) is None:
        return None
    return _number(properties, _ACTION_START, 2**63 - 1), _number(properties, _ACTION_END, 2**63 - 1)


def _number(properties: Mapping[str, Value], name: str, highest: int) -> int:
    """A whole number, or a text that is one; 0 if there is none."""
    value = properties.get(name)
    if value is None:
        return 0
    number = value if isinstance(value, int) and not isinstance(value, bool) else _parsed(value)
    if number is None:
        raise BrokerError(f"property {name} must be a whole number, not {value!r}")
    if number > highest:
        raise BrokerError(f"property {name} is too large: {number}; the limit is {highest}")
    return int(number)


def _parsed(value: Value) -> int | None:
    if not isinstance(value, str) or len(value) > 20:
        return None
    digits = value[1:] if value[:1] in ("-", "+") else value
    return int(value) if digits.isascii() and digits.isdigit() else None


def _nothing() -> None:
    """Ignore the result."""
