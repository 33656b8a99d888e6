"""Choice of replicas and first coordinator of a new log."""

from __future__ import annotations

import json

import pytest

from virtuallog.contract.chain import SegmentId
from virtuallog.contract.errors import InvalidSettingError, MalformedError
from virtuallog.contract.placement import Cluster, Member
from virtuallog.contract.types import NodeId
from virtuallog_loglets.paxos import planner
from virtuallog_loglets.paxos.config import PaxosConfig, decode_untrusted
from virtuallog_loglets.paxos.planner import REPLICA


def cluster_of(nodes: int, *, by: int = 2, dead: tuple[int, ...] = (), others: tuple[int, ...] = ()) -> Cluster:
    """Nodes 1 to `nodes`; `others` are used for something else."""
    members = tuple(
        Member(
            node=NodeId(n),
            boot=10 + n,
            roles=frozenset({"log-server"} if n in others else {"log-server", REPLICA}),
            alive=n not in dead,
        )
        for n in range(1, nodes + 1)
    )
    return Cluster(members=members, planner=NodeId(by))


def planned(cluster: Cluster, previous: bytes | None = None, **settings: str) -> tuple[tuple[int, ...], int]:
    config = planner.plan(cluster, settings, previous)
    return config.replicas, config.coordinator


def nodes(*numbers: int) -> tuple[NodeId, ...]:
    return tuple(NodeId(number) for number in numbers)


def test_three_replicas_and_the_planner_leads_if_it_is_one() -> None:
    """The planner's node surely answers; otherwise the lowest living node is asked first."""
    assert planned(cluster_of(5)) == ((1, 2, 3), 2)
    assert planned(cluster_of(5, by=5)) == ((1, 2, 3), 1)
    assert planned(cluster_of(5, by=5, dead=(1,))) == ((2, 3, 4), 2)


def test_the_role_decides() -> None:
    """Nodes that are no replicas are not chosen, however many there are."""
    assert planned(cluster_of(6, others=(1, 2, 4))) == ((3, 5, 6), 3)
    with pytest.raises(InvalidSettingError, match="role replica"):
        planned(cluster_of(3, others=(1, 2, 3)))


def test_what_is_not_set_stays_as_far_as_it_lives() -> None:
    """Replicas and coordinator; only the dead are replaced."""
    previous = planner.plan(cluster_of(5), {"servers": "3,4,5", "coordinator": "4"}, None).encode()

    assert planned(cluster_of(5), previous) == ((3, 4, 5), 4)
    assert planned(cluster_of(5, by=1, dead=(4,)), previous) == ((1, 3, 5), 1)


def test_a_dead_replica_that_nobody_can_replace_keeps_its_place() -> None:
    """One copy instead of three would be worse than a third one that comes back; but it is not asked first."""
    previous = planner.plan(cluster_of(3), {"coordinator": "1"}, None).encode()

    assert planned(cluster_of(3, by=3, dead=(1,)), previous) == ((1, 2, 3), 3)


def test_without_a_living_majority_there_is_no_plan() -> None:
    """The new log could not take a single append."""
    with pytest.raises(InvalidSettingError):
        planned(cluster_of(3, dead=(1, 3)))


def test_settings_choose() -> None:
    """Replicas by name or by number; the coordinator among them."""
    assert planned(cluster_of(5), servers="5, 1 ,3", coordinator="5") == ((1, 3, 5), 5)
    assert planned(cluster_of(5), replicas="5") == ((1, 2, 3, 4, 5), 2)
    assert planned(cluster_of(2)) == ((1,), 1)


@pytest.mark.parametrize(
    "settings",
    [
        {"sequencer": "1"},
        {"servers": "1,2"},
        {"servers": "1,1,2"},
        {"servers": "1,2,x"},
        {"servers": "1,2,9"},
        {"servers": "1,2,5"},
        {"servers": "1,2,6"},
        {"servers": "1,2,3", "replicas": "3"},
        {"replicas": "2"},
        {"replicas": "-1"},
        {"replicas": "7"},
        {"coordinator": "5"},
        {"coordinator": "9"},
        {"coordinator": ""},
        {"servers": "1,2,3", "coordinator": "4"},
    ],
)
def test_bad_settings_are_refused(settings: dict[str, str]) -> None:
    """Unknown, malformed, impossible, or naming a node that is dead (5), unknown (9) or no replica (6)."""
    with pytest.raises(InvalidSettingError):
        planner.plan(cluster_of(6, dead=(5,), others=(6,)), settings, None)


def test_a_closed_log_moves_to_as_many_nodes_and_keeps_its_id() -> None:
    """Also the second time. The coordinator is one of the new replicas."""
    config = PaxosConfig(replicas=nodes(1, 2, 3), coordinator=NodeId(1))

    once = planner.move(SegmentId(3, 7), config, nodes(4, 2, 3))
    twice = planner.move(SegmentId(9, 9), once, nodes(4, 2, 5))

    assert once == PaxosConfig(replicas=nodes(2, 3, 4), coordinator=NodeId(2), loglet=SegmentId(3, 7))
    assert (twice.replicas, twice.loglet) == ((2, 4, 5), SegmentId(3, 7))
    assert decode_untrusted(twice.encode()) == twice


@pytest.mark.parametrize("servers", [(1,), (1, 2), (1, 2, 3, 4), (1, 2, 2), ()])
def test_a_closed_log_does_not_move_to_fewer(servers: tuple[int, ...]) -> None:
    """Nor to an even number of them, where two halves could not both learn of each other."""
    with pytest.raises(InvalidSettingError):
        planner.move(SegmentId(3, 7), PaxosConfig(replicas=nodes(1, 2, 3), coordinator=NodeId(1)), nodes(*servers))


def test_fields_of_a_later_version_are_kept() -> None:
    """A config outlives the binary that reads it."""
    blob = json.dumps({"replicas": [1, 2, 3], "coordinator": 1, "zone": "a"}).encode()

    assert json.loads(decode_untrusted(blob).encode()) == json.loads(blob)
    assert json.loads(planner.plan(cluster_of(3), {}, blob).encode())["zone"] == "a"


@pytest.mark.parametrize("blob", [b"", b"[]", b"{}", b'{"replicas": [], "coordinator": 1}', b'{"replicas": [1, 1], "coordinator": 1}',
                                  b'{"replicas": ["1"], "coordinator": 1}', b'{"replicas": [1], "coordinator": true}',
                                  b'{"replicas": [1], "coordinator": 1, "loglet": "x"}'])  # fmt: skip
def test_other_bytes_are_no_config(blob: bytes) -> None:
    """They come from the register, which is not ours alone."""
    with pytest.raises(MalformedError):
        decode_untrusted(blob)
