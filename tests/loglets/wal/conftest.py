"""Fixtures of the log tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.virtuallog.runtime.disk_beds import Bed, RealBed, SimulatedBed


@pytest.fixture(params=["real", "simulated"])
def bed(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Bed]:
    """A fresh disk of each kind."""
    made: Bed = RealBed(tmp_path / "disk") if request.param == "real" else SimulatedBed()
    yield made
    made.unmount()
