"""docs/howto/operate.md, "Start", "Look", "A database on the log", "Upgrade": one cluster with a database, through all of it."""

from __future__ import annotations

import json
import re
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.manual.operator import Operator, operating
from virtuallog_server.storage import pid_file

pytestmark = [pytest.mark.processes, pytest.mark.slow]
SECTION = re.compile(r"\n\[zookeeper\]\nlisten = .*\n")


@pytest.fixture
def operator(tmp_path: Path) -> Iterator[Operator]:
    with operating(tmp_path) as made:
        yield made
    shutil.rmtree(tmp_path)


@pytest.mark.long
def test_servers_of_a_database_come_back_whole(operator: Operator) -> None:
    """Servers that are killed and restarted one by one, as the page says, come back whole."""
    data, base, zookeeper, http = operator.folder, operator.ports, operator.ports + 3, operator.ports + 6
    operator.start_up(
        f"virtuallog up --nodes 3 --data {data} --base-port {base} --zookeeper {zookeeper} --console-port {http}"
    )
    look(operator)
    use_the_database(operator)
    restart_each(operator, zookeeper)
    lose_the_section(operator, zookeeper)
    eject(operator)
    end(operator)


def look(operator: Operator) -> None:
    """All files are there, and every command of the table says that all is well."""
    for node in (1, 2, 3):
        for name in ("node.toml", "stores", "log", "pid"):
            assert (operator.data(node) / name).exists(), name
        assert f"pid {pid_file.read(operator.data(node))}," in operator.said()
    rows = operator.json("virtuallog status")["nodes"]
    assert [(row["state"], "database" in row["roles"]) for row in rows] == [("running", True)] * 3
    operator.run("virtuallog append hello")
    tail = operator.run("virtuallog tail").strip()
    assert int(tail) > 0
    assert "hello" in operator.run("virtuallog read")
    (segment,) = operator.json("virtuallog chain")["segments"]
    operator.wait_well()
    for subject in ("append", "tail", "seal", "trim", "chain", "database", segment["id"], "0"):
        assert operator.run(f"virtuallog explain {subject}")
    assert "well" in operator.run("virtuallog explain")


def use_the_database(operator: Operator) -> None:
    """The table of `database` commands, one after the other."""
    replicas = operator.json("virtuallog database status")["replicas"]
    assert [row["state"] for row in replicas] == ["serving"] * 3
    cursor = replicas[0]["cursor"]
    operator.run(f"virtuallog database hold backup {cursor} --seconds 600")
    assert f"hold backup keeps it from {cursor} on" in operator.run("virtuallog database status")
    operator.run("virtuallog database release backup")
    assert int(operator.run("virtuallog database checksum")) >= cursor
    assert "guarded since version 1 " in operator.run("virtuallog database guard")
    assert "guarded since version 1 " in operator.run("virtuallog database guard --despite-entries")
    operator.run("virtuallog database enable lease")
    operator.run("virtuallog database disable lease")
    operator.run("virtuallog database disable log_backup")
    operator.run("virtuallog database brain-doctor --put 7a7a=01 --yes")
    operator.run("virtuallog database brain-doctor --delete 7a7a --yes")
    assert "the database needs the log" in operator.run(f"virtuallog trim {cursor}", 1)
    operator.run("virtuallog database release compaction")


def restart_each(operator: Operator, zookeeper: int) -> None:
    """After kill -9 and `serve --config` alone a node has its database again; in between its absence is reported."""
    for node in (1, 2, 3):
        port = zookeeper + node - 1
        operator.kill(node)
        told = operator.wait_code("virtuallog status", 1)
        assert re.search(rf"replica {node}-\w+ is in the view of the database, and no node serves it", told)
        assert f"start node {node}" in operator.wait_code("virtuallog database status", 1)
        operator.wait_code("virtuallog explain database", 1)
        assert not operator.ask(port, "ruok")
        operator.restart(node)
        operator.wait_well()
        assert operator.ask(port, "ruok") == "imok"
        assert pid_file.read(operator.data(node)) == operator.by_hand[node].pid
    assert "node-1 (pid" in operator.said()  # no child runs any more, and `up` does
    assert operator.up is not None and operator.up.poll() is None


def lose_the_section(operator: Operator, zookeeper: int) -> None:
    """Take the section out, as in a directory of the former version."""
    file = operator.data(2) / "node.toml"
    operator.kill(2, signal.SIGTERM)
    assert pid_file.read(operator.data(2)) is None
    whole = file.read_text()
    file.write_text(SECTION.sub("", whole))
    assert file.read_text() != whole
    operator.restart(2)
    operator.until(lambda: "role refused" in operator.said("serve-2"), "node 2 says that a role is refused")
    for command in ("virtuallog status", "virtuallog explain", "virtuallog database status"):
        assert "has no [zookeeper] any more" in " ".join(json.dumps(operator.json(command, 1)).split())
    operator.kill(2, signal.SIGTERM)
    operator.serve(2, f"virtuallog serve --config {file} --zookeeper 127.0.0.1:{zookeeper + 1}")
    operator.wait_well()
    assert file.read_text() == whole
    operator.kill(2, signal.SIGTERM)
    operator.serve(2, f"virtuallog serve --config {file} --zookeeper 127.0.0.1:9")
    refused = operator.by_hand.pop(2)
    assert refused.wait(60) == 1
    assert "zookeeper.listen: is 127.0.0.1:" in operator.said("serve-2")
    operator.restart(2)
    operator.wait_well()


def eject(operator: Operator) -> None:
    """A server that does not come back is waited for no longer; when it does come back, it is in the view again."""
    operator.kill(3)
    (told,) = operator.json("virtuallog database status", 1)["problems"]
    (name,) = re.findall(r"`virtuallog database eject (3-\w+)`", told)
    operator.run(f"virtuallog database eject {name}")
    assert operator.json("virtuallog database status")["problems"] == []
    operator.restart(3)
    operator.wait_well()
    operator.until(lambda: name in operator.run("virtuallog database status"), "the replica has announced itself again")


def end(operator: Operator) -> None:
    """SIGTERM to each: an orderly end, no pid file, and `up` ends with the last one."""
    for node in (1, 2, 3):
        operator.kill(node, signal.SIGTERM)
        assert pid_file.read(operator.data(node)) is None
    assert operator.up is not None
    assert operator.up.wait(60) == 1
    assert "all nodes have ended" in operator.said()
