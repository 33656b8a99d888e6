"""Bounds on the reads of a multiRead: on bytes looked at, and on bytes returned."""

from __future__ import annotations

from functools import partial

import pytest

from tests.database.tree.world import World
from tests.server.zookeeper.test_requests import multi
from tests.server.zookeeper.world import served, watched
from virtuallog_database.testing.metered_store import MeteredStore
from virtuallog_database.tree.commands import Acl, Create, Identity
from virtuallog_database.tree.results import RefusedError
from virtuallog_database.tree.tree import Tree
from virtuallog_server.zookeeper.wire import replies, requests
from virtuallog_server.zookeeper.wire.jute import INT, Reader, string
from virtuallog_server.zookeeper.wire.opcodes import ERROR_ENTRY, OpCode

MINE = (Acl(31, "digest", "me:x"),)
STRANGER = (Identity("ip", "127.0.0.1"),)


def request(path: str, opcode: OpCode, count: int) -> requests.MultiRead:
    part = INT.pack(opcode) + b"\0" + INT.pack(-1) + string(path) + b"\0"
    return requests.multi_read(Reader(part * count + INT.pack(ERROR_ENTRY) + b"\1" + INT.pack(-1)))


def found(world: World, asked: requests.MultiRead) -> tuple[bytes, int]:
    """The answer, and bytes that were read for it."""
    store = MeteredStore(world.disk, None, None)
    tree = Tree(store)
    find = {OpCode.GET_DATA: tree.get_data, OpCode.GET_CHILDREN: tree.get_children}
    each = ((opcode, partial(find[opcode], one.path, STRANGER)) for opcode, one in asked.reads)
    before = store.read
    try:
        answer = replies.multi_read(1, 1, each, lambda: tree.looked)
    except RefusedError as refused:
        answer = refused.error.name.encode()
    return answer, store.read - before


@pytest.mark.parametrize(("path", "opcode"), [("/big", OpCode.GET_CHILDREN), ("/mine", OpCode.GET_DATA)])
@pytest.mark.parametrize("is_former", [False, True])
def test_reads_that_tell_little_look_at_little(path: str, opcode: OpCode, is_former: bool) -> None:
    """A thousand reads of a znode with 1 MB took 0.12 s, ten thousand 1.2 s in one step of the event loop. Records of the former version
    are still read whole, so such an answer is refused."""
    world = World(is_former=is_former)
    for create in (Create("/big", b"x" * 1_000_000), Create("/mine", b"x" * 1_000_000, MINE)):
        world.do(create)
    answer, looked = found(world, request(path, opcode, 1000))
    assert looked <= replies.MULTI_READ_LOOKED_MAX + 1_000_100
    assert (answer == b"MARSHALLING") is is_former
    assert is_former or looked < 1000 * 300


@pytest.mark.parametrize("children", [10, 1000])
def test_names_of_children_are_work(children: int) -> None:
    """Ten thousand reads of some children each, in half a megabyte, took 0.2 to 0.8 s in one step of the event loop."""
    world = World()
    world.do(Create("/a", b""))
    for number in range(children):
        world.do(Create(f"/a/{number}", b""))
    store = MeteredStore(world.disk, None, None)
    tree = Tree(store)
    reads = ((OpCode.GET_CHILDREN, partial(tree.get_children, "/a", STRANGER)) for _ in range(10_000))
    with pytest.raises(RefusedError, match="MARSHALLING"):
        replies.multi_read(1, 1, reads, lambda: tree.looked)
    assert store.visited <= 16_384 + children
    assert store.looks <= 2000


async def test_a_read_that_is_asked_for_again_is_done_once() -> None:
    """Names that were deleted cost as those that are there, and are not counted: a thousand times the same children was a thousand scans."""
    async with served() as world:
        client = await world.client()
        for path in ("/a", "/a/b"):
            await client.create(path)
        tree, before = world.server.database.tree, world.server.database.tree.looked
        reply = await client.call(22, multi(*[(8, watched("/a", False))] * 100))
        assert reply.error == 0
        assert tree.looked - before < 2 * (256 * 5 + 1000)


def test_the_most_small_reads_are_answered() -> None:
    """As many as a request may have."""
    world = World()
    world.do(Create("/a", b"x" * 100))
    answer, _ = found(world, request("/a", OpCode.GET_DATA, requests.MULTI_OPERATIONS_MAX))
    assert len(answer) > 100 * requests.MULTI_OPERATIONS_MAX
