"""The chain as a timeline, with the findings on what they are about; and without any answer, the chain that is known."""

from __future__ import annotations

import json

import attrs

from tests.server.diagnosis.evidence_samples import (
    CLOSED,
    OPEN,
    native_evidence,
    picture,
    register,
    segment,
    state,
)
from tests.simulation.world.stage import in_cluster, native
from virtuallog_console.views.chain import ChainView, SegmentRow, describe, describe_known, read_chain
from virtuallog_console.views.plain import plain
from virtuallog_metastore import PaxosProvider
from virtuallog_server.diagnosis.core.evidence import SegmentFacts
from virtuallog_simulation.world.cluster import Client, Cluster

PROVIDERS = {"native": native()}


def rows(view: ChainView) -> list[SegmentRow]:
    return [*view.segments]


def test_segments_have_ranges_states_and_servers() -> None:
    """A closed one with its length, an open one up to the tail."""
    view = describe(picture(), PROVIDERS)
    closed, active = rows(view)
    assert (closed.id, closed.start, closed.stop, closed.size, closed.state) == (str(CLOSED), 0, 100, 100, "sealed")
    assert (active.start, active.stop, active.size, active.state) == (100, None, 10, "active")
    assert closed.servers == active.servers == (1, 2, 3)
    assert active.config["sequencer"] == 1
    assert (view.version, view.tail, view.start, view.is_well, view.is_closed) == (2, 110, 0, True, False)
    assert [member.source for member in view.members] == ["member 1", "member 2", "member 3"]
    json.dumps(plain(view), allow_nan=False)


def test_findings_stand_where_they_belong() -> None:
    """On the segment, on the node, or beside them all; the heaviest first."""
    view = describe(picture([state(), None, None], dead=[2, 3]), PROVIDERS)
    closed, active = rows(view)
    assert active.findings[0].weight == "trouble"
    assert all(str(OPEN) not in row.statement for row in view.findings)
    assert [row.findings[0].statement for row in view.nodes if row.problem] == [
        "node 2 takes no part", "node 3 takes no part"
    ]  # fmt: skip
    assert any("the chain cannot change" in row.statement for row in view.findings)
    assert [piece.source for piece in closed.evidence][:1] == ["node 1"]
    assert not view.is_well


def test_what_is_trimmed_or_archived_is_a_state() -> None:
    """A wholly trimmed segment is in the chain until the next truncation; an archive is named as its kind."""
    trimmed = SegmentFacts(segment=segment(CLOSED, 0, 100), evidence=native_evidence([state(100, trim=100)] * 3))
    archived = SegmentFacts(segment=segment(CLOSED, 0, 100, kind="archive"), problem="nothing is known")
    partly = SegmentFacts(segment=segment(OPEN, 100, None), evidence=native_evidence([state(10, trim=4)] * 3))
    whole = picture()
    view = describe(attrs.evolve(whole, segments=(trimmed, partly)), PROVIDERS)
    assert [(row.state, row.trimmed_to) for row in view.segments] == [("trimmed", 100), ("active", 104)]
    (row, _) = rows(describe(attrs.evolve(whole, segments=(archived, partly)), PROVIDERS))
    assert (row.state, row.problem, row.servers, list(row.config)) == ("archived", "nothing is known", (), ["bytes"])


def test_a_config_that_cannot_be_read_is_a_row_all_the_same() -> None:
    """The chain of a newer program can be shown by an older console."""
    broken = attrs.evolve(segment(OPEN, 0, None), config=b"\xff")
    view = describe_known(register(broken), PROVIDERS, "away")
    (row,) = rows(view)
    assert list(row.config) == ["unreadable"]
    assert (view.problem, view.is_well, row.problem) == ("away", False, "it was not asked")
    assert [node.problem for node in view.nodes] == ["it was not asked"] * 3


def test_a_cluster_is_asked() -> None:
    """A story of real nodes: a swap shows as a segment more; a dead node is a row with a reason; then silence."""

    async def story(cluster: Cluster, client: Client) -> None:
        log = client.log
        log.view.providers = PROVIDERS  # those of the simulator observe, and say nothing about themselves
        await log.append_many([b"a", b"b"])
        await log.reconfig_extend("native")
        await log.append(b"c")
        view = await read_chain(log, PaxosProvider())
        assert [(row.state, row.size) for row in view.segments] == [("sealed", 2), ("active", 1)]
        assert (view.tail, view.is_well, view.problem) == (3, True, "")
        last = max(cluster.nodes)
        cluster.machines[last].crash()
        await client.log.view.environment.clock.sleep(1)
        view = await read_chain(log, PaxosProvider())
        (row,) = [node for node in view.nodes if node.node == last]
        assert row.problem
        assert row.findings

    in_cluster(4, story, kinds=(native,))


def test_a_client_without_a_cluster_shows_what_it_knows() -> None:
    """No node answers: the register that was read before, with a reason."""

    async def story(cluster: Cluster, client: Client) -> None:
        log = client.log
        await log.append(b"a")
        for node in cluster.nodes:
            cluster.machines[node].crash()
        view = await read_chain(log, PaxosProvider())
        assert view.problem
        assert [row.state for row in view.segments] == ["active"]
        log.view.cached = None
        assert (await read_chain(log, PaxosProvider())).segments == ()

    in_cluster(3, story)
