"""Restarts: what a replica is after a replay of its write-ahead log, from any file on and up to any record."""

from __future__ import annotations

import pytest

from tests.loglets.raft.core.group import SEGMENT, Group, Node, record
from tests.loglets.raft.core.test_walks import narrow_limits, walk
from virtuallog.contract.errors import MalformedError
from virtuallog.contract.types import NodeId
from virtuallog_loglets.raft.core import wal_records
from virtuallog_loglets.raft.core.effects import Change, CommitKnown, TermChanged, TrimRaised
from virtuallog_loglets.raft.core.membership import Configuration
from virtuallog_loglets.raft.core.replica_state import ReplicaState
from virtuallog_loglets.raft.core.wal_records import DurableReplicas
from virtuallog_loglets.wal.core.record import Address, address_of, sequence_of


def replayed(at: Node, stop: int | None = None) -> ReplicaState:
    """State from the first records of a disk."""
    durable = DurableReplicas()
    for address, stored in at.disk[:stop]:
        durable.replay(address, stored)
    return durable.states[SEGMENT]


def check_equal(found: ReplicaState, live: ReplicaState) -> None:
    """Compare a replayed state with the one whose writes it has replayed; it may know less of what is committed."""
    assert (found.term, found.vote, found.trim) == (live.term, live.vote, live.trim)
    assert found.log.end == live.log.end
    assert found.log.seal == live.log.seal
    assert found.log.configuration == live.log.configuration
    assert found.log.base.index <= found.commit <= live.commit
    for index in range(max(found.log.base.index, live.log.base.index), live.log.last_index + 1):
        assert found.log.term_at(index) == live.log.term_at(index)
        assert found.log.offset_at(index) == live.log.offset_at(index)


@pytest.mark.parametrize("first", range(500, 530, 10))
def test_replay_ends_in_the_state_that_was_written(first: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """After random walks, with files dropped from the front; cut at any record, the log is a valid one of an earlier time."""
    narrow_limits(monkeypatch.setattr)
    for seed in range(first, first + 10):
        for at in walk(seed).group.nodes.values():
            check_equal(replayed(at), at.replica.state)
            term = 0
            for stop in range(1, len(at.disk)):
                if any(stored.kind == 2 for _, stored in at.disk[:stop]):
                    state = replayed(at, stop)
                    assert state.term >= term
                    term = state.term


def follower() -> Group:
    """Two replicas, of which the first has some records, of which the last ones are not committed."""
    group = Group.of_voters(2)
    group.begin_with(1, "1122")
    return group


def test_overwritten_suffix_is_replayed_as_it_was_written() -> None:
    """Indexes go back where a leader has replaced records."""
    group = follower()
    group.begin_with(1, "11")
    at = group.node(1)
    for index, term in ((3, 3), (4, 3), (3, 5)):
        at.disk.append((Address(at.disk[-1][0] + 1), wal_records.encode(SEGMENT, record(index, term))))

    state = replayed(at)
    assert [state.log.term_at(index) for index in range(1, 4)] == [1, 1, 5]
    assert state.log.last_index == 3


def test_records_that_are_not_known_to_be_committed_are_pending_after_a_restart() -> None:
    """They are in the log, and given to no reader, until a leader says that they are committed."""
    group = follower()

    assert group.shape(1) == "|1122"
    assert group.entries(1) == []


def test_commit_that_a_record_names_is_known_after_a_restart() -> None:
    """Each record has its leader's commit index."""
    group = Group.of_voters(1, first_leader=1)
    for payload in ("a", "b", "c"):
        group.append(1, payload)
        group.settle()
    group.crash(1)

    assert group.shape(1) == "11|1"
    group.tick(times=30)
    assert group.entries(1) == ["a", "b", "c"]


@pytest.mark.parametrize("hole", [(3, 1), (2, 1)], ids=["an index is missing", "a committed record would change"])
def test_log_with_a_hole_is_malformed(hole: tuple[int, int]) -> None:
    """Nothing was written like this: the disk cannot be trusted."""
    durable = DurableReplicas()
    saved = ReplicaState.begin(Configuration.of_voters((NodeId(1),))).save()
    changes: list[Change] = (
        [saved, record(1, 1)] if hole[0] == 3 else [saved, record(1, 1), record(2, 2), CommitKnown(2)]
    )
    for number, change in enumerate(changes):
        durable.replay(address_of(1, number), wal_records.encode(SEGMENT, change))

    with pytest.raises(MalformedError):
        durable.replay(address_of(1, 99), wal_records.encode(SEGMENT, record(*hole)))


def test_files_stay_while_a_later_one_needs_their_records() -> None:
    """A file begins with the state at the commit point. Records behind that lie in earlier files, which must not go."""
    group = Group.of_voters(2, first_leader=1)
    group.settle()
    group.append(1, "committed")
    group.settle()
    for _ in range(2):
        group.append(1, "pending")
        group.sync(1)
        group.messages.clear()
    at = group.node(1)
    group.do(1, lambda at: at.requests.trim(1, "trim"))
    group.sync(1)
    first = sequence_of(at.disk[0][0])
    for _ in range(3):
        group.begin_file(1)
    assert sequence_of(at.disk[0][0]) == first

    before = group[1].state.log.end
    group.crash(1)
    assert group[1].state.log.end == before


def test_files_go_once_all_their_records_are_trimmed() -> None:
    """The first record that is left is in a later file."""
    group = Group.of_voters(1, first_leader=1)
    for number in range(6):
        group.append(1, f"{number}")
        group.settle()
        group.begin_file(1)
    group.do(1, lambda at: at.requests.trim(4, "trim"))
    group.settle()
    group.begin_file(1)
    at = group.node(1)

    assert sequence_of(at.disk[0][0]) == sequence_of(group[1].state.log.lowest_address or Address(0))
    assert (
        len({sequence_of(address) for address, _ in at.disk}) == 4
    )  # two with records, that of the trim, and the new one
    group.crash(1)
    assert group.shape(1).replace("|", "") == "11"
    assert (group[1].state.trim, group[1].state.log.next_offset) == (4, 6)


def test_crash_within_the_head_of_a_file_loses_nothing() -> None:
    """The file before still has everything."""
    group = Group.of_voters(1, first_leader=1)
    for number in range(3):
        group.append(1, f"{number}")
        group.settle()
    at = group.node(1)
    kept = list(at.disk)
    group.begin_file(1)
    for extra in range(len(at.disk) - len(kept)):
        at.disk[:] = [*kept, *at.disk[len(kept) : len(kept) + extra]]
        assert replayed(at).log.last_index == 3


def test_head_of_a_file_knows_a_later_term_than_what_follows() -> None:
    """The state is saved as it is in memory, and writes that were queued before come behind it: the term does not go back."""
    durable = DurableReplicas()
    state = ReplicaState.begin(Configuration.of_voters((NodeId(1), NodeId(2))))
    state.term, state.vote = 7, NodeId(2)
    changes: list[Change] = [state.save(), TermChanged(5, NodeId(1)), TrimRaised(0), TermChanged(7, NodeId(2))]
    for number, change in enumerate(changes):
        durable.replay(address_of(1, number), wal_records.encode(SEGMENT, change))
        assert (durable.states[SEGMENT].term, durable.states[SEGMENT].vote) == (7, 2)
