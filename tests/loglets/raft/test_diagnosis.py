"""Diagnosis from the standings of replicas."""

from __future__ import annotations

from typing import Any

import pytest

from virtuallog.contract.diagnosis import COMBINED
from virtuallog.contract.errors import UnavailableError
from virtuallog.contract.types import NodeId
from virtuallog_loglets.raft.config import RaftConfig
from virtuallog_loglets.raft.diagnosis import evidence_of_replica, evidence_of_whole
from virtuallog_loglets.raft.messages import NO_NODE, RaftStanding

NODES = (NodeId(1), NodeId(2), NodeId(3))
CONFIG = RaftConfig(replicas=NODES, leader=NodeId(1), boot=1)


def standing(
    tail: int, *, sealed: bool = False, trim: int = 0, leader: int = 1, term: int = 1, last: int = 0, commit: int = 0
) -> RaftStanding:
    """Answer of a replica."""
    return RaftStanding(
        tail=tail, sealed=sealed, trim=trim, leader=NodeId(leader), term=term, last_index=last, commit_index=commit
    )  # fmt: skip


def told(*standings: RaftStanding | None) -> dict[str, Any]:
    """Combined evidence of these answers, of nodes 1, 2, ...; None stands for no answer."""
    outcomes = {node: answer or UnavailableError("no answer") for node, answer in zip(NODES, standings, strict=True)}
    whole = evidence_of_whole(CONFIG, outcomes)
    assert whole.source == COMBINED
    return dict(whole.facts)


def test_highest_commit_is_the_tail() -> None:
    """A replica may lag; what any of them knows to be committed is so."""
    facts = told(standing(5), standing(3), standing(5))

    assert (facts["tail"], facts["sealed"], facts["spare"]) == (5, False, 1)
    assert facts["by"] == ["node 1", "node 3"]


def test_too_few_answers_say_nothing() -> None:
    """One replica alone may lag without end."""
    facts = told(standing(5), None, None)

    assert (facts["tail"], facts["sealed"], facts["spare"]) == (None, None, -1)


def test_one_replica_that_knows_the_seal_speaks_for_the_log() -> None:
    """A SEAL that is committed stays so."""
    facts = told(None, standing(7, sealed=True), None)

    assert (facts["tail"], facts["sealed"], facts["spare"], facts["undecided"]) == (7, True, 0, 0)


def test_records_above_the_commit_index_are_undecided() -> None:
    """They may become committed, or be replaced."""
    assert told(standing(5, last=9, commit=6), standing(5, last=7, commit=7), None)["undecided"] == 2


def test_leader_of_the_highest_term_leads() -> None:
    """A replica that was cut off names an earlier one."""
    assert told(standing(5, leader=1, term=2), standing(5, leader=3, term=4), None)["leads"] == 3
    assert "leads" not in told(*(standing(5, leader=NO_NODE) for _ in NODES))


@pytest.mark.parametrize(("trims", "trim"), [((4, 4, 0), 4), ((4, 0, 0), 0), ((9, 5, 2), 5)])
def test_trim_is_that_of_a_majority(trims: tuple[int, int, int], trim: int) -> None:
    """One replica may have been trimmed further."""
    assert told(*(standing(9, trim=each) for each in trims))["trim"] == trim


def test_silent_replica_is_evidence_of_its_own() -> None:
    """And so is one whose disk is full."""
    silent = evidence_of_replica(NodeId(2), UnavailableError("no answer"))
    full = evidence_of_replica(NodeId(2), RaftStanding(tail=1, sealed=False, trim=0, full=True))

    assert silent.problem == "no answer"
    assert "no room" in full.problem
    assert evidence_of_replica(NodeId(2), standing(5)).problem == ""
