"""The files of a cluster of local processes, and the configs in them.

DIR/cluster.toml        for clients; written once the cluster answers
DIR/certificates/       with TLS: of the nodes, of an admin (in cluster.toml) and of a client
DIR/node-N/             data directory of node N
DIR/node-N/node.toml    its config: written when the cluster is new; options of later starts are inserted (`virtuallog_server.config.config_file`)
DIR/node-N/log          its stderr
DIR/node-N/pid          while it runs (`virtuallog_server.storage.pid_file`)
"""

from __future__ import annotations

import fcntl
import random
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import attrs

from virtuallog.client.cluster_file import NodeAddress
from virtuallog.contract.address import split_address
from virtuallog.contract.caller_roles import Principal, Role
from virtuallog.contract.errors import InvalidSettingError
from virtuallog.rpc.security.tls_files import TlsFiles
from virtuallog.runtime.file_errors import file_errors
from virtuallog_server.config.config_file import Amended, StartOptions, amend, spell_config
from virtuallog_server.config.node_config import ROLES, NodeConfig, read_node_config
from virtuallog_server.storage.identity import FILE_NAME as IDENTITY

BASE_PORT: Final = 7001
HOST: Final = "127.0.0.1"
FREE_PORTS: Final = range(10_000, 32_000)
"""Ports below those that systems give to outgoing connections. A killed node needs its port again, and while it is down any
outgoing connection could take it.
"""


@contextmanager
def hold(path: Path) -> Iterator[None]:
    """Create DIR if it is missing, and lock it against other supervisors, for the length of the block.

    Raises:
        InvalidSettingError: another supervisor uses it.
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
    console_port: int | None = None,
    zookeeper_port: int | None = None,
    told: Callable[[str], None] = lambda line: None,
) -> list[NodeConfig]:
    """Read the configs of the cluster in `path`, or write those of a new one. On return each node's file has all its options.

    Args:
        path: DIR above, locked by `hold`.
        nodes: number of nodes with all roles.
        log_nodes: number of additional nodes that only store entries.
        base_port: node N listens on base_port + N - 1. 0 for free ports. None for the former ports, or `BASE_PORT` if new.
        loglet: kind of the first loglet of a new cluster.
        tls: True to make certificates for a new cluster, and use TLS.
        origin: URL of the state that a new cluster continues from, if it is restored.
        console_port: node N has a console at console_port + N - 1. None to keep what its file says.
        zookeeper_port: likewise for ZooKeeper's clients, at nodes that are no log nodes.
        told: called with one line for each existing file that an option was inserted into.

    Raises:
        InvalidSettingError: `path` holds a cluster of another shape, a file contradicts an option, a port is in use, or
            the config of node 1 is missing in a cluster that is not new. Nothing was written.
        StorageError: `path` cannot be read or written.
    """

    def options(node: int) -> StartOptions:
        return StartOptions(
            console=_place(node, console_port), zookeeper=_place(node, zookeeper_port) if node <= nodes else ""
        )

    with file_errors(path):
        path = path.resolve()
        (path / "cluster.toml").unlink(missing_ok=True)  # of an earlier run: it would say that the cluster answers
        if (path / "node-1" / "node.toml").exists():
            held = _read(path, nodes, nodes + log_nodes, base_port, tls, origin)
            found = [amend(config_file(config), options(config.id)) for config in held]
            _check_ports_free([each.config for each in found])
            for each in found:
                _write(each, told)
            return [each.config for each in found]
        _check_new(path)
        planned = _plan(path, nodes, nodes + log_nodes, base_port, loglet)
        configs = [attrs.evolve(options(config.id).over(config), origin=origin) for config in planned]
        _check_ports_free(configs)
        if tls:
            configs = _certify(path, configs)
        for config in reversed(configs):  # node 1 last: without it, the directory counts as new
            config.data.mkdir(exist_ok=True)
            config_file(config).write_text(spell_config(config))
        return configs


def _place(node: int, first_port: int | None) -> str:
    return "" if first_port is None else f"{HOST}:{first_port + node - 1}"


def _write(amended: Amended, told: Callable[[str], None]) -> None:
    amended.write()
    config = amended.config
    if amended.added:
        told(str(amended))
    if config.zookeeper is None and (config.data / "stores" / "database").exists():
        told(
            f"node {config.id} was a server of the database, and {amended.path} has no [zookeeper]: give --zookeeper PORT"
        )


def _check_new(path: Path) -> None:
    """Refuse to write configs anew in a directory with nodes: one of them is missing, and operators may have edited the others."""
    for folder in node_folders(path):
        if (folder / IDENTITY).exists():
            lost = path / "node-1" / "node.toml"
            reason = f"is missing, though {folder} is that of a node of a cluster. Write it again, like those of the other nodes"
            raise InvalidSettingError(str(lost), reason)


def client_tls(configs: Sequence[NodeConfig]) -> TlsFiles | None:
    """The certificate for `cluster.toml`: that of an admin, as the user who runs the cluster may do everything with it."""
    tls = configs[0].tls
    if tls is None:
        return None
    return attrs.evolve(
        tls, certificate=tls.certificate.with_name("admin-local.pem"), key=tls.key.with_name("admin-local.key")
    )


def config_file(config: NodeConfig) -> Path:
    """The config file of a node in such a cluster."""
    return config.data / "node.toml"


def node_folders(path: Path) -> Iterator[Path]:
    """The existing folders DIR/node-N, of nodes of a cluster in the directory `path`."""
    yield from sorted(folder for folder in path.glob("node-*") if folder.name.removeprefix("node-").isdecimal())


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
    from virtuallog_server.local_cluster.certificates import (
        certify,
    )  # late: its library is large, and few clusters need it

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


def _check_ports_free(configs: Sequence[NodeConfig]) -> None:
    """Check that the ports are free, before anything is written or started: another cluster on them would answer."""
    for config in configs:
        _check_port_free("listen", config.listen)
        _check_port_free("console", config.console)
        _check_port_free("probes", config.probes)
        if config.zookeeper is not None:
            for name in ("listen", "tls_listen", "admin_listen"):
                _check_port_free(f"zookeeper.{name}", getattr(config.zookeeper, name))


def _check_port_free(name: str, address: str) -> None:
    if not address:
        return
    host, port = split_address(address)
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as the node does: a port just left is free
        try:
            probe.bind((host, port))
        except OSError as error:
            raise InvalidSettingError(f"{name} {address}", f"{error.strerror}") from error


def free_ports(count: int) -> list[int]:
    """Ports that are free now. Another process may take one before the node does; then the node reports that and ends."""
    free: list[int] = []
    for port in random.Random().sample(FREE_PORTS, len(FREE_PORTS)):
        if _is_free(port):
            free.append(port)
        if len(free) == count:
            return free
    raise _no_ports(count)


def free_row(count: int) -> int:
    """The first of `count` ports in a row that are free now, as `free_ports` finds them: for a console or a database of each node."""
    starts = FREE_PORTS[: len(FREE_PORTS) - count + 1]
    for first in random.Random().sample(starts, len(starts)):
        if all(_is_free(port) for port in range(first, first + count)):
            return first
    raise _no_ports(count)


def _is_free(port: int) -> bool:
    """True if a process can listen there. To connect would tell less: a port may be taken, and not listen yet."""
    with socket.socket() as probe:
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


def _no_ports(count: int) -> InvalidSettingError:
    return InvalidSettingError("base port", f"no {count} ports between {FREE_PORTS[0]} and {FREE_PORTS[-1]} are free")
