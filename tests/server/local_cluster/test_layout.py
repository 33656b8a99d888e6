"""The files of a local cluster."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from virtuallog.contract.errors import InvalidSettingError, StorageError
from virtuallog_server.config.node_config import read_node_config
from virtuallog_server.local_cluster import layout


def test_a_new_cluster_is_written_down_and_found_again(tmp_path: Path) -> None:
    """Nodes with all roles, log nodes with one; the ports stay when it is started again without naming them."""
    new = layout.prepare(tmp_path, nodes=3, log_nodes=1, base_port=7801, loglet="native")

    assert [config.listen for config in new] == [f"127.0.0.1:{port}" for port in range(7801, 7805)]
    assert [config.roles for config in new] == [("sequencer", "log-server", "replica")] * 3 + [("log-server",)]
    assert {config.members for config in new} == {(1, 2, 3)}
    assert new[3].all_roles == ("log-server",)
    assert read_node_config(tmp_path / "node-4" / "node.toml") == new[3]
    assert layout.prepare(tmp_path, nodes=3, log_nodes=1, base_port=None, loglet="native") == new


def test_ports_are_found_when_none_is_named(tmp_path: Path) -> None:
    """0 stands for any free ones, 7001 and on is the default."""
    (tmp_path / "a").mkdir()
    free = layout.prepare(tmp_path / "a", nodes=2, log_nodes=0, base_port=0, loglet="native")
    usual = layout._plan(tmp_path / "b", nodes=2, total=2, base_port=None, loglet="native")  # they may be in use

    assert len({config.listen for config in free}) == 2
    assert [config.listen for config in usual] == ["127.0.0.1:7001", "127.0.0.1:7002"]


def test_found_ports_are_not_those_of_outgoing_connections(tmp_path: Path) -> None:
    """A killed node finds its port free when it starts again, in spite of others' connections meanwhile."""
    nodes = layout.prepare(tmp_path, nodes=9, log_nodes=0, base_port=0, loglet="native")

    ports = {int(node.listen.rpartition(":")[2]) for node in nodes}
    assert len(ports) == 9
    assert max(ports) < 32768


def test_a_row_of_ports_has_none_that_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """A port may be taken before its owner listens: another test has started its node, and that reads its log first."""
    first = layout.free_row(5)
    monkeypatch.setattr(layout, "FREE_PORTS", range(first, first + 5))
    with socket.socket() as taken:
        taken.bind((layout.HOST, first + 1))

        assert layout.free_row(3) == first + 2
        assert sorted(layout.free_ports(4)) == [first, first + 2, first + 3, first + 4]
        with pytest.raises(InvalidSettingError, match="no 4 ports between"):
            layout.free_row(4)


@pytest.mark.parametrize(
    ("nodes", "log_nodes", "base_port", "reason"),
    [
        (5, 0, None, "holds a cluster of 3 nodes and 0 log nodes, not 5 and 0"),
        (3, 1, None, "holds a cluster of 3 nodes and 0 log nodes, not 3 and 1"),
        (3, 0, 7901, "first node listens on 127.0.0.1:7801"),
    ],
)
def test_a_cluster_of_another_shape_is_refused(
    tmp_path: Path, nodes: int, log_nodes: int, base_port: int | None, reason: str
) -> None:
    """The register's data about a cluster do not change because `up` was called with other numbers."""
    layout.prepare(tmp_path, nodes=3, log_nodes=0, base_port=7801, loglet="native")

    with pytest.raises(InvalidSettingError, match=reason):
        layout.prepare(tmp_path, nodes, log_nodes, base_port, "native")


def test_only_one_supervisor_at_a_time(tmp_path: Path) -> None:
    """A second one would take away the first one's cluster.toml before it fails."""
    again = layout.hold(tmp_path)
    with layout.hold(tmp_path), pytest.raises(InvalidSettingError, match="another cluster runs here"):
        again.__enter__()
    with layout.hold(tmp_path):
        layout.prepare(tmp_path, 1, 0, 0, "native")


def test_an_old_cluster_file_goes_first(tmp_path: Path) -> None:
    """It would tell scripts that the cluster answers."""
    (tmp_path / "cluster.toml").write_text("old")
    layout.prepare(tmp_path, 1, 0, 0, "native")

    assert not (tmp_path / "cluster.toml").exists()


def test_a_folder_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    """An error of the file system is one of ours, with the path."""
    (tmp_path / "file").touch()

    with pytest.raises(StorageError, match="file"), layout.hold(tmp_path / "file" / "below"):
        pass


def test_a_port_in_use_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    """The process on that port might be another cluster, and answer in place of ours."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(InvalidSettingError, match=f"listen 127.0.0.1:{port}: Address already in use"):
            layout.prepare(tmp_path, nodes=1, log_nodes=0, base_port=port, loglet="native")

    assert not list(tmp_path.iterdir())
    assert layout.prepare(tmp_path, nodes=1, log_nodes=0, base_port=port, loglet="native")


def test_a_restored_cluster_is_written_down_with_its_origin(tmp_path: Path) -> None:
    """Its nodes find the origin at each start, without the option; a cluster that began otherwise is not taken for it."""
    origin = "file:///restored/here"
    (tmp_path / "a").mkdir()
    new = layout.prepare(tmp_path / "a", nodes=1, log_nodes=0, base_port=0, loglet="native", origin=origin)
    assert [config.origin for config in new] == [origin]
    assert layout.prepare(tmp_path / "a", nodes=1, log_nodes=0, base_port=None, loglet="native") == new
    (tmp_path / "b").mkdir()
    layout.prepare(tmp_path / "b", nodes=1, log_nodes=0, base_port=0, loglet="native")
    with pytest.raises(InvalidSettingError, match="was not restored from file:///restored/here"):
        layout.prepare(tmp_path / "b", nodes=1, log_nodes=0, base_port=None, loglet="native", origin=origin)


def test_what_a_cluster_is_started_with_is_in_its_files(tmp_path: Path) -> None:
    """So that `virtuallog serve --config` brings back a whole node; log nodes have no database."""
    new = layout.prepare(tmp_path, 2, 1, 0, "native", console_port=15801, zookeeper_port=15811)

    read = [read_node_config(tmp_path / f"node-{node}" / "node.toml") for node in (1, 2, 3)]
    assert read == new
    assert [config.zookeeper and config.zookeeper.listen for config in read] == [
        "127.0.0.1:15811",
        "127.0.0.1:15812",
        None,
    ]
    assert [config.console for config in read] == [f"127.0.0.1:{port}" for port in (15801, 15802, 15803)]


def test_an_option_of_a_later_start_is_written_and_said(tmp_path: Path) -> None:
    """Once: from then on it is there without being named, and another port is refused with nothing changed."""
    layout.prepare(tmp_path, 2, 0, 0, "native")
    told: list[str] = []

    with_database = layout.prepare(tmp_path, 2, 0, None, "native", zookeeper_port=15811, told=told.append)

    assert told == [f"{tmp_path}/node-{node}/node.toml has [zookeeper] now" for node in (1, 2)]
    assert layout.prepare(tmp_path, 2, 0, None, "native", zookeeper_port=15811, told=told.append) == with_database
    assert layout.prepare(tmp_path, 2, 0, None, "native") == with_database
    assert len(told) == 2
    with pytest.raises(InvalidSettingError, match=r"zookeeper.listen: is 127.0.0.1:15811 there, not 127.0.0.1:15821"):
        layout.prepare(tmp_path, 2, 0, None, "native", console_port=15801, zookeeper_port=15821)
    assert layout.prepare(tmp_path, 2, 0, None, "native") == with_database


def test_files_of_a_cluster_are_not_written_anew_when_the_first_is_lost(tmp_path: Path) -> None:
    """The others may have been edited by hand, and their nodes have data."""
    layout.prepare(tmp_path, 2, 0, 0, "native")
    (tmp_path / "node-2" / "identity").touch()
    (tmp_path / "node-1" / "node.toml").unlink()
    second = (tmp_path / "node-2" / "node.toml").read_text()

    with pytest.raises(InvalidSettingError, match=r"node-1/node.toml: is missing, though .*/node-2 is that of a node"):
        layout.prepare(tmp_path, 2, 0, 0, "native")
    assert (tmp_path / "node-2" / "node.toml").read_text() == second


@pytest.mark.parametrize("option", ["console_port", "zookeeper_port"])
def test_every_port_is_tried_before_anything_is_written(tmp_path: Path, option: str) -> None:
    """Else the file would hold a port that no node can have."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(InvalidSettingError, match=f"127.0.0.1:{port}: Address already in use"):
            layout.prepare(tmp_path, 1, 0, 0, "native", **{option: port})

    assert not list(tmp_path.iterdir())
