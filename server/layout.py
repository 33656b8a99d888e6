"""The files of a cluster of local processes, and the configs in them.

DIR/cluster.toml        where clients start; written once the cluster answers
DIR/certificates/       with TLS: of the nodes, of an admin (in cluster.toml) and of a client
DIR/node-N/             data directory of node N
DIR/node-N/node.toml    its config, written once, when the cluster is new
DIR/node-N/log          its stderr
DIR/node-N/pid          while it runs
"""

from __future__ import annotations

import fcntl
import json
import random
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import attrs

from server.config import ROLES, NodeConfig, read_node_config
from server.file_errors import file_errors
from virtuallog.address import split_address
from virtuallog.cluster_file import NodeAddress, TlsFiles
from virtuallog.errors import InvalidSettingError
from virtuallog.rpc.roles import Principal, Role

BASE_PORT: Final = 7001
HOST: Final = "127.0.0.1"
FREE_PORTS: Final = range(10_000, 32_000)
"""Below those that systems give to outgoing connections: a node that was killed needs its port again, and while it is
down every connection anybody opens could take it."""


@contextmanager
def hold(path: Path) -> Iterator[None]:
    """Make sure that DIR exists, and that no other supervisor uses it, for the length of the block.

    Raises:
        InvalidSettingError: another one does.
        StorageError: DIR cannot be written.
    """
    with file_errors(path):
        path.mkdir(parents=True, exist_ok=True)
        lock = (path / "LOCK").open("ab")
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise InvalidSettingError(str(path), "another cluster runs here") from error
        yield


def prepare(
    path: Path,
    nodes: int,
    log_nodes: int,
    base_port: int | None,
    loglet: str,
    *,
    tls: bool = False,
    origin: str = "",
) -> list[NodeConfig]:
    """The configs of a cluster in `path`, which is held: as they were left there, or new ones, written.

    Args:
        path: DIR above.
        nodes: how many that do everything.
        log_nodes: how many more that only store entries.
        base_port: node N listens on base_port + N - 1. 0: on free ports; None: whatever it was, `BASE_PORT` if new.
        loglet: kind of the first loglet of a new cluster.
        tls: whether a new cluster gets certificates, to speak TLS.
        origin: URL of what a new cluster goes on from, if it is restored.

    Raises:
        InvalidSettingError: `path` holds a cluster of another shape, or a port is in use.
        StorageError: `path` cannot be read or written.
    """
    with file_errors(path):
        path = path.resolve()
        (path / "cluster.toml").unlink(missing_ok=True)  # of an earlier run: it would say that the cluster answers
        if (path / "node-1" / "node.toml").exists():
            return _check_ports_free(_read(path, nodes, nodes + log_nodes, base_port, tls, origin))
        planned = _plan(path, nodes, nodes + log_nodes, base_port, loglet)
        configs = _check_ports_free([attrs.evolve(config, origin=origin) for config in planned])
        if tls:
            configs = _certify(path, configs)
        for config in reversed(configs):  # node 1 last: without it, the directory counts as new
            config.data.mkdir(exist_ok=True)
            config_file(config).write_text(spell(config))
        return configs


def client_tls(configs: Sequence[NodeConfig]) -> TlsFiles | None:
    """For `cluster.toml`: an admin's certificate, as whoever runs the cluster may do all with it."""
    tls = configs[0].tls
    if tls is None:
        return None
    return attrs.evolve(
        tls, certificate=tls.certificate.with_name("admin-local.pem"), key=tls.key.with_name("admin-local.key")
    )


def config_file(config: NodeConfig) -> Path:
    """Where a node of such a cluster has its config."""
    return config.data / "node.toml"


def _read(path: Path, nodes: int, total: int, base_port: int | None, tls: bool, origin: str) -> list[NodeConfig]:
    first = read_node_config(path / "node-1" / "node.toml")
    if (len(first.members), len(first.peers)) != (nodes, total):
        held = f"{len(first.members)} nodes and {len(first.peers) - len(first.members)} log nodes"
        raise InvalidSettingError(str(path), f"holds a cluster of {held}, not {nodes} and {total - nodes}")
    if base_port and not first.listen.endswith(f":{base_port}"):
        raise InvalidSettingError(str(path), f"holds a cluster whose first node listens on {first.listen}")
    if tls and first.tls is None:
        raise InvalidSettingError(str(path), "holds a cluster without TLS")
    if origin and first.origin != origin:
        raise InvalidSettingError(str(path), f"holds a cluster that was not restored from {origin}")
    return [read_node_config(path / f"node-{peer.id}" / "node.toml") for peer in first.peers]


def _certify(path: Path, configs: list[NodeConfig]) -> list[NodeConfig]:
    from server.certificates import certify  # its library is large, and few clusters need it

    def owner(role: Role, name: str) -> Principal:
        return Principal(cluster="local", role=role, name=name)

    nodes = [owner(Role.NODE, str(config.id)) for config in configs]
    files = certify(path / "certificates", [*nodes, owner(Role.ADMIN, "local"), owner(Role.CLIENT, "app")])
    return [attrs.evolve(config, tls=own) for config, own in zip(configs, files, strict=False)]


def _plan(path: Path, nodes: int, total: int, base_port: int | None, loglet: str) -> list[NodeConfig]:
    ports = free_ports(total) if base_port == 0 else range(base_port or BASE_PORT, (base_port or BASE_PORT) + total)
    peers = tuple(NodeAddress(id=node, address=f"{HOST}:{port}") for node, port in enumerate(ports, start=1))
    return [
        NodeConfig(
            id=peer.id,
            data=path / f"node-{peer.id}",
            listen=peer.address,
            peers=peers,
            metastore=tuple(range(1, nodes + 1)),
            roles=ROLES if peer.id <= nodes else ("log-server",),
            loglet=loglet,
        )
        for peer in peers
    ]


def _check_ports_free(configs: list[NodeConfig]) -> list[NodeConfig]:
    """Before anything is written or started: whoever has the ports might be another cluster, which would answer."""
    for config in configs:
        host, port = split_address(config.listen)
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as the node does: a port just left is free
            try:
                probe.bind((host, port))
            except OSError as error:
                raise InvalidSettingError(f"listen {config.listen}", f"{error.strerror}") from error
    return configs


def free_ports(count: int) -> list[int]:
    """Ports that nobody uses just now. Somebody may take one before we do; then the node says so and ends."""
    free: list[int] = []
    for port in random.Random().sample(FREE_PORTS, len(FREE_PORTS)):
        with socket.socket() as probe, suppress(OSError):
            probe.bind((HOST, port))
            free.append(port)
        if len(free) == count:
            return free
    raise InvalidSettingError("base port", f"no {count} ports between {FREE_PORTS[0]} and {FREE_PORTS[-1]} are free")


def spell(config: NodeConfig) -> str:
    """A config file in the data directory that reads back as this."""
    peers = "".join(f'\n[[peer]]\nid = {peer.id}\naddress = "{peer.address}"\n' for peer in config.peers)
    roles = ", ".join(f'"{role}"' for role in config.roles)
    origin = f"origin = {json.dumps(config.origin)}\n" if config.origin else ""  # a JSON string is one of TOML
    return (
        f'id = {config.id}\ndata = "."\nlisten = "{config.listen}"\nmetastore = {list(config.metastore)}\n'
        f'roles = [{roles}]\nloglet = "{config.loglet}"\n{origin}{peers}{config.tls.spell() if config.tls else ""}'
    )
