"""A node's memory of failed repairs."""

from __future__ import annotations

from tests.server.healing.test_healing_policy import failed, nodes, placed
from virtuallog.contract.chain import SegmentId
from virtuallog.contract.errors import CorruptionError, UnavailableError, VirtualLogError
from virtuallog.contract.types import NodeId
from virtuallog_server.healing.core.backoff import RepairHistory
from virtuallog_server.healing.core.healing_policy import Extend, HealingSettings, PlacedSegment, Rebuild, ReplaceFailed

CHAIN = (placed(1, 1, 2, 4, stop=20), placed(2, 1, 2, 4, stop=30), placed(3, 2, 3, 5, sequencer=2))
DOWN = UnavailableError("node 5 does not answer")
HOLE = CorruptionError("the copy on node 5 lacks offset 0")


def attempts(chain: tuple[PlacedSegment, ...], *outcomes: VirtualLogError | None) -> list[Rebuild]:
    """Decisions of the default policy, in order, while node 1 is dead. None for a success."""
    setbacks, policy, done = RepairHistory(), ReplaceFailed(HealingSettings()), []
    for outcome in outcomes:
        decision = policy.decide(nodes(7, n1=failed(99.0)), setbacks.mark(chain))
        assert isinstance(decision, Rebuild)
        done.append(decision)
        if outcome is None:
            setbacks.succeeded()
            chain = tuple(each for each in chain if each.segment.id != decision.segment)
        else:
            setbacks.failed(decision, outcome, chain)
    return done


def test_segments_whose_rebuilds_fail_take_turns() -> None:
    """The newest comes first, and does not keep the older one waiting for ever."""
    assert [tried.segment.version for tried in attempts(CHAIN, DOWN, DOWN, DOWN, DOWN)] == [2, 1, 2, 1]


def test_a_success_gives_everybody_a_turn() -> None:
    """A failed segment is tried again once another one had its turn."""
    assert [tried.segment.version for tried in attempts(CHAIN, DOWN, None, None)] == [2, 1, 2]


def test_a_newcomer_with_a_hole_is_not_asked_again() -> None:
    """Another spare node takes the place; one that was merely down is asked again."""
    tried = attempts(CHAIN[1:], HOLE, DOWN, HOLE, None)

    assert [set(rebuild.servers) - {2, 4} for rebuild in tried] == [{6}, {7}, {7}, {3}]


def test_what_the_chain_has_no_more_is_forgotten() -> None:
    """Nor is anything kept about a segment that was gone already when its rebuild failed."""
    setbacks = RepairHistory()
    setbacks.failed(Rebuild(segment=SegmentId(2, 2), servers=(NodeId(6),), reason=""), HOLE, CHAIN)
    setbacks.failed(Extend(segment=SegmentId(9, 9), reason="", urgent=False), DOWN, CHAIN)

    assert [placed.failures for placed in setbacks.mark(CHAIN)] == [0, 1, 0]
    assert setbacks.mark(CHAIN)[1].unfit == {6}
    assert setbacks.mark(CHAIN[:1]) == CHAIN[:1]
    assert setbacks.mark(CHAIN) == CHAIN
