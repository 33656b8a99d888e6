#!/usr/bin/env python3
"""What deaths cost a client: nodes killed and stopped under load, and the time until appends are acknowledged again.

    python -m bench.kill --sequencers 50 --blackouts 20 --stops 1 --picture kill.png

    sequencer    kill -9 of the node that orders entries. Nobody helps: the others must notice, and continue elsewhere.
                 The dead node is started again once that is done.
    blackout     kill -9 of all nodes at once; all are started again at once. Their start is part of the time.
    stop         SIGSTOP of the node that orders entries, for ten seconds: it is neither dead nor alive. Then SIGCONT.

Time runs from before the signal to the end of the longest stretch without acknowledgements that follows. If nothing is
acknowledged for `--patience` seconds, that is a failure; the log is then reconfigured by hand, to go on with the run.
Afterwards everything is read back: exit code 0 means that appends came back by themselves every time, and that nothing is lost,
doubled or reordered.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final

import click
import trio

from bench.blows import BLOWS, Blow, recovery_seconds
from bench.kill_picture import draw
from bench.measuring import Form, Machine, Report, Table, form_options, picture_option, tell
from bench.pauses import SPREAD_COLUMNS, Spread
from bench.trial import Evidence, Load, Trial, temporary_cluster, try_out

TARGET_SECONDS: Final = 3.0
"""After the death of a sequencer; a start of all nodes takes as long as it takes."""
WARM_UP_SECONDS: Final = 2.0


async def strike_repeatedly(
    trial: Trial, plan: Sequence[str], calm_seconds: float, patience_seconds: float
) -> list[Blow]:
    """The story: blows, each after some seconds of undisturbed load."""
    await trial.clock.sleep(WARM_UP_SECONDS)
    done = []
    for number, kind in enumerate(plan):
        await trial.clock.sleep(calm_seconds)
        blow = await BLOWS[kind](trial, patience_seconds)
        tell(f"{number + 1}/{len(plan)} {kind}: {'' if blow.by_itself else 'NOT '}back by itself")
        done.append(blow)
    await trial.clock.sleep(calm_seconds)
    return done


async def run(plan: Sequence[str], load: Load, calm_seconds: float, patience_seconds: float) -> Evidence[list[Blow]]:
    """The whole trial."""
    async with temporary_cluster() as cluster:
        story = partial(strike_repeatedly, plan=plan, calm_seconds=calm_seconds, patience_seconds=patience_seconds)
        return await try_out(cluster, load, story)


def report(machine: Machine, evidence: Evidence[list[Blow]]) -> Report:
    """A table of the times, and the verdict."""
    blows = evidence.result
    times = {kind: recovery_seconds(evidence, kind) for kind in BLOWS if any(blow.kind == kind for blow in blows)}
    spreads = {kind: Spread.of(seconds) for kind, seconds in times.items()}
    stuck = [
        f"{blow.kind} at {blow.at:.1f} s: appends did not resume by themselves" for blow in blows if not blow.by_itself
    ]
    return Report(
        title=f"{len(blows)} blows under load",
        machine=machine,
        tables=[_table(times, spreads)],
        plain={
            "blows": {kind: {"times": len(times[kind]), **spread.plain()} for kind, spread in spreads.items()},
            "by_itself": sum(blow.by_itself for blow in blows),
            "acknowledged": evidence.workload.acknowledged,
            "unknown": evidence.workload.unknown,
        },
        verdict=evidence.summary,
        problems=[*stuck, *evidence.verdict.problems],
    )


def _table(times: dict[str, list[float]], spreads: dict[str, Spread]) -> Table:
    rows = [[kind, str(len(times[kind])), *spread.cells(), _target(kind, spread)] for kind, spread in spreads.items()]
    title = f"Until appends are acknowledged again; target {TARGET_SECONDS:g} s, each time"
    return Table(title, ["", "times", *SPREAD_COLUMNS, "target"], rows)


def _target(kind: str, spread: Spread) -> str:
    if kind == "blackout":
        return ""
    return "met" if spread.max_ms <= 1000 * TARGET_SECONDS else "missed"


@click.command()
@click.option("--sequencers", default=50, show_default=True, type=click.IntRange(0, 10_000))
@click.option("--blackouts", default=20, show_default=True, type=click.IntRange(0, 10_000))
@click.option("--stops", default=1, show_default=True, type=click.IntRange(0, 1000))
@click.option("--outstanding", default=64, show_default=True, type=click.IntRange(1, 4096))
@click.option("--size", default=100, show_default=True, type=click.IntRange(20, 1 << 20), help="Bytes of an entry.")
@click.option("--calm", default=1.0, show_default=True, type=click.FloatRange(0.1, 60), help="Seconds before each.")
@click.option("--patience", default=20.0, show_default=True, type=click.FloatRange(1, 50), help="Seconds.")
@picture_option
@form_options
def main(
    *,
    sequencers: int,
    blackouts: int,
    stops: int,
    outstanding: int,
    size: int,
    calm: float,
    patience: float,
    picture: Path | None,
    form: Form,
) -> None:
    """Kill and stop nodes under a client that never pauses, and measure how long it waits.

    \b
    Example:
        python -m bench.kill --sequencers 5 --blackouts 2 --stops 0
    """
    machine = Machine.look()
    plan = ["sequencer"] * sequencers + ["blackout"] * blackouts + ["stop"] * stops
    evidence = trio.run(run, plan, Load(writers=outstanding, entry_bytes=size), calm, patience)
    if picture is not None:
        draw(evidence, picture)
        tell(f"picture: {picture}")
    report(machine, evidence).publish(form)


if __name__ == "__main__":
    main()
