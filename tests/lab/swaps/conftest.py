"""The six ways to continue a log, with a real ZooKeeper for the one that needs it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.zookeeper_server import open_zookeeper
from virtuallog_lab.bench.targets import Target, choose, target_names


@pytest.fixture
async def targets(tmp_path: Path) -> AsyncIterator[list[Target]]:
    """All of them, for the length of a test."""
    folder = tmp_path / "zookeeper"
    folder.mkdir()
    async with open_zookeeper(folder) as server:
        yield choose(target_names(), server.address)
