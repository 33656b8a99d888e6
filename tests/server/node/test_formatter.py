"""The rule for wiped disks."""

from __future__ import annotations

import itertools
import random

import pytest

from virtuallog.contract.types import NodeId
from virtuallog_server.node.formatter import WaitForPeers, advance
from virtuallog_server.storage.identity import FormatPhase

NEW, HALF, JOINING, READY = FormatPhase.UNFORMATTED, FormatPhase.FORMATTING, FormatPhase.JOINING, FormatPhase.FORMATTED


@pytest.mark.parametrize(
    ("own", "peers", "expected"),
    [
        (NEW, [], HALF),
        (HALF, [], READY),
        (NEW, [NEW, NEW], HALF),
        (NEW, [NEW, HALF], HALF),
        (HALF, [HALF, READY], READY),
        (NEW, [NEW, None], "no answer from node 3"),
        (HALF, [HALF, None], "no answer from node 3"),
        (HALF, [NEW, HALF], "node 2 is not ready yet"),
        (NEW, [READY, READY], JOINING),
        (NEW, [None, READY], JOINING),
        (JOINING, [None, None], JOINING),
    ],
)
def test_the_rule(own: FormatPhase, peers: list[FormatPhase | None], expected: FormatPhase | str) -> None:
    """One case after the other: all new, half way, one silent, one that has voted already: then the register decides."""
    answer = advance(own, {NodeId(node): phase for node, phase in enumerate(peers, start=2)})

    if isinstance(expected, str):
        assert isinstance(answer, WaitForPeers)
        assert expected in answer.reason
    else:
        assert answer is expected


@pytest.mark.parametrize("seed", range(200))
def test_a_wiped_node_never_votes(seed: int) -> None:
    """However questions, late decisions and a wipe interleave: once a second node may vote, a wiped one has to ask the
    register for a place, and no operator has made one.
    """
    source = random.Random(seed)
    phases = [NEW] * 3
    answers: dict[int, dict[NodeId, FormatPhase | None]] = {}
    wiped: int | None = None
    for _ in range(300):
        node = source.randrange(3)
        others = [phases[other] for other in range(3) if other != node]
        if wiped is None and READY in others and source.random() < 0.1:
            wiped, phases[node] = node, NEW
            answers.pop(node, None)
        elif node in answers and phases[node] is not READY:
            answer = advance(phases[node], answers.pop(node))
            phases[node] = answer if isinstance(answer, FormatPhase) and answer is not JOINING else phases[node]
        else:
            answers[node] = {
                NodeId(other): phases[other] if source.random() < 0.9 else None for other in range(3) if other != node
            }
        assert wiped is None or phases[wiped] is NEW


def test_a_first_start_always_gets_through() -> None:
    """Three new nodes that all answer end up formatted, in any order of their steps."""
    for order in itertools.islice(itertools.permutations([0, 1, 2] * 3), 0, 50_000, 997):
        phases = [NEW] * 3
        for _ in range(3):
            for node in order:
                if phases[node] is not READY:
                    answer = advance(phases[node], {NodeId(i): p for i, p in enumerate(phases) if i != node})
                    phases[node] = answer if isinstance(answer, FormatPhase) else phases[node]
        assert phases == [READY] * 3
