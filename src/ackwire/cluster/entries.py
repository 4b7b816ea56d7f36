"""What a group keeps in ZooKeeper, as values; and which candidate is granted mastership.

    PATH/group               the group's id, the number of its nodes; made by the first node
    PATH/epoch               the highest epoch that was granted; raised by compare-and-set
    PATH/disks               the disks that vote, by their nodes
    PATH/candidates/c-…      ephemeral: each node that is there, with the end of its log
    PATH/master              ephemeral: the node that was granted mastership
    PATH/beats/NODE          written every moment by that node: an answer shows that its session lasts

Everything is JSON. What a node cannot read is a mistake of another version, or of a person, and is named.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from ackwire.errors import ConfigError
from ackwire.replication.elector import Standing
from ackwire.replication.log import LogEnd

FORMAT: Final = 1
"""Of these entries. Nodes that know another format do not join."""


@dataclass(frozen=True, slots=True)
class Group:
    """What all nodes of a group have in common."""

    group_id: str
    replicas: int
    format: int = FORMAT

    def pack(self) -> bytes:
        return _packed({"group_id": self.group_id, "replicas": self.replicas, "format": self.format})

    @classmethod
    def unpack(cls, data: bytes, where: str) -> "Group":
        facts = _unpacked(data, where)
        return cls(_text(facts, "group_id", where), _number(facts, "replicas", where), _number(facts, "format", where))


@dataclass(frozen=True, slots=True)
class Candidate:
    """A node that is there."""

    standing: Standing
    client_uri: str = ""
    """Where clients reach it."""
    resigned_epoch: int = 0
    """The epoch of the mastership that it gave back last."""
    better: str = ""
    """The node that it named then."""
    incarnation: int = 0
    """Of its process."""

    def pack(self) -> bytes:
        standing = self.standing
        return _packed(
            {
                "node_id": standing.node_id,
                "disk_id": standing.disk_id,
                "address": standing.address,
                "end": list(standing.end),
                "promised_epoch": standing.promised_epoch,
                "may_vote": standing.may_vote,
                "weight": standing.weight,
                "client_uri": self.client_uri,
                "resigned_epoch": self.resigned_epoch,
                "better": self.better,
                "incarnation": self.incarnation,
            }
        )

    @classmethod
    def unpack(cls, data: bytes, where: str) -> "Candidate":
        facts = _unpacked(data, where)
        end = facts.get("end")
        if not isinstance(end, list) or len(end) != 2 or not all(isinstance(it, int) for it in end):
            raise _unreadable(where, "end")
        standing = Standing(
            _text(facts, "node_id", where),
            _text(facts, "disk_id", where),
            _text(facts, "address", where),
            LogEnd(*end),
            _number(facts, "promised_epoch", where),
            facts.get("may_vote") is True,
            _number(facts, "weight", where),
        )
        return cls(
            standing,
            _text(facts, "client_uri", where),
            _number(facts, "resigned_epoch", where),
            _text(facts, "better", where),
            _number(facts, "incarnation", where),
        )


@dataclass(frozen=True, slots=True)
class Master:
    """The node that was granted mastership."""

    epoch: int
    node_id: str
    address: str
    client_uri: str

    def pack(self) -> bytes:
        return _packed(
            {"epoch": self.epoch, "node_id": self.node_id, "address": self.address, "client_uri": self.client_uri}
        )

    @classmethod
    def unpack(cls, data: bytes, where: str) -> "Master":
        facts = _unpacked(data, where)
        return cls(
            _number(facts, "epoch", where),
            _text(facts, "node_id", where),
            _text(facts, "address", where),
            _text(facts, "client_uri", where),
        )


@dataclass(frozen=True, slots=True)
class View:
    """The entries of a group, as they were read."""

    group: Group
    epoch: int
    members: Mapping[str, str]
    candidates: Sequence[Candidate]
    master: Master | None = None

    @property
    def quorum(self) -> int:
        return self.group.replicas // 2 + 1


@dataclass(frozen=True, slots=True)
class Choice:
    """Which node is to be the master, or why none can be."""

    node_id: str = ""
    incarnation: int = 0
    """Of the process that is chosen."""
    is_named: bool = False
    """Whether the last master has named it: nothing better can turn up."""
    why_not: str = ""
    missing: Sequence[str] = field(default=())
    """The members that are not there, if too few are."""


def choose(view: View) -> Choice:
    """The candidate whose log goes furthest, then that of the highest weight. One who has just given mastership back
    comes behind the others, and the node that it has named in front of them."""
    there = [it for it in view.candidates if view.members.get(it.standing.node_id) == it.standing.disk_id]
    if len(there) < view.quorum:
        known = {it.standing.node_id for it in there}
        missing = sorted(view.members.keys() - known)
        return Choice(
            why_not=f"{len(there)} of {view.group.replicas} nodes are there, and {view.quorum} are needed",
            missing=missing,
        )
    voters = [it for it in there if it.standing.may_vote]
    if not voters:
        return Choice(why_not="no node that is there has a copy that the group counts on")
    resigned = [it for it in voters if view.epoch and it.resigned_epoch == view.epoch]
    named = {it.better for it in resigned if it.better}

    def rank(it: Candidate) -> tuple[bool, bool, LogEnd, int, str]:
        standing = it.standing
        return (standing.node_id in named, it not in resigned, standing.end, standing.weight, standing.node_id)

    chosen = max(voters, key=rank)
    return Choice(chosen.standing.node_id, chosen.incarnation, is_named=chosen.standing.node_id in named)


def next_epoch(view: View) -> int:
    """Above all that was granted, and all that a candidate has promised."""
    return max([view.epoch, *(it.standing.promised_epoch for it in view.candidates)]) + 1


def pack_epoch(epoch: int) -> bytes:
    return _packed({"epoch": epoch})


def unpack_epoch(data: bytes, where: str) -> int:
    return _number(_unpacked(data, where), "epoch", where)


def pack_members(members: Mapping[str, str]) -> bytes:
    return _packed(dict(members))


def unpack_members(data: bytes, where: str) -> dict[str, str]:
    facts = _unpacked(data, where)
    return {name: _text(facts, name, where) for name in facts}


def _packed(facts: Mapping[str, object]) -> bytes:
    return json.dumps(facts, sort_keys=True).encode()


def _unpacked(data: bytes, where: str) -> dict[str, Any]:
    try:
        facts = json.loads(data)
    except ValueError:
        facts = None
    if not isinstance(facts, dict):
        raise ConfigError(f"ZooKeeper has no entry of Ackwire at {where}: choose another replication.zk_path")
    return facts


def _unreadable(where: str, key: str) -> ConfigError:
    return ConfigError(
        f'the entry of ZooKeeper at {where} has no usable "{key}": another version of Ackwire, or a person, wrote it'
    )


def _text(facts: Mapping[str, Any], key: str, where: str) -> str:
    value = facts.get(key)
    if not isinstance(value, str):
        raise _unreadable(where, key)
    return value


def _number(facts: Mapping[str, Any], key: str, where: str) -> int:
    value = facts.get(key)
    if not isinstance(value, int) or isinstance(value, bool):
        raise _unreadable(where, key)
    return value
