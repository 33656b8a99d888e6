"""A fresh history for each test."""

from __future__ import annotations

import pytest

from tests.simulation.checks.told_history import Story


@pytest.fixture
def story() -> Story:
    return Story()
