"""Condition of a node: the reasons why it does not serve, its clock and its disk, for operators."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from trio.testing import MockClock

from tests.server.node.world import World, make_world, until
from virtuallog.admin.control import CONTROL, GetCondition, NodeCondition
from virtuallog.contract.types import NodeId
from virtuallog.rpc.protocol.methods import bind
from virtuallog_server.storage.data_directory import open_data_directory


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with make_world() as made:
        yield made


async def test_a_node_says_why_it_does_not_serve(world: World, autojump_clock: MockClock) -> None:
    """Before the others are there it has reasons, and then none; its wall clock is in the answer."""
    node = await world.start(1)
    found = await world.client().call(NodeId(1), GetCondition(), 5)
    assert list(found.not_ready) == node.not_ready() != []
    for number in (2, 3):
        await world.start(number)
    await until(lambda: not node.not_ready())
    found = await world.client().call(NodeId(1), GetCondition(), 5)
    assert found.not_ready == ()
    assert found.wall_ms > 0
    assert (found.free_bytes, found.size_bytes) == (0, 0)  # this world has no disk with a size


def test_a_condition_arrives_as_it_was_sent() -> None:
    """A clock may be before the epoch, and a disk of any size."""
    codec = bind([CONTROL]).by_request[GetCondition].results
    assert codec is not None
    sent = NodeCondition(not_ready=("paxos is not open",), wall_ms=-1, free_bytes=1 << 50, size_bytes=(1 << 64) - 1)
    assert codec.decode_untrusted(codec.encode(sent)) == sent


async def test_a_data_directory_knows_its_room(tmp_path: Path) -> None:
    """Room and size come from the file system; a directory that is gone has neither."""
    async with open_data_directory(tmp_path / "data") as data:
        free, size = data.space()
        assert 0 < free <= size
        object.__setattr__(data, "path", tmp_path / "gone")
        assert data.space() == (0, 0)
