"""Whether the broker can do its work: for load balancers, supervisors and people."""

from ackwire.admin.http import Answer, json_answer
from ackwire.admin.metrics import StoreInfo
from ackwire.admin.standing import standing_facts
from ackwire.broker.broker import Broker
from ackwire.cluster.roles import Standing
from ackwire.errors import StoreFailed


def health(
    broker: Broker,
    store: StoreInfo,
    uptime_seconds: float,
    failure: StoreFailed | None,
    standing: Standing | None = None,
) -> Answer:
    """200 and `ok`; or 503 with `failed`, `suspended` or `full`, and why; and the role, if there are several."""
    facts: dict[str, object] = {"status": "ok", "store": store.kind, "uptime_seconds": round(uptime_seconds, 3)}
    full = broker.flow.is_full()
    if failure is not None:
        facts |= {"status": "failed", "why": str(failure)}
    elif standing is not None and standing.is_suspended:
        facts |= {"status": "suspended", "why": standing.why}
    elif full is not None:
        facts |= {"status": "full", "why": full}
    if standing is not None:
        facts |= standing_facts(standing)
    return json_answer(200 if facts["status"] == "ok" else 503, facts)
