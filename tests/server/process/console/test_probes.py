"""The port for kubelets and Prometheus: three pages, plain HTTP, for other machines too, also of a node that speaks TLS."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio
from cryptography.x509 import load_pem_x509_certificate

from tests.free_ports import free_ports
from tests.server.process.console.http_client import get
from tests.server.process.console.test_cluster_metrics import scrape
from tests.server.process.console.test_console import Subject, first_bytes
from virtuallog.contract.address import split_address
from virtuallog.contract.types import NodeId
from virtuallog.rpc.transport import bound_address, tcp_listen
from virtuallog_server.local_cluster.supervisor import open_local_cluster
from virtuallog_server.process.console.application import Console, Probes
from virtuallog_server.process.console.http_server import CONNECTIONS_MAX, HttpServer


@asynccontextmanager
async def probes(subject: Subject) -> AsyncIterator[int]:
    """Serves the probes of the subject; gives the port."""
    listeners = await tcp_listen("127.0.0.1:0")
    async with trio.open_nursery() as nursery:
        server = HttpServer(Probes(Console(subject, [subject])), any_host=True)
        nursery.start_soon(server.run, listeners)
        yield split_address(bound_address(listeners[0]))[1]
        nursery.cancel_scope.cancel()


async def test_a_kubelet_and_prometheus_get_their_pages_by_any_name() -> None:
    """A kubelet names the address of the pod, Prometheus a name of DNS."""
    async with probes(Subject(missing=["native is not open"])) as port:
        assert (await get(port, "/healthz", host="10.0.0.7:9001")).status == 200
        assert (await get(port, "/readyz", host="10.0.0.7:9001")).status == 503
        scraped = await get(port, "/metrics", host="virtuallog-1.virtuallog.default.svc:9001")

    assert "virtuallog_node_problems 1.0\n" in scraped.text


@pytest.mark.parametrize("path", ["/", "/status", "/docs", "/healthz/x"])
async def test_probes_answer_nothing_else(path: str) -> None:
    """The status of the node stays on loopback, at its console."""
    async with probes(Subject()) as port:
        assert (await get(port, path)).status == 404


async def test_one_machine_cannot_take_all_connections() -> None:
    """Its oldest connection makes way for its newest, though there is room for other machines; pages are served meanwhile."""
    async with probes(Subject()) as port:
        silent = [await trio.open_tcp_stream("127.0.0.1", port) for _ in range(2 * CONNECTIONS_MAX)]
        for stream in silent[:CONNECTIONS_MAX]:
            assert await first_bytes(stream) == b""
        assert (await get(port, "/healthz")).status == 200
        for stream in silent:
            await stream.aclose()


@pytest.mark.processes
@pytest.mark.parametrize(
    ("option", "reason"),
    [("--probes", "listen 192.0.2.1:9001: Cannot assign requested address"), ("--console", "only loopback addresses")],
)
def test_probes_may_be_at_an_address_of_the_network(tmp_path: Path, option: str, reason: str) -> None:
    """A node tries to listen there, and only its absence from this machine (RFC 5737) is an error. A console there is refused."""
    place = ("--id", "1", "--data", str(tmp_path), "--peers", f"1@127.0.0.1:{free_ports(1)}")
    command = [sys.executable, "-m", "virtuallog_server", "serve", *place, option, "192.0.2.1:9001"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)

    assert ended.returncode == 1
    assert reason in ended.stderr


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Write-ahead logs, which pytest would keep."""
    yield tmp_path
    shutil.rmtree(tmp_path)


@pytest.mark.processes
async def test_a_node_with_tls_answers_probes_without(folder: Path) -> None:
    """Its other port wants a certificate, which no kubelet has."""
    async with open_local_cluster(folder, 1, base_port=0, tls=True) as cluster:
        await cluster.wait_ready()
        await cluster.stop()
        port = free_ports(1)
        file = folder / "node-1" / "node.toml"
        file.write_text(f'probes = "127.0.0.1:{port}"\n{file.read_text()}')
        await cluster.start(NodeId(1))
        await cluster.wait_ready()

        assert (await get(port, "/healthz")).status == 200
        told = {sample.name: sample.value for sample in (await scrape(port)).samples}
        tls = cluster.tls
        assert tls is not None
        certificate = load_pem_x509_certificate((tls.certificate.parent / "node-1.pem").read_bytes())

    assert told["virtuallog_certificate_expires_seconds"] == certificate.not_valid_after_utc.timestamp()
    assert told["virtuallog_clock_seconds"] > certificate.not_valid_before_utc.timestamp()
