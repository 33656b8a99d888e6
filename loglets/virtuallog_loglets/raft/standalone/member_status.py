"""Standing of the members of a log used by itself, from what each of them says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import attrs

from virtuallog.contract.errors import VirtualLogError
from virtuallog.contract.types import NodeId
from virtuallog_loglets.raft.core.membership import MemberKind
from virtuallog_loglets.raft.core.transitions import RunState
from virtuallog_loglets.raft.messages import NO_NODE, LogMembership, RaftStanding

SILENT: Final = "silent"
"""Role of a member that does not answer."""
REMOVED: Final = "REMOVED"
"""Kind of a store that was removed from its log."""
OUTSIDE: Final = ""
"""Kind of a store that has joined no log."""


@attrs.frozen(kw_only=True)
class MemberStatus:
    """Standing of one store."""

    store: NodeId
    address: str
    kind: str
    """VOTER, PRE_VOTER, OBSERVER, REMOVED, or empty for a store that has joined no log."""
    role: str
    """LEADER, FOLLOWER, CANDIDATE, LEARNER, NON_PARTICIPANT, or `SILENT`."""
    state: str = ""
    """BOOTSTRAPPING, CONFIGURING or RUNNING."""
    term: int = 0
    commit: int = 0
    """Commit index, as this store knows it."""
    last: int = 0
    """Index of its last record."""
    lag: int | None = None
    """Committed records, as far as any store knows, that this one does not know to be committed."""
    tail: int = 0
    """Offset behind the last entry that it knows to be committed."""
    trim: int = 0
    """Entries below this offset are gone."""
    leader: NodeId | None = None
    """Leader that it knows; None if it knows none."""
    members: int = 0
    """Index of the record with its members."""
    full: bool = False
    """True if its disk is full."""
    problem: str | None = None
    """The error, of a store that does not answer."""


def status_of(view: LogMembership, answers: Mapping[NodeId, LogMembership | VirtualLogError]) -> list[MemberStatus]:
    """A row for each member of `view`, and for each other store that has answered, sorted by store.

    Args:
        view: the newest members.
        answers: answers and errors, by the number that was asked.
    """
    told = {each.store: each for each in answers.values() if isinstance(each, LogMembership)}
    commit = max((each.standing.commit_index for each in told.values()), default=0)
    members = {member.store: member for member in view.members}
    rows = []
    for store in sorted({*members, *told}):
        member, answer = members.get(store), told.get(store)
        address = "" if member is None else member.address
        kind = OUTSIDE if member is None else kind_name(member.kind)
        if answer is None:
            error = answers.get(store)
            problem = str(error) if error is not None else "it was not asked"
            rows.append(MemberStatus(store=store, address=address, kind=kind, role=SILENT, problem=problem))
            continue
        standing = answer.standing
        rows.append(
            MemberStatus(
                store=store,
                address=address,
                kind=REMOVED if answer.removed else kind,
                role=standing.role,
                state=standing.state,
                term=standing.term,
                commit=standing.commit_index,
                last=standing.last_index,
                lag=commit - standing.commit_index,
                tail=standing.tail,
                trim=standing.trim,
                leader=standing.leader if standing.leader != NO_NODE else None,
                members=answer.index,
                full=standing.full,
            )
        )
    return rows


def kind_name(kind: int) -> str:
    """Name of a kind of members, also of a later version."""
    return MemberKind(kind).name if kind in {*MemberKind} else f"kind {kind}"


def voters_of(view: LogMembership) -> tuple[NodeId, ...]:
    """Members that vote."""
    return tuple(member.store for member in view.members if member.kind == MemberKind.VOTER)


def has_member(view: LogMembership, store: NodeId) -> bool:
    """True if a store is a member."""
    return any(member.store == store for member in view.members)


def has_promoted(former: LogMembership, view: LogMembership) -> bool:
    """True if a leader has made newcomers voters since `former`, and no operator has changed the members."""
    stores, latter = ({member.store for member in each.members} for each in (former, view))
    return view.index > former.index and stores == latter


def rank(view: LogMembership) -> tuple[int, int]:
    """Order of age of the answers of several stores: one of a later term knows later members."""
    return view.standing.term, view.index


def bootstrapping(store: NodeId) -> LogMembership:
    """Answer of a store that still reads its records."""
    standing = RaftStanding(
        tail=0, sealed=False, trim=0, role="NON_PARTICIPANT", state=RunState.BOOTSTRAPPING.value
    )  # fmt: skip
    return LogMembership(store=store, index=0, members=(), removed=False, standing=standing)
