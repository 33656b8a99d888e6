"""Three processes that speak TLS among themselves and with clients: roles, rotation, failures, and who is kept out."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import attrs
import pytest
import trio

from tests.free_ports import free_ports
from virtuallog.admin.cluster_status import fetch_statuses
from virtuallog.client.cluster_file import ClusterFile
from virtuallog.connect import connect
from virtuallog.contract.caller_roles import Principal, Role
from virtuallog.contract.errors import ForbiddenError, UnavailableError, UntrustedError, VirtualLogError
from virtuallog.contract.types import LogPosition, NodeId
from virtuallog.node_services import open_services_to
from virtuallog.plugins import loglet_providers, metastore_provider
from virtuallog.rpc.security.credentials import Credentials
from virtuallog.rpc.security.tls_files import TlsFiles
from virtuallog_server.diagnosis.collector import gather, open_environment
from virtuallog_server.diagnosis.core.conclusions import conclude
from virtuallog_server.diagnosis.core.finding import Finding, all_well
from virtuallog_server.local_cluster.certificates import Authority, certify
from virtuallog_server.local_cluster.supervisor import LocalCluster, open_local_cluster

pytestmark = pytest.mark.processes

COMMAND = (sys.executable, "-P", "-m", "virtuallog_server")


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A place for write-ahead logs, which pytest would keep; the logs of the nodes are shown when a test fails."""
    yield tmp_path
    for log in sorted(tmp_path.rglob("node-*/log")):
        sys.stderr.write(f"--- {log.parent.name}\n{log.read_text()[-4000:]}")
    shutil.rmtree(tmp_path)


def as_client(cluster: LocalCluster) -> ClusterFile:
    """The cluster file of a client with its certificate."""
    tls = cluster.tls
    assert tls is not None
    folder = tls.authority.parent
    mine = attrs.evolve(tls, certificate=folder / "client-app.pem", key=folder / "client-app.key")
    return attrs.evolve(cluster.file, tls=mine)


async def explained(cluster: ClusterFile) -> list[Finding]:
    """Facts about the log that a client with this file can read."""
    providers, metastore, nodes = loglet_providers(), metastore_provider(), [NodeId(node.id) for node in cluster.nodes]
    async with open_environment(cluster, providers, metastore) as environment:
        found = await gather(nodes, providers, metastore, environment)
    assert not [part.problem for facts in found.segments for part in facts.evidence if part.problem]
    assert not found.silent_members
    return conclude(found)


async def test_roles_and_rotation(folder: Path) -> None:
    """A client appends and reads, an admin reconfigures; the nodes take up certificates of a new authority while both
    work, one file after the other, and strangers stay out before and after."""
    async with open_local_cluster(folder, base_port=0, tls=True) as cluster:
        await cluster.wait_ready()
        async with connect(as_client(cluster)) as client, connect(cluster.file) as admin:
            await client.append(b"one")
            await admin.reconfig_extend("native", {"sequencer": "2"})
            await client.append(b"two")
            for forbidden in (
                partial(client.reconfig_extend, "native"),
                client.seal,
                partial(client.prefix_trim, LogPosition(1)),
            ):
                with pytest.raises(ForbiddenError):
                    await forbidden()
            assert await client.find_trim_point() == 0
            assert await admin.prefix_trim(LogPosition(1)) == 1
            assert await client.find_trim_point() == 1
            assert all_well(await explained(as_client(cluster)))

            former = rotate(cluster, folder)
            for node in cluster.running:
                assert node.pid is not None
                os.kill(node.pid, signal.SIGHUP)  # not needed, and not deadly
            await client.append(b"three")
            with pytest.raises(UntrustedError):
                await open_with(attrs.evolve(cluster.file, tls=former))
        async with connect(as_client(cluster)) as client:
            await client.append(b"four")
            assert (await client.check_tail()).tail == 4
        with pytest.raises(UnavailableError, match="serves connections inside TLS only"):
            await open_with(attrs.evolve(cluster.file, tls=None))


async def open_with(cluster: ClusterFile) -> None:
    async with connect(cluster):
        raise AssertionError("it was let in")


def rotate(cluster: LocalCluster, folder: Path) -> TlsFiles:
    """New keys of a new authority in place of all; an admin's files of the former one."""
    assert cluster.tls is not None
    here, kept = cluster.tls.authority.parent, folder / "former"
    shutil.copytree(here, kept)
    owners = [Credentials.open(node.config.tls).owner for node in cluster.nodes.values() if node.config.tls]
    owners += [Principal(cluster="local", role=Role.ADMIN, name="local")]
    owners += [Principal(cluster="local", role=Role.CLIENT, name="app")]
    Authority.create(here, "local")
    certify(here, owners, renew=True)
    return TlsFiles(
        certificate=kept / "admin-local.pem", key=kept / "admin-local.key", authority=kept / "authority.pem"
    )


async def test_a_client_goes_on_when_the_sequencer_is_killed(folder: Path) -> None:
    """It may not change the chain itself: nodes do."""
    async with open_local_cluster(folder, base_port=0, tls=True) as cluster:
        await cluster.wait_ready()
        async with connect(as_client(cluster)) as client, connect(cluster.file) as admin:
            await admin.reconfig_extend("native", {"sequencer": "3"})
            await client.append(b"before")
            await cluster.kill(NodeId(3))
            with trio.fail_after(120):  # noqa: TID251 -- real processes
                assert await client.append(b"after") == 1


async def test_a_node_with_the_certificate_of_another_is_kept_out(folder: Path) -> None:
    """It does not start with it. A client whose address leads to another node gets that node's name in the error."""
    async with open_local_cluster(folder, base_port=0, tls=True) as cluster:
        await cluster.wait_ready()
        swapped = tuple(
            attrs.evolve(node, address=other.address)
            for node, other in zip(cluster.file.nodes, cluster.file.nodes[::-1], strict=True)
        )
        async with open_services_to(attrs.evolve(cluster.file, nodes=swapped)) as services:
            answers = await fetch_statuses(services, [NodeId(1), NodeId(2)])
        assert isinstance(answers[NodeId(1)], VirtualLogError)
        assert str(answers[NodeId(1)]) == (
            "wrong certificate: expected one of node 1, found one of virtuallog://local/node/3"
        )
        assert not isinstance(answers[NodeId(2)], VirtualLogError)
    config = folder / "node-1" / "node.toml"
    config.write_text(config.read_text().replace("node-1.pem", "node-2.pem").replace("node-1.key", "node-2.key"))
    refused = await trio.to_thread.run_sync(partial(command, "serve", "--config", str(config)))
    assert refused.returncode == 1
    assert b"node-2.pem: is of virtuallog://local/node/2, not of node 1" in refused.stderr


def command(*arguments: str, **environment: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [*COMMAND, *arguments], env={**os.environ, **environment}, capture_output=True, timeout=60, check=False
    )


def test_without_tls_only_loopback_is_served(folder: Path) -> None:
    """A node that would be open to the network does not start; one with certificates does not care."""
    port = free_ports(1)
    config = folder / "node.toml"
    config.write_text(f'id = 1\ndata = "data"\nlisten = "0.0.0.0:{port}"\n')
    refused = command("serve", "--config", str(config))
    assert refused.returncode == 1
    assert (
        refused.stderr
        == (
            f"virtuallog: listen 0.0.0.0:{port}: without TLS only loopback addresses are served: nothing would be encrypted, "
            "and any client could call\n"
        ).encode()
    )

    (tls,) = certify(folder / "certificates", [Principal(cluster="c", role=Role.NODE, name="1")])
    config.write_text(config.read_text() + tls.spell())
    node = subprocess.Popen([*COMMAND, "serve", "--config", str(config)], stderr=subprocess.PIPE)
    try:
        assert node.stderr is not None
        while b"listening" not in (line := node.stderr.readline()):
            assert line, "the node has ended"
    finally:
        node.send_signal(signal.SIGTERM)
        node.communicate()
    assert node.returncode == 0
    config.write_text(f'console = "0.0.0.0:{port}"\n{config.read_text()}')  # plain HTTP, also in a cluster with TLS
    assert b"only loopback" in command("serve", "--config", str(config)).stderr


def test_certificates_from_the_command_line(folder: Path) -> None:
    """Made once, kept, renewed on demand; a command takes its own from the environment, whole or not at all."""
    made = folder / "made"
    first = command("certificates", str(made), "--nodes", "2", "--clients", "app", "--admins", "alice")
    assert first.returncode == 0, first.stderr
    assert first.stdout.startswith(b"virtuallog://virtuallog/node/1: ")
    before = {path.name: path.read_bytes() for path in made.iterdir()}
    assert all(path.stat().st_mode & 0o077 == 0 for path in made.glob("*.key"))
    owner = Credentials.open(
        TlsFiles(certificate=made / "client-app.pem", key=made / "client-app.key", authority=made / "authority.pem")
    ).owner
    assert owner == Principal(cluster="virtuallog", role=Role.CLIENT, name="app")

    command("certificates", str(made), "--nodes", "2")
    assert before == {path.name: path.read_bytes() for path in made.iterdir()}
    command("certificates", str(made), "--node", "2", "--renew")
    changed = {name for name, content in before.items() if (made / name).read_bytes() != content}
    assert changed == {"node-2.pem", "node-2.key"}

    assert command("certificates", str(made)).returncode == 2
    assert command("certificates", str(made), "--clients", "a/b").returncode == 2
    cluster = folder / "cluster.toml"
    cluster.write_text('[[node]]\nid = 1\naddress = "127.0.0.1:1"\n')
    half = command("tail", VIRTUALLOG_CLUSTER=str(cluster), VIRTUALLOG_CERTIFICATE=str(made / "client-app.pem"))
    assert (half.returncode, b"go together" in half.stderr) == (2, True)
