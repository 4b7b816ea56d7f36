"""The parts of the broker that its answers (`why/reasons.py`, `why/broker_report.py`) are made from; for reading."""

from collections.abc import Callable
from dataclasses import dataclass

from ackwire.broker.clients import Clients
from ackwire.broker.cursors import Cursors
from ackwire.broker.limits import FlowControl
from ackwire.broker.live_settings import LiveSettings
from ackwire.broker.loop_report import LoopReport
from ackwire.broker.receive_room import ReceiveRoom
from ackwire.broker.registry import Registry
from ackwire.broker.scheduler import Scheduler
from ackwire.broker.slices import Slices
from ackwire.broker.transactions import Transactions
from ackwire.config import Settings
from ackwire.jms.message_editor import MessageEditor
from ackwire.store.contract import Store
from ackwire.util.clock import Clock


@dataclass(slots=True)
class BrokerView:
    """The parts of a broker that answers are made from."""

    broker_id: str
    started_ms: int
    clock: Clock
    store: Store
    editor: MessageEditor
    live_settings: LiveSettings
    slices: Slices
    clients: Clients
    flow: FlowControl
    receive_room: ReceiveRoom
    registry: Registry
    transactions: Transactions
    scheduler: Scheduler
    cursors: Cursors
    loop_report: Callable[[], LoopReport] | None
    """How the loop fares, where it is measured."""
    group_report: Callable[[], list[str]] | None = None
    """How the group of brokers stands, where there is one."""

    @property
    def settings(self) -> Settings:
        return self.live_settings.current
