"""Findings about the database: each replica of its view that no node serves, with reason and remedy."""

from __future__ import annotations

from collections.abc import Mapping

import attrs
import pytest

from tests.server.diagnosis.evidence_samples import CLOSED, NODES, about, picture, register, segment
from virtuallog.contract.errors import StorageError, UnavailableError, UnsupportedError
from virtuallog.contract.ports import Outcome
from virtuallog.contract.register import Register
from virtuallog.contract.types import NodeId
from virtuallog_database.control.messages import DatabaseStatus, MemberStatus
from virtuallog_database.identity import ReplicaIdentity
from virtuallog_server.diagnosis.core.conclusions import conclude
from virtuallog_server.diagnosis.core.database import DatabaseFacts, findings, problems
from virtuallog_server.diagnosis.core.finding import Severity, Topic, all_well

THREE = NodeId(3)
HOLDS_A_DATABASE = attrs.evolve(register(segment(CLOSED, 0, None)), database=True)


def name(node: int, store: int | None = None) -> str:
    """Name of the replica in the directory that the register names for a node, or in another one."""
    number = node if store is None else store
    return ReplicaIdentity(node=NodeId(node), store=bytes([number]) * 16, boot=1).name


def status(*view: str, state: str = "serving", cursor: int = 10, waiting_for: str = "") -> DatabaseStatus:
    members = tuple(MemberStatus(name=each, durable=1, heard=2) for each in view)
    return DatabaseStatus(state=state, cursor=cursor, members=members, waiting_for=waiting_for)


VIEW = tuple(name(node) for node in NODES)


def facts(
    answers: Mapping[int, Outcome[DatabaseStatus]], holds: Register = HOLDS_A_DATABASE, view: tuple[str, ...] = VIEW
) -> DatabaseFacts:
    """All nodes serve, but for those that are said to answer otherwise."""
    return DatabaseFacts(register=holds, answers={node: answers.get(node, status(*view)) for node in NODES})


def test_all_replicas_serve() -> None:
    """The finding names the nodes that serve it, and nothing else."""
    (finding,) = findings(facts({}))

    assert (finding.weight, finding.statement) == (Severity.WELL, "the database is served by nodes 1, 2 and 3")
    assert problems([finding]) == []


def test_a_log_without_a_database_has_nothing_to_say() -> None:
    """Log servers alone; nor was it asked, as by programs that explain something else."""
    none = UnsupportedError("no database")

    assert findings(facts({1: none, 2: none, 3: none}, register(segment(CLOSED, 0, None)))) == []
    assert findings(None) == []


@pytest.mark.parametrize(
    ("answer", "because", "remedy"),
    [
        (UnsupportedError("x"), "the config of node 3 has no [zookeeper]", "put that section back into its config"),
        (UnavailableError("no route"), "node 3: no route", "start node 3; if it does not come back: `virtuallog database eject "),
        (StorageError("disk"), "node 3: disk", "mend that"),
    ],
)  # fmt: skip
def test_a_replica_that_no_node_serves(answer: Outcome[DatabaseStatus], because: str, remedy: str) -> None:
    """The node that should, why it does not, and what to do; in the explanation as in one line."""
    found = picture(database=facts({3: answer}))

    (finding,) = [each for each in about(found, Topic.DATABASE) if each.weight > Severity.WELL]
    assert finding.statement == f"replica {name(3)} is in the view of the database, and no node serves it"
    assert finding.because == (because,)
    assert finding.next.startswith(remedy)
    assert f"eject {name(3)}" in finding.next
    assert not all_well(conclude(found))
    assert problems([finding]) == [f"{finding.statement} ({because}). Next: {finding.next}"]


def test_a_replica_of_a_directory_that_is_gone() -> None:
    """The node serves another one, or is to come back with another one, or was removed."""
    stale = (*VIEW[:2], name(3, store=9))
    expected = attrs.evolve(HOLDS_A_DATABASE.nodes[THREE], store_id=b"")
    awaited = attrs.evolve(HOLDS_A_DATABASE, nodes={**HOLDS_A_DATABASE.nodes, THREE: expected})
    removed = attrs.evolve(HOLDS_A_DATABASE, nodes={node: HOLDS_A_DATABASE.nodes[node] for node in NODES[:2]})

    (replaced,) = problems(findings(facts({}, view=stale)))
    (waiting,) = problems(findings(facts({}, awaited)))
    (gone,) = problems(findings(facts({}, removed)))

    assert "node 3 has another data directory than the one of this replica" in replaced
    assert "node 3 has another data directory" in waiting
    assert "the cluster has no node 3" in gone


def test_a_replica_that_restores_is_worth_knowing() -> None:
    """It runs: nothing is to be done, and it says what it waits for."""
    found = findings(facts({3: status(state="restoring", waiting_for="no peer has a snapshot")}))

    assert problems(found) == []
    assert found[0].because == ("node 3 is restoring: no peer has a snapshot",)
    assert found[0].statement == "the database is served by nodes 1 and 2"


def test_the_view_is_that_of_the_replica_that_has_applied_most() -> None:
    """One that lags may still have a replica in its view that was ejected long ago."""
    late = status(*VIEW, name(4), cursor=3)

    assert facts({1: late}).view == list(VIEW)


def test_nobody_serves() -> None:
    """The register remembers that there is a database: clients are out, and trims wait."""
    told = problems(findings(facts({1: UnavailableError("down"), 2: UnsupportedError("x"), 3: UnsupportedError("x")})))

    assert told == [
        "the log has a database, and no node serves it (node 1: down and the config of nodes 2 and 3 has no [zookeeper]). "
        "Next: start its servers, with [zookeeper] in their configs"
    ]


def test_only_replicas_that_serve_nobody() -> None:
    """They run, and none is of use to a client."""
    waiting = status(*VIEW, state="catching up")

    assert problems(findings(facts({1: waiting, 2: waiting, 3: waiting})))[0].startswith(
        "no replica of the database serves (node 1 is catching up"
    )


def test_every_node_that_matters_has_a_row() -> None:
    """Those of the view, and those that may run a replica; not log servers that have nothing to do with it."""
    none = UnsupportedError("x")

    assert facts({3: none}).concerned == [1, 2, 3]
    assert facts({3: none}, view=VIEW[:2]).concerned == [1, 2]
    assert facts({3: UnavailableError("down")}, view=VIEW[:2]).concerned == [1, 2, 3]
