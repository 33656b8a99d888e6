"""Swaps one after the other under a load, and what the client and the nodes have seen of each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Final

import attrs

from virtuallog.contract.errors import ChainConflictError, InvalidSettingError, RetryableError, UnavailableError
from virtuallog_lab.bench.gaps import Gaps, Swap
from virtuallog_lab.bench.steps import PHASES, Steps, split_into_phases
from virtuallog_lab.bench.targets import Target
from virtuallog_lab.harness.report import tell
from virtuallog_lab.harness.trial import Trial
from virtuallog_lab.workload.latencies import Spread

WARM_UP_SECONDS: Final = 2.0
RESUME_SECONDS: Final = 30.0
"""Seconds until appends must have come back after a swap; a healthy one takes some milliseconds,
elections and timeouts seconds."""
ATTEMPTS: Final = 10
"""Attempts to carry out one swap: a healer that sees a node stall may be faster, and then the log
is not where it was to be; and while nodes stall or start, a planner finds too few of them."""
PAUSE_SECONDS: Final = 0.5
"""Between two attempts."""


async def swap_repeatedly(trial: Trial, targets: Iterable[Target], window_seconds: float) -> list[Swap]:
    """The story: to the first target, which does not count, then to each other one, with a window before and behind each swap.

    Raises:
        UnavailableError: a swap could not be carried out, or appends did not come back after it.
    """
    done: list[Swap] = []
    for source, target in pairwise([None, *targets]):
        assert target is not None
        if source is None:
            await swap(trial, target)
            await wait_resumed(trial, target)
            await trial.clock.sleep(WARM_UP_SECONDS)
            continue
        await trial.clock.sleep(window_seconds)
        began = trial.workload.elapsed
        await swap(trial, target)
        done.append(Swap(source.name, target.name, began, trial.workload.elapsed))
        await wait_resumed(trial, target)
        await trial.clock.sleep(window_seconds)
        if len(done) % 10 == 0:
            tell(f"{len(done)} swaps, {trial.workload.acknowledged:,} entries acknowledged")
    return done


async def swap(trial: Trial, target: Target) -> None:
    """Continue the log there; returns once that is decided.

    Raises:
        UnavailableError: it was not, in some attempts.
    """
    for _ in range(ATTEMPTS):
        try:
            register = await trial.extend(target.kind, target.settings)
        except (RetryableError, ChainConflictError, InvalidSettingError) as error:
            tell(f"swap to {target.name}: {error}; again")
            await trial.clock.sleep(PAUSE_SECONDS)
            continue
        if register.chain.last.kind == target.kind:
            return
    raise UnavailableError(f"no swap to {target.name} in {ATTEMPTS} attempts")


async def wait_resumed(trial: Trial, target: Target) -> None:
    """Return once an append is acknowledged that was offered after this call.

    Raises:
        UnavailableError: none was, for long.
    """
    if not await trial.wait_acknowledged(trial.workload.elapsed, RESUME_SECONDS):
        raise UnavailableError(f"appends have not come back {RESUME_SECONDS:g} s after a swap to {target.name}")


@attrs.frozen(kw_only=True)
class SwapCost:
    """Cost of one swap, in seconds."""

    source: str
    target: str
    gap: float
    """Gap in acknowledgements."""
    quiet: float
    """The longest pause in as long a time before it."""
    answered: float
    """Seconds from the request until the answer."""
    phases: Mapping[str, float] | None
    """Seconds of the phases by name, in their order; None if they cannot be told apart."""


def swap_costs(gaps: Gaps, steps: Steps) -> list[SwapCost]:
    """Each swap, in order."""
    return [
        SwapCost(
            source=swap.source,
            target=swap.target,
            gap=pause.seconds,
            quiet=quiet.seconds,
            answered=swap.ended - swap.began,
            phases=split_into_phases(steps, swap.began, pause.stop),
        )
        for swap, pause, quiet in zip(gaps.swaps, gaps.pauses, gaps.quiet, strict=True)
    ]


def phase_spreads(seen: Iterable[SwapCost]) -> dict[str, Spread]:
    """Spreads of the phases of the swaps that could be split; empty if none could."""
    split = [one.phases for one in seen if one.phases is not None]
    return {phase: Spread.of([phases[phase] for phases in split]) for phase in PHASES} if split else {}
