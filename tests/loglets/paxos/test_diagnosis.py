"""Diagnosis from the standings of replicas: the same tail that a tail check returns, from the same answers."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import attrs
import pytest
import trio

from tests.loglets.paxos.drivers.test_tail_check import checked, standing
from tests.virtuallog.client.world import NoServices
from virtuallog.contract.chain import SegmentId
from virtuallog.contract.diagnosis import COMBINED
from virtuallog.contract.errors import UnavailableError
from virtuallog.contract.ports import Done, Environment, Outcome
from virtuallog.contract.types import NodeId, Sealed
from virtuallog.runtime.clock import SystemClock
from virtuallog_loglets.paxos.config import PaxosConfig
from virtuallog_loglets.paxos.core.tail_check import TailEstablished
from virtuallog_loglets.paxos.diagnosis import evidence_of_replica, evidence_of_whole
from virtuallog_loglets.paxos.messages import Standing, Status
from virtuallog_loglets.paxos.offsets import offset_of
from virtuallog_loglets.paxos.provider import PaxosProvider

NODES = (NodeId(1), NodeId(2), NodeId(3))
CONFIG = PaxosConfig(replicas=NODES, coordinator=NodeId(1))


def told(*standings: Standing | None) -> dict[str, Any]:
    """Combined evidence of these answers, of nodes 1, 2, ...; None stands for no answer."""
    outcomes = {node: answer or UnavailableError("no answer") for node, answer in zip(NODES, standings, strict=False)}
    whole = evidence_of_whole(CONFIG, outcomes)
    assert whole.source == COMBINED
    return dict(whole.facts)


@pytest.mark.parametrize(
    "standings",
    [
        (standing(0), standing(0), standing(0)),
        (standing(5), standing(3), standing(5)),
        (standing(5, learned=5), standing(5, learned=4), standing(2)),
        (standing(5, learned=3), standing(5, learned=3), None),
        (standing(7, seal=7), standing(2), None),
        (standing(7, learned=7, seal_seen=7), standing(7, learned=7, seal_seen=7), standing(6)),
    ],
)
def test_the_tail_is_the_one_that_a_check_tells(standings: Sequence[Standing | None]) -> None:
    """This holds for answers that suffice for a check."""
    (finish,) = checked(*standings)
    assert isinstance(finish, TailEstablished)
    facts = told(*standings)

    assert (facts["tail"], facts["sealed"]) == (finish.tail.tail, isinstance(finish.tail, Sealed))
    assert facts["by"]


def test_too_few_that_vote_say_nothing() -> None:
    """One is silent, one recovers: one more is needed."""
    facts = told(standing(5), attrs.evolve(standing(5), status=Status.RECOVERING), None)

    assert (facts["tail"], facts["sealed"], facts["spare"]) == (None, None, -1)


def test_one_that_has_all_of_a_closed_log_speaks_for_it() -> None:
    """Though it never votes: that is how a log is moved."""
    whole = attrs.evolve(standing(7, seal=7), status=Status.EMPTY)
    facts = told(whole, None, None)

    assert (facts["tail"], facts["sealed"], facts["spare"]) == (offset_of(7), True, 0)
    assert evidence_of_replica(NodeId(1), whole).problem == ""


def test_what_is_not_decided_is_undecided() -> None:
    """Two positions which one replica has accepted, and a SEAL that may come true."""
    facts = told(standing(7, learned=6), standing(5), standing(5))
    sealing = told(standing(6, learned=6, seal_seen=6), standing(5), standing(5))

    assert (facts["tail"], facts["undecided"], facts["sealed"]) == (offset_of(6), 2, False)
    assert sealing["sealed"] is None


def test_who_leads_is_who_was_promised_most() -> None:
    """Replicas name the leader; an older promise does not count."""
    older = attrs.evolve(standing(5), promised=3, coordinator=NodeId(1))
    newer = attrs.evolve(standing(5), promised=4, coordinator=NodeId(2))

    assert told(older, newer, older)["leads"] == 2
    assert "leads" not in told(standing(0), standing(0), standing(0))


def test_what_is_wrong_with_a_replica() -> None:
    """Silent, without a vote, without room: in a sentence."""
    silent = evidence_of_replica(NodeId(3), UnavailableError("no answer"))
    recovering = evidence_of_replica(NodeId(3), attrs.evolve(standing(5), status=Status.RECOVERING))
    full = evidence_of_replica(NodeId(3), attrs.evolve(standing(5), full=True))

    assert (silent.facts, silent.problem) == ({"node": 3}, "no answer")
    assert "does not vote: it is recovering" in recovering.problem
    assert "nearly full" in full.problem


@attrs.define
class Answering(NoServices):
    """Every node has its answer."""

    answers: dict[NodeId, Outcome[Standing]]

    def post(self, node: NodeId, request: object, done: Done, *_: object) -> None:  # type: ignore[override]
        done(self.answers[node])


async def test_a_copy_is_whole_if_its_replica_says_so() -> None:
    """A node answers before its replicas do: it does not know yet that their store is lost, or waits for room on its disk."""
    recovers = attrs.evolve(standing(5), status=Status.RECOVERING)
    silent = UnavailableError("paxos is not ready on this node")
    answers: dict[NodeId, Outcome[Standing]] = {NODES[0]: standing(5), NODES[1]: recovers, NODES[2]: silent}
    async with trio.open_nursery() as nursery:
        environment = Environment(
            services=Answering(answers), clock=SystemClock(), random=random.Random(1), nursery=nursery
        )
        partial = await PaxosProvider().partial_copies(SegmentId(1, 7), CONFIG.encode(), environment)

    assert partial == {NODES[1], NODES[2]}
