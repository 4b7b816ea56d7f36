"""Early dispatch: a message may go to a consumer before it is on disk, and its ack may answer its sender (ADR 16).

A sender that waits for the answer to a persistent message waits for a sync of the disk. While it waits, a consumer
could already have the message; and once it is consumed, it need not be on disk at all. `EarlyDispatch` decides three
things, and keeps all that is known for these decisions:

* May this message leave now? (`may_leave`)
* May this ack answer that sender? (`answer_by_ack`, `acked`)
* When must the store sync after all? (the `Sync` that `answer_by_ack` asks for)

What may come twice. After a crash a sender repeats what it got no answer for. A repeated message that a consumer may
have seen must be flagged as redelivered (SEMANTICS A2, J4), and only the first message that a producer repeats is known
to be such a one. So at most one message of a connection is with a consumer and not on disk, as long as its sender may
repeat it; `flag_repeated` sets the flag.
"""

from collections.abc import Callable
from enum import Enum
from typing import Final, NamedTuple, Protocol, final

from ackwire.compilation import mypyc_attr
from ackwire.errors import StoreFailed
from ackwire.jms.message import Message
from ackwire.store.contract import Store, Sync
from ackwire.util.clock import Turns
from ackwire.util.lru import PRODUCERS_REMEMBERED, Recent

_WINS_MAX: Final = 40
_LOSS: Final = 20
"""Wins that one loss takes away: one slow ack among quick ones changes nothing, two in a row do."""

_STORED_FIRST: Final = 16
_STORED_FIRST_MAX: Final = 4096
"""Messages that are stored first after all wins are lost, before the next trial: twice as many each time."""

_BACK_WITHIN_SECONDS: Final = 3600
"""How long after a crash its clients may come back, although the broker was stopped and started in between."""


class Policy(Enum):
    """When messages leave before they are durable: the setting `store.early_dispatch`."""

    OFF = "off"
    """Never."""
    IDLE = "idle"
    """When that is no slower for the sender: after a pause, and while another sync is under way."""
    ADAPTIVE = "adaptive"
    """Also where consumers have acknowledged faster than the disk syncs."""


class Leave(Enum):
    """The answer to: may this message leave now?"""

    WHEN_DURABLE = "when durable"
    NOW = "now"
    NOW_AS_TRIAL = "now, as a trial"
    """Only because its consumers are expected to be quick: a slow ack counts as a loss."""


class AnsweredPort(Protocol):
    """The server's end of a sender's connection."""

    @property
    def has_received_all(self) -> bool:
        """Whether the client's system has confirmed every byte that was sent to it; False if that is unknown."""
        ...


@final
class AckOdds:
    """Whether the consumers of one sender's messages acknowledge before the disk is synced.

    A win is an ack that came first. Without wins, messages are stored first for a while, then one is tried.
    """

    __slots__ = ("_stored_first", "_stored_first_next", "_wins")

    def __init__(self) -> None:
        self._wins = 0
        self._stored_first = _STORED_FIRST
        self._stored_first_next = _STORED_FIRST

    def may_try(self) -> bool:
        """Whether the next message is to leave early. Ask once for each message."""
        if self._wins:
            return True
        self._stored_first -= 1
        return self._stored_first <= 0

    @property
    def are_good(self) -> bool:
        """Whether the sync, too, may wait for the ack."""
        return self._wins >= _LOSS

    def won(self) -> None:
        """The ack came before the disk had the message."""
        self._wins = min(self._wins + 1, _WINS_MAX)
        if self._wins == _WINS_MAX:
            self._stored_first_next = _STORED_FIRST

    def lost(self) -> None:
        """The ack came later, or another caller needed the sync."""
        self._wins = max(self._wins - _LOSS, 0)
        if not self._wins:
            self._stored_first = self._stored_first_next
            self._stored_first_next = min(2 * self._stored_first_next, _STORED_FIRST_MAX)


@final
class Sender:
    """What early dispatch knows of one connection that sends."""

    __slots__ = ("_port", "acked_sequence", "awaited_sequence", "odds", "only_sends", "producers_back")

    def __init__(self, port: AnsweredPort) -> None:
        self._port = port
        self.only_sends = True
        """Whether it does nothing but send and wait for each answer. Another client may rely on an answer for more:
        that what it consumed, or sent without waiting, is safe, too."""
        self.awaited_sequence = 0
        """The last of its messages that it waits for, or has waited for."""
        self.acked_sequence = 0
        """The last of its messages whose answer did not wait for the disk."""
        self.odds = AckOdds()
        self.producers_back = -1
        """Of the producers that it had when it began to repeat, how many may still repeat one; -1 before that."""

    @property
    def has_received_all(self) -> bool:
        return self._port.has_received_all


class _Answer(NamedTuple):
    """A message that has left early, and the sender that waits for an answer."""

    message: Message
    sender: Sender
    answer: Callable[[], None]
    on_stored: Callable[[], None]
    """What the store calls, unless the ack comes first."""


@mypyc_attr(allow_interpreted_subclasses=True)  # the simulation has one
class EarlyDispatch:
    """Decides which messages leave before they are durable, and how their senders are answered."""

    def __init__(self, store: Store, turns: Turns, policy: Policy, *, is_audited: bool) -> None:
        """An audit must have what was answered for, and is written with the journal: then acks answer no sender."""
        self._store = store
        self._durability = store.durability
        self._turns = turns
        self._is_off = policy is Policy.OFF
        self._is_adaptive = policy is Policy.ADAPTIVE
        self._is_audited = is_audited
        self._pending: _Answer | None = None
        """The message that has left early, until its sender is answered."""
        self._is_after_crash = False
        self._repeated: Recent[bytes, None] = Recent(PRODUCERS_REMEMBERED)
        """Producers that came back after a crash and have repeated the first message that they wait for."""

    # ---- may this message leave now? ---------------------------------------------------------------------------

    def may_leave(self, sender: Sender) -> Leave:
        """Whether the next message of *sender*, which waits for its answer, may leave before it is durable.

        Only if no caller waits for the disk, and this sender can repeat no other message that the disk does not have;
        and if that is no slower for the sender: after a pause it is in no hurry, during a sync it would wait for two
        syncs, and a quick ack answers it sooner than the disk.
        """
        if self._is_off:
            return Leave.WHEN_DURABLE
        durability = self._durability
        if sender.awaited_sequence > max(durability.durable_sequence, sender.acked_sequence):
            sender.only_sends = False  # it sends on before it is answered
        if durability.has_waiters:
            return Leave.WHEN_DURABLE
        leave = Leave.NOW
        if not (self._turns.after_pause or durability.is_syncing):
            if not (self._is_adaptive and self.answers_by_ack(sender) and sender.odds.may_try()):
                return Leave.WHEN_DURABLE
            leave = Leave.NOW_AS_TRIAL
        if sender.acked_sequence <= durability.durable_sequence or sender.has_received_all:
            return leave
        return Leave.WHEN_DURABLE

    # ---- may this ack answer that sender? ----------------------------------------------------------------------

    def answers_by_ack(self, sender: Sender) -> bool:
        """Whether the ack of a message that has left early answers *sender*."""
        return sender.only_sends and not self._is_audited

    def answer_by_ack(
        self,
        sender: Sender,
        message: Message,
        leave: Leave,
        answer: Callable[[], None],
        on_failed: Callable[[StoreFailed], None] | None,
    ) -> None:
        """Call *answer* when *message*, which has left early, is consumed or durable, whatever comes first."""
        odds = sender.odds
        is_delayed = self._is_adaptive and odds.are_good
        is_trial = is_delayed or leave is Leave.NOW_AS_TRIAL

        def on_stored() -> None:
            self._pending = None
            if is_trial:
                odds.lost()
            answer()

        self._pending = _Answer(message, sender, answer, on_stored)
        self._store.when_durable(on_stored, on_failed, Sync.DELAYED if is_delayed else Sync.BESIDE)

    def acked(self, messages: list[Message]) -> None:
        """*messages* are consumed, and recorded as such: the sender of one of them need not wait for the disk."""
        pending = self._pending
        if pending is not None and any(it is pending.message for it in messages):
            self._answer_pending(pending)

    def _answer_pending(self, pending: _Answer) -> None:
        if self._store.cancel(pending.on_stored):
            self._pending = None
            pending.sender.acked_sequence = pending.message.sequence
            pending.sender.odds.won()
            pending.answer()

    # ---- what may come twice -----------------------------------------------------------------------------------

    def restore(self) -> None:
        """Know whether clients may come back from a crash."""
        self._is_after_crash = self._store.has_crashed(_BACK_WITHIN_SECONDS)

    def flag_repeated(self, sender: Sender, message: Message, producer_count: int) -> bool:
        """Flag *message* of a client that came back as redelivered, if it may have left early before a crash.

        A client repeats what it waits for before it sends anything new: so that is the first message that a producer
        waits for, if the producer is one of the *producer_count* that were there when the repeating began. Call
        `was_repeated` for a flagged message once it is stored.
        """
        if not self._is_after_crash:
            return False
        if sender.producers_back < 0:
            sender.producers_back = producer_count
        if sender.producers_back == 0 or message.origin.producer_key in self._repeated:
            return False
        message.redelivery_counter = 1
        return True

    def was_repeated(self, sender: Sender, message: Message) -> None:
        """*message*, which was flagged, is stored: its producer repeats no other that a consumer may have seen."""
        sender.producers_back -= 1
        self._repeated[message.origin.producer_key] = None
