"""`python -m tests.hostile`: a cluster under every attack there is, then the verdict. One JSON object per attack."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import click
import trio

from tests.hostile.siege import besiege, report


@click.command()
@click.option("--frames", default=1_000_000, show_default=True, help="Mutated frames, all nodes together.")
@click.option("--workers", default=2, show_default=True, help="Processes that send them.")
@click.option("--seconds", default=20.0, show_default=True, help="For each of the other attacks.")
@click.option("--writers", default=4, show_default=True, help="Of the honest client, each with one append under way.")
@click.option("--seed", default=1, show_default=True)
@click.option("--attacks", default="frames,silent,drip,greedy,calls,unended", show_default=True)
def main(*, frames: int, workers: int, seconds: float, writers: int, seed: int, attacks: str) -> None:
    """Exit code 0 if all nodes lived, and the honest client's entries are where they belong."""
    with tempfile.TemporaryDirectory(prefix="hostile-") as folder:
        trio.run(_besiege, Path(folder) / "cluster", frames, workers, seconds, writers, seed, attacks)


async def _besiege(
    path: Path, frames: int, workers: int, seconds: float, writers: int, seed: int, attacks: str
) -> None:
    async with besiege(path, writers=writers) as siege:
        for kind in ("", *attacks.split(","), ""):
            limits = {"seconds": 3600.0, "workers": workers, "frames_max": frames} if kind == "frames" else {}
            phase = await siege.attack(kind, **{"seconds": seconds, "seed": seed, **limits})  # type: ignore[arg-type]
            click.echo(json.dumps(report(phase)))
        verdict = await siege.check()
    click.echo(json.dumps({"entries": verdict.entries, "problems": verdict.problems}))
    raise SystemExit(1 if verdict.problems else 0)


main()
