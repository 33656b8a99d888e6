"""Replicas of a node as its write-ahead log has them: replays, cut anywhere, and segments dropped from the front."""

from __future__ import annotations

import pytest

from virtuallog.contract.chain import SegmentId
from virtuallog.contract.errors import MalformedError
from virtuallog.contract.types import NodeId
from virtuallog_loglets.raft.core import wal_records
from virtuallog_loglets.raft.core.effects import BaseSet, Change, CommitKnown, StateSaved, TermChanged, TrimRaised
from virtuallog_loglets.raft.core.membership import Configuration
from virtuallog_loglets.raft.core.replica_state import ReplicaState
from virtuallog_loglets.raft.core.wal_records import DurableReplicas
from virtuallog_loglets.tombstones import LiveLogletSet, VersionFloor
from virtuallog_loglets.wal.core.record import Address, WalRecord

FIRST, SECOND = SegmentId(1, 0), SegmentId(2, 0)
MEMBERS = Configuration.of_voters((NodeId(1), NodeId(2), NodeId(3)))


def saved() -> StateSaved:
    """First change of a new replica."""
    return ReplicaState.begin(MEMBERS, NodeId(1)).save()


def replayed(*written: WalRecord) -> DurableReplicas:
    """Replicas of a log that holds these records."""
    durable = DurableReplicas()
    for place, record in enumerate(written):
        durable.replay(Address((1 << 32) + 100 * place), record)
    return durable


@pytest.mark.parametrize("dropping", [VersionFloor(2), LiveLogletSet(1, ())], ids=["floor", "list"])
def test_changes_behind_the_drop_of_their_loglet_are_passed_over(dropping: VersionFloor | LiveLogletSet) -> None:
    """A replica goes on until the drop is durable. What it wrote meanwhile lies behind it; a restart neither fails nor revives the
    loglet."""
    durable = replayed(
        wal_records.encode(FIRST, saved()),
        wal_records.encode_dropping(dropping),
        wal_records.encode(FIRST, TermChanged(2, NodeId(2))),
        wal_records.encode(FIRST, saved()),
        wal_records.encode(SECOND, saved()),
    )

    assert list(durable.states) == [SECOND]


def test_change_of_a_loglet_without_a_state_is_malformed() -> None:
    """Each replica begins with its whole state; anything else is a hole in the log."""
    with pytest.raises(MalformedError, match="not known"):
        replayed(wal_records.encode(FIRST, TermChanged(2, NodeId(2))))


@pytest.mark.parametrize(
    "change",
    [TermChanged(7, NodeId(3)), TrimRaised(9), CommitKnown(11), saved(), BaseSet(saved().base)],
    ids=lambda change: type(change).__name__,
)
def test_changes_are_read_back_as_they_were_written(change: Change) -> None:
    """Each kind of change survives the disk."""
    assert wal_records.decode_untrusted(wal_records.encode(FIRST, change)) == (FIRST, change)


@pytest.mark.parametrize("dropping", [VersionFloor(9), LiveLogletSet(9, (FIRST, SECOND)), LiveLogletSet(9, ())])
def test_drops_are_read_back_as_they_were_written(dropping: VersionFloor | LiveLogletSet) -> None:
    """Each kind of drop survives the disk."""
    assert wal_records.decode_untrusted(wal_records.encode_dropping(dropping)) == dropping


@pytest.mark.parametrize("kind", [*range(1, 9), 77])
def test_record_of_too_few_bytes_is_malformed(kind: int) -> None:
    """A record of any kind, cut short, is recognised."""
    for size in (0, 3, 15):
        with pytest.raises(MalformedError):
            wal_records.decode_untrusted(WalRecord(kind, bytes(size)))
