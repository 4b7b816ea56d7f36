"""The group of brokers over HTTP: how it stands, and handing mastership over. The same on the master and on slaves."""

import json
from typing import Final

from ackwire.admin.http import Answer, Request, error_answer, json_answer
from ackwire.cluster.status import Group

_BODY_BYTES_MAX: Final = 4096


async def cluster_status(group: Group | None) -> Answer:
    """`GET /v1/cluster`."""
    if group is None:
        return _no_group()
    return json_answer(200, (await group.full_standing()).as_json())


async def cluster_transfer(group: Group | None, request: Request) -> Answer:
    """`POST /v1/cluster/transfer` with `{"node": NAME}`."""
    if group is None:
        return _no_group()
    body = await request.body(_BODY_BYTES_MAX)
    try:
        node = json.loads(bytes(body))["node"]
    except (ValueError, KeyError, TypeError):
        return error_answer(400, "bad-request", 'the body must be {"node": "NAME"}')
    refusal = group.transfer(str(node))
    if refusal is not None:
        return error_answer(409, "conflict", refusal)
    return json_answer(202, {"node": node})


def _no_group() -> Answer:
    return error_answer(404, "no-group", "this broker belongs to no group: store.kind is not replicated")
