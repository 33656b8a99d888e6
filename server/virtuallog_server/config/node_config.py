"""The config of a node, and its reader. No other module reads it from a file.

docs/reference/sample.toml lists every option. Clients read `cluster.toml` (`virtuallog.client.cluster_file`) instead; everything else
about a cluster is in its register.

A class checks itself when it is constructed, so a bad combination fails before anything starts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

import attrs

from virtuallog.client.cluster_file import NODE_ID_MAX, NodeAddress
from virtuallog.contract.types import NodeId
from virtuallog.contract.versions import SPOKEN, Versions
from virtuallog.rpc.security.tls_files import TlsFiles
from virtuallog.runtime.toml import (
    FieldError,
    KeyPath,
    Override,
    check_address,
    check_unique,
    parse,
    read_toml,
    toml_key,
)
from virtuallog_server.config.zookeeper_settings import ZooKeeperSettings
from virtuallog_server.healing.core.healing_policy import HealingSettings

ROLES: Final = ("sequencer", "log-server", "replica")
CONNECTIONS_MIN: Final = 16
"""Least number of connections. With fewer a node could not even talk to its cluster."""
CONNECTIONS_BYTES_MIN: Final = 64 << 20
"""Least memory for all connections. A single honest connection may need nearly as much."""
LOG_LEVELS: Final = ("debug", "info", "warning", "error")


@attrs.frozen(kw_only=True)
class NodeConfig:
    """The config of one node."""

    id: int
    """Number of this node, from 1 on. It is written into the data directory at the first start; a data directory of
    another node is refused."""

    data: Path
    """Data directory. Everything the node must remember is below it, and only one process at a time may use it. An
    empty or missing directory is formatted at the first start, once every peer has said that it is new as well."""

    listen: str = "127.0.0.1:7001"
    """host:port to listen on. Without `tls` only loopback addresses are accepted: connections are then neither encrypted
    nor authenticated, so an open port would let every machine on the network read and seal the log.
    """

    peers: tuple[NodeAddress, ...] = attrs.field(default=(), metadata=toml_key("peer"))
    """Every node of the cluster as it starts, this one included, the same on all of them. Used for the first start
    and for discovery: once the cluster runs, the node table in the register counts. If empty, a cluster of one.
    """

    metastore: tuple[int, ...] = ()
    """Ids of the first members of the MetaStore, the same on all nodes. A majority of them must live to change the
    chain; three survive one failure, five survive two. If empty, all peers.
    """

    roles: tuple[str, ...] = ROLES
    """Roles that loglets may use: `sequencer` (orders appends), `log-server` (stores entries), `replica` (of paxos
    and raft loglets; implied by having both other roles). A node whose only role is `log-server` is a disaggregated log server.
    """

    loglet: str = "native"
    """Kind of the first loglet of a new cluster. Later ones are chosen by `virtuallog reconfigure`."""

    origin: str = ""
    """Place where `virtuallog spark restore` has written the origin of a new cluster: a directory that fsspec knows, or a path,
    relative to the folder of the config file. The same on all nodes. The log then begins at the restored position, and new servers
    of the database take the restored state. Used at the first start only. If empty, a new log begins at 0.
    """

    console: str = ""
    """host:port on which the node answers HTTP: /metrics for Prometheus, /healthz, /readyz, /status. Loopback addresses
    only, with TLS or without. Needs the extra `console`. If empty, no HTTP.
    """

    probes: str = ""
    """host:port on which the node answers /healthz, /readyz and /metrics, and nothing else, over plain HTTP: for a kubelet and
    for Prometheus, which have no certificate of the cluster. Any address, so another machine that reaches it can read the
    metrics. Needs the extra `console`. If empty, no such port.
    """

    healing: str = "replace-failed"
    """Policy for the failure of other nodes: its name (an entry point of `virtuallog.policies`, or `package.module:Class`), the
    same on all nodes. `replace-failed` replaces a sequencer that fails, and log servers that fail if there are spare nodes.
    With `off` an operator does it.
    """

    server_patience_seconds: float = 8.0
    """Seconds for which a log server of the open segment must have failed before a spare node takes its place. Must be longer
    than a restart takes, or restarts move the log.
    """

    rebuild_patience_seconds: float = 60.0
    """The same for copies of closed segments. Their entries are then copied to the spare node."""

    protocol: int = 0
    """Newest version of the protocol to speak, and to write for others to read. 0 for the newest that this program knows.
    Set it to the former version while nodes are upgraded one by one; then a node can still return to its former program.
    """

    connections_max: int = 1024
    """Connections that this node serves at a time. For one more it closes a silent or idle one, whose client comes back when
    it needs to. Each costs a descriptor and some 20 KB, with TLS 160 KiB.
    """

    connections_bytes_max: int = 256 << 20
    """Bytes that all connections together may make this node hold: incomplete messages, calls without an answer, answers
    that are not read. Beyond, the connection that has been stuck for longest is closed.
    """

    log_level: str = "info"
    """Least important messages that are logged to stderr: debug, info, warning or error."""

    log_json: bool = False
    """True to log one JSON object per line, instead of text."""

    tls: TlsFiles | None = None
    """The certificate of this node and the authority that it trusts, for all its connections. None if there is no TLS."""

    zookeeper: ZooKeeperSettings | None = None
    """The service for ZooKeeper's clients. None if this node has no part in the database."""

    def __attrs_post_init__(self) -> None:
        if not 1 <= self.id <= NODE_ID_MAX:
            raise FieldError(f"must be between 1 and {NODE_ID_MAX}, not {self.id}", "id")
        check_address(self.listen, "listen")
        if not 0 <= self.protocol <= SPOKEN.last:
            raise FieldError(f"this program speaks versions {SPOKEN}, not {self.protocol}", "protocol")
        if self.connections_max < CONNECTIONS_MIN:
            raise FieldError(f"must be at least {CONNECTIONS_MIN}, not {self.connections_max}", "connections_max")
        if self.connections_bytes_max < CONNECTIONS_BYTES_MIN:
            reason = f"must be at least {CONNECTIONS_BYTES_MIN}, not {self.connections_bytes_max}"
            raise FieldError(reason, "connections_bytes_max")
        for name in ("console", "probes"):
            if getattr(self, name):
                check_address(getattr(self, name), name)
        check_unique([peer.id for peer in self.peers], "peer")
        known = {peer.id for peer in self.all_peers}
        if self.id not in known:
            raise FieldError(f"the list of peers lacks this node, {self.id}", "peer")
        _check_known(self.metastore, known, "metastore", "no peer")
        _check_known(self.roles, ROLES, "roles", f"no role (roles: {', '.join(ROLES)})")
        for name in ("server_patience_seconds", "rebuild_patience_seconds"):
            if not getattr(self, name) >= 0:
                raise FieldError(f"must not be negative, not {getattr(self, name)}", name)
        _check_known([self.log_level], LOG_LEVELS, "log_level", f"no level (levels: {', '.join(LOG_LEVELS)})")

    @property
    def versions(self) -> Versions:
        """Versions of the protocol that this node speaks."""
        return SPOKEN.up_to(self.protocol)

    @property
    def node(self) -> NodeId:
        return NodeId(self.id)

    @property
    def healing_settings(self) -> HealingSettings:
        return HealingSettings(
            server_patience_seconds=self.server_patience_seconds,
            rebuild_patience_seconds=self.rebuild_patience_seconds,
        )

    @property
    def all_peers(self) -> tuple[NodeAddress, ...]:
        """The initial nodes, this one included even if no list is given."""
        return self.peers or (NodeAddress(id=self.id, address=self.listen),)

    @property
    def address(self) -> str:
        """host:port at which other nodes reach this one: its own among `peer`. `listen` if it is not listed."""
        return next((peer.address for peer in self.peers if peer.id == self.id), self.listen)

    @property
    def members(self) -> tuple[NodeId, ...]:
        """The first members of the MetaStore, in order of their ids."""
        return tuple(NodeId(member) for member in sorted(self.metastore or (peer.id for peer in self.all_peers)))

    @property
    def all_roles(self) -> tuple[str, ...]:
        """`roles`, what follows from them, and `metastore` if this node is one of its first members."""
        # A config that lists both is older than the role `replica`.
        implied = "replica" not in self.roles and {"sequencer", "log-server"}.issubset(self.roles)
        return (*self.roles, *(("replica",) if implied else ()), *(("metastore",) if self.node in self.members else ()))


def read_node_config(path: Path, overrides: Mapping[KeyPath, Override] | None = None) -> NodeConfig:
    """Read a node's config file; `overrides` go before it. Relative paths in both are relative to its folder.

    Raises:
        InvalidSettingError: the config is invalid; names file, line and key, or the source of the override.
    """
    return _below(path.parent, read_toml(NodeConfig, path, overrides))


def node_config_of(overrides: Mapping[KeyPath, Override]) -> NodeConfig:
    """The config of a node without a file. It listens at its own address among `peer`, unless `listen` is given.

    Raises:
        InvalidSettingError: the config is invalid; names the source of the override.
    """
    config = parse(NodeConfig, "", Path("options"), overrides)
    if ("listen",) not in overrides:
        config = attrs.evolve(config, listen=config.address)
    return _below(Path(), config)


def _below(folder: Path, config: NodeConfig) -> NodeConfig:
    """The config with relative paths counted from `folder`."""
    tls = config.tls.below(folder) if config.tls else None
    zookeeper = config.zookeeper.below(folder) if config.zookeeper else None
    origin = _absolute(config.origin, folder) if config.origin else ""
    return attrs.evolve(config, data=folder / config.data, origin=origin, tls=tls, zookeeper=zookeeper)


def _absolute(origin: str, folder: Path) -> str:
    from virtuallog_loglets.archive.drivers.fsspec_files import absolute_url  # late: few clusters are restored ones

    return absolute_url(origin, folder)


def parse_peers(text: str) -> tuple[NodeAddress, ...]:
    """Parse the value of `--peers`: `1@127.0.0.1:7001,2@127.0.0.1:7002`.

    Raises:
        FieldError: a part is not id@host:port.
    """
    peers = []
    for part in text.split(","):
        number, at, address = part.strip().partition("@")
        if not at or not number.isdecimal():
            raise FieldError(f"'{part}' is not id@host:port", "peer")
        peers.append(NodeAddress(id=int(number), address=address))
    return tuple(peers)


def _check_known(values: Iterable[object], known: Iterable[object], field: str, reason: str) -> None:
    for value in values:
        if value not in known:
            raise FieldError(f"{value!r} is {reason}", field)
