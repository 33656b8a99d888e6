"""Driver of changes of the chain: carries out the effects of `core/chain_change.py`.

A change runs in the service nursery. A reconfiguration that dies with its caller between seal and put would
be safe, but would cost every client a grace period. A client that finishes it does not know the intention of
the dead one, so it continues with a loglet of the same kind (`successor.py`; Delos, OSDI'20, section 3.2).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, TypeAlias

import attrs
import trio

from virtuallog.contract.chain import Segment, SegmentId
from virtuallog.contract.crash_points import CrashPoint
from virtuallog.contract.errors import (
    ChainConflictError,
    InvalidSettingError,
    RetryableError,
    SealedError,
    UnavailableError,
    VirtualLogError,
)
from virtuallog.contract.loglet import SupportsSealedTail
from virtuallog.contract.metastore import SupportsPreparedPut
from virtuallog.contract.placement import Cluster
from virtuallog.contract.ports import Environment
from virtuallog.contract.provider import LogletProvider, SupportsPreflight, check_level, replicated
from virtuallog.contract.register import Register
from virtuallog.contract.types import LogPosition, NodeId
from virtuallog.reconfiguration.chain_cache import ChainCache
from virtuallog.reconfiguration.core import chain_change
from virtuallog.reconfiguration.core.chain_change import (
    Change,
    ChangeDone,
    ChangeMembers,
    Close,
    Effect,
    Event,
    Extend,
    Modify,
    Reconfiguration,
    Truncate,
)
from virtuallog.reconfiguration.core.metastore_members import check_members
from virtuallog.reconfiguration.metrics import FAILED, LOST, WON, ChainMetrics
from virtuallog.runtime.nurseries import run_in_service

Planner: TypeAlias = Callable[[Register], Awaitable[Cluster]]
"""Finds the live nodes of a register, for a loglet provider to choose from."""

PREFLIGHT_SECONDS: Final = 6.0
"""Time limit of a preflight; a call to a dead address fails sooner. Nothing is sealed meanwhile."""

_PLANNED = CrashPoint("chain: a successor is planned, nothing is sealed")
_SEALED = CrashPoint("chain: the active loglet is sealed, its tail is not known")
_BOUNDED = CrashPoint("chain: the tail of a sealed loglet is known, nothing is put")
_DECIDED: Final[dict[type[Change], CrashPoint]] = {
    Extend: CrashPoint("chain: an extension is decided, its client does not know"),
    Close: CrashPoint("chain: the end of the log is decided, its client does not know", rare=True),
    Truncate: CrashPoint("chain: a truncation is decided, its client does not know", rare=True),
    Modify: CrashPoint("chain: a modified segment is decided, its client does not know", rare=True),
    ChangeMembers: CrashPoint("chain: new members are decided, their client does not know", rare=True),
}


@attrs.frozen(kw_only=True)
class ChainWriterSettings:
    """Patience of a client with other clients, and its permission to change the chain. Times in seconds."""

    grace: float = 1.0
    """Time that a sealed loglet may be without a successor before a client finishes the change itself.

    Up to half of it is added at random, so that one of many clients goes first. Shorter heals sooner; too
    short makes clients race with a reconfiguration that is under way. That is harmless, but may undo its
    choice of loglet.
    """
    poll_min: float = 0.001
    """First pause between two reads of the register while waiting for a successor; grows by half up to `poll_max`.

    A healthy reconfiguration takes some milliseconds from its seal on, and a pause adds to what appends wait. Seven reads
    cover the first 30 ms.
    """
    poll_max: float = 0.1
    """Longest such pause."""
    watchdog_period: float = 1.0
    """Mean pause between two looks of a node's watchdog at the active loglet."""
    may_change: bool = True
    """True if this client may change the chain.

    A client that may not (docs/howto/secure.md) leaves half-done changes to nodes. So does a client that
    learns from a refusal that it may not.
    """
    others_patience: float = 10.0
    """Extra time that a client waits if it may not change the chain: nodes look after it every second."""
    put_attempts: int = 5
    """Puts of one change to a MetaStore that does not answer, before its outcome is called unknown."""


class ChainWriter:
    """Changes the chain on behalf of one client."""

    def __init__(self, view: ChainCache, planner: Planner, settings: ChainWriterSettings) -> None:
        """Make no call yet."""
        self._view = view
        self._planner = planner
        self._settings = settings
        self._changing = trio.Lock()
        self.meter: Final = ChainMetrics()

    async def extend(self, kind: str, settings: Mapping[str, str], only_at: int | None = None) -> Register:
        """Seal the active loglet and continue on a new one; see `VirtualLog.reconfig_extend`.

        If another client's change comes first, the change is made again on top of it, unless it is for one version only.
        """
        provider = self._view.provider(kind)
        while True:
            current = await self._view.refresh()
            if only_at not in {None, current.version}:
                raise ChainConflictError(only_at or 0, current.version)
            config = await self.plan(provider, settings, current)
            await run_preflight(provider, config, self._view.environment)
            _PLANNED.reached()
            done = await self.change(Extend(kind, config, nodes=nodes_of(provider, config), only_at=only_at))
            if done.won:
                return done.register

    async def close(self) -> Register:
        """Seal the active loglet and mark the log as closed.

        If another client's change comes first, the change is made again on top of it.
        """
        while (current := await self._view.refresh()).chain.active is not None:
            await self.change(Close(), planned=False)
        return current

    async def truncate(self, first: LogPosition) -> Register:
        """Drop the segments that lie wholly below `first`."""
        await self._view.refresh()
        return (await self.change(Truncate(first), planned=False)).register

    async def change_members(self, members: Sequence[NodeId], seen: Sequence[NodeId] | None = None) -> Register:
        """Make other nodes the members of the MetaStore, if a majority of them answers.

        Args:
            members: all new members.
            seen: the former members, as the operator saw them; None: those of this moment.
        """
        chosen, current = tuple(sorted(members)), await self._view.refresh()
        before = current.members if seen is None else tuple(sorted(seen))
        check_members(chosen, await self._planner(current))
        return (await self.change(ChangeMembers(chosen, before), planned=False)).register

    async def plan(self, provider: LogletProvider, settings: Mapping[str, str], current: Register) -> bytes:
        """Config of a new loglet on the nodes that live now.

        Raises:
            InvalidSettingError: the settings are wrong, or too few nodes live.
            UnsupportedError: a node of the cluster is too old for the kind.
        """
        check_level(provider, current.level)
        last = current.chain.last
        previous = last.config if last.kind == provider.kind else None
        return provider.plan(await self._planner(current), settings, previous)

    async def change(self, change: Change, *, planned: bool = True, only_after: SegmentId | None = None) -> ChangeDone:
        """Run one change in the service nursery; a cancel does not end it.

        Args:
            change: the change to make.
            planned: raise TooLargeError if the register would grow over its limit. Nothing is sealed then.
            only_after: do nothing unless this is still the last segment; None: in any case.

        Raises:
            UnavailableError: unknown outcome; may be called again.
        """

        async def run() -> ChangeDone:
            async with self._changing:  # one at a time per client: two would only race each other at the MetaStore
                current = await self._view.current()
                self._view.environment.check_resident()
                if only_after is not None and current.chain.last.id != only_after:
                    return ChangeDone(current, won=False)
                return await self._run_counted(change, current, planned)

        return await run_in_service(self._view.environment.nursery, run)

    async def _run_counted(self, change: Change, current: Register, planned: bool) -> ChangeDone:
        now = self._view.environment.clock.monotonic
        started = now()
        try:
            done = await self._run(change, current, planned)
        except VirtualLogError:
            self.meter.ended(change, FAILED, now() - started)
            raise
        self.meter.ended(change, WON if done.won else LOST, now() - started)
        return done

    async def _run(self, change: Change, current: Register, planned: bool) -> ChangeDone:
        machine = Reconfiguration(current, change, self._view.environment.random.getrandbits(63))
        effect, unknown, clock = machine.start(), 0, self._view.environment.clock
        if isinstance(effect, chain_change.SealSegment):
            if planned and (forecast := machine.forecast()) is not None:
                forecast.encode_planned(current)
            planned = False  # once the log is sealed it has to go on, also in a register that has become full meanwhile
            await self._prepare_put(current)
        while not isinstance(effect, ChangeDone):
            started = clock.monotonic()
            event = await self._run_effect(effect, machine, planned)
            self.meter.phase(effect, clock.monotonic() - started)
            unknown += isinstance(event, chain_change.PutUnknown)
            if unknown >= self._settings.put_attempts:
                raise UnavailableError("the MetaStore does not answer; whether the chain has changed is unknown")
            effect = machine.step(event)
        if effect.won:
            _DECIDED[type(change)].reached()
        self._view.adopt(effect.register)
        return effect

    async def _prepare_put(self, current: Register) -> None:
        """Let the MetaStore do its part before appends have to wait: the first phase of its Paxos.

        So nothing is sealed for a put that no majority would answer.

        Raises:
            UnavailableError: no majority answers; nothing was done.
        """
        metastore = self._view.metastore
        if isinstance(metastore, SupportsPreparedPut):
            await metastore.prepare_put(current.version)

    async def _run_effect(self, effect: Effect, machine: Reconfiguration, planned: bool) -> Event:
        match effect:
            case chain_change.SealSegment(segment) | chain_change.CheckSegmentTail(segment):
                try:
                    return await self._ask_loglet(effect, segment)
                except SealedError:
                    return await self._successor_of_dropped(segment)
            case chain_change.ReadRegister():
                return await self._view.refresh()
            case chain_change.PutRegister(proposed, expected_version):
                value = proposed.encode_planned(machine.register) if planned else proposed.encode()
                return await self._put(value, proposed, expected_version, machine.attempt)
            case ChangeDone():
                raise AssertionError(effect)

    async def _ask_loglet(
        self, effect: chain_change.SealSegment | chain_change.CheckSegmentTail, segment: Segment
    ) -> Event:
        loglet = self._view.loglet(segment)
        if isinstance(effect, chain_change.CheckSegmentTail):
            tail = await loglet.check_tail()
            _BOUNDED.reached()
            return tail
        if isinstance(loglet, SupportsSealedTail):
            tail = await loglet.seal_and_check_tail()
            _SEALED.reached()
            _BOUNDED.reached()
            return tail
        await loglet.seal()
        _SEALED.reached()
        return chain_change.SealReturned()

    async def _successor_of_dropped(self, segment: Segment) -> Register:
        """The register that has replaced a dropped loglet.

        Loglets are dropped once a decided chain is without them: another client's change came first.
        """
        found = await self._view.refresh()
        if found.chain.last.id == segment.id:
            raise UnavailableError(f"loglet {segment.id} has been dropped, though the chain has it")
        return found

    async def _put(self, value: bytes, proposed: Register, expected_version: int, attempt: int) -> Event:
        try:
            await self._view.metastore.put(value, expected_version, attempt, proposed.members)
        except ChainConflictError:
            return chain_change.PutLost()
        except RetryableError:
            return chain_change.PutUnknown()
        return chain_change.PutWon()


def nodes_of(provider: LogletProvider, config: bytes) -> frozenset[NodeId]:
    """Nodes that a loglet of this config needs; empty if its kind uses none."""
    found = replicated(provider)
    if found is None:
        return frozenset()
    placement = found.placement(config)
    return placement.orders.union(placement.servers)


async def run_preflight(provider: LogletProvider, config: bytes, environment: Environment) -> None:
    """Check that a planned loglet could be used, if its kind offers `SupportsPreflight`. Closes what it opens.

    A loglet that cannot be reached cannot be sealed either, so a chain that ends with one goes neither on
    nor back. Plans of kinds that are kept on nodes look at the live nodes. A plan for any other storage is a
    mere wish, and a typo in it would end the log.

    Raises:
        InvalidSettingError, ForbiddenError, UnsupportedError: the loglet could not be used; nothing was done.
    """
    if not isinstance(provider, SupportsPreflight):
        return
    async with trio.open_nursery() as nursery:
        problem = await _find_problem(provider, provider.kind, config, attrs.evolve(environment, nursery=nursery))
        nursery.cancel_scope.cancel()
    if problem is not None:
        raise problem


async def _find_problem(
    provider: SupportsPreflight, kind: str, config: bytes, environment: Environment
) -> VirtualLogError | None:
    """Error of the preflight; None if there is none. Returned, since a nursery would wrap it in a group."""
    with environment.clock.timeout(PREFLIGHT_SECONDS):
        try:
            await provider.probe(config, environment)
        except VirtualLogError as error:
            return error
        return None
    return InvalidSettingError(kind, f"the log stays where it is: no answer from there in {PREFLIGHT_SECONDS:g} s")
