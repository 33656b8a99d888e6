"""A command costs a constant times its bytes: in bytes that it looks at and writes, in former values that are kept, and in memory."""

from __future__ import annotations

import random
import tracemalloc
from unittest.mock import Mock

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.database.tree.world import NOW_MS, Recorder, World
from virtuallog_database.testing.heavy_commands import HeavyCommands
from virtuallog_database.testing.metered_store import MeteredStore
from virtuallog_database.transaction import StoreTransaction
from virtuallog_database.tree import bounds, command_codec, execution, keys, paths
from virtuallog_database.tree.acl_codec import decode_acl, encode_acl
from virtuallog_database.tree.apply import apply
from virtuallog_database.tree.commands import (
    Acl,
    Check,
    CloseSession,
    Command,
    Create,
    CreateSession,
    Delete,
    Identity,
    Mode,
    Multi,
    Operation,
    Origin,
    SetAcl,
    SetData,
)
from virtuallog_database.tree.records import APART_BYTES
from virtuallog_database.tree.results import ChangeKind, Error, RefusedError, Result
from virtuallog_database.tree.tree import Tree
from virtuallog_database.tree.watches import Watches

LARGE = 100_000
PER_BYTE = 16
PER_OPERATION = 4 << 10
PER_ZNODE = 12 << 10
"""Bytes for each znode that a command names: records of 2 KiB that are read and written, and drawn ACLs of 10 KB that stand apart."""
LONG_ACL = (*(Acl(31, "digest", f"{number:050}:x") for number in range(255)), Acl(31, "world", "anyone"))


@attrs.define(eq=False)
class Metered(World):
    """Says what each command costs. The bounds hold from the beginning, so no record is of the former version."""

    def __attrs_post_init__(self) -> None:
        self.store = MeteredStore(self.disk, None, None)
        self.switch()
        self.tree = Tree(self.store)

    @property
    def meter(self) -> MeteredStore:
        assert isinstance(self.store, MeteredStore)
        return self.store

    def cost(self, operation: Operation, expected: Error = Error.OK) -> int:
        """Bytes that this reads and writes."""
        meter = self.meter
        before = meter.read + meter.scanned + meter.written
        assert self.error(operation) is expected
        return meter.read + meter.scanned + meter.written - before


# -- creates below what is large --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "parent",
    [Create("/big", b"x" * 1_000_000), Create("/big", b"", LONG_ACL), Create("/big", b"x" * 1_000_000, LONG_ACL)],
    ids=["data", "ACL", "both"],
)
def test_a_child_costs_its_own_size(parent: Create) -> None:
    """Created, changed and deleted: neither data nor rights of its parent are written with it; rights are read."""
    world = Metered()
    small = Metered()
    world.do(parent)
    small.do(Create("/big", b""))
    for operation in (Create("/big/a", b""), SetData("/big/a", b"1"), Delete("/big/a")):
        before = world.meter.written
        most = small.cost(operation) + 300 + 2 * len(LONG_ACL) * 64
        assert world.cost(operation) <= most
        assert world.meter.written - before <= 600


def test_data_and_rights_of_any_length_are_read_as_they_were_written() -> None:
    """True if they are separate, now and before."""
    world, me = World(), (Identity("digest", "me:x"),)
    world.do(Create("/a", b""))
    for size in (0, APART_BYTES, APART_BYTES + 1, 50_000, 10, None):
        for count in (1, 18, 17, 200, 30, 0):
            data = None if size is None else b"x" * size
            rights = (
                (Acl(31, "digest", "me:x"), *(Acl(1, "digest", f"{n:040}:x") for n in range(count - 1)))
                if count
                else ()
            )
            assert world.error(SetData("/a", data), Origin(identities=me)) is Error.OK
            if rights:
                assert world.error(SetAcl("/a", rights), Origin(identities=me)) is Error.OK
            found, stat = world.tree.get_data("/a", me)
            assert (found, stat.data_length) == (data, size or 0)
            assert not rights or world.tree.get_acl("/a", me)[0] == rights
            with pytest.raises(RefusedError, match="NO_AUTH"):
                world.tree.get_data("/a", ())
            assert world.error(SetData("/a", b""), Origin()) is Error.NO_AUTH
    assert world.error(Delete("/a")) is Error.OK
    assert [key for key in world.disk.content.pairs if key[:1] in b"ad"] == [], "what stood apart is gone with it"


def test_a_multi_over_many_znodes_of_the_former_version_is_refused() -> None:
    """Each is read whole, once it is written it is not any more."""
    world = World(is_former=True)
    for number in range(60):
        world.do(Create(f"/p{number}", b"x" * LARGE))
    world.switch()
    many = tuple(Create(f"/p{number}/c", b"") for number in range(60))
    assert world.error(Multi(many)) is Error.BAD_ARGUMENTS
    assert world.tree.get_children("/p0", ())[0] == []
    assert world.error(Multi(many[:30])) is Error.OK
    assert world.error(Multi(many[30:])) is Error.OK
    assert world.error(Multi(tuple(Delete(f"/p{number}/c") for number in range(60)))) is Error.OK
    assert all(world.tree.get_data(f"/p{number}", ())[0] == b"x" * LARGE for number in range(60))


def test_the_right_to_a_long_list_is_asked_once_in_a_command() -> None:
    """However many children are created below it."""
    world = Metered()
    world.do(Create("/big", b"", LONG_ACL))
    one = world.cost(Create("/big/x", b""))
    assert world.cost(Multi(tuple(Create(f"/big/{n}", b"") for n in range(200)))) <= one + 200 * 1000


def test_one_list_of_rights_is_short() -> None:
    """32 KiB as it is stored, also if `auth` stands for it."""
    world = World()
    long = tuple(Acl(31, "digest", f"{number:0200}:x") for number in range(200))
    assert world.error(Create("/a", b"", long)) is Error.INVALID_ACL
    assert world.error(Create("/a", b"", LONG_ACL)) is Error.OK
    origin = Origin(identities=tuple(Identity("digest", f"{number:0200}:x") for number in range(200)))
    assert world.error(SetAcl("/a", (Acl(31, "auth", ""),)), origin) is Error.INVALID_ACL


# -- all kinds of commands ------------------------------------------------------------------------------------------------


def named(operation: Operation) -> tuple[int, int]:
    """Operations, and paths that they name, with their parents."""
    parts = operation.operations if isinstance(operation, Multi) else (operation,)
    found = set()
    for part in parts:
        for path in getattr(part, "paths", (getattr(part, "path", "/"),)):
            found |= {path, paths.parent_of(path)}
    return len(parts), len(found)


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 10**9))
def test_every_command_costs_a_constant_times_its_bytes(seed: int) -> None:
    """Bytes read and written, former values, and znodes that new quotas count."""
    world, owned = Metered(), 0
    for command in HeavyCommands(random.Random(seed), LARGE).commands(60):
        blob = command_codec.encode(command)
        meter, before = world.meter, attrs.evolve(world.meter)
        transaction = StoreTransaction(world.store)
        savepoint = transaction.savepoint()
        znodes = world.tree.meta.znodes
        result = apply(transaction, command_codec.parse_untrusted(blob))
        assert transaction.undo_bytes == 0, "nothing was changed twice"
        transaction.release(savepoint)
        transaction.commit()
        world.tree.applied(result.zxid)
        parts, found = named(command.operation)
        owned += parts
        allowed = PER_BYTE * len(blob) + PER_OPERATION * (parts + (owned if result.ended else 0)) + PER_ZNODE * found
        counted = meter.visited - before.visited
        assert (
            meter.read + meter.scanned + meter.written - before.read - before.scanned - before.written
            <= allowed + counted * 2 * PER_ZNODE // 4
        )
        assert counted <= znodes + 2 * parts + owned


@pytest.mark.parametrize("is_former", [False, True])
def test_the_memory_of_a_command_is_bounded(is_former: bool) -> None:
    """10,000 creates below a znode with 1 MB of data in one multi: each replica held 10 GB, and at every replay again."""
    world = World(is_former=is_former)
    assert world.error(Create("/p", b"x" * 1_000_000)) is Error.OK
    blob = command_codec.encode(
        Command(Multi(tuple(Create(f"/p/{number}", b"") for number in range(10_000))), Origin(), NOW_MS)
    )
    assert len(blob) < 350_000
    command, transaction = command_codec.parse_untrusted(blob), StoreTransaction(world.store)
    tracemalloc.start()
    assert apply(transaction, command).error is Error.OK
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 100 * len(blob)


# -- quotas ------------------------------------------------------------------------------------------------------------------


def test_texts_of_quotas_are_refused_when_they_are_written() -> None:
    """Other names, more than 200 bytes, and what is no number; also in a multi. Other znodes there hold anything."""
    world = World()
    at = "/zookeeper/quota/a"
    assert world.error(Create(at, b"anything")) is Error.OK
    bad = (
        b"name=1",
        b"count=1;names=2",
        b"count=x",
        b"count=1,,bytes=1",
        b"count",
        b"count=1;" * 30,
        b"\xff",
        b"count=1\n",
    )
    good = (
        b"",
        None,
        b"count=-1,bytes=-1",
        b"count=5,bytes=-1=;byteHardLimit=-1;countHardLimit=7",
        b"countHardLimit=3;",
    )
    for name in ("zookeeper_limits", "zookeeper_stats"):
        for text in bad:
            assert world.error(Create(f"{at}/{name}", text)) is Error.BAD_ARGUMENTS
            assert world.error(Multi((Create(f"{at}/{name}", text),))) is Error.BAD_ARGUMENTS
        for fine in good:
            assert world.error(Create(f"{at}/{name}", fine)) is Error.OK
            assert world.error(SetData(f"{at}/{name}", fine)) is Error.OK
            assert world.error(SetData(f"{at}/{name}", b"name=1")) is Error.BAD_ARGUMENTS
            assert world.error(Delete(f"{at}/{name}")) is Error.OK
    assert world.error(Create("/zookeeper_stats", b"name=1")) is Error.OK


def test_long_texts_of_the_former_version_cost_once() -> None:
    """The first write below leaves of them what counts."""
    world, letters = World(is_former=True), "abcdefghijklmnopqrstuvwxyz"
    text = ";".join(f"{a}{b}{c}=1" for a in letters for b in letters for c in letters).encode()
    world.do(Create("/a", b""))
    world.do(Create("/zookeeper/quota/a", None))
    world.do(Create("/zookeeper/quota/a/zookeeper_limits", b"count=1,bytes=2=;countHardLimit=9;" + text))
    world.do(Create("/zookeeper/quota/a/zookeeper_stats", text))
    world.do(SetData("/a", b"1"))
    assert len(world.tree.get_data("/zookeeper/quota/a/zookeeper_stats", ())[0] or b"") > 10_000

    store = MeteredStore(world.disk, None, None)
    world.store = store
    world.switch()
    assert world.error(SetData("/a", b"12")) is Error.OK
    before = store.read + store.scanned + store.written
    assert world.error(SetData("/a", b"123")) is Error.OK
    assert store.read + store.scanned + store.written - before < 4000
    assert world.tree.get_data("/zookeeper/quota/a/zookeeper_stats", ())[0] == b"count=1,bytes=3"
    assert world.tree.get_data("/zookeeper/quota/a/zookeeper_limits", ())[0] == b"count=1,bytes=2=;countHardLimit=9"
    assert world.tree.meta.data_bytes == sum(
        len(world.tree.get_data(path, ())[0] or b"")
        for path in (keys.decoded(key[1:]) for key in world.disk.content.pairs if key[:1] == b"n")
    )


def filled(count: int) -> Metered:
    """A tree with so many znodes below /t, which can be limited."""
    world = Metered()
    world.do(Create("/zookeeper/quota/t", None))
    world.do(Create("/t", b"1"))
    for start in range(0, count, 1000):
        world.do(Multi(tuple(Create(f"/t/{start + number}", b"1") for number in range(min(count - start, 1000)))))
    return world


STATS = "/zookeeper/quota/t/zookeeper_stats"


def test_one_new_quota_counts_in_a_command() -> None:
    """A multi that creates and deletes statistics 5,000 times counted the tree as often."""
    world = filled(1000)
    before = world.meter.visited
    assert world.error(Multi((Create(STATS, b""), Delete(STATS), Create(STATS, b"")))) is Error.BAD_ARGUMENTS
    assert world.meter.visited - before <= 1001
    assert world.error(Create(STATS, b"")) is Error.OK
    assert world.tree.get_data(STATS, ())[0] == b"count=1001,bytes=1001"


def test_statistics_of_the_root_count_nothing() -> None:
    """The root is not limited, so nothing would be kept."""
    world, at = filled(100), "/zookeeper/quota/zookeeper_stats"
    before = world.meter.visited
    assert world.error(Multi((Create(at, b""), Delete(at)) * 10)) is Error.OK
    assert world.meter.visited == before


def test_new_quotas_take_a_share_of_the_time() -> None:
    """A client that creates and deletes them one by one is refused until the clock of the commands
    has gone on; refused counts count as well."""
    world = filled(4000)
    visited = world.meter.visited
    for _ in range(100):
        world.do(Create(STATS, b""))
        world.do(Delete(STATS))
    assert world.meter.visited - visited < bounds.RECOUNT_PER_MS * (bounds.RECOUNT_AHEAD_MS + 1) + 2 * 4010
    assert world.error(Create(STATS, b"")) is Error.BAD_ARGUMENTS
    world.now_ms += 500
    assert world.error(Create(STATS, b"")) is Error.OK
    world.now_ms -= 60_000
    world.do(Delete(STATS))
    assert world.error(Create(STATS, b"")) is Error.OK, "a clock that was far ahead keeps nobody waiting"


def test_a_quota_is_not_set_above_a_tree_that_is_too_large_to_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of it stays, but that it has counted."""
    monkeypatch.setattr(bounds, "RECOUNT_MAX", 50)
    world = filled(60)
    assert world.error(Create(STATS, b"")) is Error.BAD_ARGUMENTS
    assert world.tree.meta.recounted_ms >= world.now_ms
    assert world.tree.get_children("/zookeeper/quota/t", ())[0] == []


# -- the former version ----------------------------------------------------------------------------------------------------


def reads(world: World) -> dict[str, object]:
    """All that can be read of the tree."""
    me = (Identity("super", "me"),)
    found = (keys.decoded(key[1:]) for key in world.disk.content.pairs if key[:1] == b"n")
    tree = world.tree
    return {path: (tree.get_data(path, me), tree.get_acl(path, me), tree.get_children(path, me)) for path in found}


@pytest.mark.parametrize("seed", range(12))
def test_the_bounds_change_nothing_but_what_they_refuse(seed: int) -> None:
    """Results, and all that can be read, are those of the former version; also if the switch comes in the middle, over its records."""
    chance = random.Random(seed)
    former, bounded, switched = World(is_former=True), World(), World(is_former=True)
    switch_at = chance.randrange(30, 150)
    for number, command in enumerate(HeavyCommands(chance, size=3000).commands(200)):
        if number == switch_at:
            switched.switch()
        before = bounded.tree.meta.recounted_ms
        results = [_result(world, command) for world in (bounded, former, switched)]
        if results[0].error is not results[1].error:
            assert results[0].error in {Error.BAD_ARGUMENTS, Error.INVALID_ACL} or before
            return
        assert results[0] == results[1]
        assert results[2] == results[1]
    assert reads(bounded) == reads(former) == reads(switched)


def _result(world: World, command: Command) -> Result:
    world.now_ms = command.time_ms
    return world.do(command.operation, command.origin)


def test_checks_of_a_large_znode_of_the_former_version_are_bounded() -> None:
    """They read it whole, and do not write it."""
    world = World(is_former=True)
    world.do(Create("/p", b"x" * 1_000_000))
    world.switch()
    assert world.error(Multi((Check("/p"),) * 100)) is Error.BAD_ARGUMENTS
    assert world.error(Multi((Check("/p"),) * 3)) is Error.OK


def test_operations_are_counted_for_the_transaction() -> None:
    """Work of each operation of a multi, also if it is refused, as it was executed by then; of the
    end of a session its deletions."""
    world = World()
    session = 7
    world.do(CreateSession(session, b"p" * 16, 10_000))
    owner = Origin(session=session, generation=1)
    many = Multi(tuple(Create(f"/{number}", b"", mode=Mode.EPHEMERAL) for number in range(30)))
    for operation, expected in (
        (many, 30),
        (many, 30),
        (SetData("/1", b""), 2),
        (Check("/1", 5), 1),
        (CloseSession(session), 31),
    ):
        transaction = StoreTransaction(world.store)
        apply(transaction, Command(operation, owner, NOW_MS))
        assert transaction.operations == expected
        transaction.commit()
        assert transaction.operations == 0


def test_what_limits_a_parent_is_looked_for_once_in_a_multi() -> None:
    """In the store; the work that it counts for stays the same for each operation, as refusals hang on it."""
    world = Metered()
    for path in ("/a", "/a/b", "/zookeeper/quota/a"):
        world.do(Create(path, b""))
    world.do(Create("/zookeeper/quota/a/zookeeper_limits", b"count=1000,bytes=-1"))
    world.do(Create("/zookeeper/quota/a/zookeeper_stats", b"count=0,bytes=0"))
    looks = []
    for count in (1, 101):
        before = world.meter.looks
        world.do(Multi(tuple(Create(f"/a/b/{count}-{number}", b"") for number in range(count))))
        looks.append(world.meter.looks - before)
    assert looks[1] - looks[0] == 100, "each asks for its own znode only"
    assert world.tree.get_data("/zookeeper/quota/a/zookeeper_stats", ())[0] == b"count=104,bytes=0"


def test_a_long_record_of_the_former_version_counts_several_times_for_a_new_quota() -> None:
    """A new quota reads it whole: 300 znodes of 1 MB were 300 MB for a request of 90 bytes, as often as it was asked."""
    world, statistics = World(is_former=True), "/zookeeper/quota/q/zookeeper_stats"
    world.do(Create("/q", b""))
    world.do(Create("/zookeeper/quota/q", b""))
    for number in range(300):
        world.do(Create(f"/q/{number}", b"x" * 1_000_000))
    world.switch()
    assert world.error(Create(statistics, b"")) is Error.OK
    assert world.tree.get_data(statistics, ())[0] == b"count=301,bytes=300000000"
    assert world.error(Delete(statistics)) is Error.OK
    assert world.error(Create(statistics, b"")) is Error.BAD_ARGUMENTS, "that was the work of 73,000 znodes"
    world.now_ms += 600
    assert world.error(Create(statistics, b"")) is Error.OK


def test_the_end_of_a_session_parses_no_rights(monkeypatch: pytest.MonkeyPatch) -> None:
    """A session with 2,000 ephemerals, each below a parent with a long ACL, took 2.7 s of each replica to end: its watches need
    the rights, but hardly any change is watched."""
    world, me = World(), Origin(5, 1)
    world.do(CreateSession(5, b"p", 1000))
    for number in range(20):
        world.do(Create(f"/{number}", b"", LONG_ACL))
        assert world.error(Create(f"/{number}/e", b"", mode=Mode.EPHEMERAL), me) is Error.OK
    parse = Mock(side_effect=decode_acl)
    monkeypatch.setattr(execution, "decode_acl", parse)
    ended = world.do(CloseSession(5), me)
    assert (len(ended.changes), parse.call_count) == (20, 0)
    watches, strangers, reader = Watches(), Recorder(), Recorder()
    watches.child.add("/7", strangers)
    watches.child.add("/8", reader)
    reader.identities = (Identity("world", "anyone"),)
    for change, (rights, parent_rights) in zip(ended.changes, ended.rights, strict=True):
        hidden = encode_acl((Acl(31, "digest", "me:x"),)) if change[1] == "/7/e" else parent_rights
        watches.fire(change, ended.zxid, (rights, hidden))
    assert (strangers.events, reader.events) == ([], [(ChangeKind.CHILDREN_CHANGED, "/8")])
