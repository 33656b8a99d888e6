"""State of raft replicas: violations that the ledger must find, and states that it must accept."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.loglets.raft.core.group import SEGMENT, Group
from virtuallog.contract.batch import SessionId
from virtuallog.contract.errors import StorageError
from virtuallog.contract.types import NodeId
from virtuallog.testing.checker.violation import Violation
from virtuallog_loglets.raft.core import records
from virtuallog_loglets.raft.core.records import RecordKind, RecordPlace
from virtuallog_loglets.raft.core.replica_state import ReplicaState
from virtuallog_loglets.raft.core.wal_records import DurableReplicas
from virtuallog_simulation.checks.state import raft_ledger
from virtuallog_simulation.checks.state.raft_ledger import RaftLedger

ONE, TWO, THREE = NodeId(1), NodeId(2), NodeId(3)


def ledger() -> RaftLedger:
    return RaftLedger(SEGMENT, Counter(), list[Violation]())


def look(seen: RaftLedger, group: Group) -> set[str]:
    """Look at all replicas; returns the checks that have objected so far."""
    for node, at in group.nodes.items():
        seen.look(node, at.replica)
    return {violation.check for violation in seen.found}


def filled() -> Group:
    """Three replicas with two entries and a SEAL, known to be committed to all."""
    group = Group.of_voters(3, first_leader=1)
    group.append(1, "a")
    group.settle()
    group.append(1, "b")
    group.settle()
    group.do(1, lambda at: at.requests.seal("seal", stand=False))
    group.settle()
    group.tick(times=2)
    return group


def stored(group: Group, node: NodeId) -> ReplicaState:
    """What a replay of the disk of a node finds."""
    durable = DurableReplicas()
    for address, record in group.nodes[node].disk:
        durable.replay(address, record)
    return durable.states[SEGMENT]


def test_replicas_without_fault() -> None:
    """Through an election, appends and a seal, in memory and on disks."""
    seen, group = ledger(), filled()
    look(seen, group)
    for node in (ONE, TWO, THREE):
        seen.stored(node, stored(group, node), group[node])
    seen.majority_has({node: stored(group, node) for node in (ONE, TWO)})

    assert not look(seen, group)
    assert seen.looked[raft_ledger.REPLAYED] and seen.looked[raft_ledger.DURABLE] and seen.looked[raft_ledger.SESSIONS]


def test_two_leaders_of_a_term() -> None:
    """Both were elected by votes of the same term."""
    seen, group, other = ledger(), filled(), Group.of_voters(3, first_leader=2)
    look(seen, group)

    assert raft_ledger.ONE_LEADER in look(seen, other)


def rival() -> Group:
    """Three replicas with another history of the same log, and a leader of a later term."""
    group = Group.of_voters(3)
    for payload in ("y", "z"):
        group.elect(2)
        group.append(2, payload)
        group.settle()
        group.tick(times=2)
        group[2]._step_down("the test says so")
    group.elect(2)
    return group


def test_other_committed_records() -> None:
    """What is committed stays, at all replicas."""
    seen = ledger()
    look(seen, filled())

    assert raft_ledger.STAYS in look(seen, rival())


def test_a_leader_without_what_is_committed() -> None:
    """Leader completeness: it leads a later term, and its log has other records there."""
    seen = ledger()
    look(seen, filled())

    assert raft_ledger.COMPLETENESS in look(seen, rival())


def test_other_records_with_the_same_index_and_term() -> None:
    """Log matching: index and term name a record."""
    seen, group = ledger(), filled()
    look(seen, group)
    other = Group.of_voters(3, first_leader=1)
    other.append(1, "z")

    assert raft_ledger.MATCHING in look(seen, other)


@pytest.mark.parametrize(("name", "value"), [("term", 0), ("vote", THREE), ("commit", 1)])
def test_a_replica_that_goes_back(name: str, value: int) -> None:
    """Term, vote and commit index of one process."""
    seen, group = ledger(), filled()
    look(seen, group)
    setattr(group[2].state, name, value)

    assert raft_ledger.BACK in look(seen, group)


def test_a_leader_that_counts_what_a_peer_has_not() -> None:
    """The peer's disk is behind."""
    seen, group = ledger(), filled()
    look(seen, group)
    group[2].state.log.durable_index = 1
    seen.peers_have(group[1], {TWO: group[2]})

    assert raft_ledger.FLOW in {violation.check for violation in seen.found}


def test_a_batch_behind_the_seal() -> None:
    """What a SEAL ends takes no entries."""
    seen, group = ledger(), filled()
    log = group[1].state.log
    place = RecordPlace(
        segment=SEGMENT, index=log.last_index + 1, term=1, first=log.next_offset, commit=log.last_index, time_ms=0
    )
    log.seal = 0
    log.append(records.build(place, RecordKind.SEAL))
    log.seal = log.last_index - 1

    assert raft_ledger.ONE_SEAL in look(seen, group)


def test_a_batch_that_is_there_twice() -> None:
    """A leader forgot the session at its election."""
    seen, group = ledger(), Group.of_voters(1, first_leader=1)
    group.append(1, "a", sequence=0)
    group.settle()
    leading = group[1].leading
    assert leading is not None
    leading.proposals.sessions._sessions.clear()
    group.append(1, "a", sequence=0)
    group.settle()

    assert raft_ledger.TABLE in look(seen, group)


def test_sessions_that_are_not_those_of_the_log() -> None:
    """The digest lost one."""
    seen, group = ledger(), filled()
    group[3].state.digest._active.clear()

    assert raft_ledger.TABLE in look(seen, group)


def test_sessions_of_a_copy_that_begins_behind_a_trim() -> None:
    """It has those of what was copied; the ledger knows those of what was trimmed as well."""
    seen, group = ledger(), Group.of_voters(3, first_leader=1)
    group.append(1, "a", session=SessionId(b"b" * 16), opens=True)
    group.settle()
    group.append(1, "b", opens=True)
    group.settle()
    group.do(1, lambda at: at.requests.seal("seal", stand=False))
    group.settle()
    group.tick(times=2)
    look(seen, group)
    log = group[1].state.log
    kept = [record for index in range(2, log.last_index + 1) if (record := log.kept(index)) is not None]
    group.add(NodeId(4), ReplicaState.begin_copy(log.configuration, kept[0], 1))
    group.do(4, lambda at: at.replica.copy_records(kept, 1, "copy"))
    group.sync(4)

    assert group.outcome(4, "copy") == group[4].standing
    assert group[4].state.commit == group[1].state.commit
    assert not look(seen, group)


def test_what_is_committed_and_on_one_disk() -> None:
    """One of three disks would lose it with its node."""
    seen, group = ledger(), filled()
    look(seen, group)
    seen.majority_has({ONE: stored(group, ONE), TWO: ReplicaState.begin(group[2].state.log.origin)})

    assert [violation.check for violation in seen.found] == [raft_ledger.ON_DISK]


def test_a_disk_that_has_less_than_its_process() -> None:
    """The process says that nothing is on its way to the disk."""
    seen, group = ledger(), filled()
    look(seen, group)
    del group.nodes[TWO].disk[-2:]
    seen.stored(TWO, stored(group, TWO), group[2])

    assert [violation.check for violation in seen.found] == [raft_ledger.FORGETS]


def test_a_disk_that_has_less_than_a_process_that_has_given_up() -> None:
    """Its last record was on its way when the disk failed, and the replica goes on in memory until its node stops."""
    seen, group = ledger(), Group.of_voters(3, first_leader=1)
    group.settle()
    group.append(1, "a")
    group[1].give_up(StorageError("the write failed"))
    look(seen, group)
    seen.stored(ONE, stored(group, ONE), group[1])

    assert group[1].state.log.last_index > stored(group, ONE).log.last_index
    assert not seen.found
