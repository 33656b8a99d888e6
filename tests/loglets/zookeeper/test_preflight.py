"""A log goes on in a ZooKeeper only if that would take its appends: asked before the active loglet is sealed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import attrs
import pytest
import trio
from trio.testing import MockClock

from tests.free_ports import free_ports
from tests.loglets.zookeeper.test_znodes import _environment
from tests.loglets.zookeeper.world import Bench, running_bench
from tests.virtuallog.client.world import World, contents
from tests.zookeeper_server import open_zookeeper
from virtuallog.contract.errors import ForbiddenError, InvalidSettingError
from virtuallog.contract.versions import COMPOSED
from virtuallog.contract.znodes import Create
from virtuallog.reconfiguration.chain_writer import PREFLIGHT_SECONDS
from virtuallog_loglets.memory import MemoryProvider
from virtuallog_loglets.zookeeper.config import ZooKeeperConfig
from virtuallog_loglets.zookeeper.drivers.kazoo_znodes import KazooConnections
from virtuallog_loglets.zookeeper.provider import ZooKeeperProvider

SETTINGS = {"hosts": "zookeeper:2181", "root": "/a/b"}


@asynccontextmanager
async def world_beside_a_zookeeper() -> AsyncIterator[tuple[World, Bench]]:
    """A log in memory loglets, and a ZooKeeper that it may go to."""
    async with running_bench() as bench:
        world = World(bench.nursery, {"memory": MemoryProvider(), "zookeeper": bench.provider})
        world.metastore.values[-1] = attrs.evolve(world.register, level=COMPOSED).encode()
        yield world, bench


async def test_a_log_does_not_go_to_a_zookeeper_that_nobody_reaches(autojump_clock: MockClock) -> None:
    """Such a loglet can never be sealed, so the log could neither go on nor come back. Refused, within some seconds; appends
    go on where they went."""
    async with world_beside_a_zookeeper() as (world, bench):
        log, bench.zookeeper.faults.reachable = world.client(), False
        await log.append(b"before")
        begun = bench.clock.monotonic()
        with pytest.raises(InvalidSettingError, match="hosts: the log stays where it is: ZooKeeper has not answered"):
            await log.reconfig_extend("zookeeper", SETTINGS)

        assert bench.clock.monotonic() - begun <= PREFLIGHT_SECONDS
        assert await log.append(b"after") == 1
        assert [segment.kind for segment in world.register.chain.segments] == ["memory"]


async def test_a_log_goes_to_a_zookeeper_that_answers(autojump_clock: MockClock) -> None:
    """The question leaves the root behind, and nothing in it."""
    async with world_beside_a_zookeeper() as (world, bench):
        log = world.client()
        await log.append(b"before")
        await log.reconfig_extend("zookeeper", SETTINGS)
        assert [path for path in bench.zookeeper.tree.paths if path.startswith("/a")] == ["/a", "/a/b"]

        await log.append(b"after")
        assert [payload for _, payload in await contents(log)] == [b"before", b"after"]


async def test_a_probe_that_somebody_left_is_no_obstacle(autojump_clock: MockClock) -> None:
    """A znode of its name, made by hand: access is looked at before names are, so the question is answered."""
    async with running_bench() as bench:
        provider, config = bench.provider, ZooKeeperConfig(hosts="zookeeper:2181").encode()
        await provider.probe(config, bench.environment)
        await bench.znodes().multi([Create("/virtuallog/probe")])
        await provider.probe(config, bench.environment)
        assert "/virtuallog/probe" in bench.zookeeper.tree.paths


async def test_who_finishes_a_change_asks_nobody(autojump_clock: MockClock) -> None:
    """The log is in that ZooKeeper already, and appends wait: a question more would only make them wait longer."""
    async with world_beside_a_zookeeper() as (world, bench):
        log = world.client()
        await log.reconfig_extend("zookeeper", SETTINGS)
        await log.append(b"before")
        transactions: list[str] = []
        await log.view.loglet(world.register.chain.last).seal()
        bench.zookeeper.watch = lambda _, operations: transactions.extend(
            getattr(one, "path", "") for one in operations
        )

        assert await log.append(b"after") > 0
        assert not [path for path in transactions if path.endswith("/probe")]


@pytest.mark.processes
async def test_an_unreachable_ensemble_is_left_alone_afterwards(nursery: trio.Nursery) -> None:
    """After a refusal no connection is left that tries for ever, nor its threads."""
    connections = KazooConnections()
    config = ZooKeeperConfig(hosts=f"127.0.0.1:{free_ports(1)}").encode()
    async with trio.open_nursery() as asking:
        with pytest.raises(InvalidSettingError, match="hosts"):
            await ZooKeeperProvider(connect=connections).probe(config, _environment(asking))
        asking.cancel_scope.cancel()
    assert all(client.is_closed for client in connections._open)


@pytest.mark.processes
async def test_a_real_zookeeper_is_asked_for_its_permission(tmp_path: Path, nursery: trio.Nursery) -> None:
    """It may forbid new roots and allow those that it has, or let us read a root and nothing else."""
    async with open_zookeeper(tmp_path) as server:

        async def probe(root: str) -> None:
            config = ZooKeeperConfig(hosts=server.address, root=root).encode()
            await ZooKeeperProvider().probe(config, _environment(nursery))

        await probe("/a/b")
        await trio.to_thread.run_sync(_allow_reading_only, server.address, "/")
        await probe("/a/b")
        with pytest.raises(ForbiddenError):
            await probe("/c")
        await trio.to_thread.run_sync(_allow_reading_only, server.address, "/a/b")
        with pytest.raises(ForbiddenError):
            await probe("/a/b")
        nursery.cancel_scope.cancel()


def _allow_reading_only(address: str, path: str) -> None:
    from kazoo.client import KazooClient
    from kazoo.security import make_acl

    client = KazooClient(address)
    client.start()
    try:
        client.set_acls(path, [make_acl("world", "anyone", read=True, admin=True)])
    finally:
        client.stop()
        client.close()
