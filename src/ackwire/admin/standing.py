"""The role of the broker as the HTTP port shows it, and all that a slave answers there."""

from collections.abc import Callable
from typing import final

from ackwire import __version__
from ackwire.admin.cluster_api import cluster_status, cluster_transfer
from ackwire.admin.http import Answer, Request, error_answer, json_answer
from ackwire.admin.metrics import CONTENT_TYPE, metric
from ackwire.admin.tokens import is_authorised
from ackwire.cluster.roles import Role, Standing
from ackwire.cluster.status import Group


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

    def __init__(
        self, broker_name: str, standing: Callable[[], Standing], token: bytes = b"", group: Group | None = None
    ) -> None:
        self._broker_name = broker_name
        self._standing = standing
        self._token = token
        self._group = group

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
            case ("GET", "/v1/cluster") if self._is_authorised(request):
                return await cluster_status(self._group)
            case ("POST", "/v1/cluster/transfer") if self._is_authorised(request):
                return await cluster_transfer(self._group, request)
            case (_, "/v1/cluster" | "/v1/cluster/transfer"):
                return error_answer(401, "not-authorised", "the header Authorization: Bearer TOKEN is missing or wrong")
        return error_answer(503, "not-master", f"this broker is not the master: {standing.why}", {"retry-after": "1"})

    def _is_authorised(self, request: Request) -> bool:
        return bool(self._token) and is_authorised(request.header("authorization"), self._token)

    def _metrics(self, standing: Standing) -> str:
        labels = (("broker", self._broker_name), ("version", __version__))
        lines = metric("ackwire_info", "gauge", "Which broker this is.", [(labels, 1)])
        return "\n".join([*lines, *standing_metrics(standing)]) + "\n"
