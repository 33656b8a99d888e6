"""Work of `virtuallog explore`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import click

from virtuallog.runtime.clock import SystemClock
from virtuallog_simulation.explorer import story
from virtuallog_simulation.explorer.configurations import CONFIGURATIONS, ExplorerConfiguration
from virtuallog_simulation.explorer.search import Exploration, Search


def choose(names: Sequence[str], *, everything: bool) -> list[ExplorerConfiguration]:
    """Configurations with these names; all small ones without a name.

    Raises:
        click.UsageError: there is none of a name.
    """
    if not names:
        chosen_all = [each for each in CONFIGURATIONS.values() if not each.is_directed]
        return [each for each in chosen_all if everything or not each.is_large]
    chosen: dict[str, ExplorerConfiguration] = {}
    for name in names:
        found = {each: CONFIGURATIONS[each] for each in CONFIGURATIONS if fnmatch(each, name)}
        if not found:
            raise click.UsageError(f"no configuration {name!r}; see --list")
        chosen.update(found)
    return list(chosen.values())


def print_configurations(*, as_json: bool) -> None:
    """Print what there is to explore."""
    width = max(map(len, CONFIGURATIONS))
    for each in CONFIGURATIONS.values():
        if as_json:
            described = {"name": each.name, "about": each.about, "bounds": str(each.make().bounds_text)}
            click.echo(json.dumps({**described, "states": each.states, "depth": each.depth, "large": each.is_large}))
            continue
        count = f"{each.states:>11,} states" if each.states else "   unfinished   "
        click.echo(f"{each.name:<{width}}  {count}{'  large' if each.is_large else '       '}  {each.about}")
        click.echo(f"{'':<{width}}  {each.make().bounds_text}")


def run(chosen: Sequence[ExplorerConfiguration], *, minutes: float | None, as_json: bool) -> int:
    """Explore configurations one after the other; returns the exit code."""
    failed = False
    for each in chosen:
        search = Search(each.make(), SystemClock.monotonic)
        result = search.run(None if minutes is None else minutes * 60)
        wrong = _wrong_count(each, result)
        failed = failed or result.broken is not None or wrong is not None
        if as_json:
            click.echo(json.dumps(_as_object(each, result)))
            continue
        click.echo(summary_of(each.name, result))
        if wrong is not None:
            click.echo(f"    {wrong}")
        if result.broken is not None:
            _print_story(each, result)
    return int(failed)


def retell(configuration: ExplorerConfiguration, told: str, *, as_json: bool) -> int:
    """Take the steps of a story; returns the exit code."""
    path = Path(told)
    is_file = len(told) < 4096 and "=>" not in told and path.is_file()
    protocol = configuration.make()
    try:
        result = story.replay(protocol, story.lines_of(path.read_text() if is_file else told))
    except story.NoSuchStepError as error:
        raise click.UsageError(str(error)) from error
    if as_json:
        steps = [str(step) for step in result.steps]
        click.echo(json.dumps({"steps": steps, "broken": result.broken, "state": protocol.describe(result.state)}))
    else:
        for number, step in enumerate(result.steps, 1):
            click.echo(f"{number:>4}  {step}")
        for line in protocol.describe(result.state):
            click.echo(f"      {line}")
        click.echo(result.broken or "every promise was kept")
    return int(result.broken is not None)


def summary_of(name: str, result: Exploration) -> str:
    """One line about an exploration."""
    end = f"broken: {result.broken}" if result.broken else "complete" if result.is_complete else "not finished"
    return (
        f"{name}: {result.states:,} states, depth {result.depth}, {result.steps:,} steps, {result.seconds:.1f} s,"
        f" {result.states_per_second:,} states/s; {result.local_states:,} states of one process,"
        f" {result.cores_run:,} steps of a core; {end}"
    )


def _wrong_count(configuration: ExplorerConfiguration, result: Exploration) -> str | None:
    if result.is_complete and configuration.states and result.states != configuration.states:
        return f"{configuration.states:,} states were expected: the core takes other steps than when they were counted"
    return None


def _as_object(configuration: ExplorerConfiguration, result: Exploration) -> dict[str, Any]:
    return {
        "name": configuration.name, "states": result.states, "steps": result.steps, "depth": result.depth,
        "seconds": round(result.seconds, 2), "states_per_second": result.states_per_second,
        "local_states": result.local_states, "cores_run": result.cores_run, "complete": result.is_complete,
        "broken": result.broken, "story": [str(step) for step in result.story],
    }  # fmt: skip


def _print_story(configuration: ExplorerConfiguration, result: Exploration) -> None:
    for number, step in enumerate(result.story, 1):
        click.echo(f"{number:>4}  {step}")
    click.echo(f"replay these lines with: virtuallog explore {configuration.name} --replay FILE")
