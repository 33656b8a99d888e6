"""Offsets and indexes of a log: which record holds an offset, and where a reader begins."""

from __future__ import annotations

from tests.loglets.raft.core.group import SEGMENT, Group, record
from virtuallog.contract.errors import CorruptionError, UnavailableError
from virtuallog.contract.types import NodeId
from virtuallog_loglets.raft.core import records
from virtuallog_loglets.raft.core.membership import Configuration
from virtuallog_loglets.raft.core.records import RecordKind, RecordPlace
from virtuallog_loglets.raft.core.replica_state import ReplicaState


def test_a_reader_begins_with_the_records_without_entries_at_its_offset() -> None:
    """A copy of a sealed log takes every record. One that began behind the NOOP of a later leader, or behind the SEAL, had a hole."""
    group = Group.of_voters(3, first_leader=1)
    group.append(1, "a", "b")
    group.settle()
    group[1]._step_down("the test says so")
    group.elect(1)
    group.append(1, "c")
    group.do(1, lambda at: at.requests.seal("seal", stand=False))
    group.settle()
    kinds = [record.kind.name for record in group.records(1)]
    assert kinds == ["BATCHES", "NOOP", "BATCHES", "SEAL"]

    log = group[1].state.log

    assert [log.index_from(offset) for offset in (0, 1, 2, 3)] == [1, 1, 2, 4]
    assert [log.index_of(offset) for offset in (0, 1, 2, 3)] == [1, 1, 3, 5]


def test_a_copy_takes_no_records_with_a_hole() -> None:
    """The offsets go on where a record without entries is missing. The piece is refused, and nothing of it is in the copy."""
    group, first = Group({}), record(1, 1)
    place = RecordPlace(segment=SEGMENT, index=3, term=2, first=1, commit=0, time_ms=0)
    group.add(NodeId(4), ReplicaState.begin_copy(Configuration.of_voters((NodeId(4),)), first, 0))
    piece = [first, records.build(place, RecordKind.SEAL)]
    group.do(4, lambda at: at.replica.copy_records(piece, 0, "copy"))

    assert isinstance(group.outcome(4, "copy"), CorruptionError)
    assert group[4].state.log.last_index == 0


def test_a_copy_goes_on_behind_what_was_trimmed_meanwhile() -> None:
    """The loglet is trimmed past the end of the copy, and its replicas have dropped what would come next. All of that is below the trim
    of the next piece, so the copy begins anew there. A hole above the trim stays one."""
    group, first = Group({}), record(1, 1)
    group.add(NodeId(4), ReplicaState.begin_copy(Configuration.of_voters((NodeId(4),)), first, 0))
    group.do(4, lambda at: at.replica.copy_records([first, record(2, 1)], 0, "first"))
    group.sync(4)
    group.do(4, lambda at: at.replica.copy_records([record(5, 1)], 3, "with a hole"))
    assert isinstance(group.outcome(4, "with a hole"), UnavailableError)
    assert group.entries(4) == ["1.1", "2.1"]

    seal = records.build(
        RecordPlace(segment=SEGMENT, index=6, term=2, first=5, commit=0, time_ms=0), RecordKind.SEAL
    )  # fmt: skip
    group.do(4, lambda at: at.replica.copy_records([record(5, 1), seal], 4, "behind the trim"))
    group.sync(4)
    assert group.outcome(4, "behind the trim") == group[4].standing
    group.crash(4)
    standing = group[4].standing
    assert (standing.tail, standing.trim, standing.sealed) == (5, 4, True)
    assert group.entries(4) == ["5.1"]
