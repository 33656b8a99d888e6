"""Holds on trimming: who needs which part, and what a trim would drop, hurt, or be refused for."""

from __future__ import annotations

from collections.abc import AsyncIterator

import attrs
import pytest
import trio
from trio.testing import MockClock

from tests.console.views.test_nodes import log_of
from tests.server.database.test_role import client_of, start
from tests.server.diagnosis.evidence_samples import CLOSED, OPEN, register, segment
from tests.server.node.world import World, make_world, until
from tests.virtuallog.client.world import world as log_world
from virtuallog.admin.control import PrefixTrim
from virtuallog.contract.errors import InvalidSettingError, UnavailableError
from virtuallog.contract.ports import Outcome
from virtuallog.contract.types import LogPosition, NodeId
from virtuallog_console.views.holds import (
    HoldsView,
    describe_holds,
    describe_trim,
    read_holds,
    read_trim_effect,
)
from virtuallog_console.views.log_bounds import BOUND_SECONDS
from virtuallog_database.control.messages import Allowed, DatabaseStatus, HoldStatus, MemberStatus, PlaceHold

ONE, TWO = NodeId(1), NodeId(2)
TWO_SEGMENTS = register(segment(CLOSED, 0, 100), segment(OPEN, 100, None))
SEEN = HoldsView(trim_point=10, tail=150)


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with make_world() as made:
        yield made


def status(cursor: int, durable: int) -> DatabaseStatus:
    return DatabaseStatus(
        state="serving",
        cursor=cursor,
        members=(MemberStatus(name="1-ab", durable=durable, heard=1),),
        holds=(HoldStatus(name="nightly", position=90, milliseconds=5000),),
    )


def database(position: int = 50, reasons: tuple[str, ...] = ("replica 1-ab",)) -> HoldsView:
    answers: dict[NodeId, Outcome[Allowed]] = {
        ONE: Allowed(position=position, reasons=reasons),
        TWO: UnavailableError("away"),
    }
    return describe_holds(SEEN, TWO_SEGMENTS, {ONE: status(140, 50), TWO: status(120, 20)}, answers)


async def test_a_database_says_what_it_needs(world: World, autojump_clock: MockClock) -> None:
    """Each replica of the view and each hold; the dry run says beforehand what the trim then says."""
    one, _, _ = await start(world, 1, 2, 3)
    for number in range(5):
        await client_of(one).create(f"/{number}")
    await until(lambda: one.database is not None and len(one.database.status().members) == 3)
    await world.client().call(ONE, PlaceHold(name="nightly", position=3, milliseconds=60_000), 5)
    view = await read_holds(log_of(one))
    assert view.problem == ""
    assert (view.trim_point, view.has_database) == (0, True)
    assert sorted(need.kind for need in view.needs) == ["hold", "replica", "replica", "replica"]
    assert any(need.blocks for need in view.needs)
    assert view.allowed is not None
    assert view.tail is not None
    effect = await read_trim_effect(log_of(one), view.tail)
    assert effect.refusal
    assert len(effect.hurts) == 4
    with pytest.raises(InvalidSettingError, match="the database needs the log"):
        await world.client().call(ONE, PrefixTrim(position=view.tail), 5)
    assert (await read_trim_effect(log_of(one), view.allowed)).refusal == ""


def test_the_replica_that_has_applied_most_knows_best() -> None:
    """Rows come from it, the lowest position first; what blocks is marked."""
    view = database()
    assert [(need.kind, need.name, need.position, need.keeps, need.blocks) for need in view.needs] == [
        ("replica", "1-ab", 50, 100, True), ("hold", "nightly", 90, 60, False)
    ]  # fmt: skip
    assert (view.allowed, view.reasons, view.has_database) == (50, ("replica 1-ab",), True)


def test_a_backup_and_other_reasons_have_rows() -> None:
    """They are in no table of replicas and holds, and are named by the server alone."""
    view = database(40, ("log-backup", "fewer than 2 snapshots past it"))
    kinds = {need.name: (need.position, need.blocks) for need in view.needs if need.kind in {"backup", "other"}}
    assert kinds == {"log-backup": (40, True), "fewer than 2 snapshots past it": (40, True)}


def test_a_trim_within_a_segment_drops_a_part() -> None:
    """And is allowed up to the allowed position."""
    effect = describe_trim(database(), TWO_SEGMENTS, 50)
    assert (effect.dropped, effect.refusal, effect.hurts) == (range(10, 50), "", ())
    (part,) = effect.segments
    assert (part.id, part.positions, part.is_whole) == (str(CLOSED), range(10, 50), False)


def test_a_trim_past_needs_names_whom_it_hurts() -> None:
    """A whole segment, a part of the open one, and the reason why nodes refuse it."""
    effect = describe_trim(database(), TWO_SEGMENTS, 1_000)
    assert effect.dropped == range(10, 150)
    assert [(part.id, part.is_whole) for part in effect.segments] == [(str(CLOSED), True), (str(OPEN), False)]
    assert [need.name for need in effect.hurts] == ["1-ab", "nightly"]
    assert effect.refusal == "the database needs the log from 50 on (replica 1-ab)"


def test_a_trim_below_the_trim_point_drops_nothing() -> None:
    """A dry run of it says so."""
    effect = describe_trim(database(), TWO_SEGMENTS, 5)
    assert (len(effect.dropped), effect.segments, effect.hurts) == (0, (), ())


def test_a_database_without_a_server_keeps_everything() -> None:
    """Nodes refuse the trim; the view names what each node has said."""
    named = attrs.evolve(TWO_SEGMENTS, database=True)
    away = {ONE: UnavailableError("away")}
    view = describe_holds(SEEN, named, away, away)
    assert (view.allowed, view.needs) == (None, ())
    assert "node 1: away" in view.problem
    assert "none of its servers answers" in describe_trim(view, named, 20).refusal


def test_archives_are_named() -> None:
    """A trim drops them, too."""
    archived = register(segment(CLOSED, 0, 100, kind="archive"), segment(OPEN, 100, None))
    view = describe_holds(SEEN, archived, {}, {})
    assert (view.archived, view.has_database, view.problem) == ((range(100),), False, "")


async def test_a_log_that_does_not_answer_is_a_view_with_a_reason(autojump_clock: MockClock) -> None:
    """An error of each question, or silence: the time is bounded."""
    async with log_world() as w:
        log = w.client()

        async def fail() -> LogPosition:
            raise UnavailableError("servers are away")

        log.find_trim_point = fail  # type: ignore[method-assign]
        await log.view.refresh()
        log.view.adopt(attrs.evolve(w.register, nodes={}, chain=attrs.evolve(w.register.chain, version=9)))
        view = await read_holds(log)
        assert (view.trim_point, view.tail, view.problem) == (None, 0, "trim point: servers are away")

        async def wait() -> LogPosition:
            await trio.sleep_forever()

        log.find_trim_point = wait  # type: ignore[method-assign]
        view = await read_holds(log)
        assert (view.tail, view.problem) == (0, f"trim point: no answer within {BOUND_SECONDS:g} s")
