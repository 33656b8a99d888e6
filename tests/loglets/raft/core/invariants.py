"""Invariants of the replicas of one log, checked after each step: states, and changes of state.

* One leader in a term. A leader has every record that was committed in earlier terms, and `match` < `next` for each peer.
* Logs that have the same term at an index are equal up to there. Records with the same index and term are the same bytes.
* A committed record never changes. At most one SEAL is committed, and no batch is behind a SEAL.
* Term and commit index of a replica never go back, and a vote never changes within a term.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from virtuallog.contract.types import NodeId
from virtuallog_loglets.raft.core.log import RaftLog
from virtuallog_loglets.raft.core.records import RaftRecord, RecordKind, parse_untrusted
from virtuallog_loglets.raft.core.replica import RaftReplica
from virtuallog_loglets.raft.core.transitions import RaftRole


@attrs.define(eq=False)
class Invariants:
    """Everything that was seen so far of one log."""

    committed: dict[int, tuple[int, bytes]] = attrs.field(factory=dict)
    """(term, blob) of every record that a replica took for committed."""
    leaders: dict[int, NodeId] = attrs.field(factory=dict)
    """Leader of each term."""
    sealed_at: set[int] = attrs.field(factory=set)
    _made: dict[tuple[int, int], bytes] = attrs.field(factory=dict, init=False)
    """Blob of every record, by (index, term)."""
    _seen: dict[NodeId, tuple[int, NodeId, int]] = attrs.field(factory=dict, init=False)
    """Term, vote and commit index of each replica."""
    _marks: dict[NodeId, tuple[object, ...]] = attrs.field(factory=dict, init=False)
    """State in which each replica was checked last."""

    def forget(self, node: NodeId) -> None:
        """Begin anew with a replica that has begun anew."""
        self._seen.pop(node, None)
        self._marks.pop(node, None)

    def check(self, replicas: Mapping[NodeId, RaftReplica]) -> None:
        """Check all replicas together; those that have not changed since the last time are passed over."""
        for node, replica in replicas.items():
            state, log = replica.state, replica.state.log
            mark = (state.term, state.vote, state.commit, replica.role, log.base, log.end, id(log))
            if self._marks.get(node) != mark:
                self._marks[node] = mark
                self._check_one(node, replica)
                for other, peer in replicas.items():
                    if other != node:
                        _check_matching(f"{node} and {other}", log, peer.state.log)
            if replica.leading is not None:
                for progress in replica.leading.replicator.peers.values():
                    assert progress.match < progress.next

    def parsed(self, index: int) -> RaftRecord:
        """The committed record at an index."""
        return parse_untrusted(self.committed[index][1])

    def _check_one(self, node: NodeId, replica: RaftReplica) -> None:
        state, log = replica.state, replica.state.log
        assert log.base.index <= state.commit <= log.last_index
        term, vote, commit = self._seen.get(node, (0, 0, 0))
        assert state.term >= term, f"the term of {node} went back"
        assert state.term > term or vote in (0, state.vote), f"{node} changed its vote"
        assert state.commit >= commit, f"the commit index of {node} went back"
        self._seen[node] = state.term, state.vote, state.commit
        self._check_records(log)
        if log.base.index > commit:
            self._check_dropped(log)
        for index in range(max(log.base.index, commit) + 1, state.commit + 1):
            self._check_committed(log, index)
        if replica.role is RaftRole.LEADER:
            self._check_leader(node, replica)

    def _check_dropped(self, log: RaftLog) -> None:
        """A log without entries drops its records in the step that commits them: only the last one is still known."""
        blob = self._made.get((log.base.index, log.base.term))
        if blob is not None and parse_untrusted(blob).kind is not RecordKind.BATCHES:
            self._check_committed(log, log.base.index)

    def _check_committed(self, log: RaftLog, index: int) -> None:
        term = log.term_at(index)
        assert term is not None
        blob = self._made[index, term]
        assert self.committed.setdefault(index, (term, blob)) == (term, blob), f"two records are committed at {index}"
        if self.parsed(index).kind is RecordKind.SEAL:
            self.sealed_at.add(index)
        assert len(self.sealed_at) <= 1, "two SEALs are committed"

    def _check_leader(self, node: NodeId, replica: RaftReplica) -> None:
        term, log = replica.state.term, replica.state.log
        assert self.leaders.setdefault(term, node) == node, f"two leaders of term {term}"
        if term > max((term for term, _ in self.committed.values()), default=0):
            for index, (decided, _) in self.committed.items():
                assert index <= log.base.index or log.term_at(index) == decided, f"leader {node} lacks record {index}"

    def _check_records(self, log: RaftLog) -> None:
        sealed = False
        for index in range(log.base.index + 1, log.last_index + 1):
            record = log.kept(index)
            if record is not None:
                made = self._made.setdefault((index, record.term), record.blob)
                assert made == record.blob, f"two records of term {record.term} at {index}"
                assert not (sealed and record.count), "a batch behind the SEAL"
                sealed = sealed or record.kind is RecordKind.SEAL


def _check_matching(which: str, one: RaftLog, other: RaftLog) -> None:
    low, high = max(one.base.index, other.base.index) + 1, min(one.last_index, other.last_index)
    same = False
    for index in range(high, low - 1, -1):
        equal = one.term_at(index) == other.term_at(index)
        assert equal or not same, f"logs of {which} match at {index + 1} and differ at {index}"
        same = same or equal
