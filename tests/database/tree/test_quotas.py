"""Quotas as clients of ZooKeeper 3.8 keep them: two znodes below /zookeeper/quota."""

from __future__ import annotations

import attrs

from tests.database.tree.world import World
from virtuallog_database.testing.memory_store import MemoryStore
from virtuallog_database.tree.commands import Create, Delete, Multi, Operation, SetData
from virtuallog_database.tree.quotas import DEPTH_MAX, Text, parse
from virtuallog_database.tree.results import Error


@attrs.define(eq=False)
class CountingStore(MemoryStore):
    """Tells how often it was asked."""

    gets: int = 0

    def get(self, key: bytes) -> bytes | None:
        self.gets += 1
        return super().get(key)

    def gets_of(self, world: World, operation: Operation) -> int:
        """Work of this operation."""
        before = self.gets
        assert world.error(operation) is Error.OK
        return self.gets - before


def limit(world: World, path: str, text: bytes) -> None:
    """Commands of `setquota` of zkCli."""
    at = "/zookeeper/quota"
    for name in path.strip("/").split("/"):
        at += f"/{name}"
        world.do(Create(at, None))
    assert world.error(Create(f"{at}/zookeeper_limits", text)) is Error.OK
    assert world.error(Create(f"{at}/zookeeper_stats", b"count=-1,bytes=-1")) is Error.OK


def stats(world: World, path: str) -> bytes | None:
    return world.tree.get_data(f"/zookeeper/quota{path}/zookeeper_stats", ())[0]


def test_what_is_there_is_counted_and_then_kept_up_to_date() -> None:
    """The limited path counts itself. Its own version does not move."""
    world = World()
    world.do(Multi((Create("/a", b"123"), Create("/a/b", b"45"), Create("/ab", b"not below"))))
    limit(world, "/a", b"count=5,bytes=-1")
    assert stats(world, "/a") == b"count=2,bytes=5"
    world.do(Create("/a/c", b"6"))
    world.do(SetData("/a/b", None))
    assert stats(world, "/a") == b"count=3,bytes=4"
    world.do(Delete("/a/c"))
    assert stats(world, "/a") == b"count=2,bytes=3"
    assert world.tree.exists("/zookeeper/quota/a/zookeeper_stats").version == 0


def test_soft_limits_refuse_nothing_and_hard_ones_do() -> None:
    """Hard limits refuse, soft ones do not, also within a multi, which is taken back with its counts."""
    world = World()
    world.do(Create("/a", b""))
    limit(world, "/a", b"count=1,bytes=2=;byteHardLimit=10;countHardLimit=3")
    assert world.error(Create("/a/b", b"12345")) is Error.OK
    assert world.error(Create("/a/c", b"123456")) is Error.QUOTA_EXCEEDED
    assert world.error(SetData("/a/b", b"12345678901")) is Error.QUOTA_EXCEEDED
    assert world.error(SetData("/a/b", b"1234567890")) is Error.OK
    assert world.error(Multi((Delete("/a/b"), Create("/a/c", b""), Create("/a/d", b""), Create("/a/e", b"")))) is (
        Error.QUOTA_EXCEEDED
    )
    assert stats(world, "/a") == b"count=2,bytes=10"
    assert world.error(SetData("/a/b", b"", 9)) is Error.BAD_VERSION
    assert world.error(SetData("/a/b", b"x" * 99, 9)) is Error.QUOTA_EXCEEDED


def test_a_znode_counts_for_the_longest_limited_path() -> None:
    """Only that one is counted; without limits the count stops."""
    world = World()
    world.do(Multi((Create("/a", b""), Create("/a/b", b""))))
    limit(world, "/a", b"count=9,bytes=-1")
    limit(world, "/a/b", b"count=9,bytes=-1")
    world.do(Create("/a/b/c", b"x"))
    assert (stats(world, "/a"), stats(world, "/a/b")) == (b"count=2,bytes=0", b"count=2,bytes=1")
    world.do(Delete("/zookeeper/quota/a/b/zookeeper_limits"))
    world.do(Create("/a/b/d", b"x"))
    assert (stats(world, "/a"), stats(world, "/a/b")) == (b"count=3,bytes=1", b"count=2,bytes=1")
    world.do(Delete("/zookeeper/quota/a/zookeeper_limits"))
    assert world.tree.meta.limits == 0
    world.do(Create("/a/b/e", b"x"))
    assert stats(world, "/a") == b"count=3,bytes=1"


def test_texts_are_those_of_zookeeper() -> None:
    """Old clients read the first two pairs; a malformed text sets no limit."""
    text = b"count=4,bytes=9=;byteHardLimit=15;countHardLimit=4"
    assert parse(text) == {"count": 4, "bytes": 9, "byteHardLimit": 15, "countHardLimit": 4}
    assert Text.read(text).render() == text
    assert Text.read(b"count=1").render() == b"count=1,bytes=-1"
    assert Text.read(b"y=1;count=1,bytes=2=;x=3;count=4").render() == b"count=4,bytes=2=;x=3;y=1"
    assert Text.read(b"count=1,bytes=2=;x=3;count=4").render() == b"count=4,bytes=2=;x=3"
    assert parse(b"\xff,count=x,bytes,=3,count==") == {}
    assert parse(None) == {}


def test_digits_are_those_of_ascii() -> None:
    """Other digits depend on the version of Python: replicas would not agree on a limit while they
    are being updated."""
    assert parse("countHardLimit=\N{ARABIC-INDIC DIGIT SEVEN},bytes=7".encode()) == {"bytes": 7}


def test_a_quota_costs_nothing_where_it_does_not_apply() -> None:
    """A write looks down the tree of quotas, not up its own path: with a quota anywhere, which every client may set, a thousand
    writes of znodes a thousand deep would have kept every replica busy for minutes."""
    world = World()
    world.store = store = CountingStore(world.disk, None, None)
    world.do(Create("/limited", b""))
    limit(world, "/limited", b"count=9,bytes=-1")
    deep = ["/a" * depth for depth in range(1, 301)]
    world.do(Multi(tuple(Create(path, b"") for path in deep)))
    assert store.gets_of(world, SetData(deep[-1], b"")) <= store.gets_of(world, SetData(deep[0], b""))


def test_the_tree_of_quotas_is_not_deep() -> None:
    """A limit deeper than DEPTH_MAX is refused: a write below it would be expensive. Znodes below a limit may be deeper."""
    world = World()
    limited = "/a" * (DEPTH_MAX - 1)
    world.do(Multi(tuple(Create("/a" * depth, b"") for depth in range(1, DEPTH_MAX + 10))))
    limit(world, limited, b"count=-1,bytes=-1=;countHardLimit=12")
    assert stats(world, limited) == b"count=11,bytes=0"
    assert world.error(Create(f"/zookeeper/quota{limited}/a", b"")) is Error.OK
    assert world.error(Create(f"/zookeeper/quota{limited}/a/zookeeper_limits", b"")) is Error.BAD_ARGUMENTS
    assert world.error(Create("/a" * (DEPTH_MAX + 10), b"")) is Error.OK
    assert world.error(Create("/a" * (DEPTH_MAX + 11), b"")) is Error.QUOTA_EXCEEDED
