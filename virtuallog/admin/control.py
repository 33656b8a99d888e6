"""What any client may ask any node about the cluster. The node does the work in a service task of its own, so that a
reconfiguration does not die half-way with the client that wanted it."""

from __future__ import annotations

from typing import Final

import attrs

from virtuallog.contract.chain import SegmentId
from virtuallog.contract.interface import Interface, Method
from virtuallog.contract.ports import Question, Request
from virtuallog.contract.roles import Role
from virtuallog.contract.schema import load
from virtuallog.contract.types import NodeId
from virtuallog.contract.versions import FIRST


@attrs.frozen(kw_only=True)
class NodeStatus:
    """A node's picture of itself and of the cluster, taken at one moment."""

    cluster: bytes
    """Empty before the cluster is bootstrapped."""
    node: NodeId
    store_id: bytes
    boot: int
    roles: tuple[str, ...]
    software: str
    register: bytes
    """The newest register this node knows, encoded; empty before bootstrap."""
    failures: tuple[str, ...]
    """Roles that this node refuses to serve, each with the reason: 'native: corruption ...'."""
    phase: str = "formatted"
    """How far the data directory has come: 'unformatted', 'formatting' or 'formatted' (server/virtuallog_server/storage/identity.py)."""
    healing: tuple[str, ...] = ()
    """What this node sees of others' failures and does about it: 'log server 2 is silent, no spare node'."""
    protocol: int = FIRST
    """The newest version of the protocol that this node speaks (`virtuallog.contract.versions`)."""


@attrs.frozen(kw_only=True)
class ChainChanged:
    """The register after a change."""

    register: bytes


@attrs.frozen
class GetStatus(Question[NodeStatus]):
    """Answered without asking anybody else."""


@attrs.frozen
class Setting:
    """One `--set name=value`."""

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
    """Close the log on purpose: appends fail until somebody extends the chain."""


@attrs.frozen(kw_only=True)
class Trimmed:
    """The effective trim point of the log."""

    position: int


@attrs.frozen(kw_only=True)
class PrefixTrim(Request[Trimmed]):
    """Drop everything below `position`, and the segments that this empties.

    Fails with InvalidSettingError where a database on this log needs some of it, with UnavailableError where one is said to
    be, and does not answer: nothing was done then.
    """

    position: int
    force: bool = False
    """Whether or not a database needs it: a replica that is left without its part of the log has to copy another one."""


@attrs.frozen(kw_only=True)
class RebuildSegment(Request[ChainChanged]):
    """Move a closed segment onto these servers: what they lack is copied, then the chain names them.

    Takes as long as the copy does, at a limited rate, so ask with a long timeout; the node goes on when nobody waits any
    more, and asking again continues. Fails with InvalidSettingError (open, not in the chain, or these servers cannot hold
    it: nothing was done), UnsupportedError (no copies on nodes), UnavailableError (unknown; safe to repeat).
    """

    segment: SegmentId
    servers: tuple[NodeId, ...]
    """All of them, those that stay included; not fewer than before."""


@attrs.frozen(kw_only=True)
class Alive:
    """The answer to a `Probe`: little, as there are many of them."""

    node: NodeId
    store_id: bytes
    boot: int
    roles: tuple[str, ...]
    """What others may use this node for just now."""
    version: int
    """Of the newest chain it knows; 0 before bootstrap."""


@attrs.frozen
class Probe(Question[Alive]):
    """Node to node: are you there? Answered from memory, at once."""


@attrs.frozen
class FindTrimPoint(Request[Trimmed]):
    """Where the log begins now. For clients who may not ask the loglets: what tells it for sure, a trim that asks for
    nothing, also completes trims that somebody left half done."""


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
    ),
    role=Role.ADMIN,
)
"""The wire form of all of these."""
