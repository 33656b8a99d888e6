"""Bases: a replica behind the leader's begins its log there, and nothing that is committed changes by it."""

from __future__ import annotations

from contextlib import suppress

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.loglets.raft.core.group import SEGMENT, Group, record
from virtuallog.contract.errors import DiskFullError, MalformedError
from virtuallog.contract.types import NodeId
from virtuallog.exactly_once.session_digest import SessionDigest
from virtuallog_loglets.raft.core.log import LogPoint
from virtuallog_loglets.raft.core.membership import Configuration
from virtuallog_loglets.raft.core.replica_state import LogBase
from virtuallog_loglets.raft.messages import AppendRecords, RecordsAppended

MEMBERS = Configuration.of_voters((NodeId(1), NodeId(2)))


def base(index: int, term: int, trim: int = 0) -> LogBase:
    """A base behind records with one entry each."""
    digest = SessionDigest()
    digest.take_batch(bytes(16), 0, 1, 0)
    point = LogPoint(index, term, index)
    return LogBase(point=point, seal=0, trim=trim, members=MEMBERS, digest=digest.encode())


def sent(made: LogBase, *, commit: int = 0, term: int = 9, records: tuple[bytes, ...] = ()) -> AppendRecords:
    """Message of leader 2 with a base."""
    point = made.point
    return AppendRecords(
        segment=SEGMENT, term=term, leader=NodeId(2), previous_index=point.index, previous_term=point.term,
        commit=commit, base=made.encode(), records=records,
    )  # fmt: skip


def follower(shape: str, commit: int = 0) -> Group:
    """Two replicas, of which the first has records of these terms, so many of them committed."""
    group = Group.of_voters(2)
    group.begin_with(1, shape)
    if commit:
        previous = int(shape[commit - 1])
        request = AppendRecords(
            segment=SEGMENT, term=8, leader=NodeId(2), previous_index=commit, previous_term=previous, commit=commit
        )  # fmt: skip
        group.ask(1, request)
    return group


@pytest.mark.parametrize(
    ("shape", "commit", "expected", "index"),
    [
        ("", 0, "", 4),  # an empty log begins there
        ("11", 0, "", 4),  # a shorter one, too: what it has is below the base
        ("11", 2, "", 4),
        ("1133", 0, "", 4),  # one that differs at the base
        ("113355", 2, "", 4),
        ("1122", 2, "1122", 4),  # one that has the record of the base keeps all
        ("112255", 2, "112255", 4),
        ("11225", 5, "11225", 5),  # one that has committed more is not touched
    ],
)
def test_base_replaces_what_is_not_known_to_be_equal(shape: str, commit: int, expected: str, index: int) -> None:
    """Record 4 of the leader is of term 2. The disk says the same after a restart."""
    group = follower(shape, commit)
    answer = group.ask(1, sent(base(4, 2)))

    assert answer == RecordsAppended(term=9, accepted=True, index=index)
    assert group.shape(1).replace("|", "") == expected
    assert group[1].state.commit == max(4, commit)
    assert group[1].state.log.next_offset == max(4, len(expected))
    before = (group[1].state.log.end, group[1].state.log.base)
    group.crash(1)
    assert (group[1].state.log.end, group[1].state.log.base) == before
    assert group.shape(1).replace("|", "") == expected


def test_records_follow_a_base_in_one_message() -> None:
    """What the base is followed by is appended behind it."""
    group = follower("11")
    answer = group.ask(1, sent(base(4, 2), records=(record(5, 3).blob,), commit=5))

    assert answer == RecordsAppended(term=9, accepted=True, index=5)
    assert group.shape(1) == "3|"


def test_base_of_an_earlier_term_is_refused() -> None:
    """It is from a leader that was deposed."""
    group = follower("11", 1)
    answer = group.ask(1, sent(base(4, 2), term=3))

    assert answer == RecordsAppended(term=8, accepted=False, index=0)
    assert group.shape(1) == "1|1"


def test_base_brings_the_sessions_and_the_trim() -> None:
    """So that this replica may lead."""
    group = follower("")
    group.ask(1, sent(base(4, 2, trim=3)))

    assert group[1].state.trim == 3
    assert [each.next_sequence for each in group[1].state.digest.sessions()] == [1]


def test_base_is_read_back_as_it_was_written() -> None:
    """Every part of it."""
    made = attrs.evolve(base(4, 2, trim=3), seal=4, members=attrs.evolve(MEMBERS, index=2))

    assert LogBase.decode_untrusted(made.encode()) == made


@given(st.integers(0, 400), st.integers(0, 255))
def test_damaged_base_is_malformed_or_another_base(place: int, byte: int) -> None:
    """A base has no checksum of its own: those of the message and of the disk cover it. No bytes make the decoder fail otherwise."""
    blob = bytearray(base(4, 2).encode())
    blob[place % len(blob)] = byte
    for damaged in (bytes(blob), bytes(blob[: place % len(blob)]), bytes(blob) + b"x"):
        with suppress(MalformedError):
            LogBase.decode_untrusted(damaged)


@pytest.mark.parametrize("term", [1, 3])
def test_disk_that_refuses_records_below_a_base_does_not_end_the_role(term: int) -> None:
    """A follower gets the base of a leader that has missed its answer, while its disk is about to refuse the records there, or others
    in their place. The replica takes them back, as without a base, and gets them, or the base, again."""
    group = follower("11")
    newest = record(3, 1)
    append = AppendRecords(
        segment=SEGMENT, term=1, leader=NodeId(2), previous_index=2, previous_term=1, commit=0, records=(newest.blob,)
    )  # fmt: skip
    group.do(1, lambda at: at.replica.records_requested(append, "records"))
    group.do(1, lambda at: at.replica.records_requested(sent(base(3, term)), "base"))
    group.refuse(1, DiskFullError("full"))

    assert group.ask(1, sent(base(3, term))).index == 3
    refusal = group.outcome(1, "records")
    assert refusal.full and not refusal.accepted
    assert (group[1].state.commit, group[1].state.log.term_at(3)) == (3, term)
    group.crash(1)
    assert group[1].state.log.term_at(3) == term
