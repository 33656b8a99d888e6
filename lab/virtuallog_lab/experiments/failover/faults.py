"""Bad things done to nodes under load, each with the wait until the client is served again, and everything mended afterwards.

`virtuallog_lab.experiments.failover.kill` uses those of this file, `virtuallog_lab.experiments.failover.hosts` brings its own.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Final, TypeAlias

import attrs
import trio

from virtuallog.contract.errors import RetryableError
from virtuallog.contract.types import NodeId
from virtuallog_lab.harness.report import tell
from virtuallog_lab.harness.trial import Evidence, Trial
from virtuallog_lab.workload.latencies import longest_pause

WARM_UP_SECONDS: Final = 2.0
STOP_SECONDS: Final = 10.0
SETTLE_SECONDS: Final = 1.0
"""Before the next one: what has just come back takes part again, and a second pause would be seen."""


@attrs.frozen(kw_only=True)
class InjectedFault:
    """Something bad that was done to nodes. Times in seconds since the start."""

    kind: str
    at: float
    """Just before it was done."""
    until: float
    """Time at which everything was mended."""
    by_itself: bool
    """True if appends resumed without a reconfiguration by hand."""
    fallen: tuple[NodeId, ...] = ()
    """Nodes that have ended without being killed."""


FaultInjector: TypeAlias = Callable[[Trial, float], Awaitable[InjectedFault]]
"""Given the trial, and for how many seconds to wait before something is done by hand."""


async def inject_repeatedly(
    plan: Sequence[str],
    strikes: Mapping[str, FaultInjector],
    calm_seconds: float,
    patience_seconds: float,
    trial: Trial,
) -> list[InjectedFault]:
    """A story: blows, each after some seconds of undisturbed load."""
    await trial.clock.sleep(WARM_UP_SECONDS)
    done = []
    for number, kind in enumerate(plan):
        await trial.clock.sleep(calm_seconds)
        blow = await strikes[kind](trial, patience_seconds)
        tell(f"{number + 1}/{len(plan)} {kind}: {'' if blow.by_itself else 'NOT '}back by itself")
        done.append(blow)
    await trial.clock.sleep(calm_seconds)
    return done


async def kill_orderer(kind: str, trial: Trial, patience_seconds: float) -> InjectedFault:
    """Its node is started again only when the others have gone on without it."""
    victim, at = await trial.orderer(), trial.workload.elapsed
    await trial.cluster.kill(victim)
    by_itself = await wait_or_help(trial, patience_seconds)
    return await repaired_fault(trial, kind, at, by_itself, victim)


async def kill_all(trial: Trial, patience_seconds: float) -> InjectedFault:
    """Kill all processes, as in a power failure, but the kernel's unwritten pages survive."""
    at = trial.workload.elapsed
    await trial.cluster.kill(*trial.cluster.nodes)
    await trial.restart(*trial.cluster.nodes)
    by_itself = await wait_or_help(trial, patience_seconds)
    return await repaired_fault(trial, "blackout", at, by_itself)


async def stop_orderer(trial: Trial, patience_seconds: float) -> InjectedFault:
    """Its connections stay open, its promises are kept, and it does not know that time has passed when it goes on."""
    victim, at = await trial.orderer(), trial.workload.elapsed
    with trial.stopped(victim):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trial.clock.sleep, STOP_SECONDS)
            by_itself = await wait_or_help(trial, min(patience_seconds, STOP_SECONDS))
    return await repaired_fault(trial, "stop", at, by_itself)


FAULT_INJECTORS: Final[Mapping[str, FaultInjector]] = {
    "sequencer": partial(kill_orderer, "sequencer"),
    "coordinator": partial(kill_orderer, "coordinator"),
    "leader": partial(kill_orderer, "leader"),
    "blackout": kill_all,
    "stop": stop_orderer,
}


def kinds_of(blows: Sequence[InjectedFault]) -> list[str]:
    """Each once, in the order in which they first came."""
    return list(dict.fromkeys(blow.kind for blow in blows))


def recovery_seconds(evidence: Evidence[list[InjectedFault]], kind: str) -> list[float]:
    """Seconds from each fault of a kind to the end of the longest pause that followed it."""
    return [
        longest_pause(evidence.times, blow.at, blow.until).stop - blow.at
        for blow in evidence.result
        if blow.kind == kind
    ]


async def wait_or_help(trial: Trial, patience_seconds: float) -> bool:
    """Returns True if an append offered from now on was acknowledged in time; makes sure that one
    will be."""
    now = trial.workload.elapsed
    if await trial.wait_acknowledged(now, patience_seconds):
        return True
    with suppress(RetryableError):  # not even that helps; perhaps what is mended next does
        await trial.extend((await trial.log.view.current()).chain.last.kind, {})
        await trial.wait_acknowledged(now, patience_seconds)
    return False


async def repaired_fault(trial: Trial, kind: str, at: float, by_itself: bool, *killed: NodeId) -> InjectedFault:
    """The blow, once those that were killed run and take part again."""
    fallen = await trial.restart(*killed)
    await trial.clock.sleep(SETTLE_SECONDS)
    return InjectedFault(kind=kind, at=at, until=trial.workload.elapsed, by_itself=by_itself, fallen=tuple(fallen))
