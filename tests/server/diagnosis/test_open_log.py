"""Why appends, the tail and a seal are as they are: what follows from what servers say."""

from __future__ import annotations

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.server.diagnosis.evidence_samples import (
    CLOSED,
    OPEN,
    about,
    member,
    node,
    picture,
    register,
    segment,
    state,
    the,
)
from virtuallog.contract.diagnosis import COMBINED, Evidence
from virtuallog.contract.types import NodeId
from virtuallog_loglets.native.messages import NativeState
from virtuallog_server.diagnosis.core.conclusions import conclude
from virtuallog_server.diagnosis.core.evidence import NO_DIAGNOSIS, NodeFacts, SegmentFacts
from virtuallog_server.diagnosis.core.finding import Severity, Topic, all_well, chosen


def test_a_log_that_is_well_says_who_makes_it_so() -> None:
    """The tail names the servers that have it, appends name who orders them."""
    found = conclude(picture())

    assert all_well(found)
    assert {finding.weight for finding in found} == {Severity.WELL}
    tail = the(found, "the tail is 110")
    assert tail.because == ("node 1, node 2 and node 3 have everything below; 3 of 3 answer",)
    assert "node 1 orders them" in the(found, "appends are taken").statement


def test_one_of_three_is_silent() -> None:
    """It is named, and so is what one more failure would cost; appends and the tail are well."""
    found = picture([state(), state(), None], dead=[3])

    assert not all_well(conclude(found))
    short = the(about(found, Topic.APPEND), "short of node 3")
    assert (short.weight, short.segment) == (Severity.WEAK, OPEN)
    assert "one more failure stops appends" in short.statement
    assert "3 of 3" not in the(about(found, Topic.TAIL), "the tail is 110").because[0]
    assert (
        "one more failure" in the(about(found, Topic.CHAIN), "the chain can change (2 of 3 members answer)").statement
    )


def test_two_of_three_are_silent() -> None:
    """The log stands still, and only starting the nodes helps."""
    found = picture([state(12, known=11), None, None], dead=[2, 3])

    assert the(about(found, Topic.APPEND), "too few of its servers answer (1 of 3 answers)").weight is Severity.TROUBLE
    assert "not below 111" in the(about(found, Topic.TAIL), "the tail cannot be told").because[0]
    seal = the(about(found, Topic.SEAL), "can neither take appends nor be sealed")
    assert seal.because == ("node 2: no answer", "node 3: no answer")
    assert the(about(found, Topic.CHAIN), "the chain cannot change: 1 of 3 members answers").weight is Severity.TROUBLE
    assert the(about(found, Topic.TRIM), "a trim past 100 cannot be done").weight is Severity.TROUBLE


def test_a_change_is_half_done_and_somebody_will_finish_it() -> None:
    """Sealed, no successor: the watchdogs of the nodes that live, and after which time."""
    found = picture([state(sealed=True), state(sealed=True), None], dead=[3])

    half = the(about(found, Topic.SEAL), "a change is half done")
    assert half.weight is Severity.TROUBLE
    assert half.because == ("sealed: node 1 and node 2; of 3",)
    assert "the watchdogs of nodes 1 and 2 look every 0.5 to 1.5 s, wait 1 to 1.5 s" in half.next
    assert "a new native loglet" in half.next
    assert half in about(found, Topic.APPEND)
    assert the(about(found, Topic.TAIL), "the open loglet ends at 110, sealed").next == half.next


def test_a_change_is_half_done_and_nobody_can_finish_it() -> None:
    """The loglet could be read, but most members of the MetaStore are down."""
    found = picture([state(sealed=True), state(sealed=True), state(sealed=True)])
    silent = (member(1), Evidence("member 4", {"node": 4}, "no answer"), Evidence("member 5", {"node": 5}, "cut off"))
    half = the(about(attrs.evolve(found, members=silent), Topic.SEAL), "a change is half done")

    assert half.next.startswith(
        "no node can finish it: too few members of the MetaStore answer: 1 of 3 members answers"
    )


def test_a_seal_has_reached_a_minority() -> None:
    """Appends may still be taken; a client that checks the tail completes the seal."""
    found = picture([state(sealed=True), state(), state()])

    partial = the(about(found, Topic.SEAL), "a seal has reached a part")
    assert (partial.weight, partial.because) == (Severity.WEAK, ("sealed: node 1; of 3",))
    assert "appends may still be taken" in partial.next


def test_a_log_that_was_closed_on_purpose() -> None:
    """The log was closed on purpose, so all is well; no node opens it by itself."""
    closed = segment(CLOSED, 0, 100)
    evidence = picture().segments[0].evidence
    found = attrs.evolve(
        picture(), register=register(closed), segments=(SegmentFacts(segment=closed, evidence=evidence),)
    )

    assert all_well(conclude(found))
    for topic in (Topic.APPEND, Topic.SEAL):
        closed_log = the(about(found, topic), "the log is closed at 100, on purpose: appends are refused")
        assert "no watchdog continues it; `virtuallog reconfigure" in closed_log.next
    assert the(about(found, Topic.TAIL), "the tail is 100, for good").weight is Severity.WELL


def test_who_orders_has_started_again() -> None:
    """A sequencer is one start of a process: the next one orders nothing, though its node is there."""
    wait = the(about(picture(more={1: node(1, boot=8)}), Topic.APPEND), "node 1, which orders them, cannot")

    assert wait.weight is Severity.TROUBLE
    assert wait.because == ("node 1 has started again: the loglet names its start 7, this is start 8",)
    assert "nodes 1, 2 and 3 notice that" in wait.next


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        (NodeFacts(node=NodeId(1), problem="node 1 is unreachable"), "node 1 is unreachable"),
        (node(1, failures=("native: a bad block",)), "node 1: native: a bad block"),
    ],
)
def test_who_orders_is_gone(facts: NodeFacts, words: str) -> None:
    """Why is said, and what other nodes say that they do about it."""
    others = {1: facts, 2: node(2, healing=("the sequencer's node 1 has failed: extending the chain since 1 s",))}
    wait = the(about(picture(more=others), Topic.APPEND), "node 1, which orders them, cannot")

    assert wait.because[0] == words
    assert wait.because[1] == "node 2 says: the sequencer's node 1 has failed: extending the chain since 1 s"


def test_who_orders_is_not_in_the_register_any_more() -> None:
    """A node that was removed orders nothing."""
    found = picture()
    left = {number: facts for number, facts in found.nodes.items() if number != 1}

    assert the(about(attrs.evolve(found, nodes=left), Topic.APPEND), "cannot").because == (
        "node 1 is not in the register any more",
    )


@pytest.mark.parametrize(("full", "weight"), [(1, Severity.WEAK), (2, Severity.TROUBLE)])
def test_disks_are_full(full: int, weight: Severity) -> None:
    """One full disk of three: the others store appends. Two: appends stop, now or soon."""
    found = picture([state(full=number < full) for number in range(3)])

    told = the(about(found, Topic.APPEND), "the disk is full")
    assert told.weight is weight
    assert len(told.because) == full
    assert "trim the log, or make room" in told.next


def test_entries_are_on_their_way() -> None:
    """Entries on one server that others lack are in the log later, or not: normal in a log that is in use."""
    found = picture([state(14, known=10), state(10), state(10)])

    tail = about(found, Topic.TAIL)
    more = the(tail, "4 more behind 110 are on their way")
    assert (more.weight, more.because) == (Severity.NOTE, ("node 1 has more",))
    assert the(tail, "the tail is 110").weight is Severity.WELL
    assert all_well(conclude(found))


def test_a_kind_that_says_nothing_spoils_nothing() -> None:
    """Then only the chain speaks; that is no alarm, whereas a kind that fails is one."""
    found = picture()
    active = found.segments[-1].segment
    for problem, weight in ((NO_DIAGNOSIS, Severity.NOTE), ("no library", Severity.WEAK)):
        silent = attrs.evolve(found, segments=(found.segments[0], SegmentFacts(segment=active, problem=problem)))
        told = the(about(silent, Topic.APPEND), "nothing is known of segment 2.b")
        assert (told.weight, told.because) == (weight, (problem,))
        assert all_well(conclude(silent)) is (weight is Severity.NOTE)


def test_what_only_a_kind_can_know_is_told_in_its_words() -> None:
    """A part that answers and has a problem: it is quoted."""
    found = picture()
    parts = (
        Evidence("stripe 1, node 3", {"tail": 3}, "waits for stripe 0"),
        Evidence(COMBINED, {"tail": 6, "sealed": False}),
    )
    odd = attrs.evolve(found, segments=(SegmentFacts(segment=found.segments[1].segment, evidence=parts),))

    assert the(about(odd, Topic.APPEND), "not well").because == ("stripe 1, node 3: waits for stripe 0",)


def test_whoever_leads_a_log_of_replicas_may_be_gone() -> None:
    """Then the next append is slow, and that is all: another one is elected."""
    found = picture(dead=[2])
    parts = (Evidence("node 1", {"node": 1, "tail": 0}), Evidence(COMBINED, {"tail": 0, "sealed": False, "leads": 2}))
    led = attrs.evolve(found, segments=(SegmentFacts(segment=found.segments[1].segment, evidence=parts),))

    slow = the(about(led, Topic.APPEND), "node 2, which leads, does not answer")
    assert slow.weight is Severity.WEAK
    assert "stands for election" in slow.next


def test_a_loglet_outside_that_nobody_has_used_yet_is_well() -> None:
    """Its znode is not there, and the loglet is empty all the same: no alarm, but what was seen is said."""
    found = picture()
    missing = Evidence("znode /log/2.b", {}, "not there: no client has appended yet")
    whole = Evidence(COMBINED, {"tail": 0, "undecided": 0, "by": [], "sealed": False, "trim": 0, "orders": []})
    outside = SegmentFacts(segment=segment(OPEN, 100, None, "zookeeper"), evidence=(missing, whole))
    unused = attrs.evolve(found, segments=(found.segments[0], outside))

    assert all_well(conclude(unused))
    assert the(about(unused, Topic.TAIL), "the tail is 100").because == (
        "znode /log/2.b: not there: no client has appended yet",
    )


def test_a_loglet_outside_that_does_not_answer() -> None:
    """Nothing in the cluster can help: appends and the tail wait for it."""
    found = picture()
    silent = Evidence("ZooKeeper a:2181", {}, "ZooKeeper at a:2181 does not answer")
    whole = Evidence(COMBINED, {"tail": None, "sealed": None, "trim": None, "orders": []}, silent.problem)
    outside = SegmentFacts(segment=segment(OPEN, 100, None, "zookeeper"), evidence=(silent, whole))
    cut_off = attrs.evolve(found, segments=(found.segments[0], outside))

    for topic, words in (
        (Topic.APPEND, "can neither take appends"),
        (Topic.TAIL, "cannot be told"),
        (Topic.SEAL, "nor be sealed"),
    ):
        told = the(about(cut_off, topic), words)
        assert told.weight is Severity.TROUBLE
        assert "ZooKeeper a:2181: ZooKeeper at a:2181 does not answer" in told.because


def test_what_is_asked_for_is_what_is_told() -> None:
    """By topic, by segment; a finding about two topics is found by both."""
    found = conclude(picture([state(), state(), None], dead=[3], before=[state(100), state(100), None]))

    assert the(chosen(found, Topic.SEAL, None), "short of node 3") is the(
        chosen(found, Topic.APPEND, None), "short of node 3"
    )
    assert {finding.segment for finding in chosen(found, None, CLOSED)} == {CLOSED}
    assert the(chosen(found, None, CLOSED), "is not whole: 2 of 3 answer").weight is Severity.WEAK


STATES = st.none() | st.builds(
    state, st.integers(0, 5), known=st.integers(0, 5), sealed=st.booleans(), trim=st.integers(0, 5), full=st.booleans()
)


@given(answers=st.tuples(STATES, STATES, STATES))
def test_nothing_is_called_well_without_a_majority(answers: tuple[NativeState | None, ...]) -> None:
    """For any answers of servers there is a conclusion, and never more than a majority supports."""
    found = picture(answers)
    few = sum(answer is None for answer in answers) > 1

    for topic in (Topic.APPEND, Topic.TAIL, Topic.SEAL):
        told = about(found, topic)
        assert told
        assert few == any("too few" in finding.statement for finding in told)
        assert not (few and any(finding.weight is Severity.WELL for finding in told))
