"""Failovers of examples/master.py, and what the verdict on them must find."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.source_tree import ROOT
from virtuallog_lab.experiments.registrar.masters import Acknowledged, disorder, measure


def test_disorder_is_found() -> None:
    """An operation that is stored before one that was acknowledged before it was offered; those at one time may be in any order."""
    first, meanwhile, later = (
        Acknowledged("admit", name, offered, answered)
        for name, offered, answered in (("a", 0.0, 1.0), ("b", 0.5, 3.0), ("c", 2.0, 4.0))
    )
    assert disorder([(first, 1), (meanwhile, 2), (later, 3)]) == []
    assert disorder([(first, 2), (meanwhile, 1), (later, 3)]) == []
    assert len(disorder([(first, 3), (meanwhile, 1), (later, 2)])) == 1


@pytest.mark.processes
@pytest.mark.slow
async def test_a_killed_and_a_stopped_leader(tmp_path: Path) -> None:
    """Another one takes over; the rogue cannot write; nothing that was acknowledged is lost, and nothing removed is back."""
    load, times, problems = await measure(2, ROOT / "examples/master.py", tmp_path / "masters")

    assert problems == []
    assert [len(found) for found in times.values()] == [1, 1]
    assert load.counts["rogue writes tried"] == 1
    assert load.counts["rogue writes accepted"] == 0
