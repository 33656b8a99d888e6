"""The pure core of a chain change: exact effects, step by step."""

from __future__ import annotations

import attrs
import pytest

from virtuallog.contract import chain
from virtuallog.contract.errors import InvalidSettingError
from virtuallog.contract.register import ClusterId, NodeEntry, Register
from virtuallog.contract.types import LogletOffset, LogPosition, NodeId, Open, Sealed
from virtuallog.reconfiguration.core.chain_change import (
    ChangeDone,
    ChangeMembers,
    CheckSegmentTail,
    Close,
    Extend,
    Modify,
    PutLost,
    PutRegister,
    PutUnknown,
    PutWon,
    ReadRegister,
    Reconfiguration,
    SealReturned,
    SealSegment,
    Truncate,
)
from virtuallog.reconfiguration.core.node_table import Claim, Forget

START = Register(
    cluster=ClusterId(b"c" * 16), chain=chain.genesis("native", b"one", attempt=1), members=(NodeId(1),), nodes={}
)

ROLES = frozenset({"log-server"})


def with_nodes(*nodes: int) -> Register:
    """`START` with these nodes in the table; a negative one waits for a directory."""
    entries = {
        NodeId(abs(node)): NodeEntry(store_id=b"s" * 16 if node > 0 else b"", addresses=(), roles=ROLES)
        for node in nodes
    }
    return attrs.evolve(START, nodes=entries)


def extended(register: Register, stop: int, attempt: int = 2) -> Register:
    return register.with_chain(chain.extend(register.chain, stop, "paxos", b"two", attempt))


def test_extend_seals_reads_the_tail_and_puts_the_longer_chain() -> None:
    """OSDI'20 section 3.2: seal, check_tail, conditional write, in this order."""
    machine = Reconfiguration(START, Extend("paxos", b"two"), attempt=2)
    active = START.chain.last

    assert machine.start() == SealSegment(active)
    assert machine.step(SealReturned()) == CheckSegmentTail(active)
    put = machine.step(Sealed(100))
    assert put == PutRegister(extended(START, 100), expected_version=1)
    assert machine.step(PutWon()) == ChangeDone(extended(START, 100), won=True)


def test_a_seal_that_still_reads_open_is_sealed_again() -> None:
    """A seal that "succeeded" but reads as open is retried, not asserted."""
    machine = Reconfiguration(START, Extend("paxos", b"two"), attempt=2)
    machine.start()
    machine.step(SealReturned())

    assert machine.step(Open(7)) == SealSegment(START.chain.last)


def test_an_unknown_put_is_settled_by_the_same_put() -> None:
    """The same attempt is put again, to find out if it was decided."""
    machine = Reconfiguration(START, Close(), attempt=2)
    machine.start()
    machine.step(SealReturned())
    put = machine.step(Sealed(5))

    assert machine.step(PutUnknown()) == put


def test_a_lost_race_for_the_last_segment_ends_the_change() -> None:
    """Another client's extend came first: its chain is adopted, ours is dropped without a trace."""
    machine = Reconfiguration(START, Extend("paxos", b"two"), attempt=2)
    machine.start()
    machine.step(SealReturned())
    machine.step(Sealed(5))
    winner = extended(START, 6, attempt=3)

    assert machine.step(PutLost()) == ReadRegister()
    assert machine.step(winner) == ChangeDone(winner, won=False)


def test_a_change_for_one_version_is_made_on_no_other_one() -> None:
    """Neither sealed for another one, nor put on top of one that came in between, though the last segment is still the same."""
    version = START.version
    assert Reconfiguration(START, Extend("paxos", b"two", only_at=version + 1), attempt=2).start() == ChangeDone(
        START, won=False
    )
    machine = Reconfiguration(START, Extend("paxos", b"two", only_at=version), attempt=2)
    assert machine.start() == SealSegment(START.chain.last)
    machine.step(SealReturned())
    put = machine.step(Sealed(5))
    assert isinstance(put, PutRegister)
    assert put.expected_version == version
    machine.step(PutLost())
    found = START.next()
    assert machine.step(found) == ChangeDone(found, won=False)


def test_a_version_bump_by_a_truncate_is_not_taken_for_an_extend() -> None:
    """Truncate and modify bump the version while the sealed segment stays the last one: put again on top of them."""
    two = extended(START, 10)
    machine = Reconfiguration(two, Extend("native", b"three"), attempt=9)
    machine.start()
    machine.step(SealReturned())
    machine.step(Sealed(4))
    machine.step(PutLost())
    truncated = chain.truncate(two.chain, 10)
    assert truncated is not None
    found = two.with_chain(truncated)

    effect = machine.step(found)

    assert isinstance(effect, PutRegister)
    assert effect.expected_version == 3
    assert [(s.start, s.stop) for s in effect.register.chain.segments] == [(10, 14), (14, None)]


def test_extending_a_closed_log_reopens_it_without_a_seal() -> None:
    """A log closed on purpose has its stop in the register already."""
    closed = START.with_chain(chain.close(START.chain, 12))
    machine = Reconfiguration(closed, Extend("native", b"again"), attempt=4)

    effect = machine.start()

    assert isinstance(effect, PutRegister)
    assert effect.register.chain.last.start == 12


def test_an_extend_that_meets_a_close_reopens_the_log_at_the_closed_stop() -> None:
    """The close decided the stop; the tail read for the extend no longer counts."""
    machine = Reconfiguration(START, Extend("native", b"two"), attempt=2)
    machine.start()
    machine.step(SealReturned())
    machine.step(Sealed(12))
    machine.step(PutLost())

    effect = machine.step(START.with_chain(chain.close(START.chain, 13)))

    assert isinstance(effect, PutRegister)
    assert effect.register.chain.last.start == 13


def test_truncate_and_modify_never_seal() -> None:
    """OSDI'20 section 3.2: only a change that moves an unwritten address conflicts with its predecessor."""
    two = extended(START, 10)

    truncate = Reconfiguration(two, Truncate(LogPosition(10)), attempt=5).start()
    modify = Reconfiguration(
        two, Modify(two.chain.segments[0].id, "archive", b"cold", LogletOffset(3)), attempt=6
    ).start()

    assert isinstance(truncate, PutRegister)
    assert isinstance(modify, PutRegister)
    assert [s.kind for s in modify.register.chain.segments] == ["archive", "paxos"]
    assert modify.register.chain.segments[0].base == 3


@pytest.mark.parametrize("replaced", ["kept", "newcomer"])
def test_a_copy_on_a_disk_that_was_replaced_meanwhile_is_not_put(replaced: str) -> None:
    """The new directory is empty, and joined before the new segment's version: the loss would never be noticed."""
    ours = {NodeId(3): b"disk of 3", NodeId(4): b"disk of 4"}
    before = START.with_nodes({node: NodeEntry(store_id=on, addresses=(), roles=ROLES) for node, on in ours.items()})
    two = extended(before, 10)
    first = two.chain.segments[0].id
    machine = Reconfiguration(two, Modify(first, "native", b"on 3, 4", LogletOffset(0), ours), attempt=6)
    assert isinstance(machine.start(), PutRegister)
    node = NodeId(3) if replaced == "kept" else NodeId(4)
    forgotten = Forget(node=node, store_id=ours[node]).amend(two)
    assert forgotten is not None
    found = Claim(node=node, store_id=b"new disk").amend(forgotten)
    assert found is not None

    assert machine.step(PutLost()) == ReadRegister()
    with pytest.raises(InvalidSettingError, match=f"nodes .{node}. have other data directories"):
        machine.step(found)


def test_a_copy_is_put_on_top_of_changes_that_leave_its_disks_alone() -> None:
    """Replaced directories of other nodes do not matter."""
    nodes = {NodeId(n): NodeEntry(store_id=b"disk", addresses=(), roles=ROLES) for n in (3, 4)}
    two = extended(START.with_nodes(nodes), 10)
    modify = Modify(two.chain.segments[0].id, "native", b"on 4", LogletOffset(0), {NodeId(4): b"disk"})
    machine = Reconfiguration(two, modify, attempt=6)
    machine.start()
    machine.step(PutLost())

    found = Forget(node=NodeId(3), store_id=b"disk").amend(two)
    assert found is not None
    assert isinstance(machine.step(found), PutRegister)


def test_a_truncate_with_nothing_to_drop_is_done_at_once() -> None:
    """No version is spent on a change that changes nothing."""
    two = extended(START, 10)

    assert Reconfiguration(two, Truncate(LogPosition(9)), attempt=5).start() == ChangeDone(two, won=False)


def test_a_change_of_the_members_leaves_the_chain_alone() -> None:
    """No seal; the next version names them, and once it is lost it is proposed again on top of the winner."""
    chosen = (NodeId(2), NodeId(3), NodeId(4))
    start = with_nodes(2, 3, 4)
    machine = Reconfiguration(start, ChangeMembers(chosen, START.members), attempt=5)
    winner = extended(start, 6, attempt=3)

    put = machine.start()
    assert isinstance(put, PutRegister)
    assert (put.register.version, put.register.members) == (2, chosen)
    assert put.register.chain.segments == START.chain.segments
    assert machine.step(PutLost()) == ReadRegister()
    again = machine.step(winner)
    assert isinstance(again, PutRegister)
    assert (again.register.chain.segments, again.register.members) == (winner.chain.segments, chosen)


@pytest.mark.parametrize("others", [(2, 3), (2, -3, -4)], ids=["one was removed", "two were given up"])
def test_members_are_looked_at_again_on_top_of_what_others_have_changed(others: tuple[int, ...]) -> None:
    """They answered when they were chosen. By now most of them might never vote, and no change could cure that."""
    chosen = (NodeId(2), NodeId(3), NodeId(4))
    machine = Reconfiguration(with_nodes(2, 3, 4), ChangeMembers(chosen, START.members), attempt=5)
    machine.start()
    machine.step(PutLost())

    with pytest.raises(InvalidSettingError, match="members"):
        machine.step(with_nodes(*others).next())


def test_members_that_decide_already_are_no_change() -> None:
    """No version is spent."""
    assert Reconfiguration(START, ChangeMembers(START.members, START.members), attempt=5).start() == ChangeDone(
        START, won=False
    )


def test_members_that_the_operator_has_not_seen_are_not_undone() -> None:
    """If two operators act at once, the second one is refused, for any change of the first."""
    machine = Reconfiguration(with_nodes(1, 2, 3, 4), ChangeMembers((NodeId(2),), START.members), attempt=5)
    assert isinstance(machine.start(), PutRegister)
    machine.step(PutLost())

    others = with_nodes(1, 2, 3, 4).with_members((NodeId(3), NodeId(4)))
    assert others is not None
    with pytest.raises(InvalidSettingError, match=r"they are \[3, 4\] by now, not \[1\]: look again"):
        machine.step(others)


def test_drained_nodes_get_no_seat() -> None:
    """Drained nodes may be stopped at any time. Members that are drained may stay."""
    register = with_nodes(1, 2, 3)
    drained = {NodeId(node): attrs.evolve(register.nodes[NodeId(node)], roles=frozenset()) for node in (1, 2)}
    register = attrs.evolve(register, nodes={**register.nodes, **drained})

    with pytest.raises(InvalidSettingError, match=r"nodes \[2\] are drained"):
        Reconfiguration(register, ChangeMembers((NodeId(2), NodeId(3)), START.members), attempt=5).start()
    assert isinstance(
        Reconfiguration(register, ChangeMembers((NodeId(1), NodeId(3)), START.members), attempt=5).start(), PutRegister
    )


def test_nothing_new_is_put_on_a_node_that_was_drained_meanwhile() -> None:
    """A drained node may be stopped by now. A loglet is planned again, a copy made again."""
    before = extended(with_nodes(1, 2, 3), 10)
    gone = before.with_nodes({NodeId(1): before.nodes[NodeId(1)]})
    drained = attrs.evolve(before.nodes[NodeId(2)], roles=frozenset())
    withdrawn = before.with_nodes({**before.nodes, NodeId(2): drained})
    extend = Extend("native", b"on 1, 2", nodes=frozenset({NodeId(1), NodeId(2)}))
    copied = Modify(before.chain.segments[0].id, "native", b"on 2", LogletOffset(0), {}, frozenset({NodeId(2)}))

    for found in (gone, withdrawn):
        machine = Reconfiguration(before, extend, attempt=5)
        machine.start()
        machine.step(SealReturned())
        assert isinstance(machine.step(Sealed(LogletOffset(3))), PutRegister)
        assert machine.step(PutLost()) == ReadRegister()
        assert machine.step(found) == ChangeDone(found, won=False)
        with pytest.raises(InvalidSettingError, match=r"nodes \[2\], which a copy was made on, are drained"):
            Reconfiguration(found, copied, attempt=6).start()
