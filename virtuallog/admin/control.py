"""Requests about the log that any client may send to any node, if its role permits.

The node does the work in a service task of its own, so that a reconfiguration does not die half-way with its client.
"""

from __future__ import annotations

from typing import Final

import attrs

from virtuallog.contract.caller_roles import Role
from virtuallog.contract.capnp_interface import Interface, Method
from virtuallog.contract.chain import SegmentId
from virtuallog.contract.ports import Question, Request
from virtuallog.contract.schema import load
from virtuallog.contract.types import NodeId
from virtuallog.contract.versions import FIRST


@attrs.frozen(kw_only=True)
class NodeStatus:
    """State of a node, and of the cluster as it knows it, at one moment."""

    cluster: bytes
    """Id of the cluster; empty before bootstrap."""
    node: NodeId
    store_id: bytes
    """Id of the data directory."""
    boot: int
    """Number of this start of the node."""
    roles: tuple[str, ...]
    """Roles that it serves now."""
    software: str
    """Version of the software."""
    register: bytes
    """Newest register that this node knows, encoded; empty before bootstrap."""
    failures: tuple[str, ...]
    """Roles that this node refuses to serve, each with the reason: 'native: corruption ...'."""
    phase: str = "formatted"
    """State of the data directory: 'unformatted', 'formatting' or 'formatted'
    (server/virtuallog_server/storage/identity.py)."""
    healing: tuple[str, ...] = ()
    """Failures of other nodes as this one sees them, and its reaction: 'log server 2 is silent, no spare node'."""
    protocol: int = FIRST
    """Newest version of the protocol that this node speaks (`virtuallog.contract.versions`)."""


@attrs.frozen(kw_only=True)
class ChainChanged:
    """Reply to a change."""

    register: bytes
    """Register after the change, encoded."""


@attrs.frozen
class GetStatus(Question[NodeStatus]):
    """Ask a node for its status. Answered without a call to other nodes."""


@attrs.frozen
class Setting:
    """One setting of a loglet provider: `--set name=value`."""

    name: str
    value: str


@attrs.frozen(kw_only=True)
class ReconfigExtend(Request[ChainChanged]):
    """Seal the active loglet and continue the log on a new one. Answered once the new chain is decided.

    Fails with UnknownKindError, InvalidSettingError (nothing was done), UnavailableError (unknown; safe to repeat).
    """

    kind: str
    settings: tuple[Setting, ...]


@attrs.frozen
class ReconfigTruncate(Request[ChainChanged]):
    """Drop the segments that lie wholly below the trim point from the chain."""


@attrs.frozen(kw_only=True)
class ReconfigModify(Request[ChainChanged]):
    """Put another loglet, which already holds the same entries, under a closed segment."""

    segment: SegmentId
    kind: str
    config: bytes
    base: int


@attrs.frozen
class SealLog(Request[ChainChanged]):
    """Close the log on purpose: appends fail until the chain is extended."""


@attrs.frozen(kw_only=True)
class Trimmed:
    """The effective trim point of the log."""

    position: int


@attrs.frozen(kw_only=True)
class PrefixTrim(Request[Trimmed]):
    """Drop everything below `position`, and the segments that this empties.

    Fails with InvalidSettingError if a database on this log needs some of it, with UnavailableError if there is
    one and none of its servers answers. Nothing was done then.
    """

    position: int
    force: bool = False
    """True: trim even if a database needs the entries.

    A replica that loses its part of the log has to copy another replica.
    """


@attrs.frozen(kw_only=True)
class RebuildSegment(Request[ChainChanged]):
    """Move a closed segment onto these servers: missing entries are copied, then the chain names the servers.

    Takes as long as the copy, at a limited rate, so use a long timeout. The node goes on when the caller waits no
    more, and the same request continues. Fails with InvalidSettingError (open, not in the chain, or these servers
    cannot hold it: nothing was done), UnsupportedError (no copies on nodes), UnavailableError (unknown; safe to
    repeat).
    """

    segment: SegmentId
    servers: tuple[NodeId, ...]
    """All servers, those that stay included; not fewer than before."""


@attrs.frozen(kw_only=True)
class Alive:
    """Answer to a `Probe`; small, as probes are frequent."""

    node: NodeId
    store_id: bytes
    boot: int
    roles: tuple[str, ...]
    """Roles that it serves now."""
    version: int
    """Version of the newest register that it knows; 0 before bootstrap."""


@attrs.frozen
class Probe(Question[Alive]):
    """Liveness check between nodes. Answered from memory, at once."""


@attrs.frozen
class FindTrimPoint(Request[Trimmed]):
    """Ask for the trim point of the log, on behalf of a client that may not trim.

    The sure way to find it is a trim to position 0, which also completes half-done trims.
    """


@attrs.frozen(kw_only=True)
class NodeCondition:
    """Readiness of a node, and its machine, at one moment. Planners do not need it, so it is no part of the status."""

    not_ready: tuple[str, ...]
    """Reasons why it does not serve yet, as `/ready` of its console has them. Empty if it serves."""
    wall_ms: int
    """Its wall clock, in milliseconds since the epoch."""
    free_bytes: int = 0
    """Room on the disk of its data directory."""
    size_bytes: int = 0
    """Size of that disk; 0 if it is not known, and then its room is not."""


@attrs.frozen
class GetCondition(Question[NodeCondition]):
    """Ask a node for its condition. Answered at once, without a call to other nodes. A node of an older version fails with
    UnsupportedError."""


CONTROL: Final = Interface(
    schema=load("virtuallog.admin", "control.capnp").Control,
    methods=(
        Method(name="getStatus", request=GetStatus, reply=NodeStatus, role=Role.CLIENT),
        Method(name="reconfigExtend", request=ReconfigExtend, reply=ChainChanged),
        Method(name="reconfigTruncate", request=ReconfigTruncate, reply=ChainChanged),
        Method(name="reconfigModify", request=ReconfigModify, reply=ChainChanged),
        Method(name="sealLog", request=SealLog, reply=ChainChanged),
        Method(name="prefixTrim", request=PrefixTrim, reply=Trimmed),
        Method(name="rebuildSegment", request=RebuildSegment, reply=ChainChanged),
        Method(name="probe", request=Probe, reply=Alive),
        Method(name="findTrimPoint", request=FindTrimPoint, reply=Trimmed, role=Role.CLIENT),
        Method(name="getCondition", request=GetCondition, reply=NodeCondition, role=Role.CLIENT),
    ),
    role=Role.ADMIN,
)
"""Wire form of these requests."""
