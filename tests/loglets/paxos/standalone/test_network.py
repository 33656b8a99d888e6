"""Members of a log used by itself: a list, or the registrations in a real ZooKeeper."""

from __future__ import annotations

import itertools
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
import trio
import trio.testing
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError

from tests.zookeeper_server import Server, open_zookeeper
from virtuallog.contract.errors import InvalidSettingError, UnavailableError
from virtuallog.contract.types import NodeId
from virtuallog.runtime.clock import SystemClock
from virtuallog_loglets.paxos.config import Ensemble
from virtuallog_loglets.paxos.standalone.network import LogMember, LogNetwork, WatchMode
from virtuallog_loglets.paxos.standalone.zookeeper_network import ZooKeeperMembership, join_network

CLUSTER = b"a log.          "
WAIT_SECONDS = 20.0
"""For real processes; what takes longer has failed."""


def member(number: int, boot: int = 0) -> LogMember:
    return LogMember(node=NodeId(number), address=f"127.0.0.1:{7000 + number}", boot=boot)


def network(*numbers: int, quorum: int = 2) -> LogNetwork:
    return LogNetwork(CLUSTER, quorum, tuple(member(number) for number in numbers))


def numbers(found: LogNetwork) -> list[int]:
    return [each.node for each in found.members]


# -- a list -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mode", "wanted", "first", "second"),
    [
        (WatchMode.EQUAL, 2, 1, 2),
        (WatchMode.NOT_EQUAL, 1, 1, 2),
        (WatchMode.LESS, 2, 2, 1),
        (WatchMode.LESS_OR_EQUAL, 1, 2, 1),
        (WatchMode.GREATER, 1, 1, 2),
        (WatchMode.GREATER_OR_EQUAL, 2, 1, 2),
    ],
)
async def test_a_watch_fires_once_the_size_compares_so(mode: WatchMode, wanted: int, first: int, second: int) -> None:
    """Mesos, NetworkTest.Watch: when a member comes or goes, or at once if it is so already."""
    found, sizes = network(1), list[int]()
    found.set([member(number + 1) for number in range(first)])

    async def watch() -> None:
        sizes.append(await found.watch(wanted, mode))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(watch)
        await trio.testing.wait_all_tasks_blocked()
        assert sizes == []
        if second > first:
            found.add(member(2))
        else:
            found.remove(NodeId(2))

    assert sizes == [second]
    assert await found.watch(wanted, mode) == second


def test_the_base_stays_whatever_is_said() -> None:
    """The own replica always takes part: with a quorum of one, that is enough."""
    found = network(1)
    found.set([member(2), LogMember(node=NodeId(1), address="10.0.0.9:1")])
    found.remove(NodeId(1))

    assert found.members == (member(1), member(2))


def test_no_quorum_is_had_of_too_many_members() -> None:
    """Four members with a quorum of two could form two logs. No replica is asked until one is gone."""
    found = network(1)
    found.set([member(2), member(3), member(4)])

    assert found.ensemble() == Ensemble(members=(), quorum=2)

    found.remove(NodeId(3))

    assert found.ensemble() == Ensemble(members=(NodeId(1), NodeId(2), NodeId(4)), quorum=2)


@pytest.mark.parametrize(("listed", "quorum"), [((1, 2, 3, 4), 2), ((1, 1, 2), 2), ((1,), 0)])
def test_a_list_that_cannot_be_right_is_refused(listed: tuple[int, ...], quorum: int) -> None:
    """Refused are too many members for the quorum, a repeated number, and a quorum of 0."""
    with pytest.raises(InvalidSettingError):
        network(*listed, quorum=quorum)


def test_who_is_called_must_be_who_is_meant() -> None:
    """A connection names the log, the replica and the start of its process; any other combination is refused."""
    found = network(1)
    found.add(member(2, boot=7))
    first = found.find(NodeId(2))

    assert (first.expected.cluster, first.expected.node, first.expected.boot) == (CLUSTER, 2, 7)
    assert found.find(NodeId(2)) is first

    found.add(member(2, boot=8))

    assert found.find(NodeId(2)) != first
    with pytest.raises(UnavailableError):
        found.find(NodeId(3))


# -- ZooKeeper --------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def joined(server: Server, number: int, boot: int, **more: object) -> AsyncIterator[LogNetwork]:
    """A registered member, as a process would be."""
    settings = ZooKeeperMembership(servers=server.address, znode="/logs/one", timeout_seconds=1.0, **more)  # type: ignore[arg-type]
    own = member(number, boot)
    found = LogNetwork(CLUSTER, 3, (own,))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(join_network, settings, own, found, SystemClock())
        yield found
        nursery.cancel_scope.cancel()


async def until(true: Callable[[], bool]) -> None:
    with trio.fail_after(WAIT_SECONDS):  # noqa: TID251 -- a real process
        while not true():
            await trio.sleep(0.02)  # noqa: TID251 -- a real process


@pytest.mark.processes
async def test_members_find_each_other_through_zookeeper(tmp_path: Path) -> None:
    """All members see one that joins. One that leaves in order is gone at once. One that is there
    when ZooKeeper fails stays. After its return all are there, with newcomers and processes that
    restarted meanwhile."""
    async with open_zookeeper(tmp_path) as server, joined(server, 1, boot=11) as one, joined(server, 2, boot=22) as two:
        async with joined(server, 3, boot=33) as three:
            for found in (one, two, three):
                await until(partial(is_complete, found))
            assert one.members[2] == member(3, boot=33)
        await until(lambda: numbers(one) == [1, 2])
        await server.stop()
        async with joined(server, 3, boot=34) as three:
            assert numbers(one) == [1, 2]
            assert numbers(three) == [3]
            await server.start()
            for found in (one, two, three):
                await until(partial(is_complete, found))
            assert one.members[2] == member(3, boot=34)


def is_complete(found: LogNetwork) -> bool:
    return numbers(found) == [1, 2, 3]


@asynccontextmanager
async def stranger(server: Server, *credentials: tuple[str, str]) -> AsyncIterator[KazooClient]:
    """Another user of the same ZooKeeper."""
    client = KazooClient(hosts=server.address, auth_data=credentials)
    await trio.to_thread.run_sync(client.start)
    try:
        yield client
    finally:
        await trio.to_thread.run_sync(client.stop)
        client.close()


def children(client: KazooClient) -> list[str]:
    return list(client.get_children("/logs/one")) if client.exists("/logs/one") else []


@pytest.mark.processes
async def test_strange_znodes_do_no_harm(tmp_path: Path) -> None:
    """Znodes that are no members are ignored, and of two with one number the newer counts. A znode
    of ours that goes is made anew (Mesos: a membership that expires). Data protected by a
    credential is refused to others."""
    us = ("digest", "us:secret")
    async with open_zookeeper(tmp_path) as server, joined(server, 1, boot=11, auth=us) as one:
        async with stranger(server) as thief:
            await until(lambda: len(children(thief)) == 1)
            with pytest.raises(NoAuthError):
                thief.create("/logs/one/member-5-", b"x", sequence=True)
        async with stranger(server, us) as admin:
            (name,) = children(admin)
            for data in (b"\xff", b'{"id": 0}', *(_data(address) for address in ("old:1", "new:1"))):
                admin.create("/logs/one/member-9-", data, sequence=True)
            await until(lambda: one.size == 2 and one.members[1].address == "new:1")
            admin.delete(f"/logs/one/{name}")
            await until(lambda: any(child.startswith("member-b-") and child != name for child in children(admin)))
    assert numbers(one) == [1, 2]


@pytest.mark.processes
async def test_a_wrong_credential_ends_the_log(tmp_path: Path) -> None:
    """All waiting calls end with the error."""
    async with open_zookeeper(tmp_path) as server, joined(server, 1, boot=11, auth=("digest", "us:secret")) as one:
        async with stranger(server) as anybody:
            await until(lambda: len(children(anybody)) == 1)
        with pytest.raises(BaseExceptionGroup) as failed:
            async with joined(server, 2, boot=22, auth=("digest", "us:wrong")):
                await trio.sleep_forever()
    assert isinstance(failed.value.exceptions[0], InvalidSettingError)
    assert one.size == 1


def _data(address: str) -> bytes:
    return json.dumps({"id": 2, "address": address, "boot": 1}).encode()


async def test_a_path_that_is_none_is_refused() -> None:
    """Before anything is started."""
    with pytest.raises(InvalidSettingError):
        ZooKeeperMembership(servers="127.0.0.1:2181", znode="logs")


def test_lists_that_differ_by_one_replica_have_quorums_without_a_common_one() -> None:
    """So a process that runs on with the former list can decide another value than the others do, and no replica can
    notice: each list is safe by itself. Hence the rule of docs/howto/paxos-log.md: stop all, change, start."""
    former, latter = _quorums((1, 2, 3)), _quorums((1, 2, 4))

    assert [(one, other) for one in former for other in latter if not one & other] == [
        ({1, 3}, {2, 4}),
        ({2, 3}, {1, 4}),
    ]


def test_an_empty_replica_under_a_known_number_keeps_all_quorums_in_touch() -> None:
    """An empty replica under its number replaces a lost one while the log is in use."""
    assert all(one & other for one in _quorums((1, 2, 3)) for other in _quorums((1, 2, 3)))


def _quorums(members: tuple[int, ...]) -> list[set[NodeId]]:
    """The least sets of replicas that decide, of a log of quorum 2."""
    ensemble = network(*members).ensemble()
    return [set(chosen) for chosen in itertools.combinations(ensemble.members, ensemble.quorum)]
