"""What `bench.kill` does to nodes, each with the wait until the client is served again, and everything mended afterwards."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Final

import attrs
import trio

from bench.pauses import longest_pause
from bench.trial import Evidence, Trial

STOP_SECONDS: Final = 10.0
SETTLE_SECONDS: Final = 1.0
"""Before the next one: what has just come back takes part again, and a second pause would be seen."""


@attrs.frozen(kw_only=True)
class Blow:
    """Something bad that was done to nodes. Times in seconds since the start."""

    kind: str
    at: float
    """Just before it was done."""
    until: float
    """When everything was mended."""
    by_itself: bool
    """Whether appends resumed without a reconfiguration by hand."""


async def kill_sequencer(trial: Trial, patience_seconds: float) -> Blow:
    """Its node is started again only when the others have gone on without it."""
    victim, at = await trial.sequencer(), trial.workload.elapsed
    await trial.cluster.kill(victim)
    by_itself = await _wait_or_help(trial, patience_seconds)
    await trial.restart(victim)
    return await _mended(trial, "sequencer", at, by_itself)


async def kill_all(trial: Trial, patience_seconds: float) -> Blow:
    """As in a power failure, but for what the kernel has not yet written."""
    at = trial.workload.elapsed
    await trial.cluster.kill(*trial.cluster.nodes)
    await trial.restart(*trial.cluster.nodes)
    by_itself = await _wait_or_help(trial, patience_seconds)
    return await _mended(trial, "blackout", at, by_itself)


async def stop_sequencer(trial: Trial, patience_seconds: float) -> Blow:
    """Its connections stay open, its promises are kept, and it does not know that time has passed when it goes on."""
    victim, at = await trial.sequencer(), trial.workload.elapsed
    with trial.stopped(victim):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trial.clock.sleep, STOP_SECONDS)
            by_itself = await _wait_or_help(trial, min(patience_seconds, STOP_SECONDS))
    return await _mended(trial, "stop", at, by_itself)


BLOWS: Final[Mapping[str, Callable[[Trial, float], Awaitable[Blow]]]] = {
    "sequencer": kill_sequencer,
    "blackout": kill_all,
    "stop": stop_sequencer,
}


def recovery_seconds(evidence: Evidence[list[Blow]], kind: str) -> list[float]:
    """From each blow of a kind to the end of the longest pause that followed it."""
    return [
        longest_pause(evidence.times, blow.at, blow.until).stop - blow.at
        for blow in evidence.result
        if blow.kind == kind
    ]


async def _wait_or_help(trial: Trial, patience_seconds: float) -> bool:
    """Whether an append that was offered from now on has been acknowledged in time; makes sure that one will be."""
    now = trial.workload.elapsed
    if await trial.wait_acknowledged(now, patience_seconds):
        return True
    await trial.extend("native", {})
    await trial.wait_acknowledged(now, patience_seconds)
    return False


async def _mended(trial: Trial, kind: str, at: float, by_itself: bool) -> Blow:
    await trial.clock.sleep(SETTLE_SECONDS)
    return Blow(kind=kind, at=at, until=trial.workload.elapsed, by_itself=by_itself)
