"""Members of a log: their encoding, and which changes are one step."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from virtuallog.contract.errors import InvalidSettingError, MalformedError
from virtuallog.contract.types import NodeId
from virtuallog_loglets.raft.core.membership import (
    MEMBERS_MAX,
    Configuration,
    MemberKind,
    RaftMember,
    check_change,
    decode_untrusted,
)

V, P, OBS = MemberKind.VOTER, MemberKind.PRE_VOTER, MemberKind.OBSERVER
members = st.dictionaries(
    st.integers(1, 1 << 60).map(NodeId),
    st.builds(RaftMember, st.sampled_from(MemberKind), st.text(max_size=20)),
    min_size=1, max_size=8,
)  # fmt: skip


def of(*kinds: MemberKind) -> dict[NodeId, RaftMember]:
    """Members 1, 2 and so on, of these kinds."""
    return {NodeId(number): RaftMember(kind) for number, kind in enumerate(kinds, 1)}


@given(members, st.integers(0, 1 << 40))
def test_members_are_read_back(given_members: dict[NodeId, RaftMember], index: int) -> None:
    """With their kinds and addresses."""
    made = Configuration(index, given_members)

    assert decode_untrusted(index, made.encode()) == made


@given(members, st.integers(0, 1000), st.integers(0, 255))
def test_damaged_members_are_malformed_or_other_members(
    given_members: dict[NodeId, RaftMember], place: int, byte: int
) -> None:
    """No bytes make the decoder fail otherwise, and none are read as no member at all."""
    blob = bytearray(Configuration(0, given_members).encode())
    blob[place % len(blob)] = byte
    for damaged in (bytes(blob), bytes(blob[: place % len(blob)])):
        with suppress(MalformedError):
            assert decode_untrusted(1, damaged).members


@pytest.mark.parametrize("blob", [b"", b"\x01\x00\x00", b"\x02\x01\x00" + bytes(11), b"\x01\x01\x00" + bytes(11)])
def test_other_bytes_are_malformed(blob: bytes) -> None:
    """Nothing, no members, a later version, a kind that there is not."""
    with pytest.raises(MalformedError):
        decode_untrusted(1, blob)


@pytest.mark.parametrize(("voters", "quorum"), [(1, 1), (2, 2), (3, 2), (4, 3), (5, 3), (7, 4)])
def test_quorum_is_a_majority_of_the_voters(voters: int, quorum: int) -> None:
    """Other members do not count."""
    assert Configuration(0, of(*[V] * voters, P, OBS)).quorum == quorum


@pytest.mark.parametrize(
    ("former", "latter"),
    [
        ([V, V, V], [V, V, V, P]),
        ([V, V, V, P], [V, V, V, V]),
        ([V, V, V], [V, V]),
        ([V, V, V], [V, V, OBS]),
        ([V, V, V, P], [V, V, OBS]),
        ([V], [V, V]),
    ],
    ids=["add", "promote", "remove", "demote", "remove one, and a learner", "second voter"],
)
def test_change_of_one_voter_is_one_step(former: list[MemberKind], latter: list[MemberKind]) -> None:
    """And of any number of members that do not vote."""
    check_change(Configuration(3, of(*former)), of(*latter), NodeId(1))


@pytest.mark.parametrize(
    ("former", "latter", "reason"),
    [
        ([V, V, V], [V, V, V], "changes nothing"),
        ([V, V, V], [V], "one voter at a time"),
        ([V, V, V, P], [V, V, P, V], "one voter at a time"),
        ([V, V, V], [P, V, V], "transfer"),
        ([V], [P], "needs a voter"),
        ([V], [V] + [OBS] * MEMBERS_MAX, "at most"),
    ],
    ids=["nothing", "two", "one for another", "the leader", "the last", "too many"],
)
def test_other_changes_are_refused(former: list[MemberKind], latter: list[MemberKind], reason: str) -> None:
    """Two majorities, before and after, must share a member."""
    with pytest.raises(InvalidSettingError, match=reason):
        check_change(Configuration(3, of(*former)), of(*latter), NodeId(1))


@given(st.integers(1, 9), st.booleans())
def test_majorities_before_and_after_a_step_share_a_voter(count: int, adds: bool) -> None:
    """The reason for one voter at a time."""
    before = Configuration(0, of(*[V] * count))
    after = Configuration(1, of(*[V] * (count + (1 if adds else -1)))) if adds or count > 1 else before

    assert before.quorum + after.quorum > max(len(before.voters), len(after.voters))
