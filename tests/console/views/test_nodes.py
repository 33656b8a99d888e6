"""Nodes as rows: states with reasons, replicas with their lag, clocks and disks; a silent node is a row."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import attrs
import pytest
from trio.testing import MockClock

from tests.server.database.test_role import SETTINGS, client_of, start
from tests.server.diagnosis.evidence_samples import OPEN, register, segment
from tests.server.node.world import World, make_world, until
from tests.virtuallog.client.world import world as log_world
from virtuallog.admin.control import NodeCondition, NodeStatus
from virtuallog.client.virtual_log import VirtualLog
from virtuallog.contract.errors import CorruptionError, UnavailableError, UnsupportedError, VirtualLogError
from virtuallog.contract.ports import Outcome
from virtuallog.contract.register import Register
from virtuallog.contract.types import NodeId
from virtuallog.testing.memory_metastore import MemoryMetaStore
from virtuallog_console.views.nodes import (
    Answers,
    ClockRow,
    DiskRow,
    NodeRow,
    TimedCondition,
    describe_nodes,
    read_nodes,
)
from virtuallog_console.views.plain import plain
from virtuallog_database.control.messages import DatabaseStatus
from virtuallog_server.node.node import Node

ONE, TWO, THREE = NodeId(1), NodeId(2), NodeId(3)
REGISTER = register(segment(OPEN, 0, None))
AWAY = UnavailableError("no answer")


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with make_world() as made:
        yield made


def log_of(node: Node) -> VirtualLog:
    """The node's own client, which knows the services of all."""
    assert node.virtual_log is not None
    return node.virtual_log


async def test_nodes_of_a_cluster_are_rows(world: World, autojump_clock: MockClock) -> None:
    """Roles, versions, the replica and its lag; then one node is gone, and one comes back."""
    nodes = await start(world, 1, 2, 3)
    await client_of(nodes[0]).create("/a")
    view = await read_nodes(log_of(nodes[0]))
    assert [(row.node, row.state, row.problem) for row in view.nodes] == [
        (1, "ready", ""),
        (2, "ready", ""),
        (3, "ready", ""),
    ]
    first = view.nodes[0]
    assert first.replica is not None
    assert (first.replica.state, first.replica.problem) == ("serving", "")
    assert (first.boot, first.software, first.version) == (
        nodes[0].status().boot,
        nodes[0].status().software,
        view.version,
    )
    assert first.clock is not None
    assert abs(first.clock.ahead_ms) <= first.clock.error_ms + 1
    assert first.disk is None  # this world does not know sizes of disks

    world.stop(3)
    view = await read_nodes(log_of(nodes[0]))
    silent = view.nodes[2]
    assert (silent.state, silent.replica, silent.clock) == ("silent", None, None)
    assert silent.problem
    again = await world.start(3, config=SETTINGS)
    await until(lambda: not again.not_ready())
    assert (await read_nodes(log_of(nodes[0]))).nodes[2].boot == again.status().boot
    assert plain(view)["nodes"][0]["roles"]


async def test_a_client_that_learns_no_register_says_so(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A view, and no exception."""
    async with log_world() as w:
        log = w.client()

        async def get(_: object) -> tuple[int, bytes]:
            raise UnavailableError("no majority answered")

        monkeypatch.setattr(MemoryMetaStore, "get", get)
        view = await read_nodes(log)
        assert (view.nodes, view.problem) == ((), "no majority answered")


def status(node: int, **changes: Any) -> NodeStatus:
    made = NodeStatus(
        cluster=b"c" * 16, node=NodeId(node), store_id=bytes([node]) * 16, boot=7, roles=("log-server",), software="1",
        register=REGISTER.encode(), failures=(), protocol=6,
    )  # fmt: skip
    return attrs.evolve(made, **changes)


def row(
    answer: Outcome[NodeStatus],
    replica: Outcome[DatabaseStatus] = AWAY,
    condition: TimedCondition | VirtualLogError = AWAY,
    named: Register = REGISTER,
    tail: int = 0,
) -> NodeRow:
    """The row of node 1 with these answers; another replica knows a tail."""
    timed = condition if isinstance(condition, TimedCondition) else TimedCondition(condition)
    others = DatabaseStatus(state="serving", known_tail=tail)
    return describe_nodes(named, Answers({ONE: answer}, {ONE: replica, TWO: others}, {ONE: timed})).nodes[0]


def test_states_and_their_reasons() -> None:
    """In the order of what matters most: silent, another directory, failing, not ready, ready."""
    waits = TimedCondition(NodeCondition(not_ready=("paxos is not open",), wall_ms=0))
    assert row(AWAY).state == "silent"
    assert row(status(1, store_id=b"x" * 16)).state == "other directory"
    assert row(status(1, failures=("native: corruption",)), condition=waits).state == "failing"
    assert (row(status(1), condition=waits).state, row(status(1), condition=waits).not_ready) == (
        "not ready", ("paxos is not open",)
    )  # fmt: skip
    assert row(status(1)).state == "ready"
    assert row(status(1, register=b"\xff")).problem
    entry = attrs.evolve(REGISTER.nodes[ONE], store_id=b"")
    expected = attrs.evolve(REGISTER, nodes={**REGISTER.nodes, ONE: entry})
    assert (row(AWAY, named=expected).state, row(AWAY, named=expected).problem) == ("expected", "")


def test_a_node_of_an_older_version_has_no_clock() -> None:
    """It answers its status, and not the newer question: that is no failure of the node."""
    found = row(status(1), condition=UnsupportedError("no such method"))
    assert (found.state, found.clock, found.disk) == ("ready", None, None)
    assert found.problem == "clock and disk: a node of this version does not say"


def test_clocks_differ_by_more_than_the_round_trip_explains_or_not() -> None:
    """The answer was made somewhere between question and answer: half of that time is the error."""
    timed = TimedCondition(NodeCondition(not_ready=(), wall_ms=1_000_250, free_bytes=1, size_bytes=2), 1000.0, 0.1)
    found = row(status(1), condition=timed)
    assert found.clock == ClockRow(ahead_ms=200.0, error_ms=50.5)
    assert found.clock.is_certain
    assert found.disk == DiskRow(free_bytes=1, size_bytes=2)
    assert not ClockRow(ahead_ms=-30.0, error_ms=50.0).is_certain


def test_a_replica_lags_behind_the_highest_tail_that_is_known() -> None:
    """By its own tail alone it would have no lag while it is cut off. A closed role is refused, with the reason."""
    behind = row(status(1), DatabaseStatus(state="catching up", cursor=10, known_tail=12), tail=100).replica
    assert behind is not None
    assert (behind.lag, behind.state) == (90, "catching up")
    refused = row(status(1), CorruptionError("its state differs")).replica
    assert refused is not None
    assert (refused.state, refused.problem) == ("refused", "its state differs")
    assert row(status(1), UnsupportedError("no database")).replica is None
