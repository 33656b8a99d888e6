"""Choice of stripes for a new striped loglet, and moves of a closed one."""

from __future__ import annotations

import json
from typing import Any

import attrs
import pytest

from tests.loglets.native.test_planner import cluster_of
from virtuallog.contract.chain import SegmentId
from virtuallog.contract.errors import InvalidSettingError, MalformedError, UnknownKindError, UnsupportedError
from virtuallog.contract.placement import Cluster, Placement, SequencerId
from virtuallog.contract.provider import compose
from virtuallog.contract.types import NodeId
from virtuallog_loglets.memory import MemoryProvider
from virtuallog_loglets.native import NativeProvider
from virtuallog_loglets.paxos import PaxosProvider
from virtuallog_loglets.raft import RaftProvider
from virtuallog_loglets.raft.planner import REPLICA
from virtuallog_loglets.striped import StripedProvider
from virtuallog_loglets.striped.config import StripedConfig

SEGMENT = SegmentId(5, 1)


def provider() -> StripedProvider:
    striped = StripedProvider()
    compose(
        {
            "striped": striped,
            "native": NativeProvider(),
            "paxos": PaxosProvider(),
            "raft": RaftProvider(),
            "memory": MemoryProvider(),
            "sparse": MemoryProvider(kind="sparse", align=16),
        }
    )
    return striped


def planned(cluster: Cluster, previous: bytes | None = None, **settings: str) -> list[tuple[list[int], int]]:
    """Servers and sequencer of each stripe."""
    described = provider().describe(provider().plan(cluster, settings, previous))
    return [(stripe["servers"], stripe["sequencer"]) for stripe in described["stripes"]]


def test_two_stripes_on_the_same_servers_by_default() -> None:
    """Their sequencers are on different nodes; the planner's comes first."""
    assert planned(cluster_of(3)) == [([1, 2, 3], 2), ([1, 2, 3], 1)]


def test_sequencers_take_turns_among_the_nodes_that_live() -> None:
    """Sequencers are spread over the live nodes, or over the listed ones."""
    assert [sequencer for _, sequencer in planned(cluster_of(4, dead=(3,)), stripes="5")] == [2, 1, 4, 2, 1]
    assert [sequencer for _, sequencer in planned(cluster_of(4), stripes="3", sequencers="4,3")] == [4, 3, 4]


def test_stripes_of_raft_loglets_are_led_first_by_one_node_after_the_other() -> None:
    """As sequencers are spread. The kind stays, as all that is not set does."""
    nodes = cluster_of(4, dead=(3,))
    cluster = attrs.evolve(nodes, members=tuple(attrs.evolve(m, roles=m.roles | {REPLICA}) for m in nodes.members))
    before = provider().plan(cluster, {"of": "raft", "stripes": "5"}, None)

    for config in (before, provider().plan(cluster, {}, before)):
        stripes = provider().describe(config)["stripes"]
        assert [(stripe["replicas"], stripe["leader"]) for stripe in stripes] == [
            ([1, 2, 4], n) for n in (2, 1, 4, 2, 1)
        ]
        assert {kind for kind, _ in provider().loglets(SEGMENT, config).values()} == {"raft"}


def test_groups_are_disjoint_servers() -> None:
    """There are as many stripes as disjoint groups of servers."""
    assert [servers for servers, _ in planned(cluster_of(6), groups="1,2,3;6,5,4")] == [[1, 2, 3], [4, 5, 6]]


def test_what_is_not_set_stays() -> None:
    """The number of stripes, and the servers of each as far as they live."""
    before = provider().plan(cluster_of(6), {"groups": "1,2,3;4,5,6"}, None)
    assert [servers for servers, _ in planned(cluster_of(6), before)] == [[1, 2, 3], [4, 5, 6]]
    assert [servers for servers, _ in planned(cluster_of(6, dead=(5,)), before)] == [[1, 2, 3], [1, 4, 6]]
    assert [servers for servers, _ in planned(cluster_of(6), before, stripes="3")] == [[1, 2, 3], [4, 5, 6], [1, 2, 3]]


def test_sharded_stripes_stay_apart_as_servers_fail_and_come_back() -> None:
    """One after the other, with a spare node: it takes the place of the first one, which is the spare then, and so on. Each stripe by itself
    would prefer nodes of the other one, and after three failures both would be on nodes 1, 2 and 3."""
    config, seen = provider().plan(cluster_of(7), {"groups": "1,2,3;4,5,6"}, None), list[Any]()
    for dead in (4, 5, 6, 1):
        config = provider().plan(cluster_of(7, dead=(dead,)), {}, config)
        seen.append(provider().placement(config).groups)

    assert seen == [((1, 2, 3), (5, 6, 7)), ((1, 2, 3), (4, 6, 7)), ((1, 2, 3), (4, 5, 7)), ((2, 3, 6), (4, 5, 7))]


def test_stripes_share_a_server_only_while_there_is_none_to_spare() -> None:
    """Two of one stripe have failed, and there is one spare node: one is lent. What fails next is replaced by those that are back."""
    before = provider().plan(cluster_of(7), {"groups": "1,2,3;4,5,6"}, None)
    lent = provider().plan(cluster_of(7, dead=(4, 5)), {}, before)

    assert provider().placement(lent).groups == ((1, 2, 3), (1, 6, 7))
    assert [servers for servers, _ in planned(cluster_of(7, dead=(7,)), lent)] == [[1, 2, 3], [1, 4, 6]]


def test_stripes_on_the_same_servers_stay_together() -> None:
    """They are there to be ordered by different nodes, not to be on many."""
    before = provider().plan(cluster_of(5), {}, None)
    assert [servers for servers, _ in planned(cluster_of(5, dead=(1,)), before)] == [[2, 3, 4], [2, 3, 4]]


@pytest.mark.parametrize(
    ("settings", "where"),
    [
        ({"stripes": "0"}, "stripes"), ({"stripes": "65"}, "stripes"), ({"stripes": "two"}, "stripes"),
        ({"groups": "1,2,3;4,5,6", "stripes": "3"}, "stripes"), ({"groups": "1,2,3", "servers": "1,2,3"}, "servers"),
        ({"servers": "1,2"}, "servers"), ({"groups": "1,2,3;"}, "servers"), ({"sequencers": "9"}, "sequencers"),
        ({"sequencer": "1"}, "sequencer"), ({"of": "striped"}, "of"), ({"of": "paxos"}, "of"), ({"of": "sparse"}, "of"),
        ({"of": "memory"}, "of"), ({"of": "unknown"}, "of"), ({"groups": ";".join(["1,2,3"] * 65)}, "groups"),
    ],
)  # fmt: skip
def test_bad_settings_say_which(settings: dict[str, str], where: str) -> None:
    """Before anything is sealed. Stripes may not be sparse, nor striped themselves."""
    with pytest.raises(InvalidSettingError) as refused:
        provider().plan(cluster_of(6), settings, None)
    assert refused.value.where == where


@pytest.mark.parametrize(
    ("of", "error"), [("sparse", UnsupportedError), ("paxos", UnsupportedError), ("striped", UnsupportedError),
                      ("unknown", UnknownKindError)],
)  # fmt: skip
def test_sparse_stripes_are_refused_wherever_they_come_from(of: str, error: type[Exception]) -> None:
    """A config may have been put there by hand: the holes of a sparse stripe would never be filled."""
    config = StripedConfig(of=of, stripes=(b"", b"")).encode()
    environment: Any = None
    with pytest.raises(error):
        provider().open(SEGMENT, config, environment)
    with pytest.raises(MalformedError):
        provider().placement(config)


def test_a_loglet_rests_on_all_that_its_stripes_rest_on() -> None:
    """A majority of each group must live, and every sequencer."""
    config = provider().plan(cluster_of(6), {"groups": "1,2,3;4,5,6"}, None)
    assert provider().placement(config) == Placement(
        groups=((NodeId(1), NodeId(2), NodeId(3)), (NodeId(4), NodeId(5), NodeId(6))),
        role="log-server",
        sequencers=(SequencerId(NodeId(2), 12), SequencerId(NodeId(1), 11)),
    )


def test_nodes_keep_the_stripes() -> None:
    """By their own ids, also once the segment has moved and has another one."""
    config = provider().plan(cluster_of(4), {}, None)
    kept = provider().loglets(SEGMENT, config)
    assert list(kept) == [SegmentId(5, 2), SegmentId(5, 3)]
    assert {kind for kind, _ in kept.values()} == {"native"}

    moved = provider().move(SEGMENT, config, (NodeId(1), NodeId(2), NodeId(4)))
    assert list(provider().loglets(SegmentId(9, 9), moved)) == list(kept)


def test_every_stripe_replaces_its_own_servers() -> None:
    """A new server takes the place of one that leaves; a stripe that loses none stays where it is."""
    config = provider().plan(cluster_of(8), {"groups": "1,2,3;4,5,6"}, None)
    servers = tuple(NodeId(n) for n in (1, 2, 4, 5, 7, 8))

    described = provider().describe(provider().move(SEGMENT, config, servers))

    assert [stripe["servers"] for stripe in described["stripes"]] == [[1, 2, 7], [4, 5, 8]]
    assert described["loglet"] == "5.1"


@pytest.mark.parametrize("servers", [(1, 2), (1, 2, 3, 4), (1, 2, 2)])
def test_it_moves_to_as_many_servers_as_it_had(servers: tuple[int, ...]) -> None:
    """Further servers would belong to no stripe."""
    config = provider().plan(cluster_of(4), {}, None)
    with pytest.raises(InvalidSettingError):
        provider().move(SEGMENT, config, tuple(NodeId(n) for n in servers))


def test_a_config_is_described_without_the_kind_of_its_stripes() -> None:
    """As the text that it is, where that kind is not installed."""
    config = provider().plan(cluster_of(3), {}, None)
    alone = StripedProvider()
    assert json.loads(alone.describe(config)["stripes"][0])["servers"] == [1, 2, 3]
