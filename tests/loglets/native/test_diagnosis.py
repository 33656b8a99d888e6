"""Evidence of log servers gives the same tail as a check from the same answers."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from virtuallog.contract.types import NodeId, Open
from virtuallog_loglets.native.config import NativeConfig
from virtuallog_loglets.native.core.quorum import committed_tail
from virtuallog_loglets.native.core.tail_check import NativeFinish, NativeTailCheck
from virtuallog_loglets.native.diagnosis import evidence_of_whole
from virtuallog_loglets.native.messages import NativeState

TAILS = st.integers(0, 6)


@given(tails=st.lists(TAILS, min_size=3, max_size=5), size=st.sampled_from((3, 5)), knows=st.booleans())
def test_the_tail_is_the_one_that_a_check_tells(tails: list[int], size: int, knows: bool) -> None:
    """Whenever these answers suffice for a check. When they do not, the tail is the part that is committed."""
    nodes = [NodeId(number + 1) for number in range(size)]
    config = NativeConfig(servers=tuple(nodes), sequencer=NodeId(1), boot=1)
    answered = tails[: config.majority]
    known = committed_tail(answered, size) if knows else 0
    states = {
        node: NativeState(local_tail=tail, sealed=False, known_tail=min(known, tail), trim=0)
        for node, tail in zip(nodes, answered, strict=False)
    }
    check = NativeTailCheck(config)
    check.begin()
    effects = [effect for node, state in states.items() for effect in check.answer(check.round, node, state)]
    facts = evidence_of_whole(config, states).facts

    finished = [effect.tail for effect in effects if isinstance(effect, NativeFinish)]
    assert finished in ([], [Open(facts["tail"])])
    assert bool(finished) == (facts["undecided"] == 0)
    assert (facts["sealed"], facts["spare"]) == (False, 0)
