"""`python -m tests.hostile`: a cluster under every known attack, then the verdict. One JSON object per attack.

Then a second siege, of the ports of ZooKeeper's clients: a table with a row per attack, and the faults. `--siege` names one of the two.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path

import click
import trio

from tests.hostile.attacked_cluster import besiege, report
from tests.hostile.attacked_zookeeper import ALL_KINDS, besieged, run_siege


@click.command()
@click.option("--frames", default=1_000_000, show_default=True, help="Mutated frames, all nodes together.")
@click.option("--workers", default=2, show_default=True, help="Processes that send them.")
@click.option("--seconds", default=20.0, show_default=True, help="For each of the other attacks.")
@click.option("--writers", default=4, show_default=True, help="Of the honest client, each with one append under way.")
@click.option("--seed", default=1, show_default=True)
@click.option("--attacks", default="frames,silent,drip,greedy,calls,unended", show_default=True)
@click.option("--zookeeper-attacks", default=",".join(ALL_KINDS), show_default=True)
@click.option("--siege", type=click.Choice(["both", "nodes", "zookeeper"]), default="both", show_default=True)
def main(
    *,
    frames: int,
    workers: int,
    seconds: float,
    writers: int,
    seed: int,
    attacks: str,
    zookeeper_attacks: str,
    siege: str,
) -> None:
    """Run both sieges. Exit code 0 if all nodes lived, honest clients' entries and znodes are where they belong, and no server of
    ZooKeeper's clients delayed a ping by 200 ms or kept its memory.
    """
    problems = 0
    with tempfile.TemporaryDirectory(prefix="hostile-") as folder:
        if siege != "zookeeper":
            problems += trio.run(_besiege, Path(folder) / "cluster", frames, workers, seconds, writers, seed, attacks)
        if siege != "nodes":
            problems += _besiege_zookeeper(Path(folder), zookeeper_attacks.split(","), seconds, seed)
    raise SystemExit(1 if problems else 0)


def _besiege_zookeeper(folder: Path, kinds: Sequence[str], seconds: float, seed: int) -> int:
    with besieged(folder) as siege:
        found = trio.run(run_siege, siege, kinds, seconds, seed, click.echo)
    for each in found:
        click.echo(f"problem: {each}")
    return len(found)


async def _besiege(path: Path, frames: int, workers: int, seconds: float, writers: int, seed: int, attacks: str) -> int:
    async with besiege(path, writers=writers) as siege:
        for kind in ("", *attacks.split(","), ""):
            limits = {"seconds": 3600.0, "workers": workers, "frames_max": frames} if kind == "frames" else {}
            phase = await siege.attack(kind, **{"seconds": seconds, "seed": seed, **limits})  # type: ignore[arg-type]
            click.echo(json.dumps(report(phase)))
        verdict = await siege.check()
    click.echo(json.dumps({"entries": verdict.entries, "problems": verdict.problems}))
    return len(verdict.problems)


main()
