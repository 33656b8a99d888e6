"""Runs one seed: the same seed of the same scenario and program gives the same report, in every process."""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import attrs
import trio

from virtuallog.runtime.log import LogLine
from virtuallog.testing.checker.history import History
from virtuallog.testing.checker.violation import Violation
from virtuallog.testing.logs import logs_to
from virtuallog_simulation.checks.history.loglet import AGAIN, offered_again
from virtuallog_simulation.runs import bounds
from virtuallog_simulation.runs.message_record import record
from virtuallog_simulation.scenarios import registry as scenarios
from virtuallog_simulation.world import scheduler
from virtuallog_simulation.world.options import Options
from virtuallog_simulation.world.planted_bug import planted
from virtuallog_simulation.world.scenario import Scenario
from virtuallog_simulation.world.world import World, open_world

_FRAMES_TOLD: Final = 4
"""Innermost frames of an unexpected error: enough to find the place."""


@attrs.frozen(kw_only=True)
class SeedReport:
    """Result of one seed."""

    scenario: str
    seed: int
    options: Options
    violations: tuple[Violation, ...]
    """Empty: every promise was kept."""
    history: History
    counts: Counter[str]
    """Faults that took effect, by kind."""
    simulated_seconds: float
    demands: Mapping[str, float]
    """Demand made once the faults were over -> simulated seconds until it was met."""

    @property
    def replay(self) -> str:
        """The command that runs this seed again."""
        return replay_command(self.scenario, self.seed, self.options)


def replay_command(scenario: str, seed: int, options: Options) -> str:
    """The command that runs this seed again."""
    option = "" if scenario == scenarios.DEFAULT else f" --scenario {scenario}"
    return f"virtuallog simulate{option} --seed {seed} {options.arguments}".rstrip()


def run_seed(
    seed: int,
    scenario: str = scenarios.DEFAULT,
    patches: Mapping[str, Any] | None = None,
    *,
    options: Options | None = None,
    messages: bool = False,
) -> SeedReport:
    """Run one seed.

    Args:
        seed: decides everything.
        scenario: which story to tell.
        patches: bugs to plant, see `world/planted_bug.py`.
        options: what the run is narrowed to.
        messages: also write each message that travels, and what becomes durable, into the history (`message_record.py`).

    Raises:
        InvalidSettingError: no such scenario.
    """
    found = scenarios.find(scenario)
    small = bounds.drawn(seed, scenario) if found.draws_bounds else {}
    refused = Counter({bounds.DRAWN: 1} if small else {})
    with planted({**bounds.counting(refused), **small, **(patches or {})}), _logs_kept() as logs:
        return scheduler.run(seed, lambda: _tell(found, seed, options or Options(), logs, refused, messages=messages))


async def _tell(
    scenario: Scenario, seed: int, options: Options, logs: _Logs, refused: Counter[str], *, messages: bool
) -> SeedReport:
    worlds: list[World] = []
    violations: list[Violation] = []
    try:
        async with open_world(seed, options) as world:
            worlds.append(world)
            logs.history = world.history
            if messages:
                record(world)
            with trio.move_on_after(scenario.limit_seconds) as limit:
                await scenario.story(world)
            if limit.cancelled_caught:
                violations.append(Violation("comes to an end", f"still busy after {scenario.limit_seconds:g} s"))
    except Exception as error:
        last = (len(worlds[0].history.events) - 1,)
        violations += [Violation("no unexpected error", message, last) for message in _explain(error)]
    world = worlds[0]
    return SeedReport(
        scenario=scenario.name,
        seed=seed,
        options=options,
        violations=(*world.violations, *violations),
        history=world.history,
        counts=world.counts + world.network.counts + refused + Counter({AGAIN: offered_again(world.history)}),
        simulated_seconds=world.now(),
        demands=world.demands,
    )


def _explain(error: BaseException) -> Iterator[str]:
    """Each error in a group of errors, with where it was raised."""
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from _explain(inner)
        return
    frames = traceback.extract_tb(error.__traceback__)[-_FRAMES_TOLD:]
    places = "".join(f"\n    {Path(frame.filename).name}:{frame.lineno} {frame.name}: {frame.line}" for frame in frames)
    yield f"{type(error).__name__}: {error}{places}"


@attrs.define(eq=False)
class _Logs:
    """Writes what the product logs into the history: it belongs into the timeline of a failing seed."""

    history: History | None = None

    def __call__(self, level: str, line: LogLine, has_traceback: bool) -> None:
        if self.history is not None:
            fields = " ".join(f"{name}={value}" for name, value in sorted(line.fields.items()))
            self.history.fault(f"log {level}: {line.event} {fields}".rstrip())


@contextmanager
def _logs_kept() -> Iterator[_Logs]:
    logs = _Logs()
    with logs_to(logs):
        yield logs
