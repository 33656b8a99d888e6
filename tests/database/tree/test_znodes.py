"""Creating, deleting and changing znodes as ZooKeeper 3.8 does (specs: which error wins, stats, sequence numbers)."""

from __future__ import annotations

import pytest

from tests.database.tree.world import NOW_MS, World
from virtuallog_database.tree.commands import (
    OPEN_ACL,
    TTL_MS_MAX,
    Acl,
    Check,
    Create,
    CreateSession,
    Delete,
    Identity,
    Mode,
    Multi,
    Origin,
    Reap,
    SetAcl,
    SetData,
)
from virtuallog_database.tree.results import Error

READ_ONLY = (Acl(1, "world", "anyone"),)


@pytest.fixture
def world() -> World:
    """A tree with /a, /a/b, a read-only /r, and an ephemeral /e of session 7."""
    world = World()
    world.do(CreateSession(7, b"p" * 16, 4000))
    for operation in (Create("/a", b"1"), Create("/a/b", b""), Create("/r", b"", READ_ONLY)):
        assert world.error(operation) is Error.OK
    assert world.error(Create("/e", None, mode=Mode.EPHEMERAL), Origin(7, 1)) is Error.OK
    return world


@pytest.mark.parametrize(
    ("operation", "error"),
    [
        # Each line is wrong in all that follows, too: the first thing that is looked at wins.
        (Create("/r/./x", b"", (), 9), Error.BAD_ARGUMENTS),
        (Create("x", b"", ()), Error.BAD_ARGUMENTS),
        (Create("/none/./x", b"", ()), Error.INVALID_ACL),
        (Create("/none/\x01", b""), Error.NO_NODE),
        (Create("/r/\x01", b""), Error.NO_AUTH),
        (Create("/e/\x01", b""), Error.BAD_ARGUMENTS),
        (Create("/a/", b""), Error.BAD_ARGUMENTS),
        (Create("/a/b/", b""), Error.BAD_ARGUMENTS),
        (Create("/none/", b""), Error.NO_NODE),
        (Create("/a//f", b""), Error.NO_NODE),
        (Create("/a", b""), Error.NODE_EXISTS),
        (Create("/", b""), Error.NODE_EXISTS),
        (Create("/e/x", b""), Error.NO_CHILDREN_FOR_EPHEMERALS),
        (Create("", b""), Error.BAD_ARGUMENTS),
        (Create("/😀", b""), Error.BAD_ARGUMENTS),
        (Create("/t", b"", mode=Mode.TTL), Error.BAD_ARGUMENTS),
        (Create("/t", b"", mode=Mode.TTL, ttl_ms=TTL_MS_MAX + 1), Error.BAD_ARGUMENTS),
        (Create("/t", b"", mode=Mode.PERSISTENT, ttl_ms=1), Error.BAD_ARGUMENTS),
        (Create("/e2", b"", mode=Mode.EPHEMERAL), Error.BAD_ARGUMENTS),
        (Delete("/"), Error.BAD_ARGUMENTS),
        (Delete("/zookeeper/quota"), Error.BAD_ARGUMENTS),
        (Delete("/none/x"), Error.NO_NODE),
        (Delete("/r/x"), Error.NO_AUTH),
        (Delete("/a/x", 5), Error.NO_NODE),
        (Delete("/a", 5), Error.BAD_VERSION),
        (Delete("/a"), Error.NOT_EMPTY),
        (SetData("/none/./x", b""), Error.BAD_ARGUMENTS),
        (SetData("/none", b"", 5), Error.NO_NODE),
        (SetData("/r", b"", 5), Error.NO_AUTH),
        (SetData("/a", b"", 5), Error.BAD_VERSION),
        (SetAcl("/none/./x", ()), Error.BAD_ARGUMENTS),
        (SetAcl("/none", ()), Error.INVALID_ACL),
        (SetAcl("/none", OPEN_ACL, 5), Error.NO_NODE),
        (SetAcl("/r", OPEN_ACL, 5), Error.NO_AUTH),
        (SetAcl("/a", OPEN_ACL, 5), Error.BAD_VERSION),
    ],
)
def test_which_error_wins(world: World, operation: Create | Delete | SetData | SetAcl, error: Error) -> None:
    """The order in which ZooKeeper looks at things is what clients see. A refused command takes a zxid and changes nothing else."""
    before = dict(world.disk.content.pairs)
    zxid = world.tree.last_zxid

    result = world.do(operation)

    assert (result.error, result.value, result.changes, result.zxid) == (error, None, (), zxid + 1)
    after = dict(world.disk.content.pairs)
    assert before.pop(b"m") != after.pop(b"m")
    assert before == after


def test_what_a_stat_says(world: World) -> None:
    """Creations and deletions move the parent's pzxid and cversion, data the znode's mzxid, rights nothing but aversion."""
    first = world.tree.exists("/a")
    world.now_ms += 5
    created = world.do(Create("/a/c", b"xyz")).zxid
    assert world.tree.exists("/a/c")._asdict() == {
        "czxid": created, "mzxid": created, "pzxid": created, "ctime": NOW_MS + 5, "mtime": NOW_MS + 5, "version": 0,
        "cversion": 0, "aversion": 0, "ephemeral_owner": 0, "data_length": 3, "children": 0,
    }  # fmt: skip
    deleted = world.do(Delete("/a/b")).zxid
    assert world.tree.exists("/a") == first._replace(cversion=3, pzxid=deleted, children=1)
    written = world.do(SetData("/a", None)).zxid
    world.do(SetAcl("/a", OPEN_ACL))
    assert world.tree.exists("/a") == first._replace(
        cversion=3, pzxid=deleted, children=1, version=1, mzxid=written, mtime=NOW_MS + 5, aversion=1, data_length=0
    )
    assert world.tree.exists("/e").ephemeral_owner == 7


def test_no_data_is_not_empty_data(world: World) -> None:
    """kazoo tells them apart."""
    world.do(SetData("/a", None))
    world.do(SetData("/a/b", b""))
    assert world.tree.get_data("/a", ())[0] is None
    assert world.tree.get_data("/a/b", ())[0] == b""


def test_sequence_numbers_count_all_children_that_ever_were(world: World) -> None:
    """Deletions do not lower them; the number may be the whole name; a refused create uses none up."""
    paths = [world.do(Create("/a/s-", b"", mode=Mode.PERSISTENT_SEQUENTIAL)).value.path]
    world.do(Delete(paths[0]))
    world.do(Create("/a/s-\x01", b"", mode=Mode.PERSISTENT_SEQUENTIAL))
    paths.append(world.do(Create("/a/", b"", mode=Mode.PERSISTENT_SEQUENTIAL)).value.path)
    session = Origin(7, 1)
    paths.append(world.do(Create("/a/e-", b"", mode=Mode.EPHEMERAL_SEQUENTIAL), session).value.path)
    assert paths == ["/a/s-0000000001", "/a/0000000002", "/a/e-0000000003"]


def test_the_first_znodes_are_there_from_the_beginning() -> None:
    """Before any command, and as the first command finds them; only their owner may write the list of servers."""
    world = World()
    assert world.tree.get_children("/", ())[0] == ["zookeeper"]
    assert world.tree.get_children("/zookeeper", ())[0] == ["config", "quota"]
    assert world.tree.exists("/").cversion == -1
    before = world.tree.exists("/zookeeper")
    assert world.error(SetData("/zookeeper/config", b"x")) is Error.NO_AUTH
    assert world.tree.exists("/zookeeper") == before
    assert world.error(SetData("/zookeeper/config", b"x"), Origin(identities=(Identity("super", ""),))) is Error.OK
    assert world.tree.count_descendants("/", ()) == 3


def test_a_multi_happens_as_a_whole(world: World) -> None:
    """Under one zxid, later operations seeing earlier ones; or not at all, and then each says what became of it."""
    done = world.do(
        Multi((Create("/m", b""), Create("/m/x", b"1"), SetData("/m/x", b"2", 0), Delete("/m/x", 1), Check("/m")))
    )
    assert done.error is Error.OK
    assert [each.zxid for each in done.value] == [done.zxid] * 5
    assert [each.value and type(each.value).__name__ for each in done.value] == [
        "Created",
        "Created",
        "Stat",
        None,
        None,
    ]
    before = world.tree.exists("/m")
    refused = world.do(Multi((Create("/m/y", b""), SetData("/m", b"z"), Check("/m", 9), Delete("/m/y"))))
    assert refused.error is Error.BAD_VERSION
    assert [each.error for each in refused.value] == [
        Error.OK, Error.OK, Error.BAD_VERSION, Error.RUNTIME_INCONSISTENCY,
    ]  # fmt: skip
    assert refused.changes == ()
    assert world.tree.exists("/m") == before
    assert world.do(Multi(())).value == ()


def test_containers_and_ttl_znodes_are_reaped_when_nobody_needs_them(world: World) -> None:
    """The condition is checked again where the proposal is applied. Clients do not see the owner of
    these znodes."""
    world.do(Create("/c", b"", mode=Mode.CONTAINER))
    world.do(Create("/new", b"", mode=Mode.CONTAINER))
    world.do(Create("/t", b"", mode=Mode.TTL, ttl_ms=1000))
    world.do(Create("/c/x", b""))
    assert [world.tree.exists(path).ephemeral_owner for path in ("/c", "/t")] == [0, 0]
    everything = Reap(("/c", "/new", "/t", "/a", "/gone"))

    nothing = world.do(everything)
    assert (nothing.changes, nothing.zxid) == ((), world.tree.exists("/c/x").czxid)
    world.do(Delete("/c/x"))
    world.now_ms += 1001
    assert [path for _, path in world.do(everything).changes] == ["/c", "/t"]
    assert [path for path, _ in world.tree.reapable("", 10)] == ["/new"]


def test_children_are_found_however_their_names_sort(world: World) -> None:
    """Siblings whose names start with a znode's name are not its descendants."""
    for path in ("/a/b/c", "/a/b0", "/a/b-", "/a/b.x", "/a!"):
        world.do(Create(path, b""))
    assert world.tree.get_children("/a", ())[0] == ["b", "b-", "b.x", "b0"]
    assert world.tree.count_descendants("/a", ()) == 5
    assert world.tree.count_descendants("/a/b", ()) == 1
    assert world.tree.get_children("/a/b", ())[0] == ["c"]


def test_many_children_are_read_in_pieces(world: World) -> None:
    """More than one scan of the store."""
    world.do(Multi(tuple(Create(f"/a/n{number:04}", None) for number in range(1200))))
    assert len(world.tree.get_children("/a", ())[0]) == 1201
    assert world.tree.count_descendants("/a", ()) == 1201
