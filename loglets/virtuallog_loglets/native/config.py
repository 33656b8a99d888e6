"""Config of a NativeLoglet in the chain: JSON, so that it outlives every binary.

    {"servers": [1, 2, 3], "sequencer": 2, "boot": 7}
    {"servers": [1, 3, 4], "sequencer": 2, "boot": 7, "loglet": "12.5fe7a0"}      closed, and moved to another set of servers

A sequencer never restarts in place, so a config names one *start* of the sequencer's process
(`boot`). A closed loglet that is moved keeps its id on its servers, while its segment gets a new
id. Waves name their loglet, so they are copied unchanged. Unknown fields are preserved.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import attrs

from virtuallog.contract.chain import SegmentId
from virtuallog.contract.errors import InvalidSettingError, MalformedError
from virtuallog.contract.placement import majority_of
from virtuallog.contract.types import NodeId

_KNOWN = ("servers", "sequencer", "boot", "loglet")


@attrs.frozen(kw_only=True)
class NativeConfig:
    """Servers that store the loglet and the sequencer that orders it."""

    servers: tuple[NodeId, ...]
    sequencer: NodeId
    boot: int
    loglet: SegmentId | None = None
    """Id of the loglet on the servers; None if it equals the id of the segment."""
    others: Mapping[str, Any] = attrs.field(factory=dict)
    """Fields of later versions, preserved on encoding."""

    @property
    def majority(self) -> int:
        return majority_of(len(self.servers))

    def encode(self) -> bytes:
        known: dict[str, Any] = {"servers": list(self.servers), "sequencer": self.sequencer, "boot": self.boot}
        if self.loglet is not None:
            known["loglet"] = str(self.loglet)
        return json.dumps({**self.others, **known}, sort_keys=True).encode()


def decode_untrusted(blob: bytes) -> NativeConfig:
    """Decode the config in `blob`.

    Raises:
        MalformedError: `blob` is not a config of a NativeLoglet.
    """
    try:
        fields = json.loads(blob)
        servers = tuple(NodeId(_integer(node)) for node in fields["servers"])
        sequencer, boot = NodeId(_integer(fields["sequencer"])), _integer(fields["boot"])
        loglet = SegmentId.parse(fields["loglet"]) if "loglet" in fields else None
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, InvalidSettingError) as error:
        raise MalformedError(f"not the config of a native loglet: {blob[:100]!r}") from error
    if not servers or len(set(servers)) != len(servers):
        raise MalformedError(f"the config of a native loglet lists servers {servers}")
    others = {name: value for name, value in fields.items() if name not in _KNOWN}
    return NativeConfig(servers=servers, sequencer=sequencer, boot=boot, loglet=loglet, others=others)


@attrs.frozen(kw_only=True)
class TransferLimits:
    """Size limits of waves and of transfers, in bytes.

    The WAL of every log server must accept each piece whole, or an append or a repair never ends: a
    wave is one record, a repair one append (see `WalSettings`).
    """

    wave_bytes: int = 1 << 20
    """A wave takes queued batches until it would exceed this size. A single larger batch may exceed
    it."""
    repair_bytes: int = 4 << 20
    """Bytes fetched and repaired in one step. A single larger wave may exceed it. Clients and
    servers share the default."""


def _integer(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{value!r} is not an integer")
    return value
