"""The role of the broker as the HTTP port shows it, and all that a slave answers there."""

from collections.abc import Callable
from typing import final

from ackwire import __version__
from ackwire.admin.http import Answer, Request, error_answer, json_answer
from ackwire.admin.metrics import CONTENT_TYPE, metric
from ackwire.cluster.roles import Role, Standing


def standing_facts(standing: Standing) -> dict[str, object]:
    """The role, for JSON."""
    return {
        "role": standing.word,
        "epoch": standing.epoch,
        "since_ms": standing.since_ms,
        "role_why": standing.why,
        "is_suspended": standing.is_suspended,
    }


def standing_metrics(standing: Standing) -> list[str]:
    """The role, for Prometheus."""
    roles = [((("role", role.value),), int(role is standing.role)) for role in Role]
    return [
        *metric("ackwire_role", "gauge", "1 for the role that the broker has now.", roles),
        *metric("ackwire_epoch", "gauge", "The epoch of its last mastership.", [((), standing.epoch)]),
        *metric(
            "ackwire_role_since_seconds",
            "gauge",
            "When the role began, in seconds since 1970.",
            [((), standing.since_ms / 1000)],
        ),
        *metric(
            "ackwire_suspended",
            "gauge",
            "1 while its mastership is in doubt, and nothing is confirmed.",
            [((), int(standing.is_suspended))],
        ),
    ]


@final
class StandbyApi:
    """Answers requests while the broker serves no clients."""

    def __init__(self, broker_name: str, standing: Callable[[], Standing]) -> None:
        self._broker_name = broker_name
        self._standing = standing

    async def answer(self, request: Request) -> Answer:
        """The handler of an `HttpServer`."""
        standing = self._standing()
        match (request.method, request.path):
            case ("GET", "/health"):
                return json_answer(503, {"status": "waiting", "why": standing.why, **standing_facts(standing)})
            case ("GET", "/live"):
                return json_answer(200, {"status": "alive", **standing_facts(standing)})
            case ("GET", "/metrics"):
                return Answer(200, self._metrics(standing).encode(), CONTENT_TYPE)
        return error_answer(503, "not-master", f"this broker is not the master: {standing.why}", {"retry-after": "1"})

    def _metrics(self, standing: Standing) -> str:
        labels = (("broker", self._broker_name), ("version", __version__))
        lines = metric("ackwire_info", "gauge", "Which broker this is.", [(labels, 1)])
        return "\n".join([*lines, *standing_metrics(standing)]) + "\n"
