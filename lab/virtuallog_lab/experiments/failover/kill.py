#!/usr/bin/env python3
"""Cost of deaths for a client: nodes killed and stopped under load, and the time until appends are
acknowledged again.

    python -m virtuallog_lab.experiments.failover.kill --sequencers 50 --blackouts 20 --stops 1 --picture kill.png

    sequencer    kill -9 of the node that orders entries. There is no operator: the others must notice, and continue elsewhere.
                 The dead node is started again once that is done.
    coordinator  the same with `--loglet paxos`, where another replica is elected and the chain stays as it is.
    leader       the same with `--loglet raft`.
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

from virtuallog_lab.experiments.failover.faults import FAULT_INJECTORS, InjectedFault, inject_repeatedly
from virtuallog_lab.experiments.failover.report import draw, report
from virtuallog_lab.harness.machine import Machine
from virtuallog_lab.harness.options import Form, form_options, keep_option, picture_option
from virtuallog_lab.harness.program import run_to_end
from virtuallog_lab.harness.report import tell
from virtuallog_lab.harness.trial import Evidence, TrialLoad, run_trial, temporary_cluster

ORDERERS: Final = {"native": "sequencer", "paxos": "coordinator", "raft": "leader"}
"""Name of the role that orders entries, by kind of the loglet."""


async def run(
    plan: Sequence[str],
    load: TrialLoad,
    calm_seconds: float,
    patience_seconds: float,
    keep: Path | None = None,
    loglet: str = "native",
) -> Evidence[list[InjectedFault]]:
    """The whole trial."""
    async with temporary_cluster(keep=keep, loglet=loglet) as cluster:
        return await run_trial(
            cluster, load, partial(inject_repeatedly, plan, FAULT_INJECTORS, calm_seconds, patience_seconds)
        )


@click.command()
@click.option(
    "--loglet", default="native", show_default=True, type=click.Choice([*ORDERERS]), help="Kind of the loglet."
)
@click.option(
    "--sequencers", default=50, show_default=True, type=click.IntRange(0, 10_000), help="Or coordinators, or leaders."
)
@click.option("--blackouts", default=20, show_default=True, type=click.IntRange(0, 10_000))
@click.option("--stops", default=1, show_default=True, type=click.IntRange(0, 1000))
@click.option("--outstanding", default=64, show_default=True, type=click.IntRange(1, 4096))
@click.option("--size", default=100, show_default=True, type=click.IntRange(20, 1 << 20), help="Bytes of an entry.")
@click.option("--calm", default=1.0, show_default=True, type=click.FloatRange(0.1, 60), help="Seconds before each.")
@click.option("--patience", default=20.0, show_default=True, type=click.FloatRange(1, 50), help="Seconds.")
@picture_option
@keep_option
@form_options
def main(
    *,
    loglet: str,
    sequencers: int,
    blackouts: int,
    stops: int,
    outstanding: int,
    size: int,
    calm: float,
    patience: float,
    picture: Path | None,
    keep: Path | None,
    form: Form,
) -> None:
    """Kill and stop nodes under a client that never pauses, and measure how long it waits.

    \b
    Example:
        python -m virtuallog_lab.experiments.failover.kill --sequencers 5 --blackouts 2 --stops 0
    """
    machine = Machine.look()
    plan = [ORDERERS[loglet]] * sequencers + ["blackout"] * blackouts + ["stop"] * stops
    evidence = run_to_end(run, plan, TrialLoad(writers=outstanding, entry_bytes=size), calm, patience, keep, loglet)
    if picture is not None:
        draw(evidence, picture)
        tell(f"picture: {picture}")
    report(machine, evidence, without_target=("blackout",)).publish(form)


if __name__ == "__main__":
    main()
