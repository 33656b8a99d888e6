"""Clients that know only ZooKeeper, against three nodes as processes: ZooKeeper's own command line, kazoo, a browser."""

from __future__ import annotations

import json
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError, NotReadOnlyCallError
from kazoo.protocol.states import KeeperState
from kazoo.security import make_acl

from tests.interop import command_line
from tests.interop.cluster import HOST, PATIENCE_SECONDS, ParityCluster, open_cluster
from tests.zookeeper_server import require_zookeeper

pytestmark = [pytest.mark.processes, pytest.mark.slow]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ParityCluster]:
    with open_cluster(tmp_path_factory.mktemp("parity")) as opened:
        yield opened


@contextmanager
def client(hosts: str, **options: Any) -> Iterator[KazooClient]:
    connected = KazooClient(hosts, timeout=10, **options)
    connected.start(PATIENCE_SECONDS)
    try:
        yield connected
    finally:
        connected.stop()
        connected.close()


def test_zookeepers_own_command_line_says_what_it_says_to_zookeeper(cluster: ParityCluster) -> None:
    """Some sixty commands on stdin; recorded with ZooKeeper 3.8.0. Answers, refusals and events come in three orders of their own."""
    require_zookeeper()
    said = command_line.talk(f"{HOST}:{cluster.client_port(1)}")

    assert said.answers == (command_line.FOLDER / "said.txt").read_text()
    assert said.refusals == (command_line.FOLDER / "refused.txt").read_text()
    assert said.events == (command_line.FOLDER / "events.txt").read_text().splitlines()


def test_a_client_with_tls_is_who_its_certificate_says(cluster: ParityCluster) -> None:
    """kazoo, with a certificate; no other client may read the znodes that it creates for itself."""
    files = {"certfile": "client-cert.pem", "keyfile": "client-key.pem", "ca": "ca.pem"}
    options = {option: str(cluster.folder / name) for option, name in files.items()}
    with client(cluster.tls_hosts, use_ssl=True, **options) as secure, client(cluster.hosts) as other:
        secure.create("/mine", b"1", acl=[make_acl("auth", credential="", all=True)])
        assert secure.get("/mine")[0] == b"1"
        assert secure.get_acls("/mine")[0][0].id.id.startswith("CN=app,")
        other.sync("/mine")
        with pytest.raises(NoAuthError):
            other.get("/mine")
        secure.delete("/mine")


def page(cluster: ParityCluster, node: int, name: str) -> str:
    """An admin page."""
    address = f"http://{HOST}:{cluster.port(node, 3)}/commands/{name}"
    with urllib.request.urlopen(address, timeout=PATIENCE_SECONDS) as answer:
        return str(answer.read().decode())


def test_every_server_is_on_the_list_and_one_is_called_leader(cluster: ParityCluster) -> None:
    """Programs that watch an ensemble read /zookeeper/config, `mntr`, admin pages. A server puts itself on the list once it
    serves; two that do so at a time see each other, and one of them tries again.
    """
    with client(cluster.hosts) as any_server:
        complete = threading.Event()

        def look(data: bytes, _stat: object) -> None:
            if all(f";{HOST}:{cluster.port(node, 2)}" in data.decode() for node in (1, 2, 3)):
                complete.set()

        any_server.DataWatch("/zookeeper/config", look)
        assert complete.wait(PATIENCE_SECONDS)
        modes = sorted(cluster.word(node, "srvr").partition("Mode: ")[2].partition("\n")[0] for node in (1, 2, 3))
        monitored = dict(line.split("\t") for line in cluster.word(2, "mntr").splitlines())

    assert modes == ["follower", "follower", "leader"]
    assert int(monitored["zk_znode_count"]) >= 4
    assert json.loads(page(cluster, 3, "stats"))["server_stats"]["server_state"] in modes


def test_a_client_without_tls_is_not_shown_as_secure(cluster: ParityCluster) -> None:
    """An operator finds clients without TLS on the admin page, through the ports of a real node."""
    with client(f"{HOST}:{cluster.client_port(1)}"):
        shown = json.loads(page(cluster, 1, "connections"))

    assert [each["secure"] for each in shown["connections"]] == [False]


def test_one_server_that_is_left_can_be_read(cluster: ParityCluster) -> None:
    """Two of three are killed: the last one accepts clients that only read. When they are back, clients are sent to look for a full server."""
    with client(cluster.hosts) as writer:
        writer.create("/kept", b"1")
    with client(f"{HOST}:{cluster.client_port(1)}") as near:
        near.sync("/kept")
    cluster.stop(2, 3)
    try:
        cluster.wait_for(1, "ro")
        with client(f"{HOST}:{cluster.client_port(1)}", read_only=True) as reader:
            assert reader.client_state == KeeperState.CONNECTED_RO
            assert reader.get("/kept")[0] == b"1"
            with pytest.raises(NotReadOnlyCallError):
                reader.set("/kept", b"2")
    finally:
        cluster.start(2, 3)
    cluster.wait_for(1, "rw")
    with client(f"{HOST}:{cluster.client_port(1)}") as again:
        again.set("/kept", b"2")


def test_recorded_transcripts_are_whole() -> None:
    """Each command of the supported ones is in the recorded session."""
    commands = {line.split()[0] for line in Path(command_line.FOLDER / "commands.txt").read_text().splitlines()}
    promised = {
        "ls", "get", "set", "create", "delete", "deleteall", "stat", "getAcl", "setAcl", "addauth", "setquota", "listquota",
        "delquota", "addWatch", "removewatches", "history", "redo", "config", "reconfig", "sync", "close", "connect", "whoami",
        "getEphemerals", "getAllChildrenNumber", "quit",
    }  # fmt: skip
    assert commands == promised
