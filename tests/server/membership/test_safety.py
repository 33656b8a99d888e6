"""Obstacles to a drain or a replacement, on states of small clusters."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import attrs
import pytest
import trio

from tests.virtuallog.client.world import World, no_nodes
from virtuallog.admin.membership import RemoveNode
from virtuallog.contract.chain import extend, genesis
from virtuallog.contract.errors import InvalidSettingError
from virtuallog.contract.placement import Placement, SequencerId
from virtuallog.contract.register import ClusterId, NodeEntry, Register, decode_untrusted
from virtuallog.contract.types import NodeId
from virtuallog.runtime.clock import SystemClock
from virtuallog.testing.memory_metastore import MemoryMetaStore
from virtuallog_database.identity import replica_name
from virtuallog_loglets.native.config import NativeConfig
from virtuallog_loglets.native.provider import NativeProvider
from virtuallog_server.healing.core.healing_policy import PlacedSegment
from virtuallog_server.healing.core.under_replication import under_replication_problems
from virtuallog_server.healing.rebuild import RateLimit
from virtuallog_server.membership.safety import (
    ClusterState,
    copies_problems,
    database_problems,
    depends_on,
    drain_problems,
    missing_copies_on,
    seat_problems,
    servers_without,
)
from virtuallog_server.membership.service import MembershipService

ONE, TWO, THREE, FOUR = (NodeId(node) for node in (1, 2, 3, 4))
CHAIN = extend(genesis("native", b"", 7), 100, "native", b"", 8)
ROLES = frozenset({"log-server", "sequencer"})


def picture(living: Sequence[int], nodes: int = 3, servers: tuple[NodeId, ...] = (ONE, TWO, THREE)) -> ClusterState:
    """A closed and an open segment on nodes 1 to 3, which are also the members of the MetaStore."""
    entry = NodeEntry(store_id=b"s" * 16, addresses=("a:1",), roles=ROLES)
    placement = Placement(groups=(servers,), role="log-server", sequencers=(SequencerId(servers[0], 1),))
    return ClusterState(
        register=Register(
            cluster=ClusterId(b"c" * 16),
            chain=CHAIN,
            members=(ONE, TWO, THREE),
            nodes={NodeId(node): entry for node in range(1, nodes + 1)},
        ),
        living={NodeId(node): ROLES for node in living},
        placed=[PlacedSegment(segment, placement) for segment in CHAIN.segments],
    )


def rejoined(before: ClusterState, node: NodeId, joined: int) -> ClusterState:
    """The same with a new directory of this node."""
    entry = attrs.evolve(before.register.nodes[node], joined=joined)
    register = attrs.evolve(before.register, nodes={**before.register.nodes, node: entry})
    return attrs.evolve(before, register=register)


def test_with_a_spare_node_nothing_stands_against_a_drain() -> None:
    """It takes the copies, the place in the open segment and the seat."""
    four = picture((1, 2, 3, 4), nodes=4)

    assert drain_problems(four, ONE) == []
    assert four.seatable == [FOUR]
    assert servers_without(four, four.closed[0], ONE) == (TWO, THREE, FOUR)
    assert servers_without(four, four.closed[0], ONE, unfit={FOUR}) is None  # its copy has a hole


def test_without_a_spare_node_everything_that_would_get_less_is_named() -> None:
    """A drain never leaves fewer copies or members than there were."""
    closed, opened, members = drain_problems(picture((1, 2, 3)), ONE)

    assert "2 of 3 copies would be left, and no spare node lives" in closed
    assert opened == "the open segment: 3 servers are wanted, and without node 1 2 live"
    assert members == "the MetaStore: 2 of 3 members would be left, and no other node can take a seat"


def drained(before: ClusterState, *nodes: NodeId) -> ClusterState:
    """The same with these nodes drained. They answer still."""
    table = dict(before.register.nodes)
    table |= {node: attrs.evolve(table[node], roles=frozenset()) for node in nodes}
    living = {node: table[node].roles & roles for node, roles in before.living.items()}
    return attrs.evolve(before, register=attrs.evolve(before.register, nodes=table), living=living)


def test_a_seat_needs_a_node_that_is_used_and_votes() -> None:
    """Neither a drained node nor one with a closed acceptor takes it; seats of drained nodes go first."""
    five = picture((1, 2, 3, 4, 5), nodes=5, servers=(TWO, THREE, FOUR))

    assert drained(five, FOUR).seatable == [NodeId(5)]
    assert attrs.evolve(five, closed_acceptors=frozenset({FOUR})).seatable == [NodeId(5)]
    waiting = drained(five, TWO, FOUR)
    assert "and only 1 other node can take a seat" in drain_problems(waiting, ONE)[-1]
    assert "and no other node can take a seat" in drain_problems(waiting, NodeId(5))[-1]


def test_the_check_says_what_the_drain_would_say() -> None:
    """A spare node answers, and the table has too few of them all the same: it has lost its role there."""
    four = picture((1, 2, 3, 4), nodes=4, servers=(TWO, THREE, FOUR))
    on_three = four.placed[-1].placement
    problems = drain_problems(drained(four, TWO), ONE, lambda _: on_three)

    assert any("would be left" in problem for problem in problems)


def test_what_cannot_be_read_may_rest_on_any_node() -> None:
    """A kind that the asked node does not know."""
    strange = attrs.evolve(picture((1, 2, 3, 4), nodes=4), unknown=[CHAIN.last])

    assert "cannot read where its native loglet is" in drain_problems(strange, FOUR)[0]
    assert "cannot read where its native loglet is" in copies_problems(strange, FOUR)[0]


def test_a_picture_is_judged_by_the_register_that_is_changed() -> None:
    """Another operator has given up the directory of node 2 since it was taken: it may answer, and its copy does not count."""
    before = picture((1, 2), nodes=3)
    entry = attrs.evolve(before.register.nodes[TWO], store_id=b"")
    register = attrs.evolve(before.register, nodes={**before.register.nodes, TWO: entry})

    assert copies_problems(before, THREE) == []
    assert len(copies_problems(before.on(register, before.placed), THREE)) == 2
    assert seat_problems(before.on(register, before.placed), THREE) != []


def test_a_replica_that_recovers_is_no_holder() -> None:
    """It says so itself: the register does not know."""
    whole = picture((1, 2), nodes=3)
    recovering = attrs.evolve(whole, partial={CHAIN.last.id: frozenset({TWO})})

    assert [problem.split(":")[0] for problem in copies_problems(recovering, THREE)] == [
        f"segment {CHAIN.last.id} (100 to now)"
    ]


def test_a_shorter_row_of_servers_is_told() -> None:
    """Before and after, by the number of servers."""
    three = picture((1, 2, 3)).placed[0].placement
    one = attrs.evolve(three, groups=((ONE,),))
    register = picture((1, 2, 3)).register

    assert under_replication_problems(register, lambda segment: three) == ()
    (told,) = under_replication_problems(register, lambda segment: one if segment.stop is None else three)
    assert "has 1 of 3 servers that the one before it had" in told
    two = attrs.evolve(register, nodes={node: register.nodes[node] for node in (ONE, TWO)})
    (told,) = under_replication_problems(two, lambda segment: one)
    assert "has 1 server, as 2 nodes with role log-server make no 3" in told
    assert under_replication_problems(register, lambda segment: None) == ()


def test_a_spare_node_that_is_down_is_none() -> None:
    """It is asked, not looked up."""
    assert len(drain_problems(picture((1, 2, 3), nodes=4), ONE)) == 3


def test_a_node_that_nothing_rests_on_can_always_go() -> None:
    """Node 4 has no copies and no seat."""
    four = picture((1, 2, 3, 4), nodes=4)

    assert drain_problems(four, FOUR) == []
    assert four.uses(FOUR) == []


def test_the_sequencer_rests_on_its_node_while_the_segment_is_open() -> None:
    """No sequencer orders a closed segment."""
    closed, opened = picture((1, 2, 3)).placed
    elsewhere = attrs.evolve(closed.placement, groups=((TWO, THREE, FOUR),))

    assert depends_on(PlacedSegment(opened.segment, elsewhere), ONE)
    assert not depends_on(PlacedSegment(closed.segment, elsewhere), ONE)


def test_the_vote_of_a_node_is_not_given_up_while_others_are_down() -> None:
    """Two of three are left, if both live; with one of them down the new directory could not be let in."""
    assert seat_problems(picture((1, 2)), THREE) == []
    assert seat_problems(picture((1, 3)), THREE) == ["the MetaStore: without node 3 1 of its 3 members answer"]
    assert seat_problems(picture((1, 2), nodes=4), FOUR) == []


def test_the_last_copy_is_not_given_up() -> None:
    """Two of three have everything: one may have a hole. A copy that was lost with an earlier disk does not count as one."""
    assert copies_problems(picture((1, 2)), THREE) == []
    assert "1 whole copies would be left, and 2 are needed" in copies_problems(picture((1, 3)), THREE)[0]
    alone = rejoined(picture((2, 3)), TWO, joined=5)
    assert len(copies_problems(alone, THREE)) == 2
    two = rejoined(picture((1, 2, 3)), TWO, joined=5)
    assert len(copies_problems(two, THREE)) == 2
    assert copies_problems(two, TWO) == [], "it has nothing to lose"


def test_the_last_replica_of_the_database_is_not_given_up() -> None:
    """Replicas have trimmed the log below their states. A replica with a directory that was given up, or on a drained node, does not count."""
    store = b"s" * 16
    names = [replica_name(node, store) for node in (ONE, TWO)]
    both = attrs.evolve(picture((1, 2, 3, 4), nodes=4), replicas=names)
    assert database_problems(both, ONE) == database_problems(both, FOUR) == []
    (told,) = database_problems(drained(both, TWO), ONE)
    assert "no other node in use has a replica" in told
    assert database_problems(drained(both, TWO), FOUR) == []
    replaced = attrs.evolve(both, replicas=[names[0], replica_name(TWO, b"former directory")])
    assert database_problems(replaced, ONE) == [told]


def test_a_segment_that_consists_of_parts_needs_a_copy_of_each() -> None:
    """Each group has another part. Nodes 1 to 3 have all of theirs: that helps the part of node 4 alone nothing."""
    four = picture((1, 2, 3, 4), nodes=5)
    parts = attrs.evolve(four.placed[0].placement, groups=((ONE, TWO, THREE), (FOUR,)))
    sharded = attrs.evolve(four, placed=[PlacedSegment(four.placed[0].segment, parts)])

    assert len(copies_problems(sharded, FOUR)) == 1
    assert copies_problems(sharded, ONE) == []
    dead = attrs.evolve(sharded, living=dict.fromkeys((ONE, TWO, THREE), ROLES))
    assert "no node that answers has a copy" in drain_problems(dead, ONE)[0]
    assert copies_problems(dead, ONE) == []  # the loss of node 1 makes nothing worse


def test_what_a_new_directory_lacks() -> None:
    """Segments that were there when it joined; not those that came, or were copied, later."""
    joined = rejoined(picture((1, 2, 3)), THREE, joined=CHAIN.last.id.version - 1)

    assert [placed.segment.start for placed in missing_copies_on(joined, THREE)] == [0]
    assert not joined.bare_groups(joined.closed[0])
    assert joined.thin_groups(joined.closed[0], without=ONE) == [(ONE, TWO, THREE)]
    assert missing_copies_on(joined, ONE) == []


@attrs.define
class Overtaken(MemoryMetaStore):
    """A register that another operator changes before the first put: `overtake` makes the version that comes first."""

    overtake: Callable[[Register], Register] | None = None

    async def put(
        self, value: bytes, expected_version: int, attempt: int, members: Sequence[NodeId] | None = None
    ) -> int:
        overtake, self.overtake = self.overtake, None
        if overtake is not None:
            await super().put(overtake(decode_untrusted(self.values[-1])).encode(), expected_version, 99)
        return await super().put(value, expected_version, attempt, members)


@pytest.mark.parametrize("kind", ["native", "unheard"])
async def test_a_removal_is_judged_by_the_register_that_it_is_put_on(kind: str) -> None:
    """The node was drained when the operator asked. Meanwhile another one has added it again, and the log goes on on it; or it goes
    on on loglets of a kind that the node asked does not know, which may be anywhere."""
    without, config = (
        NativeConfig(servers=servers, sequencer=TWO, boot=1).encode()
        for servers in ((ONE, TWO, THREE), (TWO, THREE, FOUR))
    )
    chain = extend(genesis("native", without, 7), 100, "native", without, 8)
    looked = attrs.evolve(drained(picture((1, 2, 3, 4), nodes=5), FOUR).register, chain=chain)

    def added_again(before: Register) -> Register:
        used = attrs.evolve(before.nodes[FOUR], roles=ROLES)
        nodes = {**before.nodes, FOUR: used} if kind == "native" else before.nodes
        return attrs.evolve(before, chain=extend(before.chain, 200, kind, config, 9), nodes=nodes)

    metastore, outcomes, answered = Overtaken(overtake=added_again), list[object](), trio.Event()
    async with trio.open_nursery() as nursery:
        log = World(nursery, providers={"native": NativeProvider()}, metastore=metastore).client()
        metastore.values.append(looked.encode())
        metastore.attempts.append(8)
        membership = MembershipService(
            lambda: log, no_nodes, lambda: nursery, RateLimit(SystemClock()), lambda: 1, lambda node: None
        )

        def done(outcome: object) -> None:
            outcomes.append(outcome)
            answered.set()

        membership.handlers[RemoveNode](RemoveNode(node=FOUR), done)
        await answered.wait()
        nursery.cancel_scope.cancel()
    assert [str(outcome) for outcome in outcomes] == [
        str(InvalidSettingError("node 4", "is needed by segments 3.9: drain it first"))
    ]
    assert FOUR in decode_untrusted(metastore.values[-1]).nodes
