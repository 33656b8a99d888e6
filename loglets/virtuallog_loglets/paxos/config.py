"""Config of a paxos loglet in the chain. It is JSON, so that it outlives every binary.

    {"coordinator": 2, "replicas": [1, 2, 3]}
    {"coordinator": 2, "loglet": "12.5fe7a0", "replicas": [1, 3, 4]}      closed, and moved to other replicas

Clients ask the coordinator first; the node of any replica may lead. A closed log that is moved keeps its id on its
replicas, while its segment gets a new one. Fields that this program does not know are kept.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

import attrs

from virtuallog.contract.chain import SegmentId
from virtuallog.contract.errors import InvalidSettingError, MalformedError
from virtuallog.contract.placement import majority_of
from virtuallog.contract.types import NodeId

KIND: Final = "paxos"
"""Kind of a paxos segment in the chain."""
_KNOWN: Final = ("replicas", "coordinator", "loglet")


@attrs.frozen(kw_only=True)
class PaxosConfig:
    """Replicas that store the log, and the node that clients first ask to order it."""

    replicas: tuple[NodeId, ...]
    coordinator: NodeId
    loglet: SegmentId | None = None
    """Id of the log on its replicas; None if it is that of the segment."""
    others: Mapping[str, Any] = attrs.field(factory=dict)
    """Fields of later versions, kept."""

    @property
    def quorum(self) -> int:
        return majority_of(len(self.replicas))

    def encode(self) -> bytes:
        known: dict[str, Any] = {"replicas": list(self.replicas), "coordinator": self.coordinator}
        if self.loglet is not None:
            known["loglet"] = str(self.loglet)
        return json.dumps({**self.others, **known}, sort_keys=True).encode()


@attrs.frozen(kw_only=True)
class Ensemble:
    """The replicas that take part in one log at a moment, and the size of a quorum of them.

    Any two quorums share a replica, so there are at most 2 * quorum - 1 members. Fewer may be known at the moment;
    then some quorums cannot be formed.
    """

    members: tuple[NodeId, ...]
    """Replicas, in an order that all nodes compute alike."""
    quorum: int
    """Replicas that decide."""


def decode_untrusted(blob: bytes) -> PaxosConfig:
    """Decode the config in `blob`.

    Raises:
        MalformedError: `blob` is not a config of a paxos loglet.
    """
    try:
        fields = json.loads(blob)
        replicas = tuple(NodeId(_integer(node)) for node in fields["replicas"])
        coordinator = NodeId(_integer(fields["coordinator"]))
        loglet = SegmentId.parse(fields["loglet"]) if "loglet" in fields else None
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, InvalidSettingError) as error:
        raise MalformedError(f"not the config of a paxos loglet: {blob[:100]!r}") from error
    if not replicas or len(set(replicas)) != len(replicas):
        raise MalformedError(f"the config of a paxos loglet lists replicas {replicas}")
    others = {name: value for name, value in fields.items() if name not in _KNOWN}
    return PaxosConfig(replicas=replicas, coordinator=coordinator, loglet=loglet, others=others)


def _integer(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{value!r} is not an integer")
    return value
