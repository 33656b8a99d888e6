"""Ledger of one raft loglet: what its replicas have had in their logs, in memory and on their disks.

It is given one replica after another, at any moments, and compares each with all that it was given before. Two kinds of
rules: those that hold of every state (log matching, leader completeness, offsets without holes, one SEAL), and those that
compare two states of one replica (terms, commit indexes and trims never go back; a leader drops nothing; what is committed
stays). Checks of states alone miss the second kind.

Actual comparisons are counted, as a look that sees nothing finds nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from hashlib import blake2b
from typing import Final

import attrs

from virtuallog.contract.batch import glance_untrusted
from virtuallog.contract.chain import SegmentId
from virtuallog.contract.types import NodeId
from virtuallog.testing.checker.violation import Violation
from virtuallog_loglets.raft.core.records import RaftRecord, RecordKind
from virtuallog_loglets.raft.core.replica import RaftReplica
from virtuallog_loglets.raft.core.replica_state import ReplicaState

LEADERS: Final = "looked: leaders of raft logs"
MATCHED: Final = "looked: raft records in several logs"
COMPLETE: Final = "looked: committed raft records in the logs of later leaders"
COMMITTED: Final = "looked: committed raft records at several replicas"
SEALS: Final = "looked: records behind a committed SEAL"
SESSIONS: Final = "looked: sessions of a replica and of its log"
DURABLE: Final = "looked: committed raft records on disks"
REPLAYED: Final = "looked: raft replicas equal to their disks"
LOOKED: Final = (LEADERS, MATCHED, COMPLETE, COMMITTED, SEALS, SESSIONS, DURABLE, REPLAYED)

ONE_LEADER: Final = "one leader per term"
MATCHING: Final = "logs match"
COMPLETENESS: Final = "leaders have what is committed"
STAYS: Final = "committed records stay"
BACK: Final = "replicas never go back"
FLOW: Final = "leaders know their peers"
DENSE: Final = "offsets are dense"
ONE_SEAL: Final = "one SEAL ends the log"
TABLE: Final = "sessions equal the log"
ON_DISK: Final = "committed is on a majority"
FORGETS: Final = "replicas recover what they told"


@attrs.frozen
class _Record:
    """A record that some log has had, by index and term."""

    digest: bytes
    previous_term: int | None
    """None if the log begins with this record."""

    def is_alike(self, other: _Record) -> bool:
        """True if both are the same, behind the same log."""
        if None in (self.previous_term, other.previous_term):
            return self.digest == other.digest
        return self == other


@attrs.frozen
class _Commitment:
    """A record that some replica has known to be committed."""

    term: int
    by_term: int
    """Term in which that replica was: every leader of a later one has the record."""
    node: NodeId


@attrs.define(eq=False)
class _Life:
    """Last look at one process's replica."""

    state: ReplicaState
    term: int
    vote: NodeId
    commit: int
    trim: int
    base: int
    tail: int
    sealed: bool


@attrs.define(eq=False)
class _Reign:
    """Last look at the leader of a term."""

    node: NodeId
    last_index: int
    checked: int = 0
    """Commitments that were looked for in its log."""
    matches: Mapping[NodeId, int] = attrs.field(factory=dict)


@attrs.define(eq=False)
class RaftLedger:
    """Everything that was seen of one loglet. Violations are added to `found`."""

    segment: SegmentId
    looked: Counter[str]
    found: list[Violation]
    voters: Collection[NodeId] = ()
    """Voters that the newest committed record was committed by."""
    committed: dict[int, _Commitment] = attrs.field(factory=dict, init=False)
    """By index."""
    highest: int = attrs.field(default=0, init=False)
    """Highest committed index."""
    _order: list[int] = attrs.field(factory=list, init=False)
    """Committed indexes as they were seen."""
    _records: dict[tuple[int, int], _Record] = attrs.field(factory=dict, init=False)
    _bodies: dict[int, RaftRecord] = attrs.field(factory=dict, init=False)
    """Committed records that have not been folded into the sessions."""
    _reigns: dict[int, _Reign] = attrs.field(factory=dict, init=False)
    """By term."""
    _lives: dict[NodeId, _Life] = attrs.field(factory=dict, init=False)
    _stored: dict[NodeId, tuple[int, NodeId, int]] = attrs.field(factory=dict, init=False)
    """(term, vote, trim) that was durable, by node."""
    _folded: int = attrs.field(default=0, init=False)
    """Committed records from the first one on whose batches are in `_sessions`."""
    _sessions: dict[bytes, list[tuple[int, int, int]]] = attrs.field(factory=dict, init=False)
    """(first sequence, count, offset) of the batches of each session up to there."""
    _seal: int = attrs.field(default=0, init=False)
    """Index of the first committed SEAL."""
    _told: set[str] = attrs.field(factory=set, init=False)

    # -- a replica in memory --------------------------------------------------------------------------------------

    def look(self, node: NodeId, replica: RaftReplica) -> None:
        """Compare a replica, between two steps, with all that was seen before."""
        state, life = replica.state, self._lives.get(node)
        if life is None or life.state is not state:
            life = None
        if not self.voters and not state.is_copy:
            self.voters = state.log.origin.voters
        if replica.leading is not None and state.commit > self.highest:
            self.voters = state.log.configuration.voters
        since = min(state.commit, life.commit) if life is not None else 0
        self._records_agree(node, state, since)
        self._committed_agree(node, state, since)
        if life is not None:
            self._never_back(node, life, state)
        if replica.leading is not None:
            self._leads(node, replica)
        self._sessions_agree(node, state)
        self._lives[node] = _Life(
            state, state.term, state.vote, state.commit, state.trim, state.log.base.index, state.tail, state.is_sealed
        )

    def lost(self, node: NodeId) -> None:
        """The disks of a node were replaced by empty ones."""
        self._stored.pop(node, None)

    def _records_agree(self, node: NodeId, state: ReplicaState, since: int) -> None:
        log = state.log
        for index in range(max(since, log.base.index) + 1, log.last_index + 1):
            record = log.kept(index)
            if record is None:
                continue
            digest = blake2b(record.blob, digest_size=8).digest()
            seen = _Record(digest, None if _is_made_up(state, index - 1) else log.term_at(index - 1))
            known = self._records.setdefault((index, record.term), seen)
            self.looked[MATCHED] += known is not seen
            if not known.is_alike(seen):
                self._object(
                    MATCHING, f"record {index} of term {record.term} is another one at node {node}: {seen}, {known}"
                )
            before = log.kept(index - 1)
            if before is not None and record.first != before.stop:
                self._object(DENSE, f"record {index} at node {node} begins at {record.first}, {before.stop} is due")
            if log.seal and index > log.seal and record.kind in (RecordKind.BATCHES, RecordKind.SEAL):
                self._object(
                    ONE_SEAL, f"node {node} has a {record.kind.name} at {index}, behind the SEAL at {log.seal}"
                )

    def _committed_agree(self, node: NodeId, state: ReplicaState, since: int) -> None:
        log = state.log
        if not log.base.index <= state.commit <= log.last_index:
            message = f"its log has {log.base.index + 1} to {log.last_index}"
            self._object(STAYS, f"node {node} knows everything up to {state.commit} to be committed, {message}")
            return
        for index in range(max(since, log.base.index - 1) + 1, state.commit + 1):
            term = log.term_at(index)
            if term is None or index == 0 or _is_made_up(state, index):
                continue
            mine = _Commitment(term, state.term, node)
            known = self.committed.setdefault(index, mine)
            if known is mine:
                self._order.append(index)
            self.looked[COMMITTED] += known is not mine
            if known.term != term:
                message = (
                    f"record {index} is committed with term {known.term} at node {known.node}, with {term} at {node}"
                )
                self._object(STAYS, message)
            if (record := log.kept(index)) is not None and index > self._folded:
                self._bodies.setdefault(index, record)
        self.highest = max(self.highest, state.commit)
        self._fold()

    def _never_back(self, node: NodeId, life: _Life, state: ReplicaState) -> None:
        for what, before, now in (
            ("term", life.term, state.term),
            ("commit index", life.commit, state.commit),
            ("trim", life.trim, state.trim),
            ("base", life.base, state.log.base.index),
            ("tail", life.tail, state.tail),
            ("SEAL", int(life.sealed), int(state.is_sealed)),
        ):
            if now < before:
                self._object(BACK, f"the {what} of node {node} goes back from {before} to {now}")
        if state.term == life.term and life.vote and state.vote != life.vote:
            self._object(BACK, f"node {node} votes for {life.vote} and {state.vote} in term {state.term}")

    # -- leaders --------------------------------------------------------------------------------------------------

    def _leads(self, node: NodeId, replica: RaftReplica) -> None:
        leading, log = replica.leading, replica.state.log
        assert leading is not None
        term = leading.term
        fresh = _Reign(node, log.last_index)
        reign = self._reigns.setdefault(term, fresh)
        self.looked[LEADERS] += reign is fresh
        if reign.node != node:
            self._object(ONE_LEADER, f"nodes {reign.node} and {node} lead term {term}")
            return
        if log.last_index < reign.last_index:
            self._object(
                BACK, f"node {node} leads term {term} and drops records {log.last_index + 1} to {reign.last_index}"
            )
        self._is_complete(node, term, reign, replica.state)
        matches = {peer: progress.match for peer, progress in leading.replicator.peers.items()}
        for peer, progress in leading.replicator.peers.items():
            if not progress.match < progress.next or progress.match > log.last_index:
                message = f"match {progress.match}, next {progress.next}, last index {log.last_index}"
                self._object(FLOW, f"node {node} leads term {term}, and has of node {peer}: {message}")
            if progress.match < reign.matches.get(peer, 0):
                self._object(
                    FLOW, f"node {node} leads term {term}, its match of node {peer} goes back to {progress.match}"
                )
        reign.last_index, reign.matches = log.last_index, matches

    def _is_complete(self, node: NodeId, term: int, reign: _Reign, state: ReplicaState) -> None:
        news = self._order[reign.checked :]
        reign.checked += len(news)
        for index in news:
            known = self.committed[index]
            if known.by_term >= term or index < state.log.base.index:
                continue
            self.looked[COMPLETE] += 1
            if not state.log.matches(index, known.term):
                message = f"node {node} leads term {term} without record {index} of term {known.term}"
                self._object(
                    COMPLETENESS, f"{message}, which node {known.node} knew to be committed in term {known.by_term}"
                )

    def peers_have(self, leader: RaftReplica, living: Mapping[NodeId, RaftReplica]) -> None:
        """Compare what a leader takes for durable at its peers with their disks, as far as they are in its term."""
        if leader.leading is None:
            return
        for peer, progress in leader.leading.replicator.peers.items():
            other = living.get(peer)
            if other is None or other.state.term != leader.leading.term or other.state.is_copy:
                continue
            if progress.match > other.state.log.durable_index:
                message = f"node {leader.node} counts node {peer} up to {progress.match}"
                self._object(FLOW, f"{message}, whose disk has {other.state.log.durable_index}")

    # -- sessions -------------------------------------------------------------------------------------------------

    def _fold(self) -> None:
        """Take the batches of committed records in the order of the log."""
        while (record := self._bodies.pop(self._folded + 1, None)) is not None:
            self._folded += 1
            self.looked[SEALS] += self._seal > 0
            if self._seal and record.kind in (RecordKind.BATCHES, RecordKind.SEAL):
                message = f"the committed record {record.index} is a {record.kind.name}"
                self._object(ONE_SEAL, f"{message}, behind the SEAL at {self._seal}")
            if record.kind is RecordKind.SEAL:
                self._seal = self._seal or record.index
            for place, part in record.parts():
                batch = glance_untrusted(record.blob, part.start)
                assert batch is not None
                session, first, count = bytes(batch[0]), batch[1], batch[2]
                batches = self._sessions.setdefault(session, [])
                due = batches[-1][0] + batches[-1][1] if batches else first
                if first != due:
                    message = f"session {session.hex()[:8]} has its batch #{first} at offset {place}, #{due} is due"
                    self._object(TABLE, f"{message}: record {record.index}")
                batches.append((first, count, place))

    def _sessions_agree(self, node: NodeId, state: ReplicaState) -> None:
        if state.commit != self._folded or not self._folded:
            return
        self.looked[SESSIONS] += 1
        known = {bytes(each.session): each for each in state.digest.sessions()}
        for session, batches in self._sessions.items():
            mine = known.get(session)
            if mine is None:
                if not state.digest.has_forgotten:
                    self._object(TABLE, f"node {node} does not know session {session.hex()[:8]}, which is in its log")
                continue
            due = batches[-1][0] + batches[-1][1]
            last = [(batch.first_sequence, batch.count, batch.place) for batch in mine.last]
            if mine.next_sequence != due or last != batches[len(batches) - len(last) :]:
                message = f"node {node} expects #{mine.next_sequence} of session {session.hex()[:8]} after {last}"
                self._object(TABLE, f"{message}; its log has {batches}")

    # -- a replica on a disk --------------------------------------------------------------------------------------

    def stored(self, node: NodeId, disk: ReplicaState, replica: RaftReplica | None) -> None:
        """Compare what a disk holds with what was seen before, and with the process that uses it; None if there is none."""
        term, vote, trim = self._stored.get(node, (0, NodeId(0), 0))
        if disk.term < term or disk.trim < trim or (disk.term == term and vote and disk.vote != vote):
            now = f"term {disk.term}, vote {disk.vote}, trim {disk.trim}"
            self._object(FORGETS, f"the disk of node {node} had term {term}, vote {vote}, trim {trim}; it has {now}")
        self._stored[node] = disk.term, disk.vote, disk.trim
        for index in range(disk.log.base.index + 1, disk.commit + 1):
            known = self.committed.get(index)
            if known is not None and not disk.log.matches(index, known.term):
                self._object(
                    STAYS, f"the disk of node {node} has another committed record {index} than node {known.node}"
                )
        if replica is None or replica.outbox.is_writing:
            return
        self.looked[REPLAYED] += 1
        state = replica.state
        mine = state.term, state.vote, state.trim, state.log.last_index, state.log.last_term, state.log.seal
        kept = disk.term, disk.vote, disk.trim, disk.log.last_index, disk.log.last_term, disk.log.seal
        if mine != kept:
            names = "term, vote, trim, last index, its term, SEAL"
            self._object(FORGETS, f"node {node} has {names} {mine}, and after a restart {kept}")

    def majority_has(self, disks: Mapping[NodeId, ReplicaState | None]) -> None:
        """Check that what some replica knows to be committed would outlive the loss of all processes now.

        Args:
            disks: state of the loglet on each node's disk; None if that cannot be known.
        """
        known = self.committed.get(self.highest)
        if known is None or not self.voters:
            return
        self.looked[DURABLE] += 1
        have = [node for node in self.voters if self._has(disks, node, self.highest, known.term)]
        if 2 * len(have) <= len(self.voters):
            message = f"record {self.highest} of term {known.term} is committed, as node {known.node} knows"
            self._object(ON_DISK, f"{message}, and of {list(self.voters)} only {have} have it")

    @staticmethod
    def _has(disks: Mapping[NodeId, ReplicaState | None], node: NodeId, index: int, term: int) -> bool:
        if node not in disks:
            return False
        disk = disks[node]
        return disk is None or index < disk.log.base.index or disk.log.matches(index, term)

    def _object(self, check: str, message: str) -> None:
        if message not in self._told:
            self._told.add(message)
            self.found.append(Violation(check, f"loglet {self.segment}: {message}"))


def _is_made_up(state: ReplicaState, index: int) -> bool:
    """True for the base of a copy: its maker did not know the term there."""
    return state.is_copy and index == state.log.base.index
