"""Promises of the Raft core that are checked in each state, and in each step.

A check of states alone is blind for what goes back: a commit index, a vote, a match index.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from virtuallog.contract.errors import SealedError, VirtualLogError
from virtuallog_loglets.raft.core.records import RecordKind
from virtuallog_loglets.raft.messages import LeaderReply
from virtuallog_simulation.explorer.local_states import Event
from virtuallog_simulation.explorer.raft.state import RaftHistory, RaftView, RecordTable


def compare(records: RecordTable, before: RaftView, event: Event, after: RaftView) -> str | None:
    """Check one step of one replica: what never goes back, and what a leader never does."""
    node, crashed = before.node, event[0] == "crash"
    if after.base > after.commit or after.commit > after.last:
        return f"{node}: base {after.base}, commit {after.commit} and last {after.last} are out of order"
    if any(match >= after.last + 1 for _, match in after.matches):
        return f"{node}: a peer has more than its leader sent"
    if crashed:
        return None if (after.term, after.vote) == before.disk else f"{node} begins with another vote than its disk has"
    if after.term < before.term:
        return f"the term of {node} goes back"
    if after.term == before.term and before.vote not in (0, after.vote):
        return f"{node} changes its vote in term {after.term}"
    if after.commit < before.commit:
        return f"the commit index of {node} goes back"
    if after.trim < before.trim or after.base < before.base:
        return f"the trim of {node} goes back"
    if 0 < before.seal <= before.commit and after.seal != before.seal:
        return f"{node} is not sealed any more"
    low = max(before.base, after.base)
    known = max(before.commit - low, 0)
    if before.records[low - before.base :][:known] != after.records[low - after.base :][:known]:
        return f"a committed record of {node} changes"
    if before.leads and after.leads and before.term == after.term:
        mine = before.records[low - before.base :]
        if after.records[low - after.base :][: len(mine)] != mine:
            return f"leader {node} truncates its log"
        former = dict(before.matches)
        if any(match < former.get(peer, 0) for peer, match in after.matches):
            return f"a match index at leader {node} goes back"
    return _check_behind_seal(records, after)


def _check_behind_seal(records: RecordTable, view: RaftView) -> str | None:
    seals = [at for at, each in enumerate(view.records) if records[each].kind is RecordKind.SEAL]
    if len(seals) > 1:
        return f"the log of {view.node} has two SEALs"
    if seals and any(records[each].count for each in view.records[seals[0] :]):
        return f"the log of {view.node} has a batch behind its SEAL"
    return None


def check_committed(records: RecordTable, views: Sequence[RaftView], history: RaftHistory) -> str | None:
    """Check all replicas against the records that were ever committed."""
    committed = history.committed
    if not committed:
        return None
    newest = records[committed[-1]].term
    for view in views:
        low = view.base
        if view.records[: view.commit - low] != committed[low : view.commit]:
            return f"{view.node} has committed other records than were committed before"
        if view.leads and view.term > newest and view.records[: len(committed) - low] != committed[low:]:
            return f"leader {view.node} of term {view.term} lacks a committed record"
    last = len(committed)
    holders = sum(view.base >= last or (view.durable >= last and view.record(last) == committed[-1]) for view in views)
    if 2 * holders <= len(views):
        return f"the record at {last} is committed and durable at {holders} of {len(views)} replicas"
    return None


def check_pair(one: RaftView, other: RaftView) -> str | None:
    """Check two replicas: log matching, and what a leader counts of the other."""
    low, high = max(one.base, other.base), min(one.last, other.last)
    same = False
    for index in range(high, low, -1):
        mine, theirs = one.terms[index - one.base - 1], other.terms[index - other.base - 1]
        if mine == theirs and one.record(index) != other.record(index):
            return f"{one.node} and {other.node} have different records at {index} of term {mine}"
        if same and mine != theirs:
            return f"logs of {one.node} and {other.node} match at {index + 1} and differ at {index}"
        same = same or mine == theirs
    for leader, peer in ((one, other), (other, one)):
        match = dict(leader.matches).get(peer.node, 0)
        if not leader.leads or peer.term != leader.term or match <= low:
            continue
        if match > peer.durable or leader.record(match) != peer.record(match):
            return f"leader {leader.node} counts {peer.node} up to {match}, which is not durable there"
    return None


def check_told(records: RecordTable, told: tuple[Any, ...], history: RaftHistory) -> str | None:
    """Check the answers to clients."""
    tail, sealed = records.tail_of(history)
    committed = [records[each] for each in history.committed]
    for ticket, outcome in told:
        match ticket, outcome:
            case ("append", number), LeaderReply(place=place) if place >= 0:
                payload = b"%d" % number
                if not any(record.count and record.first == place and payload in record.body for record in committed):
                    return f"append {number} was acknowledged at {place} and is not committed there"
            case ("append", number), SealedError(refused=refused):
                if not sealed:
                    return f"append {number} was told of a seal that is not committed"
                if refused and any(record.count and b"%d" % number in record.body for record in committed):
                    return f"append {number} was refused for good and is committed"
            case ("seal", _), LeaderReply(place=place, sealed=is_sealed) if place >= 0:
                if not is_sealed or not sealed or place != tail:
                    return f"a seal was answered with {place}, sealed: {is_sealed}, and the tail is {tail}"
            case ("read", least, was_sealed), LeaderReply(place=place, sealed=is_sealed) if place >= 0:
                if not least <= place <= tail or (was_sealed and not is_sealed) or (is_sealed and not sealed):
                    return f"a tail of {place}, sealed: {is_sealed}, where {least} was committed before and {tail} is"
            case _, LeaderReply() | VirtualLogError():
                pass
    return None
