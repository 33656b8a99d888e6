"""The failure detector: how many failures it takes, and what is no evidence."""

from __future__ import annotations

from collections.abc import Mapping

import attrs
import pytest

from virtuallog.admin.control import Alive
from virtuallog.contract.register import NodeEntry
from virtuallog.contract.types import NodeId
from virtuallog_server.healing.core.failure_detector import (
    BUSY_SECONDS,
    FAILURES,
    FAILURES_BUSY,
    FAILURES_MORE,
    LATE_SECONDS,
    OTHERS_EVERY,
    RECHECK_SECONDS,
    ROUND_SECONDS,
    STEADY_SECONDS,
    FailureDetector,
)

ROLES = frozenset({"sequencer", "log-server"})
ONE, TWO, THREE = NodeId(1), NodeId(2), NodeId(3)


def entry(node: int) -> NodeEntry:
    return NodeEntry(store_id=bytes([node]) * 16, addresses=("127.0.0.1:1",), roles=ROLES)


def alive(node: int, *, boot: int = 1, version: int = 1) -> Alive:
    return Alive(
        node=NodeId(node), store_id=bytes([node]) * 16, boot=boot, roles=(*sorted(ROLES), "metastore"), version=version
    )


NODES: Mapping[NodeId, NodeEntry] = {node: entry(node) for node in (ONE, TWO, THREE)}


def detector() -> FailureDetector:
    """Node 3's."""
    made = FailureDetector(THREE)
    made.know(NODES, 0.0)
    return made


def fail(watching: FailureDetector, node: NodeId, now: float, times: int = FAILURES) -> None:
    for _ in range(times):
        watching.failed(node, now)


def test_a_vigilant_node_probes_the_sequencers_in_each_round_and_others_in_turn() -> None:
    """Few probes: one in a round, now and then two."""
    watching = detector()
    rounds = []
    for number in range(2 * OTHERS_EVERY):
        rounds.append(watching.round([ONE], number))
        for node in rounds[-1]:
            watching.answered(node, alive(node), number)

    assert rounds == 2 * [*(OTHERS_EVERY - 1) * [[ONE]], [ONE, TWO]]


def test_every_one_of_several_sequencers_is_probed_in_each_round() -> None:
    """The log takes appends only while all of them do."""
    watching = detector()

    assert sorted(watching.round([ONE, TWO, THREE], 0.0)) == [ONE, TWO]


def test_all_other_nodes_probe_everybody_in_turn() -> None:
    """The sequencer's own node as well."""
    watching = detector()
    chosen: list[NodeId] = []
    for number in range(4):
        chosen += watching.round([], number)
        watching.answered(chosen[-1], alive(chosen[-1]), number)

    assert sorted(chosen) == [ONE, ONE, TWO, TWO]


def test_a_failed_node_is_asked_in_each_round() -> None:
    """So that its return is noticed soon: the next failure may need it for a majority."""
    watching = detector()
    fail(watching, TWO, 1.0)

    for number in range(OTHERS_EVERY):
        assert sorted(watching.round([ONE], 2.0 + number)) == [ONE, TWO]
        watching.answered(ONE, alive(1), 2.0 + number)
        watching.failed(TWO, 2.0 + number)


def test_a_node_that_has_not_answered_is_not_asked_twice() -> None:
    """Three failures are three looks, not one look that took long."""
    watching = detector()

    assert watching.round([ONE], 0.0) == [ONE]
    assert watching.round([ONE], ROUND_SECONDS) == []
    watching.failed(ONE, ROUND_SECONDS)
    assert watching.rechecks(ROUND_SECONDS) == [ONE]


def test_three_failures_in_a_row_are_a_suspicion() -> None:
    """A refused connection fails at once: then the next look comes a little later."""
    watching = detector()
    watching.answered(ONE, alive(1), 1.0)
    now = 5.0
    watching.round([ONE], now)
    for _ in range(FAILURES - 1):
        watching.failed(ONE, now)
        assert watching.suspects == []
        assert watching.rechecks(now) == []
        assert watching.next_recheck == now + RECHECK_SECONDS
        now += RECHECK_SECONDS
        assert watching.rechecks(now) == [ONE]
    watching.failed(ONE, now)

    assert watching.suspects == [ONE]
    assert watching.conditions(now)[ONE].failed_seconds == now - 1.0
    assert watching.next_recheck is None  # it is asked in its turn


def test_a_lost_connection_is_a_reason_to_look_and_no_failure() -> None:
    """The host of a killed process resets its connections at once; a connection may also end for other reasons."""
    watching = detector()
    watching.answered(ONE, alive(1), 1.0)
    watching.disconnected(ONE, 5.0)

    assert watching.next_recheck == 5.0
    assert watching.rechecks(5.0) == [ONE]
    assert watching.rechecks(5.0) == []
    watching.answered(ONE, alive(1), 5.0)
    assert watching.suspects == []
    assert watching.rechecks(6.0) == []

    watching.disconnected(ONE, 6.0)
    watching.rechecks(6.0)
    fail(watching, ONE, 6.0, FAILURES - 1)
    assert watching.suspects == []
    fail(watching, ONE, 6.0, 1)
    assert watching.suspects == [ONE], "as many failed probes as without a lost connection"


def test_a_node_that_closes_every_connection_is_not_probed_in_a_loop() -> None:
    """Each probe opens one, which ends at once."""
    watching = detector()
    watching.disconnected(ONE, 5.0)
    watching.rechecks(5.0)
    watching.answered(ONE, alive(1), 5.0)
    watching.disconnected(ONE, 5.0)

    assert watching.rechecks(5.0) == []
    assert watching.rechecks(5.0 + RECHECK_SECONDS) == [ONE]


def test_a_round_adds_no_look_at_a_node_that_is_checked_already() -> None:
    """Three looks take as long whether or not a round comes in between."""
    watching = detector()
    watching.disconnected(ONE, 5.0)
    watching.rechecks(5.0)
    watching.failed(ONE, 5.0)

    assert watching.round([ONE], 5.1) == []
    assert watching.rechecks(5.0 + RECHECK_SECONDS) == [ONE]


def test_lost_connections_of_failed_and_of_unknown_nodes_change_nothing() -> None:
    """The one is asked in each round anyway, the other has left the cluster."""
    watching = detector()
    fail(watching, ONE, 1.0)
    for node in (ONE, THREE, NodeId(9)):
        watching.disconnected(node, 2.0)

    assert watching.rechecks(9.0) == []
    assert watching.next_recheck is None


def test_an_answer_between_two_failures_starts_over() -> None:
    """In a row means in a row."""
    watching = detector()
    for now in range(5):
        fail(watching, ONE, now, FAILURES - 1)
        watching.answered(ONE, alive(1), now)

    assert watching.suspects == []


@pytest.mark.parametrize(
    "answer",
    [
        attrs.evolve(alive(1), store_id=b"another disk"),
        attrs.evolve(alive(1), node=TWO),
        attrs.evolve(alive(1), roles=("metastore",)),
    ],
)
def test_the_answer_of_somebody_else_is_a_failure(answer: Alive) -> None:
    """Not well are: a new disk, another node at the address, a node with a stopped log server."""
    watching = detector()
    for now in range(FAILURES):
        watching.answered(ONE, answer, now)

    assert watching.suspects == [ONE]
    assert watching.conditions(9.0)[ONE].lost == (answer.store_id != NODES[ONE].store_id)


def test_who_stood_still_has_measured_nothing() -> None:
    """Our own pause lets all probes time out; they say nothing about others. But one that always stands still acts, too."""
    watching = detector()
    fail(watching, ONE, 1.0, FAILURES - 1)
    watching.woke(4.0, 1.1)
    fail(watching, ONE, 4.0, FAILURES + FAILURES_BUSY - 1)
    assert watching.suspects == []

    watching.woke(6.0, 4.1)
    watching.failed(ONE, 6.0)
    assert watching.suspects == [ONE]


def test_a_busy_machine_needs_more_failures() -> None:
    """A detector that waits for the processor may wait for nodes that do so as well. That passes."""
    watching = detector()
    watching.woke(1.0 + 2 * LATE_SECONDS, 1.0)
    fail(watching, ONE, 1.5)
    assert watching.suspects == []

    watching.answered(ONE, alive(1), 2.0)
    fail(watching, ONE, 3.0 + BUSY_SECONDS)
    assert watching.suspects == [ONE]


def test_a_node_that_keeps_coming_back_needs_more_failures() -> None:
    """The first return is free: it was dead, or paused. From the second on it is slow, until it has been steady."""
    watching = detector()
    for now in (10.0, 11.0):
        fail(watching, ONE, now)
        assert watching.suspects == [ONE]
        watching.answered(ONE, alive(1), now)
    fail(watching, ONE, 12.0, FAILURES + FAILURES_MORE - 1)
    assert watching.suspects == []

    watching.answered(ONE, alive(1), 13.0)
    watching.answered(ONE, alive(1), 13.0 + 2 * STEADY_SECONDS)
    fail(watching, ONE, 100.0)
    assert watching.suspects == [ONE]


def test_a_node_that_got_another_place_has_a_clean_record() -> None:
    """The register gives node 1 another data directory: who failed was the former one."""
    watching = detector()
    fail(watching, ONE, 1.0)
    watching.know({**NODES, ONE: attrs.evolve(entry(1), store_id=b"new")}, 2.0)

    assert watching.suspects == []
    watching.know({THREE: entry(3)}, 3.0)
    assert watching.conditions(3.0) == {}
    watching.failed(ONE, 3.0)  # a late answer concerns no present probe


def test_changes_count_what_a_policy_may_want_to_know() -> None:
    """A node that says the same again does not; one that has started again does."""
    watching = detector()
    watching.answered(ONE, alive(1), 1.0)
    seen = watching.changes
    watching.answered(ONE, alive(1, version=7), 2.0)

    assert (watching.changes, watching.newest_version) == (seen, 7)
    watching.answered(ONE, alive(1, boot=2), 3.0)
    assert watching.changes == seen + 1
    assert watching.conditions(3.0)[ONE].boot == 2
