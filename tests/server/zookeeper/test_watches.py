"""Watches on the wire: what fires, what it says, and before what: specs of ZooKeeper's protocol, section 3.4."""

from __future__ import annotations

import pytest

from tests.server.zookeeper.world import created, served, setting, watched
from virtuallog_database.tree.commands import Acl
from virtuallog_simulation.workload.database.jute import Writer

CREATED, DELETED, DATA, CHILDREN = 1, 2, 3, 4


async def test_a_watch_fires_once_and_before_the_reply_to_the_write_itself() -> None:
    """On the connection that changes the znode as on any other; set twice, it is still one."""
    async with served() as world:
        client, other = await world.client(), await world.client()
        await client.create("/a")
        for each in (client, client, other):
            await each.get("/a", watch=True)
        xid = await client.send(5, setting("/a", b"1"))
        assert await client.event() == (DATA, "/a")
        assert (await client.reply()).xid == xid
        assert await other.event() == (DATA, "/a")
        await client.set("/a", b"2")
        assert (await other.get("/a")).body.buffer() == b"2"


async def test_exists_waits_for_a_znode_that_is_not_there() -> None:
    """Other reads of what is not there set nothing."""
    async with served() as world:
        client, other = await world.client(), await world.client()
        assert (await client.call(3, watched("/new"))).error == -101
        assert (await client.call(4, watched("/none"))).error == -101
        assert (await client.call(8, watched("/none"))).error == -101
        await other.create("/new")
        await other.create("/none")
        assert await client.event() == (CREATED, "/new")
        assert (await client.call(11, xid=-2)).error == 0


async def test_children_are_watched_apart_from_data() -> None:
    """A deletion of the znode itself tells both, once."""
    async with served() as world:
        client, other = await world.client(), await world.client()
        await other.create("/p")
        await client.call(8, watched("/p"))
        await other.set("/p", b"x")
        await other.create("/p/c")
        assert await client.event() == (CHILDREN, "/p")
        await client.call(12, watched("/p/c"))
        await client.get("/p/c", watch=True)
        await other.call(2, Writer().string("/p/c").int32(-1))
        assert await client.event() == (DELETED, "/p/c")
        assert (await client.call(11, xid=-2)).error == 0


async def test_no_read_shows_a_change_before_its_event() -> None:
    """Writes of others that are applied in one transaction with ours: all events come before the reads behind our write."""
    async with served() as world:
        client, other = await world.client(), await world.client()
        for path in ("/a", "/b", "/mine"):
            await other.create(path)
        await client.get("/b", watch=True)
        world.log.held = True
        write = await client.send(5, setting("/mine", b"1"))
        read = await client.send(4, watched("/b", False))
        await other.send(5, setting("/b", b"changed"))
        await world.settled()
        assert len(world.log.waiting) == 2
        world.log.apply()
        assert await client.event() == (DATA, "/b")
        assert (await client.reply()).xid == write
        shown = await client.reply()
        assert (shown.xid, shown.body.buffer()) == (read, b"changed")


async def test_a_watch_of_a_read_that_waits_is_set_when_it_is_answered() -> None:
    """Set before, it would fire for what the reply shows already; the client would learn of it before it knows of its watch."""
    async with served() as world:
        client, other = await world.client(), await world.client()
        await other.create("/a")
        world.log.held = True
        write = await client.send(5, setting("/a", b"1"))
        read = await client.send(4, watched("/a"))
        await world.settled()
        world.log.apply()
        assert (await client.reply()).xid == write
        shown = await client.reply()
        assert (shown.xid, shown.body.buffer()) == (read, b"1")
        await other.send(5, setting("/a", b"2"))
        await world.settled()
        world.log.apply()
        assert await client.event() == (DATA, "/a")


async def test_persistent_watches_stay() -> None:
    """One tells of a znode and of its children, the recursive one of everything below, but of no list of children."""
    async with served() as world:
        client, other = await world.client(), await world.client()
        assert (await client.call(106, Writer().string("/p").int32(0))).body.int32() == 0
        await client.call(106, Writer().string("/r").int32(1))
        for path in ("/p", "/p/c", "/r", "/r/c"):
            await other.create(path)
        await other.set("/p", b"1")
        await other.set("/r/c", b"1")
        expected = [
            (CREATED, "/p"), (CHILDREN, "/p"), (CREATED, "/r"), (CREATED, "/r/c"), (DATA, "/p"), (DATA, "/r/c"),
        ]  # fmt: skip
        assert [await client.event() for _ in expected] == expected


@pytest.mark.parametrize(("kind", "type_", "left"), [(1, CHILDREN, 3), (2, DATA, 4), (3, None, None)])
async def test_watches_can_be_looked_for_and_removed(kind: int, type_: int | None, left: int | None) -> None:
    """By kind, or all of a path; -121 without such a watch, -5 for a kind that does not exist."""
    async with served() as world:
        client = await world.client()
        await client.create("/a")
        await client.get("/a", watch=True)
        await client.call(8, watched("/a"))
        named = Writer().string("/a").int32(kind)
        assert (await client.call(17, named)).error == 0
        assert (await client.call(18, named)).error == 0
        assert (await client.call(18, named)).error == -121
        assert (await client.call(17, Writer().string("/a").int32(9))).error == -5
        await client.send(5, setting("/a", b"1"))
        await client.send(1, created("/a/c"))
        events = {None: [], 3: [DATA], 4: [CHILDREN]}[left]
        frames = [await client.reply() for _ in range(2 + len(events))]
        assert [each.body.int32() for each in frames if each.xid == -1] == events


async def test_a_client_that_comes_back_hears_what_it_has_missed() -> None:
    """Before the reply, and it is set to hear of the rest."""
    async with served() as world:
        client = await world.client()
        for path in ("/changed", "/gone", "/parent", "/same"):
            await client.create(path)
        seen = (await client.call(11, xid=-2)).zxid
        await client.set("/changed", b"1")
        await client.call(2, Writer().string("/gone").int32(-1))
        await client.create("/parent/c")
        await client.create("/appeared")
        back = await world.client()
        body = (
            Writer()
            .int64(seen)
            .strings(["/changed", "/gone", "/same"])
            .strings(["/appeared", "/not/yet"])
            .strings(["/parent"])
            .strings(["/same"])
            .strings([])
        )
        await back.send(105, body, xid=-8)
        events = [await back.event() for _ in range(4)]
        assert events == [(DATA, "/changed"), (DELETED, "/gone"), (CREATED, "/appeared"), (CHILDREN, "/parent")]
        assert ((reply := await back.reply()).xid, reply.error) == (-8, 0)
        await client.set("/same", b"1")
        assert await back.event() == (DATA, "/same")


async def test_watches_die_with_their_connection() -> None:
    """Also when the client just vanishes."""
    async with served() as world:
        client = await world.client()
        await client.create("/a")
        await client.get("/a", watch=True)
        assert world.server.database.watches.count == 1
        await client.stream.aclose()
        await world.settled()
        assert world.server.database.watches.count == 0


async def test_watches_to_restore_that_read_too_many_long_acls_close() -> None:
    """Closed rather than answered with an error: clients take no note of one, and would wait for events that never come."""
    acl = (*(Acl(31, "digest", f"{number:050}:x") for number in range(255)), Acl(31, "world", "anyone"))
    async with served() as world:
        client = await world.client()
        for number in range(50):
            assert (await client.create(f"/{number}", acl=acl)).error == 0
        await client.send(
            101, Writer().int64(0).strings([f"/{number}" for number in range(50)]).int32(0).int32(0), xid=-8
        )
        assert len(await client.closed()) < 50 * 30, "events of some, and no answer for the others"
        assert (await (await world.client()).get("/1")).error == 0
