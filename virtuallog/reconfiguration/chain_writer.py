"""Runs changes of the chain (the effects of `chain_change.py`) and finishes those that others left half done.

A change runs in the service nursery: a reconfiguration that dies with its caller between seal and put would be safe,
but would cost every client a grace period. Without any memory of what the dead one intended, whoever finishes a
change continues with a loglet of the same kind (Delos, OSDI'20, section 3.2).
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
from virtuallog.reconfiguration.core.members import check_members
from virtuallog.reconfiguration.metrics import FAILED, LOST, WON, ChainMetrics
from virtuallog.runtime.nurseries import run_in_service

Planner: TypeAlias = Callable[[Register], Awaitable[Cluster]]
"""Finds out which nodes live, for a loglet provider to choose from."""

PREFLIGHT_SECONDS: Final = 6.0
"""For an answer: a call that finds nobody says so before. Nothing is sealed meanwhile."""

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
    """How patient a client is with others. Times in seconds."""

    grace: float = 1.0
    """How long a sealed loglet may be without a successor before a client finishes the change itself (plus up to half
    of that again at random, so that one of many goes first). Shorter heals sooner; too short makes clients race with
    a reconfiguration that is under way, which is harmless but may undo its choice of loglet."""
    poll_min: float = 0.002
    """First pause between two looks at the register while waiting for a successor; doubles up to `poll_max`. The
    first ones are short because a healthy reconfiguration takes some milliseconds."""
    poll_max: float = 0.1
    watchdog_period: float = 1.0
    """Pause between two looks of a node's watchdog at the active loglet."""
    may_change: bool = True
    """Whether this client may change the chain. One that may not (docs/security.md) leaves to nodes what it finds half
    done; one that learns from a refusal that it may not does so, too."""
    others_patience: float = 10.0
    """How much longer a client waits that may not change the chain: nodes look after it every second."""
    put_attempts: int = 5
    """How often one change is put to a MetaStore that does not answer before its outcome is called unknown."""


class ChainWriter:
    """Changes the chain on behalf of one client."""

    def __init__(self, view: ChainCache, planner: Planner, settings: ChainWriterSettings) -> None:
        """Makes no call yet."""
        self._view = view
        self._planner = planner
        self._settings = settings
        self._changing = trio.Lock()
        self.meter: Final = ChainMetrics()

    async def extend(self, kind: str, settings: Mapping[str, str]) -> Register:
        """Seal the active loglet and continue on a new one; again on top of whoever comes first."""
        provider = self._view.provider(kind)
        while True:
            config = await self.plan(provider, settings, await self._view.refresh())
            await run_preflight(provider, config, self._view.environment)
            _PLANNED.reached()
            done = await self.change(Extend(kind, config, nodes=nodes_of(provider, config)))
            if done.won:
                return done.register

    async def close(self) -> Register:
        """Seal the active loglet and mark the log as closed; again on top of whoever comes first."""
        while (current := await self._view.refresh()).chain.active is not None:
            await self.change(Close(), planned=False)
        return current

    async def truncate(self, first: LogPosition) -> Register:
        """Drop the segments that lie wholly below `first`."""
        await self._view.refresh()
        return (await self.change(Truncate(first), planned=False)).register

    async def change_members(self, members: Sequence[NodeId], seen: Sequence[NodeId] | None = None) -> Register:
        """Let other nodes decide the register from now on, if a majority of them answers.

        Args:
            members: all of them.
            seen: the members that these take the place of; None: those of this moment.
        """
        chosen, current = tuple(sorted(members)), await self._view.refresh()
        before = current.members if seen is None else tuple(sorted(seen))
        check_members(chosen, await self._planner(current))
        return (await self.change(ChangeMembers(chosen, before), planned=False)).register

    async def plan(self, provider: LogletProvider, settings: Mapping[str, str], current: Register) -> bytes:
        check_level(provider, current.level)
        last = current.chain.last
        previous = last.config if last.kind == provider.kind else None
        return provider.plan(await self._planner(current), settings, previous)

    async def change(self, change: Change, *, planned: bool = True, only_after: SegmentId | None = None) -> ChangeDone:
        """Run one change in the service nursery.

        Args:
            change: what to do.
            planned: refuse to let the register grow over its limit.
            only_after: do nothing unless this is still the last segment.
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
        await loglet.seal()
        _SEALED.reached()
        return chain_change.SealReturned()

    async def _successor_of_dropped(self, segment: Segment) -> Register:
        """Loglets are dropped once a decided chain is without them: somebody else's change came first."""
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
    """The nodes that a loglet rests on, if it rests on any."""
    found = replicated(provider)
    if found is None:
        return frozenset()
    placement = found.placement(config)
    return placement.orders.union(placement.servers)


async def run_preflight(provider: LogletProvider, config: bytes, environment: Environment) -> None:
    """Return if nothing speaks against a loglet of this config. What was opened to find out is closed again.

    Raises:
        InvalidSettingError, ForbiddenError, UnsupportedError: something does; nothing was done.
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
    """Not raised: what a nursery lets out is in a group."""
    with environment.clock.timeout(PREFLIGHT_SECONDS):
        try:
            await provider.probe(config, environment)
        except VirtualLogError as error:
            return error
        return None
    return InvalidSettingError(kind, f"the log stays where it is: no answer from there in {PREFLIGHT_SECONDS:g} s")
