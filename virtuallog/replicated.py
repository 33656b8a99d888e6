"""What a kind of loglets offers on top of `LogletProvider` if it lives on nodes of the cluster: then the cluster heals it.

A kind that keeps its entries elsewhere, as copies of its own, has nothing to heal here and leaves this out. Delos,
OSDI'20, sections 3.2 and 4.2.1: failures are seen by the loglet, a policy chooses, the chain is what changes.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from typing import Protocol, TypeAlias, runtime_checkable

import attrs

from virtuallog.chain import SegmentId
from virtuallog.kept import KeepsLoglets
from virtuallog.ports import Environment
from virtuallog.types import LogletOffset, NodeId

Pace: TypeAlias = Callable[[int], Awaitable[None]]
"""Called after so many bytes have been moved; returns when more may be moved."""


@attrs.frozen
class Sequencer:
    """Who orders the appends to a loglet, or to a part of it."""

    node: NodeId
    boot: int
    """The process start of the node that is meant; another one orders nothing. 0: any."""


@attrs.frozen(kw_only=True)
class Placement:
    """The nodes that a loglet rests on."""

    groups: tuple[tuple[NodeId, ...], ...]
    """Have copies of its entries: each group of the same part of it, so that of each a majority must live, or the loglet can
    neither take appends nor be sealed. One group, unless it consists of parts. A node may be in several."""
    role: str
    """What a node must have among its roles to be one of them."""
    sequencers: tuple[Sequencer, ...] = ()
    """All must live for appends; none: any server may order."""

    @property
    def servers(self) -> tuple[NodeId, ...]:
        """Every node that has copies, in order."""
        return tuple(sorted({node for group in self.groups for node in group}))

    @property
    def orders(self) -> frozenset[NodeId]:
        """The nodes of the sequencers."""
        return frozenset(sequencer.node for sequencer in self.sequencers)


@runtime_checkable
class ReplicatedProvider(KeepsLoglets, Protocol):
    """A `LogletProvider` whose loglets are copies on nodes."""

    def placement(self, config: bytes) -> Placement:
        """Where a loglet is.

        Raises:
            MalformedError: not a config of this kind.
        """
        ...

    def move(self, segment: SegmentId, config: bytes, servers: tuple[NodeId, ...]) -> bytes:
        """The config of the same loglet, closed, on other servers. Nothing has been copied yet.

        One that consists of parts puts each newcomer, in order, into the place of one that leaves. On the servers that it has,
        it is the same loglet for another segment: the new config says whose entries these are.

        Raises:
            InvalidSettingError: they cannot hold it; they may not be fewer than before.
        """
        ...

    async def replicate(
        self,
        segment: SegmentId,
        config: bytes,
        target: bytes,
        stop: LogletOffset,
        environment: Environment,
        pace: Pace,
        lost: Collection[NodeId] = (),
    ) -> None:
        """Bring the servers that `target`, made by `move`, has and `config` has not up to `stop`, the end of the segment;
        and those that both have but have lost their copies with a former disk, which `lost` names.

        On return each of them has every entry below `stop` that is not trimmed, durably; all of it was read back and its
        checksums were right. What lies at or past `stop` is no part of the log and is not copied, so tails may be lower
        afterwards, never below `stop` (`Loglet.check_tail`). Nobody uses the copies before the chain says so. Safe to
        cancel, to repeat and to run on several nodes at once: what is there is not copied again. Appends and reads go on
        meanwhile; what is under way at a time is bounded.

        Raises:
            UnavailableError: a newcomer, or every former server that has some entry, does not answer.
            CorruptionError: what a newcomer gives back is not what was copied.
        """
        ...


@runtime_checkable
class TellsPartialCopies(Protocol):
    """A `ReplicatedProvider` whose servers know whether they have all that they should have of a loglet."""

    async def partial_copies(self, segment: SegmentId, config: bytes, environment: Environment) -> Collection[NodeId]:
        """The servers that do not say that they have: they recover a lost store, wait for a copy, or do not answer. A node may answer
        while its role begins, and nobody knows yet what that has lost.

        Changes nothing.

        Raises:
            MalformedError: not a config of this kind.
        """
        ...


def replicated(provider: object) -> ReplicatedProvider | None:
    """The provider, if its loglets are copies on nodes."""
    return provider if isinstance(provider, ReplicatedProvider) else None


def servers_of(provider: object, config: bytes) -> frozenset[NodeId]:
    """The nodes that have copies of a loglet of this provider; none, if it is no copies on nodes.

    Raises:
        MalformedError: not a config of this kind.
    """
    found = replicated(provider)
    return frozenset() if found is None else frozenset(found.placement(config).servers)
