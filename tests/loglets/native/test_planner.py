"""Choice of servers and sequencer for a new loglet."""

from __future__ import annotations

import json

import pytest

from virtuallog.contract.errors import InvalidSettingError, MalformedError
from virtuallog.contract.placement import Cluster, Member
from virtuallog.contract.types import NodeId
from virtuallog_loglets.native import NativeProvider
from virtuallog_loglets.native.config import decode_untrusted
from virtuallog_loglets.native.planner import LOG_SERVER, SEQUENCER

BOTH = frozenset({LOG_SERVER, SEQUENCER})


def cluster_of(nodes: int, *, planner: int = 2, dead: tuple[int, ...] = (), loggers: tuple[int, ...] = ()) -> Cluster:
    """Nodes 1 to `nodes` with boots 11, 12, ...; `loggers` are log servers only, and then the others are no log servers."""
    members = tuple(
        Member(
            node=NodeId(n),
            boot=10 + n,
            roles=BOTH if not loggers else frozenset({LOG_SERVER if n in loggers else SEQUENCER}),
            alive=n not in dead,
        )
        for n in range(1, nodes + 1)
    )
    return Cluster(members=members, planner=NodeId(planner))


def planned(cluster: Cluster, previous: bytes | None = None, **settings: str) -> tuple[tuple[int, ...], int, int]:
    config = decode_untrusted(NativeProvider().plan(cluster, settings, previous))
    return config.servers, config.sequencer, config.boot


def test_three_servers_and_the_planner_as_sequencer_by_default() -> None:
    """Converged: every node has both roles; the config names the sequencer's boot."""
    assert planned(cluster_of(5)) == ((1, 2, 3), 2, 12)


def test_log_servers_on_nodes_of_their_own() -> None:
    """Disaggregated: the roles decide."""
    assert planned(cluster_of(6, planner=1, loggers=(4, 5, 6))) == ((4, 5, 6), 1, 11)


def test_a_planner_that_cannot_order_leaves_it_to_the_lowest_that_can() -> None:
    """A planner that cannot order, or is dead, leaves it to the lowest node that can."""
    assert planned(cluster_of(6, planner=4, loggers=(4, 5, 6))) == ((4, 5, 6), 1, 11)
    assert planned(cluster_of(3, planner=2, dead=(2,))) == ((1, 2, 3), 1, 11)


def test_servers_stay_as_they_were_while_they_live() -> None:
    """Unset fields stay; only dead servers are replaced."""
    previous = NativeProvider().plan(cluster_of(5), {"servers": "3,4,5"}, None)

    assert planned(cluster_of(5), previous) == ((3, 4, 5), 2, 12)
    assert planned(cluster_of(5, dead=(4,)), previous) == ((1, 3, 5), 2, 12)


def test_a_dead_server_that_nobody_can_replace_keeps_its_place() -> None:
    """One copy instead of three would be worse than a third one that comes back."""
    previous = NativeProvider().plan(cluster_of(3), {}, None)

    assert planned(cluster_of(3, dead=(1,)), previous) == ((1, 2, 3), 2, 12)


def test_without_a_living_majority_there_is_no_plan() -> None:
    """The new loglet could not take a single append."""
    with pytest.raises(InvalidSettingError):
        planned(cluster_of(3, dead=(1, 3)))


def test_settings_choose() -> None:
    """Servers by name or by number; the sequencer."""
    assert planned(cluster_of(5), servers="5, 1 ,3", sequencer="4") == ((1, 3, 5), 4, 14)
    assert planned(cluster_of(5), replicas="5") == ((1, 2, 3, 4, 5), 2, 12)
    assert planned(cluster_of(2)) == ((1,), 2, 12)


@pytest.mark.parametrize(
    "settings",
    [
        {"stripes": "2"},
        {"servers": "1,2"},
        {"servers": "1,1,2"},
        {"servers": "1,2,x"},
        {"servers": "1,2,9"},
        {"servers": "1,2,5"},
        {"servers": "1,2,3", "replicas": "3"},
        {"replicas": "2"},
        {"replicas": "-1"},
        {"replicas": "7"},
        {"sequencer": "5"},
        {"sequencer": "9"},
        {"sequencer": ""},
    ],
)
def test_bad_settings_are_refused(settings: dict[str, str]) -> None:
    """Unknown, malformed, impossible, or naming a node that is dead (5) or unknown (9)."""
    with pytest.raises(InvalidSettingError):
        NativeProvider().plan(cluster_of(5, dead=(5,)), settings, None)


def test_fields_of_a_later_version_are_kept() -> None:
    """A config outlives the binary that reads it."""
    blob = json.dumps({"servers": [1, 2, 3], "sequencer": 1, "boot": 4, "zone": "a"}).encode()

    assert json.loads(decode_untrusted(blob).encode()) == json.loads(blob)
    assert NativeProvider().describe(blob) == json.loads(blob)
    assert json.loads(NativeProvider().plan(cluster_of(3), {}, blob))["zone"] == "a"


@pytest.mark.parametrize("blob", [b"", b"[]", b"{}", b'{"servers": [], "sequencer": 1, "boot": 1}',
                                  b'{"servers": [1, 1], "sequencer": 1, "boot": 1}',
                                  b'{"servers": ["1"], "sequencer": 1, "boot": 1}',
                                  b'{"servers": [1], "sequencer": true, "boot": 1}'])  # fmt: skip
def test_other_bytes_are_no_config(blob: bytes) -> None:
    """They come from the register, which is not ours alone."""
    with pytest.raises(MalformedError):
        decode_untrusted(blob)
