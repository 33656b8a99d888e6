"""The contract of a loglet provider: everything a kind of loglets must or may offer, in one file.

A provider is one object per kind, registered in the entry-point group `virtuallog.loglets`. The
required part is `LogletProvider`. Every other protocol is optional: the product tests for it with
`isinstance` and does without it if the kind does not offer it.

| required / optional | protocol | what it is for |
|---|---|---|
| required | `LogletProvider` | plan, open and serve loglets of the kind |
| optional, copies on nodes | `ReplicatedProvider` | healing, rebalancing and moving of closed loglets |
| optional, copies on nodes | `ReportsPartialCopies` | healing: servers whose copy is known to be incomplete |
| optional, composite | `CompositeProvider` | loglets that consist of loglets of other kinds |
| optional, garbage collection | `SupportsRetention` | segments that rest on loglets of other ids |
| optional, garbage collection | `SupportsSweep` | dropping loglets that the chain no longer names |
| optional, garbage collection | `SupportsTimedRelease` | freeing a second copy after a time |
| optional, garbage collection | `SupportsExternalRelease` | freeing what a loglet keeps outside of nodes |
| optional, chain changes | `SupportsRebind` | giving a closed loglet the id of a new segment |
| optional, chain changes | `SupportsPreflight` | trying a plan before the active loglet is sealed |
| optional, operators | `SupportsPresentation` | color on pages, trials of benchmarks, crash points |
| optional, operators | `SupportsSettings` | listing the settings of `plan` on the command line |
| optional, operators | `SupportsDiagnosis` | evidence for `virtuallog explain` |
| optional, operators | `MetricsSource` (`contract.metrics`) | metrics of the kind |
| optional, upgrades | `RequiresVersion` | the oldest protocol version that nodes must speak |
| optional, by a *loglet* | `SupportsPost`, `SupportsSealedTail` (`contract.loglet`) | appends without a task; the tail with the seal |
| mixin | `ServerlessProvider` | the required parts that a kind without roles on nodes leaves empty |

Functions below the protocols: `replicated`, `servers_of`, `compose`, `check_level`.

The cluster heals a kind that offers `ReplicatedProvider`. A kind whose copies are elsewhere leaves it out. As in Delos
(OSDI'20, sections 3.2 and 4.2.1): the loglet sees failures, a policy chooses, the chain changes.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any, Protocol, TypeAlias, runtime_checkable

from virtuallog.contract.capnp_interface import Interface
from virtuallog.contract.chain import SegmentId
from virtuallog.contract.diagnosis import Evidence
from virtuallog.contract.errors import UnsupportedError
from virtuallog.contract.loglet import Loglet
from virtuallog.contract.placement import Cluster, Placement
from virtuallog.contract.ports import Environment, Handlers, NodeEnvironment
from virtuallog.contract.types import LogletOffset, NodeId
from virtuallog.contract.versions import COMPOSED

Pace: TypeAlias = Callable[[int], Awaitable[None]]
"""Called with a number of bytes that have been moved; returns when more may be moved."""

RetainedLoglets: TypeAlias = Mapping[SegmentId, tuple[str, bytes]]
"""Loglets by the ids that nodes know them by; each value is (kind, config)."""


class LogletProvider(Protocol):
    """A kind of loglet, pluggable through the entry-point group `virtuallog.loglets`. Required."""

    @property
    def kind(self) -> str:
        """Name of the kind in chains and on command lines."""
        ...

    @property
    def contiguous(self) -> bool:
        """True if consecutive entries have consecutive places (True for native and raft, False for paxos)."""
        ...

    @property
    def interfaces(self) -> Sequence[Interface]:
        """Wire form of the requests that `serve` handles."""
        ...

    def plan(self, cluster: Cluster, settings: Mapping[str, str], previous: bytes | None) -> bytes:
        """Make the config of a new loglet of this kind.

        Args:
            cluster: nodes to choose from.
            settings: settings of the operator, `--set name=value`.
            previous: config of the active segment if that is of the same kind, else None. What `settings`
                leaves open stays as it is there, as far as its servers live.

        Raises:
            InvalidSettingError: unknown setting, bad value, or not enough nodes.
        """
        ...

    def describe(self, config: bytes) -> Mapping[str, Any]:
        """Return the config as plain values, for `chain --json` and logs."""
        ...

    def open(self, segment: SegmentId, config: bytes, environment: Environment) -> Loglet:
        """Return a client of the loglet `segment`. Cheap: makes no call before the first operation."""
        ...

    async def serve(self, environment: NodeEnvironment) -> Handlers:
        """Start this kind's roles on a node. On return the handlers are ready to be called.

        Returns:
            The handlers of the requests of `interfaces`.

        Raises:
            CorruptionError: the stored state cannot be trusted.
        """
        ...

    async def forget(self, lowest_live_version: int) -> None:
        """Free every loglet whose version is below `lowest_live_version`, durably.

        Called on nodes after the chain has dropped segments. The freed loglets must never be created again.
        """
        ...


@runtime_checkable
class SupportsRetention(Protocol):
    """A `LogletProvider` whose segments rest on other loglets than the one of their own id. Pure."""

    def loglets(self, segment: SegmentId, config: bytes) -> RetainedLoglets:
        """Return the loglets that the segment rests on; empty if it rests on none.

        Includes loglets that are kept elsewhere than on nodes. This tells others that an archive still has
        such a loglet as its hot copy, and when it has left the chain, so that it can be freed
        (`SupportsExternalRelease`). Nodes pass over ids that they keep nothing of.

        Raises:
            MalformedError: not a config of this kind.
        """
        ...


@runtime_checkable
class ReplicatedProvider(SupportsRetention, Protocol):
    """A `LogletProvider` whose loglets are copies on nodes. The cluster heals and moves them."""

    def placement(self, config: bytes) -> Placement:
        """Return the nodes that a loglet rests on.

        Raises:
            MalformedError: not a config of this kind.
        """
        ...

    def move(self, segment: SegmentId, config: bytes, servers: tuple[NodeId, ...]) -> bytes:
        """Make the config of the same closed loglet on other servers. Copies nothing.

        A loglet of several parts puts each new server, in order, into the place of one that leaves.
        If `servers` are those it already has, the result is the same loglet for another segment: the new
        config then says whose entries these are.

        Raises:
            InvalidSettingError: the servers cannot hold it; they may not be fewer than before.
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
        """Copy a closed loglet to the new servers of `target`.

        On return each copied-to server has, durably, every entry below `stop` that is not trimmed. All of it
        was read back and its checksums were right.

        Entries at or past `stop` are no part of the log and are not copied. So tails may be lower afterwards,
        but never below `stop` (`Loglet.check_tail`). No client uses the copies before the chain names them.

        Safe to cancel, to repeat, and to run on several nodes at once: entries that are already there are not
        copied again. Appends and reads go on meanwhile. The bytes in flight are bounded.

        Args:
            segment: id of the segment.
            config: its present config.
            target: config made by `move`. Servers in `target` but not in `config` are copied to.
            stop: end of the segment, as an offset.
            environment: environment of the caller.
            pace: called after each piece; bounds the rate.
            lost: servers in both configs that lost their copies with a former disk; they are copied to as well.

        Raises:
            UnavailableError: a new server, or every former server that has some entry, does not answer.
            CorruptionError: a new server returned other bytes than were copied.
        """
        ...


@runtime_checkable
class ReportsPartialCopies(Protocol):
    """A `ReplicatedProvider` whose servers know if their copy of a loglet is complete."""

    async def partial_copies(self, segment: SegmentId, config: bytes, environment: Environment) -> Collection[NodeId]:
        """Return the servers that do not confirm a complete copy. Changes nothing.

        These servers recover a lost store, wait for a copy, or do not answer. A node may answer while its role
        still starts, before it is known what its disk has lost.

        Raises:
            MalformedError: not a config of this kind.
        """
        ...


@runtime_checkable
class CompositeProvider(Protocol):
    """A `LogletProvider` whose loglets consist of loglets of other kinds (Delos, OSDI'20, section 4.2.3).

    They open these through the providers that all others use, so that one connection, one cache and one
    observer see everything. One level deep: the inner kinds must not be composite. More levels would buy
    nothing and make every rule about composite loglets recursive.
    """

    def over(self, providers: Mapping[str, LogletProvider]) -> None:
        """Open loglets of other kinds through `providers` from now on.

        Called before any other method. A later call replaces the mapping.
        """
        ...


@runtime_checkable
class SupportsSweep(Protocol):
    """A `LogletProvider` that can drop loglets which the chain does not name.

    `LogletProvider.forget` frees all loglets below a version. Above it, closed loglets without entries leave
    the chain and moved ones are replaced, while older ones stay. A node that kept a little of each would grow
    without bound.
    """

    async def sweep_loglets(self, horizon: int, live: Collection[SegmentId]) -> None:
        """Free every loglet of a version up to `horizon` that is not in `live`, durably.

        The freed loglets must never be created again. Called on nodes, once all nodes of the cluster
        understand the record that this leaves on disk (`virtuallog.contract.versions.LIVE_LOGLETS`).

        Args:
            horizon: a version of the chain.
            live: loglets that the chain of this version rests on, by the ids that nodes know them by.

        Raises:
            UnavailableError: unknown outcome; the caller will repeat the call.
            VirtualLogError: the role cannot go on.
        """
        ...


@runtime_checkable
class SupportsTimedRelease(Protocol):
    """A `LogletProvider` whose segments keep something for a time that is in their config. Pure."""

    def released(self, config: bytes, now_ms: int) -> bytes | None:
        """Return the config without what has expired. None if nothing can be released, or not yet.

        Args:
            config: config of a closed segment.
            now_ms: wall clock, milliseconds since the epoch. It may jump: safety must not depend on what is
                kept.

        Raises:
            MalformedError: not a config of this kind.
        """
        ...


@runtime_checkable
class SupportsExternalRelease(Protocol):
    """A `LogletProvider` whose loglets use space outside of nodes, which nodes cannot free by themselves."""

    async def release(self, segment: SegmentId, config: bytes, environment: Environment) -> None:
        """Free the space of a loglet that was sealed and has left the chain for good.

        Called some seconds later by several nodes, one after the other, as long as they live. So it must be
        safe to repeat and to run concurrently. A call that a crash prevents is not made up for.

        A client with an old chain may still come at any time. It must neither find nor make an empty loglet
        that takes appends: enough of a freed loglet must stay to refuse it.

        Raises:
            UnavailableError: unknown outcome; a part may have been freed.
        """
        ...


@runtime_checkable
class SupportsRebind(Protocol):
    """A `LogletProvider` that can record in a config which loglet's entries it means. Pure.

    A loglet usually has the id of its segment. When it is put under a closed segment, that segment gets a new
    id. Kinds whose copies are on nodes do this with `ReplicatedProvider.move`.
    """

    def named(self, segment: SegmentId, config: bytes) -> bytes:
        """Return the config of the same loglet for a segment of any other id.

        Raises:
            MalformedError: not a config of this kind.
        """
        ...


@runtime_checkable
class SupportsPreflight(Protocol):
    """A `LogletProvider` that can test if a loglet of a given config would work."""

    async def probe(self, config: bytes, environment: Environment) -> None:
        """Check that a new loglet of this config would take appends. Creates no loglet.

        Called before the active loglet is sealed, by a client that wants the log to continue here. Clients that
        finish a half-done change do not call it, as appends wait for them. Cancelled after some seconds; safe to
        repeat. The environment's nursery ends soon after the call.

        Raises:
            InvalidSettingError, ForbiddenError, UnsupportedError: it would not; the error names the cause.
        """
        ...


@runtime_checkable
class SupportsPresentation(Protocol):
    """A `LogletProvider` that says how pages, benchmarks and the simulator show its kind. Class attributes will do."""

    @property
    def color(self) -> str:
        """Color of the kind on pages: a key of `virtuallog_server.report.PAINT`."""
        ...

    @property
    def trials(self) -> Mapping[str, Mapping[str, str]]:
        """Settings of `plan` by the name of a trial; each one is a row of `virtuallog bench reconfigure`.

        A trial runs on six nodes: 1 to 3 have every role, 4 to 6 only store entries. Empty if the kind
        needs more than nodes of ours.
        """
        ...

    @property
    def crash_area(self) -> str:
        """Processes that die at crash points whose area is this kind; empty if there are no such points."""
        ...


@runtime_checkable
class SupportsSettings(Protocol):
    """A `LogletProvider` that lists its settings for the command line."""

    @property
    def settings(self) -> Mapping[str, str]:
        """Meaning and default of each setting, by name."""
        ...


@runtime_checkable
class SupportsDiagnosis(Protocol):
    """A `LogletProvider` that can report the present state of a loglet's sources."""

    async def explain(self, segment: SegmentId, config: bytes, environment: Environment) -> Sequence[Evidence]:
        """Return the evidence of each source of a loglet, in a fixed order, `COMBINED` last.

        A source that does not answer is listed with a `problem`. Changes nothing, needs no role above CLIENT,
        and takes `ANSWER_SECONDS` or a little more. `virtuallog.contract.diagnosis` has the names of the facts.

        Raises:
            MalformedError: not a config of this kind.
        """
        ...


@runtime_checkable
class RequiresVersion(Protocol):
    """A `LogletProvider` whose kind needs a protocol version. Older nodes would drop what its loglets rest on."""

    @property
    def since(self) -> int:
        """The protocol version that introduced the kind."""
        ...


class ServerlessProvider:
    """Mixin for kinds without roles on nodes: their loglets consist of others, or are kept elsewhere.

    Entries need not have consecutive places: `contiguous` is False.
    """

    __slots__ = ()

    @property
    def contiguous(self) -> bool:
        return False

    @property
    def since(self) -> int:
        """`COMPOSED`, as in `RequiresVersion`.

        An older node would look for a loglet of the segment's id, and drop what the segment rests on.
        """
        return COMPOSED

    @property
    def interfaces(self) -> Sequence[Interface]:
        return ()

    async def serve(self, environment: NodeEnvironment) -> Handlers:
        """Return no handlers."""
        return {}

    async def forget(self, lowest_live_version: int) -> None:
        """Do nothing: no node keeps anything."""


def replicated(provider: object) -> ReplicatedProvider | None:
    """Return the provider if its loglets are copies on nodes, else None."""
    return provider if isinstance(provider, ReplicatedProvider) else None


def servers_of(provider: object, config: bytes) -> frozenset[NodeId]:
    """Return the nodes that have copies of a loglet; empty if its kind keeps no copies on nodes.

    Raises:
        MalformedError: not a config of this kind.
    """
    found = replicated(provider)
    return frozenset() if found is None else frozenset(found.placement(config).servers)


def compose(providers: Mapping[str, LogletProvider]) -> None:
    """Give each composite provider in the mapping the whole mapping.

    Every caller that makes its own mapping of providers must call this.
    """
    for provider in providers.values():
        if isinstance(provider, CompositeProvider):
            provider.over(providers)


def check_level(provider: object, level: int) -> None:
    """Check that a chain may name a loglet of this provider in a cluster of this level.

    The level of a cluster never goes down.

    Raises:
        UnsupportedError: some node may not know what the kind needs.
    """
    if isinstance(provider, RequiresVersion) and level < provider.since:
        raise UnsupportedError(
            f"a node speaks protocol version {level} only: loglets of this kind are used once all speak {provider.since}"
        )
