"""The level of a cluster: up to which version of the protocol one may write for others."""

from __future__ import annotations

import attrs

from virtuallog.contract.chain import genesis
from virtuallog.contract.register import ClusterId, NodeEntry, Register
from virtuallog.contract.types import NodeId
from virtuallog.contract.versions import level_of
from virtuallog_server.node.protocol_upgrade import RaiseLevel

ONE, TWO, THREE = NodeId(1), NodeId(2), NodeId(3)


def register_of(*nodes: NodeId, level: int = 1) -> Register:
    table = {
        node: NodeEntry(store_id=bytes([node]) * 16, addresses=("127.0.0.1:1",), roles=frozenset()) for node in nodes
    }
    return Register(
        cluster=ClusterId(bytes(16)), chain=genesis("native", b"", 1), members=(ONE,), nodes=table, level=level
    )


def announced(**protocols: int) -> RaiseLevel:
    """By the names of the nodes: one=2."""
    nodes = {"one": ONE, "two": TWO, "three": THREE}
    return RaiseLevel({(nodes[name], bytes([nodes[name]]) * 16): protocol for name, protocol in protocols.items()})


def test_the_level_is_what_the_oldest_node_speaks() -> None:
    """It rises by a change of the register, once; then there is nothing to do."""
    register = register_of(ONE, TWO, THREE)

    assert announced(one=2, two=2, three=1).amend(register) is None
    raised = announced(one=3, two=2, three=2).amend(register)
    assert raised is not None
    assert (raised.level, raised.version) == (2, register.version + 1)
    assert announced(one=2, two=2, three=2).amend(raised) is None


def test_a_node_that_was_not_heard_may_be_an_old_one() -> None:
    """Down or not, every node of the table counts; only data directories that the table names count."""
    register = register_of(ONE, TWO)
    assert announced(one=2).amend(register) is None

    other_disk = attrs.evolve(register.nodes[TWO], store_id=b"another disk....")
    changed = attrs.evolve(register, nodes={**register.nodes, TWO: other_disk})
    assert announced(one=2, two=2).amend(changed) is None
    assert announced(one=2, two=2, three=1).amend(register) is not None


def test_nodes_become_replicas_when_the_level_knows_of_them() -> None:
    """The role goes to nodes that can and may be replicas: not to a drained one, nor to one whose config has other roles. Once:
    later the table says what its operators want.
    """
    register = register_of(ONE, TWO, THREE, level=2)
    used = {node: attrs.evolve(entry, roles=frozenset({"log-server"})) for node, entry in register.nodes.items()}
    used[TWO] = register.nodes[TWO]
    able = [(node, bytes([node]) * 16) for node in (ONE, TWO)]
    change = attrs.evolve(announced(one=3, two=3, three=3), replicas=able)

    raised = change.amend(attrs.evolve(register, nodes=used))

    assert raised is not None
    assert [sorted(raised.nodes[node].roles) for node in (ONE, TWO, THREE)] == [
        ["log-server", "replica"],
        [],
        ["log-server"],
    ]
    assert raised.version == register.version + 1
    later = attrs.evolve(announced(one=4, two=4, three=4), replicas=able).amend(attrs.evolve(raised, nodes=used))
    assert later is not None
    assert later.nodes == used


def test_the_level_never_goes_down_by_itself() -> None:
    """Entries written for a level stay written."""
    assert announced(one=1, two=2).amend(register_of(ONE, TWO, level=2)) is None
    assert level_of([]) == level_of([None, 2]) == 1
