#!/usr/bin/env python3
"""Latency under a fixed load: writes that are due at given times, to five systems in turn.

    python -m virtuallog_lab.experiments.fixed_rate.fixed_rate --peers-dir ../shared/peers --rounds 3

An open loop: a write is sent when it is due, whether or not earlier ones have been answered, and its latency counts
from when it was due. A round starts each system, gives it each rate, and ends it before the next one starts, as they
would share the processors; all systems of a round get the same times. Each is three servers on loopback and one
client, in this process, with a connection to the server that orders writes: the client of the product for our logs;
frames made by hand for the database, ZooKeeper and etcd. Medians over the rounds are what counts.
"""

from __future__ import annotations

import gc
import random
from collections.abc import Sequence
from pathlib import Path

import click

from virtuallog_lab.experiments.fixed_rate.etcd_writes import VALUE_BYTES_MAX
from virtuallog_lab.experiments.fixed_rate.measurement import measure
from virtuallog_lab.experiments.fixed_rate.punctual_clock import PunctualClock, open_punctual_clock
from virtuallog_lab.experiments.fixed_rate.report import RatePlan, RateSample, report
from virtuallog_lab.experiments.fixed_rate.schedule import ARRIVALS
from virtuallog_lab.experiments.fixed_rate.systems import (
    ETCD,
    SYSTEMS,
    ZOOKEEPER,
    RatedSystem,
    own_systems,
    peer_systems,
)
from virtuallog_lab.harness.machine import Machine
from virtuallog_lab.harness.options import Form, form_options, whole_numbers
from virtuallog_lab.harness.program import run_to_end
from virtuallog_lab.harness.report import tell
from virtuallog_lab.harness.trial import set_up_client


async def measure_all(systems: Sequence[RatedSystem], plan: RatePlan, clock: PunctualClock) -> list[RateSample]:
    """Round by round, each system by itself.

    Raises:
        PeerError: a write has failed, or a system could not be started.
    """
    samples = []
    for number in range(plan.rounds):
        for system in systems:
            async with system.open() as servers:
                for rate in plan.rates:
                    seconds = plan.warm_up_seconds + plan.seconds
                    times = ARRIVALS[plan.arrivals](rate, seconds, random.Random(number))
                    samples.append(await measure(system, servers, plan, rate, times, clock))
                    tell(samples[-1].line())
        tell(f"round {number + 1} of {plan.rounds} is done")
    return samples


@click.command()
@click.option(
    "--rate",
    "rates",
    default="2000,10000",
    show_default=True,
    callback=whole_numbers,
    metavar="N,N",
    help="Writes per second.",
)
@click.option("--rounds", default=3, show_default=True, type=click.IntRange(1, 1000))
@click.option(
    "--seconds", default=60.0, show_default=True, type=click.FloatRange(0.1, 3600), help="Length of one measurement."
)
@click.option(
    "--warm-up",
    default=5.0,
    show_default=True,
    type=click.FloatRange(0.1, 600),
    help="Seconds before each, under the same load.",
)
@click.option("--arrivals", default="constant", show_default=True, type=click.Choice([*ARRIVALS]))
@click.option(
    "--in-flight",
    default=1000,
    show_default=True,
    type=click.IntRange(1, 100_000),
    help="At most; others wait, and that counts.",
)
@click.option(
    "--size", default=100, show_default=True, type=click.IntRange(1, VALUE_BYTES_MAX), help="Bytes of a value."
)
@click.option("--system", "names", multiple=True, type=click.Choice(SYSTEMS), help="Only this one; may be repeated.")
@click.option(
    "--peers-dir",
    envvar="VIRTUALLOG_PEERS",
    metavar="DIR",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="The scripts that start etcd and ZooKeeper, which are not part of this project.",
)
@form_options
def main(
    *,
    rates: list[int],
    rounds: int,
    seconds: float,
    warm_up: float,
    arrivals: str,
    in_flight: int,
    size: int,
    names: tuple[str, ...],
    peers_dir: Path | None,
    form: Form,
) -> None:
    """Measure latencies of writes that are due at given times.

    \b
    Example:
        python -m virtuallog_lab.experiments.fixed_rate.fixed_rate --rate 500 --seconds 5 --rounds 1 --system VirtualLog
    """
    set_up_client()
    machine = Machine.look()
    plan = RatePlan(
        rates=rates,
        rounds=rounds,
        seconds=seconds,
        warm_up_seconds=warm_up,
        arrivals=arrivals,
        in_flight=in_flight,
        size=size,
    )
    gc.freeze()  # a collection that looks at all that was imported would be a pause of each system
    with open_punctual_clock() as clock:
        samples = run_to_end(measure_all, _choose(names or SYSTEMS, peers_dir), plan, clock)
    report(machine, plan, samples).publish(form)


def _choose(names: Sequence[str], peers_dir: Path | None) -> list[RatedSystem]:
    known = own_systems()
    if peers_dir is not None:
        known += peer_systems(peers_dir.resolve())
    elif {ETCD, ZOOKEEPER} & set(names):
        tell("without --peers-dir, etcd and ZooKeeper are left out")
    return [system for system in known if system.name in names]


if __name__ == "__main__":
    main()
