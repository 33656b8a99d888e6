"""Watches: what fires, for whom, how often, and in which order."""

from __future__ import annotations

import random
import sys
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import ClassVar

import attrs
import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from tests.database.tree.test_bounds import LONG_ACL
from tests.database.tree.world import Recorder, World
from virtuallog.contract.errors import OverloadedError
from virtuallog.contract.types import NodeId
from virtuallog.testing.sim.clock import SimulatedClock
from virtuallog.testing.sim.process import Process
from virtuallog_database.replica.database import Database
from virtuallog_database.tree import paths
from virtuallog_database.tree.commands import (
    OPEN_ACL,
    Acl,
    Create,
    CreateSession,
    Delete,
    ExpireSessions,
    Identity,
    Mode,
    Multi,
    Operation,
    Origin,
    SetAcl,
    SetData,
)
from virtuallog_database.tree.results import ChangeKind, RefusedError, Result
from virtuallog_database.tree.watches import RECURSIVE_DEPTH_MAX, Watches, WatchMode

CREATED, DELETED, DATA, CHILDREN = ChangeKind
OPEN = (OPEN_ACL, OPEN_ACL)


class Watched(World):
    """A tree whose changes fire."""

    def __init__(self) -> None:
        super().__init__()
        self.watches = Watches()

    def do(self, operation: Operation, origin: Origin = Origin()) -> Result:  # noqa: B008  # frozen
        result = super().do(operation, origin)
        for change, rights in zip(result.changes, result.rights, strict=True):
            self.watches.fire(change, result.zxid, rights)
        return result


def test_standard_watches_fire_once() -> None:
    """A second registration of the same watch is the same watch."""
    world, one, two = Watched(), Recorder(), Recorder()
    world.do(Create("/a", b""))
    for watcher in (one, one, two):
        world.watches.data.add("/a", watcher)
    assert world.watches.count == 2
    world.do(SetAcl("/a", (*world.tree.get_acl("/a", ())[0],)))
    assert one.events == []
    world.do(SetData("/a", b""))
    world.do(SetData("/a", b""))
    assert (one.events, two.events) == ([(DATA, "/a")], [(DATA, "/a")])
    assert world.watches.count == 0


def test_creating_and_deleting_tell_the_znode_then_its_parent() -> None:
    """A watcher in both tables of a deleted znode hears of it once."""
    world, watcher = Watched(), Recorder()
    world.watches.data.add("/a", watcher)
    world.watches.child.add("/", watcher)
    world.do(Create("/a", b""))
    assert watcher.take() == [(CREATED, "/a"), (CHILDREN, "/")]
    for table in (world.watches.data, world.watches.child):
        table.add("/a", watcher)
    world.watches.child.add("/", watcher)
    world.do(Delete("/a"))
    assert watcher.take() == [(DELETED, "/a"), (CHILDREN, "/")]
    assert world.watches.count == 0


def test_persistent_watches_stay() -> None:
    """One path: its data, its children, its end and its return."""
    world, watcher = Watched(), Recorder()
    world.watches.add("/a", watcher, WatchMode.PERSISTENT)
    for operation in (Create("/a", b""), SetData("/a", b"1"), Create("/a/b", b""), SetData("/a/b", b""), Delete("/a/b"),
                      Delete("/a"), Create("/a", b"")):  # fmt: skip
        world.do(operation)
    assert watcher.events == [
        (CREATED, "/a"), (DATA, "/a"), (CHILDREN, "/a"), (CHILDREN, "/a"), (DELETED, "/a"), (CREATED, "/a"),
    ]  # fmt: skip
    assert world.watches.count == 2


def test_recursive_watches_see_everything_below_but_no_lists_of_children() -> None:
    """At any depth; siblings with a longer name are not below. The root has everything."""
    world, watcher, everything = Watched(), Recorder(), Recorder()
    world.do(Create("/a", b""))
    world.watches.add("/a", watcher, WatchMode.PERSISTENT_RECURSIVE)
    world.watches.add("/", everything, WatchMode.PERSISTENT_RECURSIVE)
    for operation in (
        Create("/a/b", b""),
        Create("/a/b/c", b""),
        SetData("/a/b/c", b""),
        Create("/ab", b""),
        Delete("/a/b/c"),
    ):
        world.do(operation)
    seen = [(CREATED, "/a/b"), (CREATED, "/a/b/c"), (DATA, "/a/b/c"), (DELETED, "/a/b/c")]
    assert watcher.events == seen
    assert everything.events == [*seen[:3], (CREATED, "/ab"), seen[3]]


def test_watches_of_one_path_do_not_affect_each_other() -> None:
    """As in ZooKeeper from 3.9 on. In 3.8 a later watch takes the place of the earlier one (ZOOKEEPER-4466), and so it did here."""
    world, watcher = Watched(), Recorder()
    world.do(Create("/a", b""))
    for mode in (WatchMode.PERSISTENT_RECURSIVE, WatchMode.PERSISTENT):
        world.watches.add("/a", watcher, mode)
    world.watches.data.add("/a", watcher)
    for _ in range(2):
        world.do(SetData("/a", b""))
    world.do(Create("/a/b", b""))
    assert watcher.take() == [(DATA, "/a"), (DATA, "/a"), (CREATED, "/a/b"), (CHILDREN, "/a")]
    assert world.watches.count == 2, "one path in each table"
    assert world.watches.data.contains("/a", watcher, WatchMode.PERSISTENT)
    assert not world.watches.data.contains("/a", watcher, WatchMode.STANDARD), "it has fired"


def test_a_watch_is_removed_by_its_mode() -> None:
    """The others of the same path stay; without a mode all of them are removed."""
    world, watcher = Watched(), Recorder()
    world.do(Create("/a", b""))
    table = world.watches.data
    for mode in WatchMode:
        table.add("/a", watcher, mode)
    assert table.remove("/a", watcher, WatchMode.PERSISTENT_RECURSIVE)
    assert not table.remove("/a", watcher, WatchMode.PERSISTENT_RECURSIVE)
    world.do(Create("/a/b", b""))
    assert watcher.take() == []
    assert table.remove("/a", watcher, WatchMode.PERSISTENT)
    world.do(SetData("/a", b""))
    world.do(SetData("/a", b""))
    assert watcher.take() == [(DATA, "/a")]
    for mode in WatchMode:
        table.add("/a", watcher, mode)
    assert table.remove("/a", watcher)
    assert (table.count, list(table.paths_of(watcher)), list(table.items())) == (0, [], [])


def test_a_recursive_and_a_standard_watch_of_one_watcher_are_told_once() -> None:
    """One event for each watcher, path and change."""
    world, watcher = Watched(), Recorder()
    world.do(Create("/a", b""))
    world.watches.add("/", watcher, WatchMode.PERSISTENT_RECURSIVE)
    world.watches.data.add("/a", watcher)
    world.do(SetData("/a", b""))
    world.do(SetData("/a", b""))
    assert watcher.events == [(DATA, "/a"), (DATA, "/a")]


def test_who_is_gone_is_told_nothing() -> None:
    """A watcher that is gone gets no event and leaves nothing behind."""
    world, gone, here = Watched(), Recorder(), Recorder()
    for watcher in (gone, here):
        world.watches.data.add("/a", watcher)
        world.watches.add("/", watcher, WatchMode.PERSISTENT_RECURSIVE)
        world.watches.child.add("/zookeeper", watcher)
    assert sorted(world.watches.data.paths_of(gone)) == ["/", "/a"]
    world.watches.remove_all(gone)
    assert world.watches.data.remove("/a", here)
    assert not world.watches.data.remove("/a", here)
    assert not world.watches.data.contains("/a", here)
    world.do(Create("/a", b""))
    assert (gone.events, here.events) == ([], [(CREATED, "/a")])
    assert (world.watches.count, list(world.watches.data.items())) == (3, [("/", [here])])


def test_the_end_of_a_session_deletes_and_so_does_a_multi_in_its_order() -> None:
    """Each deletion fires like any other."""
    world, watcher = Watched(), Recorder()
    world.do(CreateSession(1, b"", 4000))
    world.do(Create("/e", b"", mode=Mode.EPHEMERAL), Origin(1, 1))
    world.watches.add("/", watcher, WatchMode.PERSISTENT)
    world.watches.data.add("/e", watcher)
    world.do(ExpireSessions(((1, 2),)))
    assert watcher.take() == [(DELETED, "/e"), (CHILDREN, "/")]
    world.watches.remove_all(watcher)
    world.watches.add("/", watcher, WatchMode.PERSISTENT_RECURSIVE)
    world.do(Multi((Create("/x", b""), SetData("/x", b""), Delete("/x"))))
    assert watcher.take() == [(CREATED, "/x"), (DATA, "/x"), (DELETED, "/x")]
    world.do(Multi((Create("/x", b""), Delete("/none"))))
    assert watcher.take() == []


@attrs.define(eq=False)
class Compared(Recorder):
    """A watcher that tells how often one was compared with another."""

    comparisons: ClassVar[int] = 0

    def __eq__(self, other: object) -> bool:
        Compared.comparisons += 1
        return self is other

    __hash__ = object.__hash__


def test_a_herd_is_told_in_one_pass() -> None:
    """No watcher is compared with all the others: four thousand clients that watch one znode, and all of the tree, would have kept their
    server busy for a third of a second with each change."""
    watches, herd = Watches(), [Compared() for _ in range(200)]
    for watcher in herd:
        watches.data.add("/a", watcher)
        watches.child.add("/a", watcher)
        watches.add("/", watcher, WatchMode.PERSISTENT_RECURSIVE)
    Compared.comparisons = 0
    watches.fire((DATA, "/a"), 1, OPEN)
    watches.fire((DELETED, "/a"), 2, OPEN)
    assert all(watcher.events == [(DATA, "/a"), (DELETED, "/a")] for watcher in herd)
    assert Compared.comparisons == 0


def calls_of(run: Callable[[], None]) -> int:
    """Number of function calls, those of the interpreter included: a measure of work without a
    clock."""
    calls: Counter[str] = Counter()
    former = sys.getprofile()
    sys.setprofile(lambda frame, event, argument: calls.update([event]))
    try:
        run()
    finally:
        sys.setprofile(former)
    return calls["call"] + calls["c_call"]


def test_a_list_of_rights_is_compared_with_a_client_once_in_a_command() -> None:
    """However often the command changes the znode. Of a thousand changes each was compared with 255 networks for each of ten clients that may
    not read: 0.4 s in one step of the event loop, for 34 KB."""
    networks = tuple(Acl(1, "ip", f"10.{number}.0.0/16") for number in range(255))
    watches, rights = Watches(), ((*networks, Acl(30, "world", "anyone")), OPEN_ACL)
    for _ in range(10):
        watcher = Recorder()
        watcher.identities = (Identity("ip", "192.0.2.1"),)
        watches.add("/a", watcher, WatchMode.PERSISTENT)
    first, later = (calls_of(lambda: watches.fire((DATA, "/a"), 7, rights)) for _ in range(2))
    assert first > 255 > later
    reader = Recorder()
    reader.identities = (Identity("ip", "10.7.1.1"),)
    watches.add("/a", reader, WatchMode.PERSISTENT)
    watches.fire((DATA, "/a"), 7, rights)
    watches.fire((DATA, "/a"), 8, ((Acl(31, "ip", "10.9.0.0/16"),), OPEN_ACL))
    assert reader.events == [(DATA, "/a")]


def restored(world: World, watcher: Recorder, paths_: list[str]) -> int:
    """Work of restoring these watches, whose changes were missed."""
    database = Database(clock=SimulatedClock(Process(NodeId(1))), random=random.Random(1))
    database.tree, before = world.tree, world.tree.looked
    database.set_watches(watcher, 0, data=paths_, exist=paths_, child=paths_)
    return world.tree.looked - before


def test_a_path_is_looked_at_once_for_each_kind_of_watches_to_restore() -> None:
    """One request of 1 MiB named a znode with a long ACL 170,000 times, which stopped a server for two minutes."""
    world, watcher = World(), Recorder()
    world.do(Create("/a", b"", LONG_ACL))
    assert restored(world, watcher, ["/a"] * 10_000) == restored(world, Recorder(), ["/a"])
    assert watcher.events == [(DATA, "/a"), (CREATED, "/a"), (CHILDREN, "/a")]


@pytest.mark.parametrize("is_former", [False, True])
def test_watches_to_restore_read_rights_within_bounds(is_former: bool) -> None:
    """Many long ACLs are more work than a short request may do, wherever they stand; ACLs of usual length never are."""
    world = World(is_former=is_former)
    for number in range(100):
        world.do(Create(f"/{number:02}", b"", LONG_ACL))
        world.do(Create(f"/short{number}", b"", (*LONG_ACL[-5:],)))
    with pytest.raises(OverloadedError, match="restore"):
        restored(world, Recorder(), [f"/{number:02}" for number in range(100)])
    watcher = Recorder()
    restored(world, watcher, [*(f"/{number:02}" for number in range(8)), *(f"/short{number}" for number in range(100))])
    assert len(watcher.events) == 3 * 108


def test_a_change_far_down_costs_no_more_than_one_near_the_root() -> None:
    """A recursive watch elsewhere costs a deep change nothing: watchers above are looked up only where there are some. A thousand
    writes of znodes a thousand deep would have kept the event loop for minutes, as each looked at all that is above it."""
    watches, watcher = Watches(), Recorder()
    watches.add("/elsewhere", watcher, WatchMode.PERSISTENT_RECURSIVE)
    near, far = (partial(watches.fire, (DATA, "/a" * depth), 1, OPEN) for depth in (20, 1000))
    assert calls_of(near) == calls_of(far)
    assert watcher.events == []


def test_a_change_costs_the_same_however_many_lengths_of_paths_are_watched() -> None:
    """A change walks along its own path: 10,000 recursive watches on paths of different lengths cost 0.8 ms for each change."""
    few, many, watcher = Watches(), Watches(), Recorder()
    few.add("/" + "x" * 1000, watcher, WatchMode.PERSISTENT_RECURSIVE)
    for length in range(2, 1002):
        many.add("/" + "x" * (length - 1), watcher, WatchMode.PERSISTENT_RECURSIVE)
    costs = [calls_of(partial(watches.fire, (DATA, "/name/of/a/znode"), 1, OPEN)) for watches in (few, many)]
    assert costs[1] <= costs[0] + 3 * 4, "one look for each of its names"


def test_recursive_watches_are_not_set_deep_down() -> None:
    """Else a change might look at thousands of znodes above it, with longer names each. Others may be."""
    watches, watcher = Watches(), Recorder()
    deepest = "/a" * RECURSIVE_DEPTH_MAX
    watches.add(deepest, watcher, WatchMode.PERSISTENT_RECURSIVE)
    watches.fire((CREATED, deepest + "/b/c"), 1, OPEN)
    assert watcher.take() == [(CREATED, deepest + "/b/c")]
    with pytest.raises(RefusedError, match="BAD_ARGUMENTS"):
        watches.add(deepest + "/a", watcher, WatchMode.PERSISTENT_RECURSIVE)
    watches.add(deepest + "/a", watcher, WatchMode.PERSISTENT)
    assert watches.count == 4


def test_a_watcher_holds_so_many_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Watches, and characters of their paths, in each table. A watch that is gone leaves room; one that is set anew takes none."""
    monkeypatch.setattr("virtuallog_database.tree.watches.PER_WATCHER_MAX", 3)
    monkeypatch.setattr("virtuallog_database.tree.watches.PATH_CHARACTERS_MAX", 100)
    watches, one, two = Watches(), Recorder(), Recorder()
    for path in ("/a", "/b", "/c", "/a"):
        watches.data.add(path, one)
    for watcher, path in ((one, "/d"), (two, "/" + "x" * 100)):
        with pytest.raises(RefusedError, match="BAD_ARGUMENTS"):
            watches.data.add(path, watcher)
    watches.data.add("/" + "x" * 99, two)
    watches.fire((DATA, "/b"), 1, OPEN)
    watches.data.add("/d", one)
    watches.fire((DATA, "/" + "x" * 100), 2, OPEN)
    assert watches.count == 4


PATHS = st.sampled_from(["/", "/a", "/a/b", "/a/b/c", "/ab"])
KINDS = st.sampled_from(["data", "child", "persistent", "recursive"])
MODES = {
    "data": WatchMode.STANDARD, "child": WatchMode.STANDARD, "persistent": WatchMode.PERSISTENT,
    "recursive": WatchMode.PERSISTENT_RECURSIVE,
}  # fmt: skip
STEPS = st.one_of(
    st.tuples(st.sampled_from(["watch", "watch", "remove"]), st.integers(0, 2), PATHS, KINDS),
    st.tuples(st.just("fire"), st.sampled_from([CREATED, DELETED, DATA]), PATHS.filter(lambda path: path != "/")),
    st.tuples(st.just("leave"), st.integers(0, 2)),
)


@settings(max_examples=300)
@given(st.lists(STEPS, max_size=25))
def test_watches_against_a_list_of_all_of_them(steps: list[tuple[object, ...]]) -> None:
    """The obvious way: look at every watch there is, for each change."""
    watches, watchers = Watches(), [Recorder() for _ in range(3)]
    model: dict[tuple[str, int, str, WatchMode], None] = {}
    """(table, watcher, path, mode)."""

    def concerned(table: str, path: str, kind: ChangeKind) -> list[int]:
        told = []
        for each, number, watched, mode in list(model):
            below = path.startswith(watched if watched == "/" else watched + "/") or path == watched
            is_recursive = mode is WatchMode.PERSISTENT_RECURSIVE
            if each == table and ((below and kind is not CHILDREN) if is_recursive else watched == path):
                told.append(number)
                if mode is WatchMode.STANDARD:
                    del model[each, number, watched, mode]
        return told

    for step in steps:
        expected: list[list[tuple[ChangeKind, str]]] = [[], [], []]
        match step:
            case ("watch", int(number), str(path), "data" | "child" as table):
                getattr(watches, table).add(path, watchers[number])
                model[table, number, path, WatchMode.STANDARD] = None
            case ("watch", int(number), str(path), str(kind)):
                watches.add(path, watchers[number], MODES[kind])
                for table in ("data", "child"):
                    model[table, number, path, MODES[kind]] = None
            case ("remove", int(number), str(path), str(kind)):
                for table in ("data", "child") if kind not in {"data", "child"} else (kind,):
                    had = (table, number, path, MODES[kind]) in model
                    assert getattr(watches, table).contains(path, watchers[number], MODES[kind]) == had
                    assert getattr(watches, table).remove(path, watchers[number], MODES[kind]) == had
                    model.pop((table, number, path, MODES[kind]), None)
            case ("fire", ChangeKind() as kind, str(path)):
                watches.fire((kind, path), 1, OPEN)
                own = concerned("data", path, kind) + (concerned("child", path, kind) if kind is DELETED else [])
                above = concerned("child", paths.parent_of(path), CHILDREN) if kind is not DATA else []
                for number in range(3):
                    expected[number] += [(kind, path)] if number in own else []
                    expected[number] += [(CHILDREN, paths.parent_of(path))] if number in above else []
            case ("leave", int(number)):
                watches.remove_all(watchers[number])
                for key in [key for key in model if key[1] == number]:
                    del model[key]
        assert [watcher.take() for watcher in watchers] == expected
        assert watches.count == len({key[:3] for key in model})
