"""Choice of replicas and first leader of a new log, and the config of a moved one."""

from __future__ import annotations

import attrs
import pytest

from virtuallog.contract.chain import SegmentId
from virtuallog.contract.errors import InvalidSettingError
from virtuallog.contract.placement import Cluster, Member
from virtuallog.contract.types import NodeId
from virtuallog_loglets.raft import planner
from virtuallog_loglets.raft.config import RaftConfig
from virtuallog_loglets.raft.planner import REPLICA


def cluster_of(nodes: int, *, by: int = 2, dead: tuple[int, ...] = (), others: tuple[int, ...] = ()) -> Cluster:
    """Nodes 1 to `nodes`; `others` have another role."""
    members = tuple(
        Member(
            node=NodeId(n), boot=10 + n, roles=frozenset({"log-server"} if n in others else {REPLICA}),
            alive=n not in dead,
        )
        for n in range(1, nodes + 1)
    )  # fmt: skip
    return Cluster(members=members, planner=NodeId(by))


def planned(cluster: Cluster, previous: bytes | None = None, **settings: str) -> tuple[tuple[int, ...], int, int]:
    """Replicas, first leader and its start."""
    config = planner.plan(cluster, settings, previous)
    return config.replicas, config.leader, config.boot


def test_planner_leads_first_if_it_is_a_replica() -> None:
    """It surely answers; else the lowest node that lives does."""
    assert planned(cluster_of(5)) == ((1, 2, 3), 2, 12)
    assert planned(cluster_of(5, by=5)) == ((1, 2, 3), 1, 11)
    assert planned(cluster_of(5, by=5, dead=(1,))) == ((2, 3, 4), 2, 12)


def test_only_nodes_with_the_role_are_chosen() -> None:
    """However many others there are."""
    assert planned(cluster_of(6, others=(1, 2, 4)))[:2] == ((3, 5, 6), 3)
    with pytest.raises(InvalidSettingError, match="role replica"):
        planned(cluster_of(3, others=(1, 2, 3)))


def test_replicas_stay_as_far_as_they_live() -> None:
    """Only dead ones are replaced, and fields of later versions are kept."""
    previous = attrs.evolve(planner.plan(cluster_of(5), {"servers": "3,4,5"}, None), others={"later": 1})

    assert planned(cluster_of(5, by=4), previous.encode())[:2] == ((3, 4, 5), 4)
    assert planned(cluster_of(5, by=1, dead=(4,)), previous.encode())[:2] == ((1, 3, 5), 1)
    assert planner.plan(cluster_of(5), {}, previous.encode()).others == {"later": 1}


def test_settings_choose() -> None:
    """Replicas by name or by number; the leader among them."""
    assert planned(cluster_of(5), servers="5, 1 ,3", leader="5") == ((1, 3, 5), 5, 15)
    assert planned(cluster_of(5), replicas="5")[0] == (1, 2, 3, 4, 5)


@pytest.mark.parametrize(
    "settings",
    [{"leader": "4"}, {"leader": "x"}, {"leaders": "1"}, {"servers": "1,2,9"}],
    ids=["no replica", "no number", "no setting", "no node"],
)
def test_other_settings_are_refused(settings: dict[str, str]) -> None:
    """With the name of the setting."""
    with pytest.raises(InvalidSettingError):
        planned(cluster_of(5), None, **settings)


def test_leader_that_does_not_answer_is_refused() -> None:
    """It would have to lead at once."""
    previous = planner.plan(cluster_of(3), {}, None).encode()
    with pytest.raises(InvalidSettingError, match="leader"):
        planned(cluster_of(3, dead=(3,)), previous, leader="3")


def test_moved_loglet_keeps_its_id_on_its_replicas() -> None:
    """Through every move: the segment gets another one each time."""
    config = RaftConfig(replicas=(NodeId(1), NodeId(2), NodeId(3)), leader=NodeId(1), boot=11)
    first = planner.move(SegmentId(4, 5), config, (NodeId(1), NodeId(2), NodeId(4)))
    second = planner.move(SegmentId(6, 7), first, (NodeId(5), NodeId(2), NodeId(4)))

    assert first.loglet == second.loglet == SegmentId(4, 5)
    assert {*second.replicas} == {2, 4, 5}
