"""Claims of the Raft paper on replication (section 5.3): records go to all peers, a follower checks what comes before them, drops what
differs, and the leader finds the place where two logs part."""

from __future__ import annotations

import pytest

from tests.loglets.raft.core.group import SEGMENT, Group, record
from virtuallog.contract.types import NodeId
from virtuallog_loglets.raft.messages import AppendRecords, RecordsAppended


def leading_group(voters: int = 3) -> Group:
    """Replicas of which the first leads, without an election."""
    group = Group.of_voters(voters, first_leader=1)
    group.settle()
    return group


def append(previous: tuple[int, int], terms: str = "", *, term: int = 9, commit: int = 0) -> AppendRecords:
    """Message of leader 2: these records, behind (index, term)."""
    index, before = previous
    return AppendRecords(
        segment=SEGMENT, term=term, leader=NodeId(2), previous_index=index, previous_term=before, commit=commit,
        records=tuple(record(place, int(digit)).blob for place, digit in enumerate(terms, index + 1)),
    )  # fmt: skip


def follower(shape: str) -> Group:
    """Two replicas, of which the first has records of these terms."""
    group = Group.of_voters(2)
    group.begin_with(1, shape)
    return group


def test_leader_sends_a_record_to_all_peers_before_its_own_disk_has_it() -> None:
    """A request of a client becomes a record, which leaves for each peer with the index and term before it."""
    group = leading_group()
    group.append(1, "first")
    group.settle()
    group.append(1, "second")

    assert sorted(message.receiver for message in group.messages) == [2, 3]
    for message in group.messages:
        request = message.request
        assert (request.previous_index, request.previous_term, request.commit) == (1, 1, 1)
        assert [group[1].state.log.kept(2).blob] == [*request.records]  # type: ignore[union-attr]
    assert group[1].state.log.durable_index == 1
    assert group[1].state.commit == 1


@pytest.mark.parametrize("leader_commit", [0, 1, 2, 3, 9])
def test_follower_commits_what_the_leader_has_committed_and_it_has(leader_commit: int) -> None:
    """The commit index of a follower is the smaller one of the leader's, and of the last record that it was sent."""
    group = follower("1")
    answer = group.ask(1, append((1, 1), "11", term=1, commit=leader_commit))

    assert answer == RecordsAppended(term=1, accepted=True, index=3)
    assert group[1].state.commit == min(leader_commit, 3)


def test_follower_does_not_commit_what_it_was_not_sent() -> None:
    """Its log is longer than the message, and the rest may not be the leader's."""
    group = follower("1111")
    group.ask(1, append((1, 1), "1", term=2, commit=4))

    assert group.shape(1) == "11|11"


@pytest.mark.parametrize(
    ("previous", "accepted", "index", "hint"),
    [
        ((0, 0), True, 0, 0),  # before all records
        ((1, 1), True, 1, 0),
        ((2, 2), True, 2, 0),
        ((1, 3), False, 1, 1),  # another term there
        ((2, 3), False, 2, 2),
        ((3, 3), False, 2, 2),  # past its end
        ((9, 9), False, 2, 2),
        ((9, 1), False, 1, 1),  # nothing of a later term can be equal
    ],
)
def test_follower_checks_the_record_before_those_that_are_sent(
    previous: tuple[int, int], accepted: bool, index: int, hint: int
) -> None:
    """It accepts them only behind a record of that index and term; else it names the last place where the logs may be equal."""
    group = follower("12")
    answer = group.ask(1, append(previous, commit=0))

    assert (answer.accepted, answer.index, answer.hint_term) == (accepted, index, hint)
    assert group.shape(1) == "|12"


@pytest.mark.parametrize(
    ("previous", "sent", "expected"),
    [
        ((2, 2), "3", "|123"),
        ((1, 1), "34", "|134"),  # what differs is dropped, with all behind it
        ((0, 0), "1", "|12"),  # what is there already is passed over, and nothing is dropped behind it
        ((0, 0), "3", "|3"),
        ((0, 0), "12", "|12"),
        ((0, 0), "123", "|123"),
        ((1, 1), "", "|12"),
    ],
)
def test_follower_appends_what_is_new_and_drops_what_differs(
    previous: tuple[int, int], sent: str, expected: str
) -> None:
    """Only a record of another term at the same index makes it drop its own; its disk says the same after a restart."""
    group = follower("12")
    answer = group.ask(1, append(previous, sent))

    assert answer == RecordsAppended(term=9, accepted=True, index=previous[0] + len(sent))
    assert group.shape(1) == expected
    group.crash(1)
    assert group.shape(1) == expected


@pytest.mark.parametrize(
    "shape",
    ["111445566", "1114", "11144556666", "111445566677", "1114444", "11122233333"],
    ids=[
        "one is missing",
        "six are missing",
        "one too many",
        "two of a later term",
        "uncommitted of one term",
        "uncommitted of two",
    ],
)
def test_leader_brings_each_log_of_figure_7_to_its_own(shape: str) -> None:
    """A follower may lack records, have more, or both. The leader of term 8 makes its log equal to its own, and changes nothing in
    its own."""
    group = Group.of_voters(3)
    group.begin_with(1, "1114455666", term=7)
    group.begin_with(2, shape, term=7)
    group.begin_with(3, "", term=7)
    group.elect(1)
    group.tick(times=6)

    assert group[1].state.log.last_term == 8
    assert [group.shape(node) for node in (1, 2, 3)] == ["11144556668|"] * 3


def test_leader_skips_a_term_in_each_step_back() -> None:
    """Fifty records of a term in which the logs differ cost one question, and not fifty."""
    group = Group.of_voters(3)
    group.begin_with(1, "1" + 50 * "4")
    group.begin_with(2, "1" + 60 * "3", term=4)
    group.begin_with(3, "1" + 50 * "4")
    group.elect_with(1, voters=[3])
    asked = 0
    while group[2].state.log.end != group[1].state.log.end:
        group.sync(2)
        message = next(message for message in group.messages if 2 in (message.sender, message.receiver))
        asked += not message.is_answer
        group.deliver(message)

    assert group.shape(2)[1:52] == "1" + 50 * "4"
    assert asked <= 4
