"""Requests of clients and their answers, byte by byte: specs of ZooKeeper's protocol, sections 3.1 to 3.7."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
import trio

from tests.server.zookeeper.world import RawClient, created, served, setting, watched
from tests.zookeeper_server import open_zookeeper
from virtuallog_database.tree.commands import Acl
from virtuallog_server.zookeeper.wire import requests
from virtuallog_simulation.workload.database.jute import Reader, Writer

DIGEST_ACL = (Acl(31, "digest", "user:tpUq/4Pn5A64fVZyQ0gOJ8ZWqkY="),)
OPEN = Acl(31, "world", "anyone")


async def test_what_is_created_can_be_read_changed_and_deleted() -> None:
    """Stats move as ZooKeeper's do; every write has a zxid of its own, every read shows the last one."""
    async with served() as world:
        client = await world.client()
        made = await client.create("/a", b"one")
        assert (made.error, made.body.string()) == (0, "/a")
        changed = await client.set("/a", b"two")
        stat = changed.body.stat()
        assert (changed.zxid, stat.version, stat.mzxid, stat.czxid) == (made.zxid + 1, 1, changed.zxid, made.zxid)
        found = await client.get("/a")
        assert (found.zxid, found.body.buffer(), found.body.stat()) == (changed.zxid, b"two", stat)
        assert (await client.call(2, Writer().string("/a").int32(7))).error == -103
        assert (await client.call(2, Writer().string("/a").int32(1))).error == 0
        assert (await client.get("/a")).error == -101


async def test_null_data_is_not_empty_data() -> None:
    """Null comes back as null, with a length of 0."""
    async with served() as world:
        client = await world.client()
        await client.create("/null", None)
        await client.create("/empty", b"")
        null, empty = (await client.get("/null")).body, (await client.get("/empty")).body
        assert (null.buffer(), null.stat().data_length) == (None, 0)
        assert (empty.buffer(), empty.stat().data_length) == (b"", 0)


async def test_replies_of_all_kinds_of_creates() -> None:
    """create tells the path, the others the path and a stat; a sequence number is part of the path."""
    async with served() as world:
        client = await world.client()
        plain = await client.create("/q", b"")
        assert plain.body.string() == "/q"
        second = await client.call(15, created("/q/n-", b"x", 2))
        assert second.body.string() == "/q/n-0000000000"
        assert second.body.stat().data_length == 1
        container = await client.call(19, created("/c", b"", 4))
        assert (container.body.string(), container.body.stat().ephemeral_owner) == ("/c", 0)
        timed = await client.call(21, created("/t", b"", 5).int64(60_000))
        assert (timed.error, timed.body.string()) == (0, "/t")


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        (1, created("/x", flags=9)),
        (1, created("/x", flags=5)),
        (19, created("/x", flags=0)),
        (21, created("/x", flags=0).int64(1000)),
    ],
    ids=["no such flags", "a TTL without a time", "no container", "no TTL"],
)
async def test_flags_that_do_not_exist_are_bad_arguments(kind: int, body: Writer) -> None:
    """-8, and the connection goes on."""
    async with served() as world:
        client = await world.client()
        assert (await client.call(kind, body)).error == -8
        assert (await client.create("/next")).error == 0


@pytest.mark.parametrize("part", [(1, created("/x", flags=9)), (19, created("/x")), (21, created("/x").int64(0))])
async def test_flags_that_do_not_exist_fail_a_multi_at_their_part(part: tuple[int, Writer]) -> None:
    """Like any other refused part: its caller learns which one it was. Nothing else was done either."""
    async with served() as world:
        client = await world.client()
        reply = await client.call(14, multi((1, created("/before")), part, (1, created("/behind"))))
        assert reply.error == 0
        parts = [(reply.body.int32(), reply.body.flag(), reply.body.int32(), reply.body.int32()) for _ in range(3)]
        assert parts == [(-1, False, 0, 0), (-1, False, -8, -8), (-1, False, -2, -2)]
        assert (await client.get("/before")).error == -101


@pytest.mark.parametrize("mode", [7, -1])
async def test_a_mode_of_watches_that_cannot_be_added_is_malformed(mode: int) -> None:
    """-5, as in ZooKeeper; and the connection goes on."""
    async with served() as world:
        client = await world.client()
        assert (await client.call(106, Writer().string("/x").int32(mode))).error == -5
        assert (await client.create("/next")).error == 0


@pytest.mark.parametrize("cut", [0, 3, 7, 11])
async def test_a_malformed_body_is_refused_and_the_connection_stays(cut: int) -> None:
    """-5, in its turn."""
    async with served() as world:
        client = await world.client()
        whole = created("/x")
        del whole.content[cut:]
        assert (await client.call(1, whole)).error == -5
        assert (await client.create("/x")).error == 0


async def test_an_unknown_request_is_refused_and_the_connection_closed() -> None:
    """-6 with zxid -1, after what was asked before it."""
    async with served() as world:
        client = await world.client()
        first = await client.send(1, created("/x"))
        unknown = await client.send(99)
        await client.send(1, created("/never"))
        assert (await client.reply()).xid == first
        reply = await client.reply()
        assert (reply.xid, reply.zxid, reply.error) == (unknown, -1, -6)
        assert await client.closed() == b""
        other = await world.client()
        assert (await other.get("/never")).error == -101


async def test_children_come_with_a_stat_or_without() -> None:
    """getChildren gives names alone, getChildren2 a stat as well."""
    async with served() as world:
        client = await world.client()
        for path in ("/p", "/p/b", "/p/a", "/p/a/deep"):
            await client.create(path)
        assert sorted((await client.call(8, watched("/p", False))).body.strings()) == ["a", "b"]
        both = (await client.call(12, watched("/p", False))).body
        assert (sorted(both.strings()), both.stat().children) == (["a", "b"], 2)
        assert (await client.call(104, Writer().string("/p"))).body.int32() == 3


async def test_own_ephemerals_can_be_listed() -> None:
    """getEphemerals: those of this session, below a prefix."""
    async with served() as world:
        client, other = await world.client(), await world.client()
        await client.create("/e", flags=1)
        await other.create("/mine-not", flags=1)
        assert (await client.call(103, Writer().string("/"))).body.strings() == ["/e"]


async def test_acls_are_kept_and_enforced_by_who_the_client_is() -> None:
    """Auth counts for what is behind it; a getACL tells what was set."""
    async with served() as world:
        client = await world.client()
        auth = Writer().int32(0).string("digest").buffer(b"user:secret")
        assert (await client.call(100, auth, xid=-4)).error == 0
        everybody = await client.call(107)
        assert everybody.body.int32() == 2
        schemes = [(everybody.body.string(), everybody.body.string())[0] for _ in range(2)]
        assert schemes == ["digest", "ip"]
        await client.create("/private", b"x", acl=(Acl(31, "auth", ""),))
        assert (await (await world.client()).get("/private")).error == -102
        body = (await client.call(6, Writer().string("/private"))).body
        assert body.int32() == 1
        assert (body.int32(), body.string()) == (31, "digest")
        assert (await client.call(7, Writer().string("/private").acl((OPEN,)).int32(0))).body.stat().aversion == 1
        assert (await (await world.client()).get("/private")).error == 0


async def test_who_fails_to_prove_himself_is_closed() -> None:
    """-115, in its turn, then the connection is closed."""
    async with served() as world:
        client = await world.client()
        reply = await client.call(100, Writer().int32(0).string("kerberos").buffer(b"x"), xid=-4)
        assert (reply.error, reply.zxid) == (-115, 0)
        assert await client.closed() == b""


async def test_nobody_can_log_in_where_there_are_no_users() -> None:
    """SASL without users is refused like a wrong password."""
    async with served() as world:
        client = await world.client()
        assert (await client.call(102, Writer().buffer(b""))).error == -115
        assert await client.closed() == b""


def multi(*parts: tuple[int, Writer]) -> Writer:
    """The body of a multi."""
    writer = Writer()
    for kind, body in parts:
        writer.int32(kind).flag(False).int32(-1).content += body.content
    return writer.int32(-1).flag(True).int32(-1)


def parts_of(body: Reader, *readers: object) -> list[tuple[int, int]]:
    """Type and error of each part; what it carries is read by `readers`."""
    found = []
    for reader in (*readers, None):
        kind, done, error = body.int32(), body.flag(), body.int32()
        if done:
            assert (kind, error, reader) == (-1, -1, None)
            break
        found.append((kind, error))
        assert callable(reader)
        reader(body)
    return found


async def test_a_multi_is_all_or_nothing() -> None:
    """Under one zxid; each part is answered in its own way. A failed one says which part it was, in a reply without error."""
    async with served() as world:
        client = await world.client()
        check = Writer().string("/m").int32(0)
        done = await client.call(
            14, multi((1, created("/m")), (13, check), (15, created("/m/c")), (5, setting("/m", b"v")))
        )
        assert done.error == 0
        assert parts_of(done.body, Reader.string, lambda _: None, Reader.string, Reader.stat) == [
            (1, 0), (13, 0), (1, 0), (5, 0),
        ]  # fmt: skip
        failed = await client.call(14, multi((1, created("/n")), (1, created("/m")), (2, check)))
        assert (failed.error, failed.zxid) == (0, done.zxid + 1)
        assert parts_of(failed.body, Reader.int32, Reader.int32, Reader.int32) == [(-1, 0), (-1, -110), (-1, -2)]
        assert (await client.get("/n")).error == -101
        empty = await client.call(14, multi())
        assert (empty.error, parts_of(empty.body)) == (0, [])


def every_kind_of_create() -> Writer:
    """create, create2, createContainer, createTTL."""
    with_ttl = created("/ttl", flags=5).int64(1000)
    return multi((1, created("/c")), (15, created("/c2")), (19, created("/container", flags=4)), (21, with_ttl))


async def types_of_created(client: RawClient) -> list[tuple[int, int]]:
    """As the server calls the parts of its answer, and their errors."""
    path_and_stat = lambda body: (body.string(), body.stat())  # noqa: E731
    done = await client.call(14, every_kind_of_create())
    return parts_of(done.body, Reader.string, Reader.string, path_and_stat, path_and_stat)


async def test_parts_that_create_are_called_what_clients_know() -> None:
    """Java's client knows two answers, with a stat and without one, and drops the connection at any other type: then the multi
    is done, and its caller does not learn so. ZooKeeper 3.8 uses types 15 and 1, and gives no stat for create2.
    """
    async with served() as world:
        assert await types_of_created(await world.client()) == [(1, 0), (1, 0), (15, 0), (15, 0)]


@pytest.mark.processes
@pytest.mark.slow
async def test_zookeeper_calls_parts_that_create_the_same(tmp_path: Path) -> None:
    """A real one, asked with the same bytes: no client at hand but Java's own makes such a multi."""
    async with (
        open_zookeeper(tmp_path, "extendedTypesEnabled=true") as server,
        await trio.open_tcp_stream("127.0.0.1", server.port) as stream,
    ):
        client = RawClient(stream)
        await client.connect()
        assert await types_of_created(client) == [(1, 0), (1, 0), (15, 0), (15, 0)]


async def test_reads_and_writes_do_not_mix_in_a_multi() -> None:
    """-5, as in ZooKeeper; nothing is done."""
    async with served() as world:
        client = await world.client()
        reply = await client.call(14, multi((1, created("/m")), (4, watched("/m", False))))
        assert reply.error == -5
        assert (await client.get("/m")).error == -101


async def test_operations_in_a_multi_are_bounded() -> None:
    """So that one request does not delay all others: -5, and nothing is done."""
    async with served() as world:
        client = await world.client()
        check = Writer().string("/").int32(-1)
        most = await client.call(14, multi(*[(13, check)] * requests.MULTI_OPERATIONS_MAX))
        assert most.error == 0
        more = [(13, check)] * (requests.MULTI_OPERATIONS_MAX + 1)
        assert (await client.call(14, multi(*more))).error == -5
        assert requests.MULTI_OPERATIONS_MAX <= 1000
        reads = [(4, watched("/", False))] * (requests.MULTI_OPERATIONS_MAX + 1)
        assert (await client.call(22, multi(*reads))).error == -5


async def test_each_read_of_a_multi_read_stands_alone() -> None:
    """One that fails is an entry with its error."""
    async with served() as world:
        client = await world.client()
        await client.create("/r", b"data")
        await client.create("/r/child")
        reply = await client.call(
            22, multi((4, watched("/r", False)), (4, watched("/none", False)), (8, watched("/r", False)))
        )
        found: list[object] = []
        kinds = parts_of(
            reply.body,
            lambda body: found.append((body.buffer(), body.stat().children)),
            lambda body: found.append(body.int32()),
            lambda body: found.append(body.strings()),
        )
        assert kinds == [(4, 0), (-1, -101), (8, 0)]
        assert found == [(b"data", 1), -101, ["child"]]


async def test_sync_and_ping_show_the_last_zxid() -> None:
    """A sync is answered with its path, after the log was asked; a ping has its own xid."""
    async with served() as world:
        client = await world.client()
        made = await client.create("/a")
        reply = await client.call(9, Writer().string("/not/there"))
        assert (reply.zxid, reply.body.string(), world.log.syncs) == (made.zxid, "/not/there", 1)
        assert (await client.call(11, xid=-2)).zxid == made.zxid


async def test_replies_have_the_bytes_of_zookeeper_3_8() -> None:
    """A setData, written out: length, xid, zxid, error, and 68 bytes of stat."""
    async with served() as world:
        client = await world.client()
        await client.create("/a", b"")
        await client.send(5, setting("/a", b"12345"), xid=77)
        content = await client.frame()
        assert len(content) == 16 + 68
        assert struct.unpack_from(">iqi", content) == (77, 3, 0)
        assert struct.unpack_from(">iiiq", content, 16 + 32) == (1, 0, 0, 0)
        assert struct.unpack_from(">iiq", content, 16 + 52) == (5, 0, 2)


async def test_requests_of_any_size_in_pieces_of_any_size() -> None:
    """Bytes may come one at a time, and several requests in one piece."""
    async with served() as world:
        client = await world.client()
        frames = bytearray()
        for number in range(3):
            writer = Writer().int32(number).int32(1)
            writer.content += created(f"/n{number}", bytes(number * 40_000)).content
            frames += writer.frame()
        for byte in frames[:60]:
            await client.send_bytes(bytes((byte,)))
        await client.send_bytes(bytes(frames[60:]))
        assert [(await client.reply()).error for _ in range(3)] == [0, 0, 0]
        assert await _length_of(client, "/n2") == 80_000


async def _length_of(client: RawClient, path: str) -> int:
    return len((await client.get(path)).body.buffer() or b"")
