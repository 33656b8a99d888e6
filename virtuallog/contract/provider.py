"""What a kind of loglets offers on top of `LogletProvider` if it lives on nodes of the cluster: then the cluster heals it.

A kind that keeps its entries elsewhere, as copies of its own, has nothing to heal here and leaves this out. Delos,
OSDI'20, sections 3.2 and 4.2.1: failures are seen by the loglet, a policy chooses, the chain is what changes.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any, Protocol, TypeAlias, runtime_checkable

from virtuallog.contract.chain import SegmentId
from virtuallog.contract.diagnosis import Evidence
from virtuallog.contract.errors import UnknownKindError, UnsupportedError
from virtuallog.contract.interface import Interface
from virtuallog.contract.loglet import Loglet
from virtuallog.contract.placement import Cluster, Placement
from virtuallog.contract.ports import Environment, Handlers, NodeEnvironment
from virtuallog.contract.types import LogletOffset, NodeId
from virtuallog.contract.versions import COMPOSED


class LogletProvider(Protocol):
    """A kind of loglet, pluggable through the entry-point group `virtuallog.loglets`."""

    @property
    def kind(self) -> str:
        """Name in chains and on command lines."""
        ...

    @property
    def contiguous(self) -> bool:
        """Whether the places of consecutive entries are consecutive (True for native, False for Paxos)."""
        ...

    @property
    def interfaces(self) -> Sequence[Interface]:
        """The wire form of the requests that `serve` handles."""
        ...

    def plan(self, cluster: Cluster, settings: Mapping[str, str], previous: bytes | None) -> bytes:
        """The config of a new loglet of this kind.

        Args:
            cluster: the nodes to choose from.
            settings: from the operator, `--set name=value`.
            previous: config of the active segment if that is of the same kind: what is not set stays as it is, as
                far as its servers live.

        Raises:
            InvalidSettingError: unknown setting, bad value, or not enough nodes.
        """
        ...

    def describe(self, config: bytes) -> Mapping[str, Any]:
        """The config as plain values, for `chain --json` and logs."""
        ...

    def open(self, segment: SegmentId, config: bytes, environment: Environment) -> Loglet:
        """A client of the loglet `segment`. Cheap: no call is made before the first operation."""
        ...

    async def serve(self, environment: NodeEnvironment) -> Handlers:
        """Start this kind's roles on a node; returns the handlers of their requests, ready to be called.

        Raises:
            CorruptionError: the stored state cannot be trusted.
        """
        ...

    async def forget(self, lowest_live_version: int) -> None:
        """Called on nodes after the chain dropped segments: free every loglet whose version is below, durably, and
        refuse to create one again."""
        ...


@runtime_checkable
class SupportsSettings(Protocol):
    """A `LogletProvider` that says what can be set, for whoever asks the command line."""

    @property
    def settings(self) -> Mapping[str, str]:
        """By name, what each means and what it is if nobody sets it."""
        ...


@runtime_checkable
class SupportsDiagnosis(Protocol):
    """A `LogletProvider` that can say what its loglets rest on at this moment."""

    async def explain(self, segment: SegmentId, config: bytes, environment: Environment) -> Sequence[Evidence]:
        """What each source says of a loglet, in a fixed order, `COMBINED` last; who does not answer is told as a `problem`.

        Changes nothing, needs no more than the role CLIENT, and takes `ANSWER_SECONDS` or a little more.

        Raises:
            MalformedError: not a config of this kind.
        """
        ...


@runtime_checkable
class RequiresVersion(Protocol):
    """A kind of loglets that came with a version of the protocol: older nodes would not know what to keep for it, and drop it."""

    @property
    def since(self) -> int:
        """That version."""
        ...


def check_level(provider: object, level: int) -> None:
    """Whether a chain may name a loglet of this provider in a cluster of this level, which never goes down.

    Raises:
        UnsupportedError: there may be a node that does not know what the kind needs.
    """
    if isinstance(provider, RequiresVersion) and level < provider.since:
        raise UnsupportedError(
            f"a node speaks protocol version {level} only: loglets of this kind are used once all speak {provider.since}"
        )


@runtime_checkable
class SupportsPreflight(Protocol):
    """A `LogletProvider` that can tell whether a plan of its own would do."""

    async def probe(self, config: bytes, environment: Environment) -> None:
        """On return a new loglet of this config would have taken appends. Nothing has come into being that is one.

        Asked before the active loglet is sealed, by whoever wants the log to go on here; not by those who finish a change that
        is half done, as appends wait for them. The environment's nursery ends soon after. Safe to repeat; cancelled after some seconds.

        Raises:
            InvalidSettingError, ForbiddenError, UnsupportedError: it would not, and what is to blame.
        """
        ...


RetainedLoglets: TypeAlias = Mapping[SegmentId, tuple[str, bytes]]
"""Loglets by the ids that nodes know them by, each with its kind and config."""


@runtime_checkable
class SupportsRetention(Protocol):
    """A `LogletProvider` whose segments rest on other loglets than the one of their own id. Pure."""

    def loglets(self, segment: SegmentId, config: bytes) -> RetainedLoglets:
        """What the segment rests on; empty: no loglet at all. Also one that is kept elsewhere than on nodes is among it: by this
        others know that an archive still has it as its hot copy, and that it left the chain, so that it can be freed
        (`SupportsExternalRelease`). Nodes pass over ids that they keep nothing of.

        Raises:
            MalformedError: not a config of this kind.
        """
        ...


@runtime_checkable
class SupportsTimedRelease(Protocol):
    """A `LogletProvider` whose segments keep something for a time that is in their config. Pure."""

    def released(self, config: bytes, now_ms: int) -> bytes | None:
        """The config without what is kept no longer, once its time is over; None: there is nothing to release, or it is too early.

        Args:
            config: of a closed segment.
            now_ms: wall clock, milliseconds since the epoch. It may jump: what is kept must not be needed for safety.

        Raises:
            MalformedError: not a config of this kind.
        """
        ...


@runtime_checkable
class SupportsExternalRelease(Protocol):
    """A `LogletProvider` whose loglets take room somewhere else than on nodes, which therefore do not free it by themselves."""

    async def release(self, segment: SegmentId, config: bytes, environment: Environment) -> None:
        """Free what a loglet took that has left the chain for good, and was sealed before.

        Called some seconds later, by several nodes one after the other, while they live: it must be safe to repeat, and to do at the
        same time. What a crash prevents is not made up for. Somebody with an old chain may still come at any time, and must
        neither find nor make an empty loglet that takes appends: of a loglet that is freed, enough stays to refuse them.

        Raises:
            UnavailableError: unknown; a part may have been freed.
        """
        ...


@runtime_checkable
class SupportsRebind(Protocol):
    """A `LogletProvider` that can tell in a config whose entries it means. Pure.

    A segment that is put under a closed one gets a new id, and a loglet usually has the id of its segment. Kinds that are copies
    on nodes do this with `ReplicatedProvider.move`.
    """

    def named(self, segment: SegmentId, config: bytes) -> bytes:
        """The config of the same loglet for a segment of any other id.

        Raises:
            MalformedError: not a config of this kind.
        """
        ...


# FOLDED from virtuallog.composite: Kinds of loglets that consist of loglets of other kinds (Delos, OSDI'20, section 4.2.3): they open these through the providers
# that everybody else uses, so that one connection, one cache and one observer see all of it.
#
# One level deep: the loglets below must be of kinds that are not composite themselves. More would buy nothing, and make every rule
# about them recursive.


@runtime_checkable
class CompositeProvider(Protocol):
    """A `LogletProvider` whose loglets consist of others."""

    def over(self, providers: Mapping[str, LogletProvider]) -> None:
        """Open loglets of other kinds through these from now on. Called before anything else; a later call replaces them."""
        ...


def compose(providers: Mapping[str, LogletProvider]) -> None:
    """Tell each composite kind among these of all of them. Whoever makes a mapping of providers of his own calls this."""
    for provider in providers.values():
        if isinstance(provider, CompositeProvider):
            provider.over(providers)


def inner(providers: Mapping[str, LogletProvider], kind: str) -> LogletProvider:
    """The provider of a kind that others may consist of.

    Raises:
        UnknownKindError: it is not installed.
        UnsupportedError: it is composite itself.
    """
    provider = providers.get(kind)
    if provider is None:
        raise UnknownKindError(kind, ", ".join(sorted(providers)))
    if isinstance(provider, CompositeProvider):
        raise UnsupportedError(f"a loglet cannot consist of {kind} loglets, which consist of others themselves")
    return provider


# FOLDED from virtuallog.dropped: What a kind of loglets offers on top of `LogletProvider` if loglets leave the chain while older ones stay.
#
# `forget` frees everything below a version. Between the versions that stay, closed loglets without entries leave the chain,
# and moved ones are replaced: a node that keeps something of each would keep more and more of them.


@runtime_checkable
class SupportsSweep(Protocol):
    """A `LogletProvider` that can drop what the chain does not name."""

    async def sweep_loglets(self, horizon: int, live: Collection[SegmentId]) -> None:
        """Free every loglet of a version up to `horizon` that is not among `live`, durably, and refuse to create one again.

        Called on nodes, if all of the cluster know what that leaves on disk (`virtuallog.contract.versions.LIVE_LOGLETS`).

        Args:
            horizon: a version of the chain.
            live: the loglets that the chain of this version rests on, by the ids that nodes know them by.

        Raises:
            UnavailableError: unknown; will be called again.
            VirtualLogError: the role cannot go on.
        """
        ...


# FOLDED from virtuallog.unserved: What kinds have in common that nodes have no part in: their loglets consist of others, or are kept elsewhere.


class ServerlessProvider:
    """The parts of a `LogletProvider` that such a kind does not need. Places of entries are its own business: not contiguous."""

    __slots__ = ()

    @property
    def contiguous(self) -> bool:
        return False

    @property
    def since(self) -> int:
        """See `virtuallog.contract.provider.RequiresVersion`: an older node would look for a loglet of the segment's id, and drop what it rests on."""
        return COMPOSED

    @property
    def interfaces(self) -> Sequence[Interface]:
        return ()

    async def serve(self, environment: NodeEnvironment) -> Handlers:
        """There is nothing to ask a node for."""
        return {}

    async def forget(self, lowest_live_version: int) -> None:
        """Nor does one keep anything."""


Pace: TypeAlias = Callable[[int], Awaitable[None]]
"""Called after so many bytes have been moved; returns when more may be moved."""


@runtime_checkable
class ReplicatedProvider(SupportsRetention, Protocol):
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
class ReportsPartialCopies(Protocol):
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
