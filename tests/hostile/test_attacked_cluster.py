"""The small version of `make hostile`: hundreds of mutated frames, and two floods for a moment, on a live node."""

from __future__ import annotations

import random
import shutil
from collections import Counter
from pathlib import Path

import pytest

from tests.hostile.attacked_cluster import Phase, besiege
from tests.hostile.bursts import Bursts
from tests.hostile.samples import methods

FRAMES = 600


def largest_growth_mib(phase: Phase) -> int:
    return max(largest - before for before, largest, _ in phase.rss_mib.values())


@pytest.mark.processes
async def test_node_under_attack_lives_and_serves_an_honest_client(tmp_path: Path) -> None:
    """It is the same process and the same boot afterwards, hardly larger, and the honest client misses nothing."""
    async with besiege(tmp_path / "cluster", nodes=1) as siege:
        frames = await siege.attack("frames", seconds=60.0, workers=0, frames_max=FRAMES)
        floods = [await siege.attack(kind, seconds=1.0, workers=0) for kind in ("greedy", "calls")]
        verdict = await siege.check()
    shutil.rmtree(tmp_path)

    assert verdict.problems == ()
    assert frames.seen["frames"] >= FRAMES
    assert frames.appends > 0
    assert largest_growth_mib(frames) < 32
    assert all(largest_growth_mib(flood) < 300 for flood in floods)


def test_bursts_reach_what_lies_behind_the_frames() -> None:
    """Else a million of them would show nothing: calls are executed, refused and end connections, all of them often."""
    bursts, outcomes = Bursts(random.Random(1)), Counter[str]()
    while outcomes.total() < 400:
        outcomes += bursts.next().outcomes

    assert outcomes["refused"] > 40
    assert outcomes["call executed"] > 40
    assert sum(count for outcome, count in outcomes.items() if outcome.startswith("connection ended")) > 0


def test_every_method_is_attacked() -> None:
    """Also those that were added since: samples are made from the classes themselves."""
    found = {request_class.__name__ for request_class, _ in methods()}

    assert {"NativeStore", "NativeAppend", "PaxosAppend", "Learn", "OpenNode"} <= found
