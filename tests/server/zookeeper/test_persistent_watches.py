"""Persistent and recursive watches on the wire: what they tell, beside other watches of the same path, and before which answers.

Curator's `CuratorCache` keeps a copy of a tree by one recursive watch and by reads: it relies on each of these.
"""

from __future__ import annotations

import pytest

from tests.server.zookeeper.watch_requests import (
    ADD_WATCH,
    CHECK_WATCHES,
    CHILDREN,
    CREATED,
    DATA,
    DELETED,
    MULTI,
    PERSISTENT,
    RECURSIVE,
    REMOVE_WATCHES,
    SET_WATCHES2,
    add_watch,
    events_before_ping,
    multi,
    restored,
)
from tests.server.zookeeper.world import RawClient, World, created, served, setting, watched
from virtuallog_database.replica.command_proposals import SERVER
from virtuallog_database.tree.commands import ExpireSessions
from virtuallog_simulation.workload.database.jute import Writer

STANDARD_READS = {"getData": 4, "exists": 3, "getChildren": 8}


@pytest.mark.parametrize("mode", [PERSISTENT, RECURSIVE])
@pytest.mark.parametrize("read", STANDARD_READS)
@pytest.mark.parametrize("is_first", [True, False])
async def test_a_read_with_a_watch_leaves_a_watch_that_stays(mode: int, read: str, is_first: bool) -> None:
    """In either order. Curator's CuratorCache and TreeCache of one client do this: the read took the place of the recursive watch,
    and the CuratorCache heard of nothing below its root any more. ZooKeeper 3.8 has that fault as well (ZOOKEEPER-4466)."""
    async with served() as world:
        client, other = await world.client(), await world.client()
        await other.create("/p")
        if is_first:
            await add_watch(client, "/p", mode)
        await client.call(STANDARD_READS[read], watched("/p"))
        if not is_first:
            await add_watch(client, "/p", mode)
        for number in (1, 2):
            await other.create(f"/p/{number}")
            await other.set("/p", b"")
        below = [(CREATED, "/p/1"), (DATA, "/p"), (CREATED, "/p/2"), (DATA, "/p")]
        if mode == PERSISTENT:
            below = [(CHILDREN, "/p"), (DATA, "/p")] * 2
        elif read == "getChildren":
            below.insert(1, (CHILDREN, "/p"))
        assert await events_before_ping(client) == below


async def test_both_kinds_of_watches_that_stay_are_kept_for_one_path() -> None:
    """One tells of the list of children, the other one of what is below; both tell of the znode, once."""
    async with served() as world:
        client, other = await world.client(), await world.client()
        await other.create("/p")
        for mode in (RECURSIVE, PERSISTENT):
            await add_watch(client, "/p", mode)
        await other.create("/p/c")
        await other.set("/p", b"")
        assert await events_before_ping(client) == [(CREATED, "/p/c"), (CHILDREN, "/p"), (DATA, "/p")]


@pytest.mark.parametrize(
    ("kind", "left"),
    [
        (1, [(CREATED, "/p/c"), (CHILDREN, "/p"), (DATA, "/p"), (DATA, "/p")]),
        (2, [(CREATED, "/p/c"), (CHILDREN, "/p"), (DATA, "/p"), (DATA, "/p")]),
        (3, []),
        (4, [(CREATED, "/p/c"), (CHILDREN, "/p"), (DATA, "/p"), (DATA, "/p")]),
        (5, [(CHILDREN, "/p"), (DATA, "/p"), (DATA, "/p")]),
    ],
)
async def test_watches_of_one_kind_are_removed_and_others_stay(kind: int, left: list[tuple[int, str]]) -> None:
    """1 and 2 are watches of reads, as in ZooKeeper 3.9 (ZOOKEEPER-4471); 4 and 5 those that stay (ZOOKEEPER-4472); 3 is any."""
    async with served() as world:
        client, other = await world.client(), await world.client()
        await other.create("/p")
        for mode in (RECURSIVE, PERSISTENT):
            await add_watch(client, "/p", mode)
        await client.call(4, watched("/p"))
        await client.call(8, watched("/p"))
        named = Writer().string("/p").int32(kind)
        assert (await client.call(CHECK_WATCHES, named)).error == 0
        assert (await client.call(REMOVE_WATCHES, named)).error == 0
        assert (await client.call(CHECK_WATCHES, named)).error == -121
        await other.create("/p/c")
        await other.set("/p", b"1")
        await other.set("/p", b"2")
        assert await events_before_ping(client) == left


@pytest.mark.parametrize("before", [0, 1, 2, 3])
async def test_a_child_is_seen_in_the_list_or_told_of(before: int) -> None:
    """A recursive watch and a list of children behind it, in one packet: wherever a creation falls, it is in the list, or an event comes
    behind the answer to the watch. `before` counts the creations that are applied before these requests."""
    async with served() as world:
        client, other = await world.client(), await world.client()
        await other.create("/p")
        world.log.held = True
        for number in range(3):
            await other.send(1, created(f"/p/{number}"))
            if number + 1 == before:
                await world.settled()
                world.log.apply()
        await world.settled()
        await client.send(ADD_WATCH, Writer().string("/p").int32(RECURSIVE))
        await client.send(8, watched("/p", False))
        await world.settled()
        world.log.apply()
        added, listed = await client.reply(), await client.reply()
        assert (added.error, listed.error) == (0, 0)
        names = set(listed.body.strings())
        told = await events_before_ping(client)
        assert told == [(CREATED, f"/p/{number}") for number in range(3) if str(number) not in names]
        assert names == {str(number) for number in range(before)}


async def test_events_of_a_multi_come_in_its_order_and_before_its_answer() -> None:
    """Also to the client that has sent it; a read behind it in the same packet shows what they tell."""
    async with served() as world:
        client = await world.client()
        await client.create("/p")
        await add_watch(client, "/p", RECURSIVE)
        delete = Writer().string("/p/a").int32(-1)
        operations = (1, created("/p/a")), (1, created("/p/b")), (5, setting("/p/b", b"1")), (2, delete)
        xid = await client.send(MULTI, multi(*operations))
        read = await client.send(8, watched("/p", False))
        events = [await client.event() for _ in operations]
        assert events == [(CREATED, "/p/a"), (CREATED, "/p/b"), (DATA, "/p/b"), (DELETED, "/p/a")]
        assert (await client.reply()).xid == xid
        listed = await client.reply()
        assert (listed.xid, list(listed.body.strings())) == (read, ["b"])


async def _expire(world: World, owner: RawClient) -> None:
    record = world.server.database.tree.session(owner.session)
    assert record is not None
    await world.server.database.proposals.execute(ExpireSessions(((owner.session, record.touches),)), SERVER)


@pytest.mark.parametrize("is_expired", [True, False])
async def test_the_end_of_a_session_tells_of_each_of_its_ephemerals(is_expired: bool) -> None:
    """The session was closed, or has expired. The client hears of each ephemeral once, and a later read finds none."""
    async with served() as world:
        client, owner = await world.client(), await world.client()
        await client.create("/p")
        for name in "ab":
            await owner.create(f"/p/{name}", flags=1)
        await add_watch(client, "/p", RECURSIVE)
        if is_expired:
            await _expire(world, owner)
        else:
            await owner.call(-11)
        assert {await client.event() for _ in "ab"} == {(DELETED, "/p/a"), (DELETED, "/p/b")}
        assert list((await client.call(8, watched("/p", False))).body.strings()) == []


async def test_a_watch_that_stays_is_not_told_what_was_missed() -> None:
    """As in ZooKeeper: setWatches2 sets it, and tells nothing of the time without a connection, which its owner reads anew. Watches of
    reads that name the same path are told what they have missed, and stay no longer; events of everything later are sent."""
    async with served() as world:
        client, other = await world.client(), await world.client()
        await other.create("/p")
        seen = (await client.call(11, xid=-2)).zxid
        await client.stream.aclose()
        await other.create("/p/missed")
        await other.set("/p", b"missed")
        back = world.dial()
        await back.connect(session=client.session, password=client.password, last_zxid=seen)
        body = restored(seen, data=["/p"], child=["/p"], recursive=["/p"])
        xid = await back.send(SET_WATCHES2, body, xid=-8)
        assert [await back.event(), await back.event()] == [(DATA, "/p"), (CHILDREN, "/p")]
        assert ((reply := await back.reply()).xid, reply.error) == (xid, 0)
        await other.create("/p/later")
        await other.set("/p", b"later")
        assert await events_before_ping(back) == [(CREATED, "/p/later"), (DATA, "/p")]


@pytest.mark.parametrize("mode", ["persistent", "recursive"])
async def test_watches_of_reads_and_those_that_stay_are_restored_beside_each_other(mode: str) -> None:
    """For one path, when nothing was missed: the first change tells both of them, once, and the second one that which stays."""
    async with served() as world:
        client, other = await world.client(), await world.client()
        seen = (await other.create("/p")).zxid
        body = restored(seen, data=["/p"], child=["/p"], **{mode: ["/p"]})
        assert (await client.call(SET_WATCHES2, body, xid=-8)).error == 0
        for number in (1, 2):
            await other.set("/p", b"")
            await other.create(f"/p/{number}")
        expected = [(DATA, "/p"), (CHILDREN, "/p")] * 2
        if mode == "recursive":
            expected = [(DATA, "/p"), (CREATED, "/p/1"), (CHILDREN, "/p"), (DATA, "/p"), (CREATED, "/p/2")]
        assert await events_before_ping(client) == expected
