"""`virtuallog upgrade --check`: the judgement on a picture of a cluster, and the command on real processes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio

from tests.server.diagnosis.evidence_samples import (
    CLOSED,
    NODES,
    OPEN,
    node,
    picture,
    segment,
    state,
    the,
)
from tests.server.process.test_processes import command, folder, local_cluster
from virtuallog.contract.errors import UnavailableError
from virtuallog.contract.types import NodeId
from virtuallog.contract.versions import SPOKEN, Versions
from virtuallog_database.control.messages import SERVING, DatabaseStatus
from virtuallog_server.diagnosis.core.database import DatabaseFacts
from virtuallog_server.diagnosis.core.evidence import LogEvidence, SegmentFacts
from virtuallog_server.diagnosis.core.finding import Severity
from virtuallog_server.diagnosis.core.upgrade import TargetProgram, UpgradeCheck, check_upgrade
from virtuallog_server.local_cluster.supervisor import LocalCluster

__all__ = ["folder"]
LEVEL = 3
"""Level of the cluster in the pictures."""


def program(protocol: int, software: str = "", *switches: str, first: int = 1) -> TargetProgram:
    return TargetProgram(versions=Versions(first, protocol), software=software, switches=switches)


def cluster(**pictured: Any) -> LogEvidence:
    """The picture, on which native loglets are known to the program that checks."""
    return picture(**{"since": {"native": 1}, **pictured})


PRESENT = program(LEVEL)


def verdict(log: LogEvidence, target: TargetProgram = PRESENT) -> tuple[UpgradeCheck, list[str]]:
    """The result, and what is in the way."""
    found = check_upgrade(log, target)
    return found, [finding.statement for finding in found.findings if finding.weight >= Severity.WEAK]


def test_a_whole_cluster_may_be_restarted() -> None:
    """Three nodes that all answer: nothing is in the way, and the former program stays of use."""
    found, obstacles = verdict(cluster())

    assert (found.is_safe, found.behind, obstacles) == (True, (), [])
    the(found.findings, "the level of the cluster stays 3")


def test_nodes_behind_are_named_with_what_they_run() -> None:
    """One node runs the new program already. The others are behind, which is no obstacle: it is the reason to go on."""
    nodes = {number: node(number, protocol=3, software="1.0") for number in (1, 2)}
    nodes[3] = node(3, protocol=4, software="1.1")
    found, obstacles = verdict(cluster(more=nodes), program(4, "1.1"))

    assert (found.behind, obstacles) == ((1, 2), [])
    behind = the(found.findings, "nodes 1 and 2 do not run virtuallog 1.1 (protocol 4) yet")
    assert behind.because == tuple(f"node {number} runs virtuallog 1.0 (protocol 3)" for number in (1, 2))
    assert "`protocol = 3`" in the(found.findings, "the level rises from 3 to 4").next


def test_the_way_back_stays_open_while_nodes_are_held_back() -> None:
    """All run the new program, and two of them speak the former version."""
    nodes = {number: node(number, protocol=4 if number == 1 else 3, software="1.1") for number in NODES}
    found, obstacles = verdict(cluster(more=nodes), program(4, "1.1"))

    assert (found.behind, obstacles) == ((), [])
    the(found.findings, "the way back to protocol 3 stays open: nodes 2 and 3 are held back")


@pytest.mark.parametrize(
    ("target", "words"),
    [
        (program(2), "protocol 2 cannot be used: the cluster is at level 3"),
        (program(9, "9.0", first=4), "virtuallog 9.0 (protocol 9) cannot be used"),
        (program(5), "nodes 1, 2 and 3 would take more than one step"),
    ],
    ids=["below the level", "has dropped the level", "two steps up"],
)
def test_programs_that_cannot_follow_are_refused(target: TargetProgram, words: str) -> None:
    """The level is what decides, up and down; and only neighbours have been tried with each other."""
    assert any(words in statement for statement in verdict(cluster(), target)[1])


def lost(log: LogEvidence) -> tuple[SegmentFacts, ...]:
    """The segments, of which node 3 has no copy of the first one yet."""
    return (attrs.evolve(log.segments[0], lost=frozenset({NodeId(3)})), log.segments[1])


@pytest.mark.parametrize(
    ("log", "words"),
    [
        (cluster(dead=[3], answers=(state(), state(), None)), "node 3 takes no part"),
        (cluster(dead=[3], answers=(state(), state(), None)), "stops while one of its nodes restarts: 2 of 3 answer"),
        (cluster(dead=[2, 3], answers=(state(), None, None)), "the chain cannot change: 1 of 3 members answers"),
        (cluster(more={2: node(2, failures=("native: corruption",))}), "node 2 refuses a role"),
        (cluster(more={2: node(2, version=1)}), "node 2 has not caught up: it knows version 1 of the register, not 2"),
        (cluster(more={2: node(2, problem="it has another data directory")}), "node 2 takes no part"),
        (cluster(members=cluster().members[:1]), "the register has 1 members"),
        (cluster(segments=lost(cluster())), "is not repaired: node 3 has no copy of it yet"),
        (cluster(before=(state(100), None, state(100))), f"segment {CLOSED} (native, 0 to 100) stops while"),
        (cluster(segments=(SegmentFacts(segment=segment(OPEN, 0, None), problem="no answer"),)), "nothing is known of"),
    ],
)  # fmt: skip
def test_each_weakness_is_in_the_way(log: LogEvidence, words: str) -> None:
    """A restart is one more failure: a part that would not survive it has to be mended first."""
    found, obstacles = verdict(log)

    assert not found.is_safe
    assert any(words in statement for statement in obstacles), obstacles


def with_database(*replicas: DatabaseStatus | UnavailableError) -> LogEvidence:
    log = cluster()
    answers = dict(zip(NODES, replicas, strict=True))
    return attrs.evolve(log, database=DatabaseFacts(register=log.register, answers=answers))


def serving(*enabled: str, state: str = SERVING) -> DatabaseStatus:
    return DatabaseStatus(state=state, enabled=enabled)


def test_a_replica_that_restores_its_state_is_waited_for() -> None:
    """Its node answers, and has all roles; but with two such nodes no server would be left for clients."""
    _, obstacles = verdict(with_database(serving(), serving(), serving(state="restoring")))
    assert obstacles == ["the replica of the database on node 3 is restoring"]
    _, alone = verdict(with_database(serving(), serving(state="opening"), serving(state="opening")))
    assert "clients of the database wait while node 1 restarts: no other node serves them" in alone


def test_a_program_has_to_know_what_the_database_has_switched_on() -> None:
    """This program is asked by name; another one is known by its protocol only, and the check says so."""
    log = with_database(serving("bounds", "table"), serving("bounds"), serving())
    _, obstacles = verdict(log, program(3, "1.0", "bounds"))
    assert obstacles == ["the database uses table, which this program does not know: its replica would stop"]
    assert verdict(log, program(3, "1.0", "bounds", "table"))[0].is_safe
    newer = attrs.evolve(log, nodes={number: node(number, protocol=4) for number in NODES})
    note = the(verdict(newer)[0].findings, "the database uses bounds and table: a program that does not know")
    assert note.weight is Severity.NOTE


def test_a_program_has_to_know_the_kinds_in_the_chain() -> None:
    """A segment of a package that is not installed with the new program could not be read."""
    log = cluster(since={"paxos": 3})
    assert "segments of the kind native, which this program does not know" in verdict(log, program(3, "1.0"))[1][0]
    assert verdict(log)[0].is_safe


async def asked(running: LocalCluster, *options: str) -> tuple[int, Any]:
    """Exit code and output of the command."""
    arguments = ("upgrade", "--check", *options, "--json")
    ended = await trio.to_thread.run_sync(lambda: command(*arguments, cluster=running.file_path))
    assert not ended.stderr, ended.stderr
    return ended.returncode, json.loads(ended.stdout)


def said(told: Any) -> str:
    return "\n".join(finding["statement"] for finding in told["findings"])


@pytest.mark.processes
async def test_an_operator_asks_before_each_node(folder: Path) -> None:
    """A whole cluster is ready for this program, and not for one below its level. One node dies: it is in the way until it is back."""
    async with local_cluster(folder) as running:
        running.write_file()
        code, told = await asked(running)
        assert (code, told["safe"], told["behind"], told["level"]) == (0, True, [], SPOKEN.last)
        assert {row["protocol"] for row in told["nodes"]} == {SPOKEN.last}
        code, told = await asked(running, "--to", str(SPOKEN.last - 1))
        assert (code, told["safe"]) == (1, False)
        assert f"protocol {SPOKEN.last - 1} cannot be used: the cluster is at level {SPOKEN.last}" in said(told)

        await running.kill(NodeId(3))
        code, told = await asked(running)
        assert (code, told["safe"]) == (1, False)
        assert "node 3 takes no part" in said(told)
        assert [row["state"] for row in told["nodes"]] == ["up to date", "up to date", "takes no part"]
        shown = await trio.to_thread.run_sync(lambda: command("upgrade", "--check", cluster=running.file_path))
        assert "not now: mend the above first" in shown.stdout.decode()

        await running.start(NodeId(3))
        with trio.fail_after(60):  # noqa: TID251 -- real time, against real processes
            while (await asked(running))[0]:
                await trio.sleep(0.2)  # noqa: TID251 -- real time
