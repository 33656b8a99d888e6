"""Three of our nodes as processes, for clients that know only ZooKeeper: as kazoo's suite starts them."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import attrs
import trustme

from tests.free_ports import free_ports
from tests.source_tree import ROOT

NODE: Final = Path(__file__).with_name("node.py")
HOST: Final = "127.0.0.1"
PATIENCE_SECONDS: Final = 60.0
"""Timeout of steps that take a second or two: machines stall."""
SIZE: Final = 3
PORTS: Final = 4
"""Ports of each node: for nodes, clients, clients with TLS, admins."""


@attrs.define(eq=False)
class ParityCluster:
    """Nodes are numbered from 1. Each keeps its data while it is stopped."""

    folder: Path
    program: Path = NODE
    """Program of a node; takes the options of `node.py`."""
    _base: int = attrs.field(factory=lambda: free_ports(SIZE * PORTS), init=False)
    _processes: dict[int, subprocess.Popen[bytes]] = attrs.field(factory=dict, init=False)

    def port(self, node: int, kind: int) -> int:
        return self._base + kind * SIZE + node - 1

    def client_port(self, node: int) -> int:
        return self.port(node, 1)

    @property
    def hosts(self) -> str:
        return ",".join(f"{HOST}:{self.client_port(node)}" for node in range(1, SIZE + 1))

    @property
    def tls_hosts(self) -> str:
        return ",".join(f"{HOST}:{self.port(node, 2)}" for node in range(1, SIZE + 1))

    def certify(self) -> None:
        """Make certificates for the servers and one client, of one authority."""
        authority = trustme.CA()
        authority.cert_pem.write_to_path(self.folder / "ca.pem")
        owners = {"": authority.issue_cert("localhost"), "client-": authority.issue_cert("client", common_name="app")}
        for prefix, certificate in owners.items():
            certificate.private_key_pem.write_to_path(self.folder / f"{prefix}key.pem")
            certificate.cert_chain_pems[0].write_to_path(self.folder / f"{prefix}cert.pem")

    def start(self, *nodes: int) -> None:
        """Start nodes; return once they accept clients."""
        for node in nodes:
            self._processes[node] = self._launch(node)
        for node in nodes:
            self.wait_for(node, "rw")

    def stop(self, *nodes: int) -> None:
        """Kill nodes with `kill -9`."""
        for node in nodes:
            process = self._processes.pop(node)
            process.kill()
            process.wait()

    def word(self, node: int, letters: str) -> str:
        """A node's answer to a four-letter word. Empty if there is none."""
        try:
            with socket.create_connection((HOST, self.client_port(node)), timeout=PATIENCE_SECONDS) as stream:
                stream.sendall(letters.encode())
                return b"".join(iter(lambda: stream.recv(8192), b"")).decode()
        except OSError:
            return ""

    def wait_for(self, node: int, said: str) -> None:
        """Wait until the answer to `isro` is this one."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while self.word(node, "isro") != said:
            assert time.monotonic() < deadline, self.log(node)
            time.sleep(0.05)

    def log(self, node: int) -> str:
        return (self.folder / str(node) / "log").read_text()[-3000:]

    def pid(self, node: int) -> int:
        """Process id of a node. 0 if it has ended."""
        process = self._processes.get(node)
        return process.pid if process is not None and process.poll() is None else 0

    def close(self) -> None:
        self.stop(*list(self._processes))

    def _launch(self, node: int) -> subprocess.Popen[bytes]:
        folder = self.folder / str(node)
        folder.mkdir(exist_ok=True)
        peers = ",".join(f"{peer}@{HOST}:{self.port(peer, 0)}" for peer in range(1, SIZE + 1))
        options = {
            "id": node, "folder": folder, "peers": peers, "client": self.client_port(node), "secure": self.port(node, 2),
            "admin": self.port(node, 3), "pem": self.folder, "jaas": folder / "jaas",
        }  # fmt: skip
        arguments = [str(part) for name, value in options.items() for part in (f"--{name}", value)]
        with (folder / "log").open("ab") as output:
            command = [sys.executable, str(self.program), *arguments]
            path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
            environment = {**os.environ, "PYTHONPATH": path}  # programs that are modules of the tests
            return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=environment)


@contextmanager
def open_cluster(folder: Path) -> Iterator[ParityCluster]:
    """Run three nodes with clients' ports, for the length of the block. Their data, some hundred MiB, is deleted with them."""
    cluster = ParityCluster(folder)
    cluster.certify()
    try:
        cluster.start(*range(1, SIZE + 1))
        yield cluster
    finally:
        cluster.close()
        shutil.rmtree(folder)
