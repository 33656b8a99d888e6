"""The level of a cluster: up to which version of the protocol one may write for others."""

from __future__ import annotations

import attrs

from server.announcements import Raise
from virtuallog.chain import genesis
from virtuallog.register import ClusterId, NodeEntry, Register
from virtuallog.types import NodeId
from virtuallog.versions import level_of

ONE, TWO, THREE = NodeId(1), NodeId(2), NodeId(3)


def register_of(*nodes: NodeId, level: int = 1) -> Register:
    table = {
        node: NodeEntry(store_id=bytes([node]) * 16, addresses=("127.0.0.1:1",), roles=frozenset()) for node in nodes
    }
    return Register(
        cluster=ClusterId(bytes(16)), chain=genesis("native", b"", 1), members=(ONE,), nodes=table, level=level
    )


def announced(**protocols: int) -> Raise:
    """By the names of the nodes: one=2."""
    nodes = {"one": ONE, "two": TWO, "three": THREE}
    return Raise({(nodes[name], bytes([nodes[name]]) * 16): protocol for name, protocol in protocols.items()})


def test_the_level_is_what_the_oldest_node_speaks() -> None:
    """It rises by a change of the register, once; then there is nothing to do."""
    register = register_of(ONE, TWO, THREE)

    assert announced(one=2, two=2, three=1).amend(register) is None
    raised = announced(one=3, two=2, three=2).amend(register)
    assert raised is not None
    assert (raised.level, raised.version) == (2, register.version + 1)
    assert announced(one=2, two=2, three=2).amend(raised) is None


def test_a_node_that_was_not_heard_may_be_an_old_one() -> None:
    """Whether it is down or not; only data directories that the table names count."""
    register = register_of(ONE, TWO)
    assert announced(one=2).amend(register) is None

    other_disk = attrs.evolve(register.nodes[TWO], store_id=b"another disk....")
    changed = attrs.evolve(register, nodes={**register.nodes, TWO: other_disk})
    assert announced(one=2, two=2).amend(changed) is None
    assert announced(one=2, two=2, three=1).amend(register) is not None


def test_the_level_never_goes_down_by_itself() -> None:
    """What was written for it stays written."""
    assert announced(one=1, two=2).amend(register_of(ONE, TWO, level=2)) is None
    assert level_of([]) == level_of([None, 2]) == 1
