"""Flow of records to peers: probes, the window, what is lost, and peers behind the leader's base."""

from __future__ import annotations

from tests.loglets.raft.core.group import SEGMENT, Group, Message
from virtuallog.contract.types import NodeId
from virtuallog_loglets.raft.core.election import ELECTION_TICKS
from virtuallog_loglets.raft.core.records import RaftRecord, RecordKind, build
from virtuallog_loglets.raft.core.replication import WINDOW, PeerProgress
from virtuallog_loglets.raft.core.transitions import Flow
from virtuallog_loglets.raft.messages import AppendRecords, RecordsAppended


def leading_group(voters: int = 3) -> Group:
    """Replicas of which the first leads, without an election."""
    group = Group.of_voters(voters, first_leader=1)
    group.settle()
    return group


def progress(group: Group, leader: int, peer: int) -> PeerProgress:
    """What a leader knows of a peer."""
    leading = group[leader].leading
    assert leading is not None
    return next(each for node, each in leading.replicator.peers.items() if node == peer)


def of(group: Group, receiver: int) -> list[Message]:
    """Messages on their way to a replica."""
    return [message for message in group.messages if message.receiver == receiver]


def settled(group: Group) -> None:
    """Have a record acknowledged by all peers, so that their flows are past the probe."""
    group.append(1, "settled")
    group.settle()


def own_record(group: Group) -> RaftRecord:
    """A record of leader 1 that a client need not have asked for."""
    leading = group[1].leading
    assert leading is not None
    return build(leading.place(group[1].state.commit, 0), RecordKind.NOOP)


def test_heartbeats_go_on_while_a_message_has_no_answer() -> None:
    """One message to each peer is lost in a moment of trouble; the calls fail much later. The peers still hear from the leader, and
    answer, so it goes on to lead."""
    group = leading_group()
    group.append(1, "lost")
    lost = list(group.messages)

    for _ in range(2 * ELECTION_TICKS):
        for node in (1, 2, 3):
            group.do(node, lambda at: at.replica.tick(0))
        for _ in range(4):
            for message in list(group.messages):
                if message not in lost:
                    group.deliver(message)
            for node in (1, 2, 3):
                group.sync(node)

    assert group.leads(1) and group[1].state.term == 1
    assert group.entries(2) == ["lost"]


def test_peer_knows_only_the_commit_of_what_it_was_sent() -> None:
    """Records that are read from the disk may not fit in one message: what was left out is not known to the peer."""
    group = leading_group()
    for number in range(4):
        group.append(1, f"{number}")
    group.settle(without=[3])
    group.tick(1, times=4, without=[3])
    log = group[1].state.log
    for index in range(1, log.last_index + 1):
        log._kept.pop(index)

    group.tick(1, times=0)
    group.do(1, lambda at: at.replica.tick(0))
    group.do(1, lambda at: at.replica.tick(0))
    (message,) = [each for each in of(group, 3) if isinstance(each.request, AppendRecords)]
    message.request.records = message.request.records[:1]
    group.deliver(message)
    group.sync(3)
    (answer,) = [each for each in of(group, 1) if each.sender == 3]
    group.deliver(answer)

    assert progress(group, 1, 3).match == 1
    assert progress(group, 1, 3).commit_known == 1
    assert progress(group, 1, 3).flow is Flow.REPLICATE


def test_first_message_to_a_peer_is_a_probe() -> None:
    """A new leader does not know where the logs part: it sends one message, and the rest once that is answered."""
    group = Group.of_voters(3)
    for node in (1, 2, 3):
        group.begin_with(node, "111")
    group.elect_with(1, voters=[2, 3])
    for _ in range(3):
        group.append(1, "x")

    assert len(of(group, 2)) == 1
    assert progress(group, 1, 2).flow is Flow.PROBE

    group.settle()
    assert progress(group, 1, 2).flow is Flow.REPLICATE
    assert progress(group, 1, 2).match == group[1].state.log.last_index


def test_messages_leave_before_earlier_ones_are_answered_up_to_the_window() -> None:
    """A full window is not exceeded; an answer makes room for the rest."""
    group = leading_group()
    settled(group)
    replica = group[1]
    for number in range(WINDOW + 3):
        replica.append_own([own_record(group)])
        group.do(1, lambda _: replica.outbox.take())
        assert len(of(group, 2)) == min(number + 1, WINDOW)

    group.settle()
    assert group.shape(2).replace("|", "") == group.shape(1).replace("|", "")


def test_window_that_was_lost_is_sent_again() -> None:
    """All messages in flight to a peer are lost: with the next heartbeat the leader begins anew behind what the peer has."""
    group = leading_group()
    for _ in range(4):
        group.append(1, "x")
    for message in of(group, 2):
        group.drop(message)
    assert progress(group, 1, 2).flow is Flow.PROBE and progress(group, 1, 2).paused

    group.settle()
    assert group[2].state.log.last_index == 0  # nothing before the next heartbeat: the peer may be down
    group.tick(times=2)

    assert group.entries(2) == ["x"] * 4


def test_peer_that_lost_a_full_window_catches_up() -> None:
    """As many messages as may be in flight are lost at once, and again. Their places in the window are free again."""
    group = leading_group()
    settled(group)
    replica = group[1]
    for _ in range(2):
        for _ in range(WINDOW + 3):
            replica.append_own([own_record(group)])
            group.do(1, lambda _: replica.outbox.take())
        assert len(of(group, 2)) == WINDOW
        for message in of(group, 2):
            group.drop(message)

        group.tick(times=ELECTION_TICKS)

        assert group.leads(1)
        assert group.shape(2) == group.shape(1)


def test_calls_that_fail_late_do_not_hold_up_a_flow_that_works_again() -> None:
    """A full window is lost; one call of it has failed, and the peer has caught up since. It is sent the next record at
    once, before the others have failed and after."""
    group = leading_group()
    settled(group)
    for _ in range(WINDOW):
        group[1].append_own([own_record(group)])
        group.do(1, lambda at: at.replica.outbox.take())
    lost = of(group, 2)
    assert len(lost) == WINDOW
    group.drop(lost.pop())
    for _ in range(ELECTION_TICKS):
        group.do(1, lambda at: at.replica.tick(0))
        while fresh := [message for message in group.messages if message not in lost]:
            group.deliver(fresh[0])
            group.sync(1)
            group.sync(2)
    assert group.shape(2) == group.shape(1)

    group.append(1, "before")
    assert [message for message in of(group, 2) if message not in lost]
    for message in lost:
        group.drop(message)
    group.append(1, "after")

    assert len(of(group, 2)) == 2


def test_messages_that_overtake_each_other_are_put_in_order() -> None:
    """The later ones are rejected, as a record is missing, and come again; nothing is taken twice."""
    group = leading_group()
    group.append(1, "zero")
    group.settle()
    for payload in ("a", "b", "c"):
        group.append(1, payload)
    for message in reversed(of(group, 2)):
        group.deliver(message)
    group.settle()
    group.tick(times=2)

    assert group.entries(2) == ["zero", "a", "b", "c"]


def test_rejection_that_comes_late_changes_nothing() -> None:
    """A second copy of a message arrives after the peer has begun anew; its answer, and that of a message that a rejection has
    superseded, do not move the flow back."""
    group = leading_group()
    settled(group)
    for payload in ("a", "b", "c"):
        group.append(1, payload)
    first, second, third = of(group, 2)
    group.deliver(third)
    group.deliver(second)
    rejections = of(group, 1)
    group.deliver(rejections[0])
    resent = progress(group, 1, 2).epoch
    group.deliver(rejections[1])
    assert progress(group, 1, 2).epoch == resent

    group.deliver(first)
    group.settle()
    assert progress(group, 1, 2).match == 4
    group.hear(1, 2, RecordsAppended(term=1, accepted=False, index=0), number=1, term=1)
    assert progress(group, 1, 2).match == 4 and progress(group, 1, 2).next == 5


def test_acknowledgement_of_an_earlier_message_does_not_move_the_match_back() -> None:
    """Answers overtake each other; the highest counts."""
    group = leading_group()
    settled(group)
    for payload in ("a", "b"):
        group.append(1, payload)
    for message in of(group, 2):
        group.deliver(message)
    group.sync(2)
    one, two = of(group, 1)
    group.deliver(two)
    assert progress(group, 1, 2).match == 3
    group.deliver(one)

    assert progress(group, 1, 2).match == 3
    assert progress(group, 1, 2).next == 4


def test_peer_acknowledges_what_it_was_sent_and_not_what_it_has() -> None:
    """Its log may be longer with records that are not the leader's: a majority of these is none."""
    group = Group.of_voters(3)
    group.begin_with(1, "1")
    group.begin_with(2, "1222", term=3)
    group.begin_with(3, "1222", term=3)
    heartbeat = AppendRecords(
        segment=SEGMENT, term=4, leader=NodeId(1), previous_index=1, previous_term=1, commit=1
    )  # fmt: skip

    assert group.ask(2, heartbeat) == RecordsAppended(term=4, accepted=True, index=1)


def test_acknowledgement_beyond_the_leaders_log_commits_nothing_that_is_not_there() -> None:
    """A peer that claims more than it can have is believed up to the leader's last record."""
    group = leading_group()
    group.append(1, "x")
    (message,) = of(group, 2)
    group.hear(1, 2, RecordsAppended(term=1, accepted=True, index=99), number=message.number, term=1)

    assert progress(group, 1, 2).match == 1
    group.sync(1)
    assert group[1].state.commit == 1


def test_peer_far_behind_gets_the_base_and_then_records() -> None:
    """The records that it lacks were trimmed. It begins its log at the leader's base."""
    group = leading_group()
    for number in range(6):
        group.append(1, f"{number}")
        group.settle(without=[3])
    for node in (1, 2):
        group.do(node, lambda at: at.requests.trim(4, "trim"))
        group.sync(node)
    group.tick(times=6)

    assert group[3].state.log.base.index == 4
    assert group.entries(3) == ["4", "5"]
    assert progress(group, 1, 3).flow is Flow.REPLICATE
    group.crash(3)
    assert group.shape(3).replace("|", "") == "11"


def test_peer_that_lacks_everything_gets_the_base_of_a_log_without_records() -> None:
    """All was trimmed; there is nothing to send, and the new peer must know so all the same."""
    group = leading_group()
    for number in range(3):
        group.append(1, f"{number}")
        group.settle(without=[3])
    for node in (1, 2):
        group.do(node, lambda at: at.requests.trim(3, "trim"))
        group.sync(node)
    assert group.shape(1) == "|"
    group.tick(times=6)

    assert group[3].state.log.end == group[1].state.log.end
    assert group[3].state.tail == 3


def test_base_that_is_lost_is_sent_again_and_only_one_at_a_time() -> None:
    """It may be large."""
    group = leading_group()
    for number in range(3):
        group.append(1, f"{number}")
        group.settle(without=[3])
    for node in (1, 2):
        group.do(node, lambda at: at.requests.trim(3, "trim"))
        group.sync(node)
    sent = 0
    for _ in range(12):
        group.do(1, lambda at: at.replica.tick(0))
        for message in list(group.messages):
            if message.receiver == 3 and message.request.base:
                sent += 1
                assert len([each for each in of(group, 3) if each.request.base]) == 1
                group.drop(message)
            else:
                group.deliver(message)
        group.sync(2)
    assert sent >= 2

    group.tick(times=4)
    assert group[3].state.tail == 3


def test_two_dead_peers_cost_a_leader_a_bounded_number_of_messages() -> None:
    """Of five replicas two are gone. What is in flight to them does not grow with what is appended."""
    group = leading_group(5)
    for number in range(100):
        group.append(1, f"{number}")
        if number % 5 == 0:
            group.do(1, lambda at: at.replica.tick(0))
        for message in list(group.messages):
            if not {4, 5} & {message.sender, message.receiver}:
                group.deliver(message)
        for node in (1, 2, 3):
            group.sync(node)
        for message in list(group.messages):
            if message.receiver == 1:
                group.deliver(message)

    assert group[1].state.commit >= 90
    for peer in (4, 5):
        assert len(progress(group, 1, peer).flights) <= 2 * WINDOW


def test_commit_of_an_idle_log_reaches_followers_with_the_next_heartbeat() -> None:
    """There is no next record with which it could travel."""
    group = leading_group()
    group.append(1, "x")
    group.settle()
    assert group[2].state.commit == 0
    group.tick(times=2)

    assert group.entries(2) == group.entries(3) == ["x"]


def test_commit_is_told_at_once_where_a_client_waits() -> None:
    """The peer says with its answer that one waits there."""
    group = leading_group()
    group[2].has_waiters = True
    group.tick(times=2)
    group.append(1, "x")
    group.settle()

    assert group.entries(2) == ["x"]
    assert group.entries(3) == []


def test_new_leader_far_ahead_of_its_commit_index_commits_at_once() -> None:
    """The former leader failed before it told what is committed: its first record commits all that is below."""
    group = Group.of_voters(3)
    for node in (1, 2, 3):
        group.begin_with(node, "1" * 50)
    assert group[2].state.commit == 0
    group.elect_with(2, voters=[3])
    group.settle()

    assert len(group.entries(2)) == 50
