"""Decisions of the default policy: each rule of its docstring, and never fewer copies than before."""

from __future__ import annotations

from collections.abc import Mapping

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from virtuallog.contract.chain import Segment, SegmentId
from virtuallog.contract.errors import InvalidSettingError
from virtuallog.contract.placement import Placement, SequencerId
from virtuallog.contract.types import LogPosition, NodeId
from virtuallog_server.healing.core.failure_detector import Condition
from virtuallog_server.healing.core.healing_policy import (
    Decision,
    Extend,
    HealingSettings,
    Nothing,
    PlacedSegment,
    Rebuild,
    ReplaceFailed,
)
from virtuallog_server.healing.policy_registry import load_policy

ROLES = frozenset({"sequencer", "log-server"})
SETTINGS = HealingSettings(server_patience_seconds=8.0, rebuild_patience_seconds=60.0)
WELL = Condition(alive=True, boot=1, roles=ROLES)


def failed(seconds: float = 1.0, *, lost: bool = False) -> Condition:
    return Condition(alive=False, failed_seconds=seconds, boot=1, roles=ROLES, lost=lost)


def nodes(count: int, **changed: Condition) -> Mapping[NodeId, Condition]:
    """`n2=...` is node 2; the others are well."""
    return {NodeId(node): changed.get(f"n{node}", WELL) for node in range(1, count + 1)}


def placed(number: int, *servers: int, sequencer: int | None = 1, stop: int | None = None) -> PlacedSegment:
    """Segment `number` begins at 10 times that."""
    start, end = LogPosition(10 * number), None if stop is None else LogPosition(stop)
    segment = Segment(id=SegmentId(number, number), kind="native", config=b"", start=start, stop=end)
    orders = () if sequencer is None else (SequencerId(NodeId(sequencer), 1),)
    on = tuple(NodeId(server) for server in servers)
    return PlacedSegment(segment, Placement(groups=(on,), role="log-server", sequencers=orders))


def decide(conditions: Mapping[NodeId, Condition], *segments: PlacedSegment) -> Decision:
    return ReplaceFailed(SETTINGS).decide(conditions, segments)


def test_all_is_well() -> None:
    """Nothing is done, and there is nothing to say."""
    assert decide(nodes(3), placed(1, 1, 2, 3, stop=20), placed(2, 1, 2, 3)) == Nothing()


def test_a_failed_sequencer_is_replaced_at_once() -> None:
    """With or without a spare node: the plan keeps the dead log server if there is none."""
    decision = decide(nodes(3, n1=failed()), placed(1, 1, 2, 3))

    assert decision == Extend(segment=SegmentId(1, 1), reason="the sequencer's node 1 has failed", urgent=True)


def test_a_sequencer_that_started_again_is_replaced() -> None:
    """It never starts in place."""
    decision = decide(nodes(3, n1=Condition(alive=True, boot=2, roles=ROLES)), placed(1, 1, 2, 3))

    assert isinstance(decision, Extend)
    assert decision.reason == "the sequencer's node 1 has started again"


def test_who_is_cut_off_does_nothing() -> None:
    """Without a majority of the servers nothing can be sealed."""
    decision = decide(nodes(3, n1=failed(), n2=failed()), placed(1, 1, 2, 3))

    assert decision == Nothing(reason="the sequencer's node 1 has failed, and no majority of nodes 1, 2, 3 answers")


def test_a_failed_log_server_without_a_spare_node_triggers_nothing() -> None:
    """However long it stays away; the status says so."""
    decision = decide(nodes(3, n2=failed(9999.0)), placed(1, 1, 2, 3, stop=20), placed(2, 1, 2, 3))

    assert isinstance(decision, Nothing)
    assert "log server 2 has failed, no spare node" in decision.reason


def test_a_failed_log_server_is_replaced_by_a_spare_node_after_a_while() -> None:
    """It may be starting again. One that has lost its disk will not come back as it was."""
    spare = placed(1, 1, 2, 3)

    assert decide(nodes(4, n2=failed(7.9)), spare) == Nothing()
    assert decide(nodes(4, n2=failed(8.0)), spare) == Extend(
        segment=SegmentId(1, 1), reason="log server 2 has failed", urgent=False
    )
    assert isinstance(decide(nodes(4, n2=failed(0.1, lost=True)), spare), Extend)


def test_a_spare_node_must_live_and_have_the_role() -> None:
    """A node that only orders stores nothing, and one that has not said what it can do is not chosen."""
    active = placed(1, 1, 2, 3)

    for other in (failed(), Condition(alive=True, roles=frozenset({"sequencer"})), Condition(alive=True)):
        assert isinstance(decide(nodes(4, n2=failed(99.0), n4=other), active), Nothing)


def test_closed_segments_are_rebuilt_after_a_longer_while() -> None:
    """One by one, the last first, onto the spare node that has least."""
    chain = (placed(1, 1, 2, 4, stop=20), placed(2, 1, 2, 3, stop=30), placed(3, 3, 4, 5, sequencer=3))

    assert decide(nodes(5, n1=failed(59.9)), *chain) == Nothing()
    assert decide(nodes(5, n1=failed(60.0)), *chain) == Rebuild(
        segment=SegmentId(2, 2),
        servers=(NodeId(2), NodeId(3), NodeId(5)),
        reason="node 1, which has copies of closed segments, has failed",
    )


def test_a_node_with_a_new_disk_gets_its_copies_again() -> None:
    """The new directory has the place of the lost one, so no spare node is needed: the open segment continues with it, closed ones are copied."""
    lost = frozenset({NodeId(2)})
    closed = attrs.evolve(placed(1, 1, 2, 3, stop=20), lost=lost)

    assert decide(nodes(3), closed, placed(2, 1, 2, 3)) == Rebuild(
        segment=SegmentId(1, 1),
        servers=(NodeId(1), NodeId(2), NodeId(3)),
        reason="node 2, which had copies of closed segments, has a new disk",
    )
    assert isinstance(decide(nodes(3), attrs.evolve(placed(1, 1, 2, 3), lost=lost)), Extend)
    assert isinstance(decide(nodes(3, n2=failed(99.0)), closed), Nothing)  # nor can it be given any


def test_who_has_lost_its_copy_and_is_dead_is_replaced_first() -> None:
    """One spare node, two dead servers: the one that still has its copy on its disk keeps the place."""
    closed = attrs.evolve(placed(1, 1, 2, 3, stop=20), lost=frozenset({NodeId(3)}))

    decision = decide(nodes(4, n1=failed(99.0), n3=failed(99.0)), closed)

    assert isinstance(decision, Rebuild)
    assert decision.servers == (1, 2, 4)


@pytest.mark.parametrize("other", [WELL, failed(99.0)], ids=["returned", "failed"])
def test_nothing_is_copied_to_a_node_that_is_down(other: Condition) -> None:
    """Without a spare node the rebuild would fail in any case."""
    closed = attrs.evolve(placed(1, 1, 2, 3, stop=20), lost=frozenset({NodeId(2), NodeId(3)}))

    decision = decide(nodes(3, n2=other, n3=failed(1.0)), closed)

    assert isinstance(decision, Nothing)
    assert decision.reason


def test_what_fails_does_not_keep_others_waiting() -> None:
    """A rebuild that has failed, and an extension that no append waits for, come after what has not been tried."""
    first, second = placed(1, 1, 2, 4, stop=20), placed(2, 1, 2, 4, stop=30)
    leisurely = attrs.evolve(placed(3, 1, 2, 3, sequencer=2), failures=1)

    decision = decide(nodes(6, n1=failed(99.0)), first, attrs.evolve(second, failures=1), leisurely)

    assert isinstance(decision, Rebuild)
    assert decision.segment == first.segment.id


def test_a_failed_sequencer_never_waits_for_a_rebuild() -> None:
    """However often replacing it has failed: appends do wait."""
    chain = (placed(1, 1, 2, 4, stop=20), attrs.evolve(placed(2, 1, 2, 3), failures=7))

    decision = decide(nodes(5, n1=failed(99.0)), *chain)

    assert isinstance(decision, Extend)
    assert decision.urgent


def test_a_node_whose_copy_has_a_hole_is_passed_over() -> None:
    """It has the least, and it would fail again."""
    chain = (attrs.evolve(placed(1, 1, 2, 3, stop=20), unfit=frozenset({NodeId(4)})), placed(2, 2, 3, 5, sequencer=2))

    decision = decide(nodes(5, n1=failed(99.0)), *chain)

    assert isinstance(decision, Rebuild)
    assert decision.servers == (2, 3, 5)


def test_appends_come_before_rebuilds() -> None:
    """The open segment is looked at first."""
    chain = (placed(1, 1, 2, 4, stop=20), placed(2, 1, 2, 3))

    assert isinstance(decide(nodes(5, n1=failed(99.0)), *chain), Extend)


def test_a_loglet_that_any_server_orders_has_no_sequencer_to_fail() -> None:
    """A majority of its servers lives, so it takes appends."""
    assert decide(nodes(3, n1=failed()), placed(1, 1, 2, 3, sequencer=None)) == Nothing()


def striped(number: int, *groups: tuple[int, ...], stop: int | None = None) -> PlacedSegment:
    """Each group has copies of a part, which is ordered by the first of its nodes."""
    whole = placed(number, 1, stop=stop)
    on = tuple(tuple(NodeId(node) for node in group) for group in groups)
    orders = tuple(SequencerId(group[0], 1) for group in on)
    return PlacedSegment(whole.segment, Placement(groups=on, role="log-server", sequencers=orders))


def test_any_one_of_several_sequencers_is_needed() -> None:
    """A stripe that takes no appends blocks all others, as readers wait for the positions below. All failures are reported."""
    rotating = striped(1, (1, 2, 3), (2, 1, 3), (3, 1, 2))

    decision = decide(nodes(3, n3=failed()), rotating)
    assert decision == Extend(segment=SegmentId(1, 1), reason="the sequencer's node 3 has failed", urgent=True)

    both = decide(
        nodes(6, n1=failed(), n4=Condition(alive=True, boot=2, roles=ROLES)), striped(1, (1, 2, 3), (4, 5, 6))
    )
    assert isinstance(both, Extend)
    assert both.reason == "the sequencer's node 1 has failed; the sequencer's node 4 has started again"


def test_a_majority_of_each_group_is_needed() -> None:
    """Four of six live, but the second stripe cannot be sealed: an extension would only fail."""
    sharded = striped(1, (1, 2, 3), (4, 5, 6))

    decision = decide(nodes(6, n4=failed(), n5=failed()), sharded)
    assert decision == Nothing(reason="the sequencer's node 4 has failed, and no majority of nodes 4, 5, 6 answers")


def test_a_dead_server_of_one_group_is_replaced_in_its_place() -> None:
    """By a node that is in no group; one of another group has its own copies to keep."""
    closed = striped(1, (1, 2, 3), (4, 5, 6), stop=20)

    assert isinstance(decide(nodes(6, n5=failed(99.0)), closed), Nothing)
    decision = decide(nodes(7, n5=failed(99.0)), closed)
    assert isinstance(decision, Rebuild)
    assert decision.servers == (1, 2, 3, 4, 6, 7)


conditions = st.builds(
    Condition,
    alive=st.booleans(),
    failed_seconds=st.sampled_from([0.0, 10.0, 100.0]),
    boot=st.integers(0, 2),
    roles=st.sampled_from([ROLES, frozenset({"sequencer"})]),
    lost=st.booleans(),
)


@given(
    st.lists(conditions, min_size=3, max_size=7),
    st.sampled_from([(1, 2, 3), (1, 2, 3, 4, 5)]),
    st.sets(st.integers(1, 3)),
)
def test_no_decision_gives_up_a_copy(each: list[Condition], servers: tuple[int, ...], lost: set[int]) -> None:
    """A rebuild keeps the number of servers, keeps all that live, and copies to living log servers only."""
    seen = {NodeId(node): condition for node, condition in enumerate(each, start=1)}
    before = attrs.evolve(placed(1, *servers, stop=20), lost=frozenset(NodeId(node) for node in lost))
    decision = decide(seen, before)

    if isinstance(decision, Rebuild):
        kept, added = set(decision.servers) & set(servers), set(decision.servers) - set(servers)
        assert len(decision.servers) == len(set(decision.servers)) == len(servers)
        assert kept >= {server for server in before.placement.servers if server in seen and seen[server].alive}
        assert added or any(seen[NodeId(node)].alive for node in lost)
        assert all(seen[node].alive and "log-server" in seen[node].roles for node in added)
        assert all(seen[node].alive for node in kept & before.lost)


def test_a_policy_is_found_by_its_name() -> None:
    """Our own, a stranger's, or none."""
    assert load_policy("replace-failed", SETTINGS) == ReplaceFailed(SETTINGS)
    assert load_policy("off", SETTINGS) is None
    assert isinstance(
        load_policy("virtuallog_server.healing.core.healing_policy:ReplaceFailed", SETTINGS), ReplaceFailed
    )


@pytest.mark.parametrize(
    "name",
    [
        "",
        "no-such",
        "virtuallog_server.healing.core.healing_policy",
        "no.such:Class",
        "virtuallog_server.healing.core.healing_policy:No",
    ],
)
def test_a_policy_that_is_not_there_is_refused(name: str) -> None:
    """At the start, with the names that there are."""
    with pytest.raises(InvalidSettingError, match="known: off, replace-failed"):
        load_policy(name, SETTINGS)
