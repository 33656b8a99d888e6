"""Config of a raft loglet in the chain. It is JSON, so that it outlives every binary.

    {"boot": 7, "leader": 2, "replicas": [1, 2, 3]}
    {"boot": 7, "leader": 2, "loglet": "12.5fe7a0", "replicas": [1, 3, 4]}      closed, and moved to other replicas

The process of this start (`boot`) of `leader` leads the first term without an election; later any replica may. A closed
loglet that is moved keeps its id on its replicas, while its segment gets a new one. Unknown fields are preserved.
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

KIND: Final = "raft"
"""Kind of a raft segment in the chain."""
_KNOWN: Final = ("replicas", "leader", "boot", "loglet")


@attrs.frozen
class RaftLimits:
    """Size limits of records and of transfers, in bytes.

    The WAL of every replica must accept each piece whole, or it is sent for ever: a message and a piece of a copy are one
    append each (see `WalSettings`).
    """

    record_bytes: int = 1 << 20
    """Bytes of the batches that share a record; a single larger batch may exceed it."""
    message_bytes: int = 1 << 20
    """Bytes of records in a message; a single larger record may exceed it."""
    piece_bytes: int = 4 << 20
    """Bytes of a closed loglet that are copied in one step. A single larger record may exceed it."""


@attrs.frozen(kw_only=True)
class RaftConfig:
    """Replicas of a loglet, all of them voters, and the process that leads first."""

    replicas: tuple[NodeId, ...]
    leader: NodeId
    boot: int
    loglet: SegmentId | None = None
    """Id of the loglet on its replicas; None if it is that of the segment."""
    others: Mapping[str, Any] = attrs.field(factory=dict)
    """Fields of later versions, preserved on encoding."""

    @property
    def quorum(self) -> int:
        return majority_of(len(self.replicas))

    @property
    def fields(self) -> dict[str, Any]:
        """The config as plain values."""
        known: dict[str, Any] = {"replicas": list(self.replicas), "leader": self.leader, "boot": self.boot}
        if self.loglet is not None:
            known["loglet"] = str(self.loglet)
        return {**self.others, **known}

    def encode(self) -> bytes:
        return json.dumps(self.fields, sort_keys=True).encode()


def decode_untrusted(blob: bytes) -> RaftConfig:
    """Decode the config in `blob`.

    Raises:
        MalformedError: `blob` is not a config of a raft loglet.
    """
    try:
        fields = json.loads(blob)
        replicas = tuple(NodeId(_integer(node)) for node in fields["replicas"])
        leader, boot = NodeId(_integer(fields["leader"])), _integer(fields["boot"])
        loglet = SegmentId.parse(fields["loglet"]) if "loglet" in fields else None
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, InvalidSettingError) as error:
        raise MalformedError(f"not the config of a raft loglet: {blob[:100]!r}") from error
    if not replicas or len(set(replicas)) != len(replicas):
        raise MalformedError(f"the config of a raft loglet lists replicas {replicas}")
    others = {name: value for name, value in fields.items() if name not in _KNOWN}
    return RaftConfig(replicas=replicas, leader=leader, boot=boot, loglet=loglet, others=others)


def _integer(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{value!r} is not an integer")
    return value
