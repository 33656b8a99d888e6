"""Differences between two positions of a log: those of the paths that entries have touched are all there are."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
import trio
from hypothesis import given, settings

from tests.database.history.drawn_log import LONG, DrawnLog, dumped, logs
from virtuallog.contract.types import LogPosition
from virtuallog_database.engines.core.enabled_engines import BOUNDS
from virtuallog_database.history.core.differences import DifferenceKind, ZnodeDifference, difference_at
from virtuallog_database.history.core.subtree import Subtree
from virtuallog_database.history.core.znode_state import FoundedRecords, ZnodeState
from virtuallog_database.history.observed_replay import replay_touching
from virtuallog_database.history.touched_paths import TouchedPaths
from virtuallog_database.snapshots.played_store import play_on
from virtuallog_database.testing.memory_store import MemoryDisk
from virtuallog_database.tree.commands import Acl, Create, Delete, Multi, SetAcl, SetData

SUBTREES = st.sampled_from(["/", "/a", "/a/b", "/zookeeper"])


async def differences(log: DrawnLog, start: int, stop: int, path: str = "/", after: str = "") -> list[ZnodeDifference]:
    """Differences of a subtree, in the order in which they are told."""
    store = log.store_at(start).open()
    before = FoundedRecords(store.snapshot())
    touched = TouchedPaths(MemoryDisk().open(), recent_max=3)
    await play_on(replay_touching(store, Subtree(path), touched), log, LogPosition(stop))
    records = FoundedRecords(store)
    found = [difference_at(each, before, records) for each in touched.behind(after)]
    return [each for each in found if each is not None]


def of_dumps(before: dict[str, ZnodeState], after: dict[str, ZnodeState], subtree: Subtree) -> list[ZnodeDifference]:
    """The same by a comparison of every znode."""
    pairs = [(path, before.get(path), after.get(path)) for path in {*before, *after} if subtree.covers(path)]
    found = [ZnodeDifference(path, former, now) for path, former, now in pairs if former != now]
    return sorted(found, key=lambda each: each.path.encode("utf-8", "surrogatepass"))


@settings(max_examples=60, deadline=None)
@given(logs(), st.data(), SUBTREES)
def test_differences_are_those_of_two_full_dumps(log: DrawnLog, data: st.DataObject, path: str) -> None:
    """Between any two positions, of any subtree: nothing is missing, and nothing is there that is not so."""
    start = data.draw(st.integers(1, log.tail))
    stop = data.draw(st.integers(start, log.tail))

    found = trio.run(differences, log, start, stop, path)

    assert found == of_dumps(dumped(log.store_at(start)), dumped(log.store_at(stop)), Subtree(path))


async def test_each_kind_of_a_difference() -> None:
    """A znode that is created and deleted in between is no difference, and neither is a parent with other children."""
    log = DrawnLog()
    log.enable(BOUNDS)
    log.do(*(Create(path, b"1") for path in ("/gone", "/same", "/data", "/acl", "/again", "/long")))
    start = log.tail
    log.do(Delete("/gone"), Create("/new", b"2"), Create("/same/child", b""), Create("/short-lived", b""))
    log.do(Multi((SetData("/data", b"2"), Delete("/short-lived"))), SetAcl("/acl", (Acl(1, "world", "anyone"),)))
    log.do(Delete("/again"), Create("/again", b"1"), SetData("/long", LONG))

    found = await differences(log, start, log.tail)

    assert [(each.path, each.kind, each.fields) for each in found] == [
        ("/acl", DifferenceKind.CHANGED, ("aversion", "acl")),
        ("/again", DifferenceKind.REPLACED, ("czxid",)),
        ("/data", DifferenceKind.CHANGED, ("version", "data")),
        ("/gone", DifferenceKind.REMOVED, ()),
        ("/long", DifferenceKind.CHANGED, ("version", "data")),
        ("/new", DifferenceKind.ADDED, ()),
        ("/same/child", DifferenceKind.ADDED, ()),
    ]
    assert await differences(log, start, log.tail, after="/gone") == found[4:]
    assert found[4].after is not None and found[4].after.data == LONG


async def test_the_beginning_of_a_log_has_the_znodes_that_each_tree_has() -> None:
    """Before the first command as well as after it: no command has created them."""
    log = DrawnLog()
    log.do(Create("/a", b""))

    assert [each.path for each in await differences(log, 0, 1)] == ["/a"]


@pytest.mark.parametrize(
    ("path", "inside", "outside"),
    [("/", ("/", "/a", "/a/b"), ()), ("/a", ("/a", "/a/b"), ("/", "/ab", "/b")), ("/a/b", ("/a/b",), ("/a", "/a/b-"))],
)
def test_a_subtree_is_a_znode_and_what_is_below(path: str, inside: tuple[str, ...], outside: tuple[str, ...]) -> None:
    """Of a sibling whose name begins alike nothing is shown."""
    subtree, alone = Subtree(path), Subtree(path, is_alone=True)

    assert [each for each in (*inside, *outside) if alone.covers(each)] == [path]
    assert [subtree.covers(each) for each in (*inside, *outside)] == [True] * len(inside) + [False] * len(outside)
    assert [subtree.path_in(b"n" + each.encode()) for each in inside] == list(inside)
    assert [subtree.path_in(key) for key in (b"c/a\0b", b"m", b"", b"\0n/a", b"s12345678")] == [None] * 5
