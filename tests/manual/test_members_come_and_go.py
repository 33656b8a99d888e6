"""docs/howto/operate.md, "Add, replace, drain", the kinds of loglets, "When the MetaStore is lost", "When a loglet is lost for good": one
cluster, through all of it."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.manual.operator import Operator, operating

pytestmark = [pytest.mark.processes, pytest.mark.slow]


@pytest.fixture
def operator(tmp_path: Path) -> Iterator[Operator]:
    with operating(tmp_path) as made:
        yield made
    shutil.rmtree(tmp_path)


@pytest.mark.long
def test_nodes_come_and_go_and_the_register_moves(operator: Operator) -> None:
    """Four nodes in turn, three of them replaced or gone in the end, and a register that goes on without the lost ones."""
    base = operator.ports
    operator.start_up(f"virtuallog up --nodes 3 --data {operator.folder} --base-port {base}")
    swap(operator)
    add(operator, base + 3)
    drain(operator)
    replace(operator)
    lose_a_member(operator)


def swap(operator: Operator) -> None:
    """The log goes on under other kinds, is closed, and opened again at the same position."""
    operator.run("virtuallog append one")
    operator.run("virtuallog reconfigure --to paxos")
    operator.run("virtuallog append two")
    operator.run("virtuallog reconfigure --to paxos --set servers=1,2,3")
    operator.run("virtuallog reconfigure --to striped")
    operator.run("virtuallog append three")
    operator.run("virtuallog reconfigure --to native")
    operator.run("virtuallog seal")
    tail = operator.run("virtuallog tail").replace(" (closed)", "")
    assert "the log has been closed" in operator.run("virtuallog append four", 1)
    operator.run("virtuallog reconfigure --to native")
    assert operator.run("virtuallog tail") == tail
    operator.run("virtuallog append four")
    payloads = operator.run("virtuallog read --raw").split()
    assert payloads == ["one", "two", "three", "four"]
    operator.run("virtuallog trim 1")
    assert "trimmed: the log starts at 1" in operator.run("virtuallog read --from 0", 1)
    operator.run("virtuallog truncate")


def add(operator: Operator, port: int) -> None:
    """It is expected, started with an empty directory, and takes its place by itself."""
    assert "no other node can take a seat" in operator.run("virtuallog node drain 1", 1)
    operator.run(f"virtuallog node add 4@127.0.0.1:{port}")
    peers = ",".join(f"{node}@127.0.0.1:{port - 4 + node}" for node in (1, 2, 3, 4))
    operator.serve(4, f"virtuallog serve --id 4 --data {operator.data(4)} --peers {peers}")
    operator.until(lambda: running(operator, 4), "node 4 takes part")


def running(operator: Operator, node: int) -> bool:
    rows = operator.json("virtuallog status")["nodes"]
    return any(row["node"] == node and row["state"] == "running" and row["version"] for row in rows)


def drain(operator: Operator) -> None:
    """Node 3 may be stopped then, and taken out of the table; others decide the register."""
    operator.wait_code("virtuallog node drain 3 --check", 0)  # on a busy machine a node that lives may answer late
    operator.wait_code("virtuallog node drain 3", 0)
    operator.kill(3, signal.SIGTERM)
    operator.run("virtuallog node remove 3")
    assert members(operator) == {1, 2, 4}
    operator.run("virtuallog metastore members --set 1,2,4")
    operator.run(
        "virtuallog metastore members --set 1,2 --seen 1,2,3", 1
    )  # what another operator has changed meanwhile
    operator.run("virtuallog metastore members --set 1,2,4 --seen 1,2,4")
    assert operator.run("virtuallog read --raw").split() == ["two", "three", "four"]


def members(operator: Operator) -> set[int]:
    return {row["member"] for row in operator.json("virtuallog metastore members")["members"]}


def replace(operator: Operator) -> None:
    """The disk of node 2 is gone: a new one takes its place with everything that it had."""
    assert "node 2 answers and has all that it should have" in operator.run("virtuallog node replace 2")
    operator.kill(2)
    file = operator.data(2) / "node.toml"
    kept = file.read_text()
    shutil.rmtree(operator.data(2))
    operator.run("virtuallog node replace 2 --no-wait")
    operator.data(2).mkdir()
    file.write_text(kept)
    operator.restart(2)
    operator.run("virtuallog node replace 2")
    assert running(operator, 2)


def lose_a_member(operator: Operator) -> None:
    """Nodes 2 and 4 are gone for good, two of three members: the register of node 1 goes on in another cluster, without them."""
    file, edited = operator.folder.parent / "register", operator.folder.parent / "edited"
    operator.run(f"virtuallog metastore export {file}.beforehand")
    for node in (1, 2, 4):
        operator.kill(node, signal.SIGTERM)
    assert operator.up is not None
    assert operator.up.wait(60) == 1
    operator.up = None
    operator.run(f"virtuallog metastore export {file} --data {operator.data(1)}")
    operator.run(f"virtuallog metastore edit {file} {edited} --close-at 1000000")
    for node in (1, 2):
        operator.run(f"virtuallog metastore import {edited} --data {operator.data(node)} --members 1,2 --force")
        operator.restart(node)
    operator.until(lambda: running(operator, 1) and running(operator, 2), "both take part")
    assert members(operator) == {1, 2}
