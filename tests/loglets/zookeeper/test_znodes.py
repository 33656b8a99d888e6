"""The simulated ZooKeeper is like the real one; and it does to its clients what a real one may do."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import attrs
import pytest
import trio

from tests.free_ports import free_ports
from tests.loglets.zookeeper.agreements import AGREEMENTS, Agreement
from tests.loglets.zookeeper.world import running_bench
from tests.simulation.conformance.fixtures import NoServices
from tests.zookeeper_server import open_zookeeper
from virtuallog.contract.errors import UnavailableError, UnsupportedError
from virtuallog.contract.placement import Cluster
from virtuallog.contract.ports import Clock, Environment
from virtuallog.contract.types import NodeId
from virtuallog.contract.znodes import Create, Set, Znodes
from virtuallog.runtime import zookeeper_client
from virtuallog.runtime.clock import SystemClock
from virtuallog.testing.sim.clock import SimulatedClock
from virtuallog.testing.sim.process import Process
from virtuallog.testing.sim.zookeeper import ZooKeeperFaults
from virtuallog_loglets.zookeeper import ZooKeeperProvider
from virtuallog_loglets.zookeeper.config import ZooKeeperConfig
from virtuallog_loglets.zookeeper.drivers.kazoo_znodes import ANSWER_SECONDS, KazooConnections

LAGGING = ZooKeeperFaults(lag_seconds=0.1)


@pytest.mark.parametrize("agreement", AGREEMENTS, ids=lambda agreement: agreement.__name__)
@pytest.mark.parametrize("faults", [ZooKeeperFaults(), LAGGING], ids=["in step", "lagging"])
async def test_simulated(faults: ZooKeeperFaults, agreement: Agreement, autojump_clock: trio.testing.MockClock) -> None:
    """See there."""
    async with running_bench(faults) as bench:
        one, other = bench.znodes(), bench.znodes()
        await one.multi([Create("/root")])
        await agreement(one, other, "/root")


@pytest.mark.processes
async def test_real(tmp_path: Path, nursery: trio.Nursery) -> None:
    """Debian's ZooKeeper, through kazoo: all of them, each below a znode of its own."""
    async with open_zookeeper(tmp_path) as server:
        config = ZooKeeperConfig(hosts=server.address)
        one, other = (KazooConnections()(config, _environment(nursery)) for _ in range(2))
        for agreement in AGREEMENTS:
            root = f"/{agreement.__name__}"
            await one.multi([Create(root)])
            try:
                await agreement(one, other, root)
            except BaseException as error:
                error.add_note(f"agreement: {agreement.__name__}")
                raise
        nursery.cancel_scope.cancel()


async def test_a_server_may_lag_behind(autojump_clock: trio.testing.MockClock) -> None:
    """A plain read may show an old state; one client never goes back, on any server."""
    async with running_bench(LAGGING) as bench:
        writer = bench.znodes()
        await writer.multi([Create("/a")])
        readers, stale = [bench.znodes() for _ in range(8)], 0
        for number in range(1, 20):
            await writer.multi([Set("/a", b"")])
            for reader in readers:
                (stat,) = await reader.stats(["/a"])
                stale += stat is None or stat.version < number
        assert stale > 0
        for reader in readers:
            (stat,) = await reader.stats(["/a"], fresh=True)
            assert stat is not None
            assert stat.version == 19
        bench.zookeeper.faults.breaks = 0.5
        await _write_more(writer)
        for reader in readers:
            for _ in range(20):
                with suppress(UnavailableError):
                    (stat,) = await reader.stats(["/a"])
                    assert stat is not None
                    assert stat.version >= 19


async def _write_more(znodes: Znodes) -> None:
    """Something more happens that servers can lag behind."""
    for _ in range(10):
        with suppress(UnavailableError):
            await znodes.multi([Set("/a", b"")])


async def test_a_lost_connection_leaves_the_outcome_open(autojump_clock: trio.testing.MockClock) -> None:
    """Some transactions without an answer have happened, some have not, and some happen long after."""
    async with running_bench(ZooKeeperFaults(breaks=0.3, late=0.5, late_seconds=5.0)) as bench:
        znodes, unknown = bench.znodes(), set()
        for number in range(300):
            try:
                await znodes.multi([Create(f"/{number}")])
            except UnavailableError:
                unknown.add(number)
        at_once = {number for number in range(300) if bench.zookeeper.tree.find(f"/{number}")}
        await trio.sleep(6)  # noqa: TID251 -- on a mock clock
        at_last = {number for number in range(300) if bench.zookeeper.tree.find(f"/{number}")}

        assert set(range(300)) - at_last < unknown
        assert at_last & unknown
        assert at_once < at_last
        assert bench.zookeeper.counts["zookeeper late request"] > 0


async def test_who_cannot_be_reached_does_nothing(autojump_clock: trio.testing.MockClock) -> None:
    """An answer that does not come ends the call after its time; later the same client is served again."""
    async with running_bench() as bench:
        znodes = bench.znodes()
        bench.zookeeper.faults.reachable = False
        with pytest.raises(UnavailableError, match="has not answered"):
            await znodes.multi([Create("/a")])
        bench.zookeeper.faults.reachable = True
        assert await znodes.multi([Create("/b")]) == ["/b"]


@pytest.mark.processes
async def test_nobody_there(nursery: trio.Nursery) -> None:
    """A client that cannot connect gets an error in time, and kazoo has nothing that it might send later."""
    znodes = KazooConnections()(ZooKeeperConfig(hosts=f"127.0.0.1:{free_ports(1)}"), _environment(nursery))
    with pytest.raises(UnavailableError, match="nothing was done"):
        await znodes.multi([Create("/a")])
    assert not znodes._client._queue
    nursery.cancel_scope.cancel()


async def test_one_connection_for_all_loglets_of_an_environment(nursery: trio.Nursery) -> None:
    """In the same ZooKeeper. Another environment has its own: it ends with it."""
    one, other = _environment(nursery), ZooKeeperConfig(hosts="b:2181")
    connections, config = KazooConnections(), ZooKeeperConfig(hosts="a:2181")
    assert connections(config, one) is connections(ZooKeeperConfig(hosts="a:2181", root="/x"), _environment(nursery))
    assert connections(config, one) is not connections(other, one)
    async with trio.open_nursery() as another:
        assert connections(config, one) is not connections(config, _environment(another))


def test_kazoo_is_missed_when_it_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not when a provider is made, or a loglet is planned; the error says what to install."""
    monkeypatch.setitem(sys.modules, "kazoo.client", None)
    ZooKeeperProvider().plan(Cluster(members=(), planner=NodeId(1)), {"hosts": "a:2181"}, None)
    with pytest.raises(UnsupportedError, match="pip install"):
        zookeeper_client.open_client("a:2181", 6.0)


def _environment(nursery: trio.Nursery, clock: Clock | None = None) -> Environment:
    return Environment(services=NoServices(), clock=clock or SystemClock(), random=random.Random(1), nursery=nursery)


@attrs.define(eq=False)
class SlowKazoo:
    """As much of a client of kazoo as a look at a znode needs: it connects when the test says so, and finds nothing."""

    connected: bool = False
    sent: int = 0
    listeners: list[Callable[[str], None]] = attrs.field(factory=list)

    def add_listener(self, listener: Callable[[str], None]) -> None:
        self.listeners.append(listener)

    def start_async(self) -> None:
        pass

    def connect(self) -> None:
        self.connected = True
        for listener in self.listeners:
            listener("CONNECTED")

    def exists_async(self, path: str) -> SlowKazoo:
        self.sent += 1
        return self

    def rawlink(self, answered: Callable[[object], None]) -> None:
        answered(self)

    def get_nowait(self) -> None:
        return None

    def stop(self) -> None:
        pass

    def close(self) -> None:
        pass


async def test_all_who_wait_for_a_connection_go_on_with_it(
    nursery: trio.Nursery, autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four calls over a new connection: each has its answer as soon as there is one, not the one that came last alone."""
    kazoo, answered, clock = SlowKazoo(), list[float](), SimulatedClock(Process(NodeId(1)))
    monkeypatch.setattr(zookeeper_client, "open_client", lambda hosts, seconds: kazoo)
    znodes = KazooConnections()(ZooKeeperConfig(hosts="a:2181"), _environment(nursery, clock))

    async def look() -> None:
        assert await znodes.stats(["/"]) == [None]
        answered.append(clock.monotonic())

    began = clock.monotonic()
    async with trio.open_nursery() as calls:
        for _ in range(4):
            calls.start_soon(look)
        await clock.sleep(1)
        kazoo.connect()
    assert [moment - began for moment in answered] == pytest.approx([1.0] * 4)
    nursery.cancel_scope.cancel()


async def test_nothing_is_sent_without_time_for_an_answer(
    nursery: trio.Nursery, autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A connection that is noticed when the time of a call is over: nothing is sent, so nothing is unknown."""
    kazoo = SlowKazoo()
    monkeypatch.setattr(zookeeper_client, "open_client", lambda hosts, seconds: kazoo)
    znodes = KazooConnections()(
        ZooKeeperConfig(hosts="a:2181"), _environment(nursery, SimulatedClock(Process(NodeId(1))))
    )
    async with trio.open_nursery() as calls:
        calls.start_soon(_connect_untold, kazoo, ANSWER_SECONDS - 0.1)
        with pytest.raises(UnavailableError, match="nothing was done"):
            await znodes.stats(["/"])
    assert kazoo.sent == 0
    nursery.cancel_scope.cancel()


async def _connect_untold(kazoo: SlowKazoo, seconds: float) -> None:
    await trio.sleep(seconds)  # noqa: TID251 -- on a mock clock
    kazoo.connected = True
