"""The node table: entries, the directories that may claim them, and refusals of changes."""

from __future__ import annotations

import random
from collections.abc import Sequence

import attrs
import pytest

from tests.virtuallog.contract.test_register import SMALL
from virtuallog.contract.chain import Segment, extend, validate_successor
from virtuallog.contract.errors import InvalidSettingError, TooLargeError, UnavailableError
from virtuallog.contract.placement import Placement
from virtuallog.contract.register import REGISTER_BYTES_MAX, NodeEntry, Register, decode_untrusted
from virtuallog.contract.types import NodeId
from virtuallog.reconfiguration.core.metastore_members import ReplaceMember
from virtuallog.reconfiguration.core.node_table import (
    NODES_MAX,
    Amendment,
    Claim,
    Expect,
    Forget,
    Remove,
    WithdrawRoles,
)
from virtuallog.reconfiguration.node_table_update import update_node_table
from virtuallog.testing.memory_metastore import MemoryMetaStore

FOUR = NodeId(4)
ROLES = frozenset({"log-server", "sequencer"})
EXPECT = Expect(node=FOUR, addresses=("four:7004",), roles=ROLES)


def after(register: Register, *amendments: Amendment) -> Register:
    """The register after these amendments; each must change it."""
    for amendment in amendments:
        changed = amendment.amend(register)
        assert changed is not None
        validate_successor(register.chain, changed.chain)
        assert amendment.amend(changed) is None, "made again it is no change"
        register = changed
    return register


def test_an_expected_place_is_taken_by_one_directory() -> None:
    """The first claim wins; the entry has the version since which it holds."""
    register = after(SMALL, EXPECT, Claim(node=FOUR, store_id=b"b" * 16))

    entry = register.nodes[FOUR]
    assert entry == NodeEntry(store_id=b"b" * 16, addresses=("four:7004",), roles=ROLES, joined=register.version)
    assert Claim(node=FOUR, store_id=b"c" * 16).amend(register) is None
    assert register.nodes[NodeId(1)] == SMALL.nodes[NodeId(1)]
    assert decode_untrusted(register.encode()) == register


@pytest.mark.parametrize("address", ["four", "four:0", "node..example:7001", f"{'n' * 64}:7001", "fo\0ur:7001"])
def test_what_is_no_address_gets_into_no_table(address: str) -> None:
    """Invalid addresses are refused here, also if the tool has checked them: all nodes would try to connect for ever."""
    joined = after(SMALL, EXPECT, Claim(node=FOUR, store_id=b"b" * 16))

    for wrong in (
        Expect(node=NodeId(5), addresses=("five:7005", address), roles=ROLES),
        Forget(node=FOUR, store_id=b"b" * 16, addresses=(address,)),
    ):
        with pytest.raises(InvalidSettingError, match="is not host:port"):
            wrong.amend(joined)


def test_a_forgotten_directory_leaves_its_place_to_another() -> None:
    """At the same address or at a new one; a repeat that comes late does not forget the newcomer."""
    joined = after(SMALL, EXPECT, Claim(node=FOUR, store_id=b"b" * 16))
    forget = Forget(node=FOUR, store_id=b"b" * 16, addresses=("elsewhere:7004",))

    forgotten = after(joined, forget)
    assert forgotten.nodes[FOUR] == NodeEntry(store_id=b"", addresses=("elsewhere:7004",), roles=ROLES)
    replaced = after(forgotten, Claim(node=FOUR, store_id=b"c" * 16))
    assert forget.amend(replaced) is None
    assert Forget(node=FOUR, store_id=b"b" * 16).amend(replaced) is None


def test_most_members_keep_a_directory() -> None:
    """If two directories are given up at once, each of which is dispensable alone, no new one could ever be named."""
    entry = NodeEntry(store_id=b"a" * 16, addresses=("host:1",), roles=ROLES)
    register = attrs.evolve(SMALL, nodes=dict.fromkeys(SMALL.members, entry))
    one, two, _ = SMALL.members
    first = after(register, Forget(node=one, store_id=b"a" * 16))

    with pytest.raises(InvalidSettingError, match="node 2: most members of the MetaStore would wait"):
        Forget(node=two, store_id=b"a" * 16).amend(first)
    moved = after(first, Forget(node=one, store_id=b"", addresses=("elsewhere:1",)))
    again = after(moved, Claim(node=one, store_id=b"b" * 16))
    assert after(again, Forget(node=two, store_id=b"a" * 16)).is_decidable


def test_the_address_of_a_place_that_is_still_empty_can_be_changed() -> None:
    """An operator can correct a wrong address."""
    register = after(SMALL, EXPECT, Forget(node=FOUR, store_id=b"", addresses=("right:7004",)))

    assert register.nodes[FOUR].addresses == ("right:7004",)


def test_a_drained_node_is_of_use_again_when_it_is_added_again() -> None:
    """Without roles no planner chooses it; with roles it is as before, on the same directory."""
    joined = after(SMALL, EXPECT, Claim(node=FOUR, store_id=b"b" * 16))
    drained = after(joined, WithdrawRoles(node=FOUR))
    assert drained.nodes[FOUR].roles == frozenset()

    assert after(drained, EXPECT).nodes == joined.nodes


def test_two_drains_at_once_leave_as_many_servers_as_there_are() -> None:
    """Each was checked before the other withdrew a node. A loglet planned on the remaining nodes had one server."""
    nodes = {NodeId(node): NodeEntry(store_id=b"s", addresses=(), roles=ROLES) for node in (1, 2, 3, 4)}
    register = SMALL.with_nodes(nodes)
    on_three = Placement(groups=((NodeId(1), NodeId(2), NodeId(3)),), role="log-server")

    def withdraw(node: int) -> WithdrawRoles:
        return WithdrawRoles(node=NodeId(node), placement=lambda _: on_three)

    for first, second in ((3, 4), (4, 3)):
        changed = after(register, withdraw(first))
        with pytest.raises(InvalidSettingError, match="3 nodes with role log-server are wanted, and 2 would be left"):
            withdraw(second).amend(changed)


def test_who_stores_nothing_may_always_be_withdrawn() -> None:
    """A node that only orders can be withdrawn; so can any node without a seat if the log is on no nodes."""
    nodes = {NodeId(node): NodeEntry(store_id=b"s", addresses=(), roles=ROLES) for node in (1, 2)}
    orders = {FOUR: NodeEntry(store_id=b"s", addresses=(), roles=frozenset({"sequencer"}))}
    three = Placement(groups=((NodeId(1), NodeId(2), NodeId(3)),), role="log-server")

    ordering = after(SMALL.with_nodes({**nodes, **orders}), WithdrawRoles(node=FOUR, placement=lambda _: three))
    unseated = attrs.evolve(SMALL.with_nodes(nodes), members=(NodeId(2),))
    nowhere = after(unseated, WithdrawRoles(node=NodeId(1), placement=lambda _: None))

    assert ordering.nodes[FOUR].roles == frozenset()
    assert nowhere.nodes[NodeId(1)].roles == frozenset()


def test_a_node_in_use_keeps_its_roles_when_it_is_added_once_more() -> None:
    """Roles are taken away by a drain, which looks at what would be left. More of them may be given."""
    joined = after(SMALL, EXPECT, Claim(node=FOUR, store_id=b"b" * 16))

    assert attrs.evolve(EXPECT, roles=frozenset({"sequencer"})).amend(joined) is None
    more = after(joined, attrs.evolve(EXPECT, roles=frozenset({"replica"})))
    assert more.nodes[FOUR].roles == ROLES | {"replica"}


def seated(nodes: int, drained: Sequence[int] = (), members: Sequence[int] = (1, 2, 3)) -> Register:
    """A register with so many nodes, some of them drained, and these members of the MetaStore."""
    table = {
        NodeId(node): NodeEntry(store_id=b"s", addresses=(), roles=frozenset() if node in drained else ROLES)
        for node in range(1, nodes + 1)
    }
    return attrs.evolve(SMALL, nodes=table, members=tuple(map(NodeId, members)))


def test_a_seat_goes_to_the_first_candidate_that_is_used() -> None:
    """A drained node answers until it is stopped, and would take the seat with it."""
    candidates = [NodeId(node) for node in (1, 2, 4, 5)]

    assert after(seated(5), ReplaceMember(leaves=NodeId(1), candidates=candidates)).members == (2, 3, 4)
    handed_over = seated(5, drained=(1, 2), members=(2, 3, 4))
    assert after(handed_over, ReplaceMember(leaves=NodeId(2), candidates=candidates)).members == (3, 4, 5)
    with pytest.raises(InvalidSettingError, match="no node is free to take its seat"):
        ReplaceMember(leaves=NodeId(2), candidates=candidates[:2]).amend(handed_over)


def test_two_seats_that_are_handed_over_at_once_are_both_handed_over() -> None:
    """Each builds on the other, in any order: neither takes its seat back."""
    candidates = (FOUR, NodeId(5))
    one, two = (ReplaceMember(leaves=NodeId(node), candidates=candidates) for node in (1, 2))

    assert after(seated(5), one, two).members == after(seated(5), two, one).members == (3, 4, 5)


def test_a_node_whose_seat_nobody_can_take_is_not_withdrawn() -> None:
    """Neither is the node that is to take the seat of another."""
    with pytest.raises(InvalidSettingError, match="nodes 1 leave the MetaStore, and 0 other nodes"):
        WithdrawRoles(node=NodeId(1)).amend(seated(3))
    with pytest.raises(InvalidSettingError, match="nodes 1 leave the MetaStore, and 0 other nodes"):
        WithdrawRoles(node=FOUR).amend(seated(4, drained=(1,)))
    with pytest.raises(InvalidSettingError, match="nodes 1 leave the MetaStore"):
        Remove(node=FOUR, is_used=lambda _: False).amend(seated(4, drained=(1,)))


def test_the_servers_of_the_log_are_counted_while_it_is_elsewhere() -> None:
    """The open segment is on no nodes; the next one may be, on as many as the last one that was."""
    chain = extend(SMALL.chain, 200, "zookeeper", b"", attempt=9)
    register = attrs.evolve(seated(3, members=(2, 3)), chain=chain)
    three = Placement(groups=((NodeId(1), NodeId(2), NodeId(3)),), role="log-server")

    with pytest.raises(InvalidSettingError, match="3 nodes with role log-server are wanted, and 2 would be left"):
        WithdrawRoles(node=NodeId(1), placement=lambda one: None if one.kind == "zookeeper" else three).amend(register)


def test_a_directory_is_given_up_only_if_the_register_that_is_changed_allows_it() -> None:
    """An earlier check does not count: only the register that is changed does."""
    joined = after(SMALL, EXPECT, Claim(node=FOUR, store_id=b"b" * 16))
    forget = Forget(node=FOUR, store_id=b"b" * 16, problems=lambda register: [f"version {register.version}"])

    with pytest.raises(InvalidSettingError, match=f"node 4: version {joined.version}"):
        forget.amend(joined)


def test_two_nodes_of_one_number_are_refused() -> None:
    """`add` moves no node: `replace` does."""
    with pytest.raises(InvalidSettingError, match="node 4: is in the cluster already, at four:7004"):
        attrs.evolve(EXPECT, addresses=("other:1",)).amend(after(SMALL, EXPECT))


def test_the_table_is_bounded() -> None:
    """A runaway script cannot fill the register."""
    entry = NodeEntry(store_id=b"", addresses=(), roles=frozenset())
    full = SMALL.with_nodes({NodeId(node): entry for node in range(10, 10 + NODES_MAX)})

    with pytest.raises(InvalidSettingError, match="the limit"):
        EXPECT.amend(full)


@pytest.mark.parametrize(
    "amendment",
    [Forget(node=FOUR, store_id=b"b"), Claim(node=FOUR, store_id=b"b"), WithdrawRoles(node=FOUR)],
    ids=lambda amendment: type(amendment).__name__,
)
def test_a_node_that_is_not_there_cannot_be_changed(amendment: Amendment) -> None:
    """A mistyped node number is reported."""
    with pytest.raises(InvalidSettingError, match="no node 4"):
        amendment.amend(SMALL)


def test_what_is_needed_is_not_removed() -> None:
    """Neither a member of the MetaStore nor a node of a segment's loglet can be removed; any other can."""
    one = NodeId(1)

    def first(segment: Segment) -> bool:
        return segment is SMALL.chain.segments[0]

    with pytest.raises(InvalidSettingError, match="is a member of the MetaStore"):
        Remove(node=one, is_used=lambda _: False).amend(SMALL)
    outside = attrs.evolve(SMALL, members=(NodeId(2), NodeId(3)))
    with pytest.raises(InvalidSettingError, match=f"needed by segments {SMALL.chain.segments[0].id}: drain"):
        Remove(node=one, is_used=first).amend(outside)
    assert after(outside, Remove(node=one, is_used=lambda _: False)).nodes == {}


async def test_an_amendment_is_made_on_top_of_what_others_have_changed() -> None:
    """After a lost put the register is read again; a put without an answer is found to be made when repeated."""
    metastore, source = MemoryMetaStore(values=[SMALL.encode()], attempts=[1]), random.Random(1)
    base = attrs.evolve(SMALL, chain=attrs.evolve(SMALL.chain, version=1, segments=SMALL.chain.segments[:1]))
    metastore.values = [base.encode()]
    metastore.lose_replies = 1

    with pytest.raises(UnavailableError):
        await update_node_table(metastore, EXPECT, source)
    assert len(metastore.values) == 2
    again = await update_node_table(metastore, EXPECT, source)
    assert (again.version, len(metastore.values)) == (2, 2)
    claimed = await update_node_table(metastore, Claim(node=FOUR, store_id=b"b" * 16), source)
    assert claimed.nodes[FOUR].joined == 3


async def test_a_replaced_node_comes_back_to_a_full_register() -> None:
    """A replaced node needs no new room, and its copies have to be made again. One more node is refused."""
    joined = after(SMALL, EXPECT, Claim(node=FOUR, store_id=b"b" * 16))
    full = joined.with_chain(extend(joined.chain, 200, "native", bytes(REGISTER_BYTES_MAX), attempt=9))
    metastore, source = (
        MemoryMetaStore(values=[full.encode()] * full.version, attempts=[9] * full.version),
        random.Random(1),
    )

    await update_node_table(metastore, Forget(node=FOUR, store_id=b"b" * 16), source)
    claimed = await update_node_table(metastore, Claim(node=FOUR, store_id=b"c" * 16), source)
    assert claimed.nodes[FOUR].store_id == b"c" * 16

    with pytest.raises(TooLargeError, match="bytes in the register"):
        await update_node_table(metastore, attrs.evolve(EXPECT, node=NodeId(5)), source)


async def test_there_is_nothing_to_amend_before_the_bootstrap() -> None:
    """Before bootstrap the outcome is unknown: the register may come."""
    with pytest.raises(UnavailableError, match="bootstrapped"):
        await update_node_table(MemoryMetaStore(), EXPECT, random.Random(1))
