"""Holds on trimming: which replica, hold, backup or archive needs which part of the log, and the effect of a trim.

All servers of the database are asked for their status and for the allowed trim; the view is made after `SECONDS` at the latest, and
before that the bounds of the log are asked for (`log_bounds`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import attrs
import trio

from virtuallog.admin.cluster_status import call_each
from virtuallog.client.virtual_log import VirtualLog
from virtuallog.contract.chain import Segment
from virtuallog.contract.errors import VirtualLogError
from virtuallog.contract.ports import Outcome
from virtuallog.contract.register import Register
from virtuallog.contract.types import NodeId
from virtuallog_console.views.chain import ARCHIVE
from virtuallog_console.views.log_bounds import find_bounds, joined
from virtuallog_database.control.messages import (
    Allowed,
    DatabaseStatus,
    FindAllowedTrim,
    GetDatabaseStatus,
)
from virtuallog_database.engines.log_backup import LogBackupEngine
from virtuallog_server.database.trim_check import ASK_SECONDS

SECONDS: Final = 10.0
"""Time for the servers of the database: twice the timeout of the allowed trim."""
HOLDS_MAX: Final = 500
"""Most rows; the log is kept for the first ones, which are shown."""


@attrs.frozen(kw_only=True)
class NeedRow:
    """A reason to keep the log."""

    kind: str
    """`replica`, `hold`, `backup`, or `other`, in the words of a server."""
    name: str
    position: int
    """First position that it needs."""
    keeps: int
    """Positions from there to the tail, 0 if the tail is not known."""
    milliseconds: int = 0
    """Lifetime of a hold without a renewal; 0 if unlimited."""
    blocks: bool = False
    """True if the log cannot be trimmed further because of it."""


@attrs.frozen(kw_only=True)
class HoldsView:
    """The trim point, and what keeps it where it is."""

    trim_point: int | None = None
    """First position that is not trimmed. None if it could not be learnt."""
    tail: int | None = None
    has_database: bool = False
    """True if a database stands on the log: it alone decides what may be trimmed."""
    allowed: int | None = None
    """Position up to which the log may be trimmed. None if there is no database, or no server of it answers."""
    reasons: tuple[str, ...] = ()
    """Names of what needs the log from `allowed` on, in the words of the server."""
    needs: tuple[NeedRow, ...] = ()
    """The lowest position first."""
    more: int = 0
    """Needs that are not shown."""
    archived: tuple[range, ...] = ()
    """Ranges of the chain that are archived. A trim drops them like others."""
    problem: str = ""


@attrs.frozen(kw_only=True)
class DroppedSegment:
    """Part of a segment that a trim would drop."""

    id: str
    kind: str
    positions: range
    is_whole: bool
    """True if the segment leaves the chain."""


@attrs.frozen(kw_only=True)
class TrimEffect:
    """Effect of a trim to a position, if it were done now. Others may trim, append or place holds meanwhile."""

    position: int
    dropped: range
    """Positions that would be dropped; a striped loglet may keep some of its last batch."""
    segments: tuple[DroppedSegment, ...] = ()
    hurts: tuple[NeedRow, ...] = ()
    """Needs of positions that would be dropped."""
    refusal: str = ""
    """Reason why nodes refuse it without `force`. Empty if they do not."""
    problem: str = ""
    """Reason why the effect is not known for sure. Empty if it is."""


async def read_holds(log: VirtualLog) -> HoldsView:
    """Ask the log for its bounds, and the servers of the database for what they need."""
    bounds = await find_bounds(log)
    view = HoldsView(trim_point=bounds.trim_point, tail=bounds.tail, problem=bounds.problem)
    problem = f"no answer within {SECONDS:g} s"
    with log.view.environment.clock.timeout(SECONDS):
        try:
            register = await log.view.current()
            return describe_holds(view, register, *await _ask(log, register))
        except VirtualLogError as error:
            problem = str(error)
    return attrs.evolve(view, problem=joined(view.problem, problem))


def describe_holds(
    view: HoldsView,
    register: Register,
    statuses: Mapping[NodeId, Outcome[DatabaseStatus]],
    allowed: Mapping[NodeId, Outcome[Allowed]],
) -> HoldsView:
    """The view with what these answers say."""
    archived = tuple(
        range(each.start, each.stop)
        for each in register.chain.segments
        if each.kind == ARCHIVE and each.stop is not None
    )
    view = attrs.evolve(view, archived=archived, has_database=register.database)
    known = [each for each in statuses.values() if not isinstance(each, VirtualLogError)]
    if not register.database and not known:
        return view
    answered = [each for each in allowed.values() if isinstance(each, Allowed)]
    least = min(answered, key=lambda each: each.position, default=None)
    problem = view.problem
    if least is None:
        reasons = "; ".join(f"node {node}: {answer}" for node, answer in sorted(allowed.items()))
        problem = joined(problem, f"no server of the database says what may be trimmed ({reasons})")
    rows = _needs(known, least, view.tail)
    return attrs.evolve(
        view,
        has_database=True,
        allowed=None if least is None else least.position,
        reasons=() if least is None else least.reasons,
        needs=rows[:HOLDS_MAX],
        more=max(0, len(rows) - HOLDS_MAX),
        problem=problem,
    )


async def read_trim_effect(log: VirtualLog, position: int) -> TrimEffect:
    """The effect that a trim to this position would have. Changes nothing: the dry run of the action."""
    view = await read_holds(log)
    register = log.view.cached
    if register is None:
        return TrimEffect(position=position, dropped=range(0), problem=view.problem or "the chain is not known")
    return describe_trim(view, register, position)


def describe_trim(view: HoldsView, register: Register, position: int) -> TrimEffect:
    """The effect of a trim on a log that looks like this."""
    chain = register.chain
    begin = max(chain.start, view.trim_point or 0)
    end = position if view.tail is None else min(position, view.tail)
    dropped = range(begin, max(begin, end))
    segments = [_dropped(segment, dropped) for segment in chain.segments]
    hurts = tuple(need for need in view.needs if need.position < dropped.stop) if dropped else ()
    refusal = ""
    if view.has_database and view.allowed is None:
        refusal = "a database may need it, and none of its servers answers"
    elif view.allowed is not None and position > view.allowed:
        refusal = f"the database needs the log from {view.allowed} on ({', '.join(view.reasons)})"
    return TrimEffect(
        position=position,
        dropped=dropped,
        segments=tuple(each for each in segments if each is not None),
        hurts=hurts,
        refusal=refusal,
        problem=view.problem,
    )


def _dropped(segment: Segment, dropped: range) -> DroppedSegment | None:
    stop = dropped.stop if segment.stop is None else min(segment.stop, dropped.stop)
    positions = range(max(segment.start, dropped.start), stop)
    if not positions:
        return None
    return DroppedSegment(
        id=str(segment.id),
        kind=segment.kind,
        positions=positions,
        is_whole=segment.stop is not None and stop == segment.stop,
    )


async def _ask(
    log: VirtualLog, register: Register
) -> tuple[Mapping[NodeId, Outcome[DatabaseStatus]], Mapping[NodeId, Outcome[Allowed]]]:
    services, nodes = log.view.environment.services, sorted(register.nodes)
    statuses: dict[NodeId, Outcome[DatabaseStatus]] = {}
    allowed: dict[NodeId, Outcome[Allowed]] = {}

    async def ask_statuses() -> None:
        statuses.update(await call_each(services, nodes, GetDatabaseStatus()))

    async def ask_allowed() -> None:
        allowed.update(await call_each(services, nodes, FindAllowedTrim(), ASK_SECONDS))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask_statuses)
        nursery.start_soon(ask_allowed)
    return statuses, allowed


def _needs(known: list[DatabaseStatus], least: Allowed | None, tail: int | None) -> tuple[NeedRow, ...]:
    """Needs as the replica knows them that has applied most, and those that only the reasons name, such as a backup."""
    newest = max(known, key=lambda status: status.cursor, default=DatabaseStatus(state=""))
    rows = [NeedRow(kind="replica", name=each.name, position=each.durable, keeps=0) for each in newest.members]
    rows += [
        NeedRow(kind="hold", name=each.name, position=each.position, keeps=0, milliseconds=each.milliseconds)
        for each in newest.holds
    ]
    named = {f"{row.kind} {row.name}" for row in rows}
    reasons = least.reasons if least is not None else ()
    if least is not None:
        others = [reason for reason in reasons if reason not in named]
        rows += [
            NeedRow(
                kind="backup" if reason == LogBackupEngine.name else "other",
                name=reason,
                position=least.position,
                keeps=0,
            )
            for reason in others
        ]
    done = [
        attrs.evolve(
            row,
            keeps=max(0, (tail or 0) - row.position),
            blocks=f"{row.kind} {row.name}" in reasons or row.name in reasons,
        )
        for row in rows
    ]
    return tuple(sorted(done, key=lambda row: (row.position, row.kind, row.name)))
