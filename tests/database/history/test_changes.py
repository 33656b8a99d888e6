"""Changes of znodes by the entries of a log: played over the state before, they come to the state after."""

from __future__ import annotations

import hypothesis.strategies as st
import trio
from hypothesis import given, settings

from tests.database.history.drawn_log import MINUTE_MS, QUOTA, START_MS, DrawnLog, dumped, logs
from virtuallog.contract.types import LogPosition
from virtuallog_database.history.core.changes import ZnodeChange
from virtuallog_database.history.core.subtree import Subtree
from virtuallog_database.history.core.znode_state import ZnodeState
from virtuallog_database.history.observed_replay import replay_noting
from virtuallog_database.snapshots.played_store import play_on
from virtuallog_database.tree.commands import (
    Acl,
    CloseSession,
    Create,
    CreateSession,
    Delete,
    ExpireSessions,
    Identity,
    Mode,
    Multi,
    Operation,
    Origin,
    Reap,
    SetAcl,
    SetData,
)
from virtuallog_database.tree.records import ZnodeKind

ALICE = Origin(1, 1, (Identity("digest", "alice:x"),))


async def changes(log: DrawnLog, start: int, stop: int, path: str = "/") -> list[ZnodeChange]:
    found = list[ZnodeChange]()
    await play_on(replay_noting(log.store_at(start).open(), Subtree(path), found.append), log, LogPosition(stop))
    return found


def told(found: list[ZnodeChange]) -> list[tuple[int, str, str, str]]:
    return [(each.position, each.path, each.effect.value, each.cause.value) for each in found]


@settings(max_examples=60, deadline=None)
@given(logs(), st.data(), st.sampled_from(["/", "/a"]))
def test_changes_played_over_a_state_come_to_the_later_one(log: DrawnLog, data: st.DataObject, path: str) -> None:
    """Each begins with what the one before it has left, and all of them together explain the later state."""
    subtree, start = Subtree(path), data.draw(st.integers(1, log.tail))
    stop = data.draw(st.integers(start, log.tail))
    states: dict[str, ZnodeState | None] = dict(dumped(log.store_at(start)))

    for change in trio.run(changes, log, start, stop, path):
        assert states.get(change.path) == change.before and change.before != change.after
        assert start <= change.position < stop and change.time_ms == START_MS + MINUTE_MS * change.position
        states[change.path] = change.after

    after = dumped(log.store_at(stop))
    assert {each: state for each, state in states.items() if state and subtree.covers(each)} == {
        each: state for each, state in after.items() if subtree.covers(each)
    }


async def test_each_change_has_its_entry_its_cause_and_its_client() -> None:
    """Commands of one entry come in their order, and refused ones have changed nothing."""
    log = DrawnLog()
    log.do(CreateSession(1, b"p" * 16, 4000))
    first = log.do(Create("/a", b"1"), SetData("/a", b"22"), SetData("/b", b""), Delete("/a", 7), origin=ALICE)
    second = log.do(SetAcl("/a", (Acl(31, "auth", ""),)), origin=ALICE)
    third = log.do(Multi((Create("/c", b""), SetData("/c", b"3"), Delete("/c"))))

    found = await changes(log, 0, log.tail)

    assert told(found) == [
        (first, "/a", "created", "create"),
        (first, "/a", "data", "set"),
        (second, "/a", "acl", "set-acl"),
        (third, "/c", "created", "multi"),
        (third, "/c", "data", "multi"),
        (third, "/c", "deleted", "multi"),
    ]
    assert [(each.origin.session, each.zxid) for each in found[:4]] == [(1, 2), (1, 3), (1, 6), (0, 7)]
    assert found[1].after is not None and (found[1].after.version, found[1].after.size) == (1, 2)
    assert found[2].after is not None and found[2].after.acl == (Acl(31, "digest", "alice:x"),)


async def test_ephemerals_go_with_their_session() -> None:
    """Ephemerals of a closed session and of an expired one are deleted. Their names have the numbers of the tree."""
    log = DrawnLog()
    log.do(CreateSession(1, b"p" * 16, 4000), CreateSession(2, b"p" * 16, 4000), Create("/e", b""))
    numbered: Operation = Create("/e/n-", b"", mode=Mode.EPHEMERAL_SEQUENTIAL)
    log.do(numbered, origin=Origin(1, 1))
    log.do(numbered, origin=Origin(2, 1))
    closed = log.do(CloseSession(1), origin=Origin(1, 1))
    expired = log.do(ExpireSessions(((2, 2),)))

    found = await changes(log, 1, log.tail, "/e")

    assert told(found) == [
        (1, "/e/n-0000000000", "created", "create"),
        (2, "/e/n-0000000001", "created", "create"),
        (closed, "/e/n-0000000000", "deleted", "close-session"),
        (expired, "/e/n-0000000001", "deleted", "expire-session"),
    ]
    assert found[0].after is not None and found[3].before is not None
    assert (found[0].after.session, found[3].before.session) == (1, 2)


async def test_containers_and_old_znodes_are_reaped() -> None:
    """By a command of a server, without a session."""
    log = DrawnLog()
    log.do(Create("/c", b"", mode=Mode.CONTAINER), Create("/c/child", b""), Create("/t", b"", mode=Mode.TTL, ttl_ms=5))
    log.do(Delete("/c/child"))
    reaped = log.do(Reap(("/c", "/t")))

    found = await changes(log, 1, log.tail)

    assert told(found)[1:] == [(reaped, "/c", "deleted", "reap"), (reaped, "/t", "deleted", "reap")]
    assert found[2].before is not None
    assert (found[2].before.kind, found[2].before.owner) == (ZnodeKind.TTL, 5)


async def test_what_no_command_has_written_is_told_too() -> None:
    """The counts of a quota, and raw writes of an operator."""
    log = DrawnLog()
    log.do(Create("/a", b""), Multi(QUOTA))
    counted = log.do(Create("/a/b", b"12"))
    record = log.store_at(log.tail).content.get(b"n/a/b")
    raw = log.write_raw({b"n/raw": record, b"n/a/b": None, b"unknown": b""})

    found = await changes(log, counted, log.tail)

    stats = "/zookeeper/quota/a/zookeeper_stats"
    assert told(found) == [
        (counted, "/a/b", "created", "create"),
        (counted, stats, "data", "quota"),
        (raw, "/a/b", "deleted", "raw-write"),
        (raw, "/raw", "created", "raw-write"),
    ]
    assert found[1].after is not None and found[1].after.data == b"count=2,bytes=2"
