"""What can be configured, and the only place that reads config files.

Two files exist. A node reads its own `node.toml` (`NodeConfig`; docs/sample.toml lists every option). A client reads
`cluster.toml` (`ClusterFile`), a list of nodes to ask first; everything else about a cluster is in its register.

A class checks itself when it is constructed, so a bad combination fails before anything starts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, TypeVar

import attrs

from server import toml_text
from server.toml_text import FieldError, toml_key
from virtuallog.errors import InvalidSettingError
from virtuallog.types import NodeId

NODE_ID_MAX: Final = (1 << 32) - 1
"""Node ids are 32 bits wide in the register."""
ROLES: Final = ("sequencer", "log-server")
LOG_LEVELS: Final = ("debug", "info", "warning", "error")
SettingsT = TypeVar("SettingsT")


@attrs.frozen(kw_only=True)
class NodeAddress:
    """One node of a list of nodes."""

    id: int
    """Number of the node, from 1 on; unique in the cluster and never given to another machine."""
    address: str
    """host:port on which the node answers."""

    def __attrs_post_init__(self) -> None:
        if not 1 <= self.id <= NODE_ID_MAX:
            raise FieldError(f"must be between 1 and {NODE_ID_MAX}, not {self.id}", "id")
        _check_address(self.address, "address")

    def __str__(self) -> str:
        return f"{self.id}@{self.address}"


@attrs.frozen(kw_only=True)
class NodeConfig:
    """One node."""

    id: int
    """Number of this node, from 1 on. It is written into the data directory at the first start; a data directory of
    another node is refused."""

    data: Path
    """Data directory. Everything the node must remember is below it, and only one process at a time may use it. An
    empty or missing directory is formatted at the first start, once every peer has said that it is new as well."""

    listen: str = "127.0.0.1:7001"
    """host:port to listen on. Only loopback addresses are accepted: connections are neither encrypted nor
    authenticated, so an open port would let anybody on the network read and seal the log."""

    peers: tuple[NodeAddress, ...] = attrs.field(default=(), metadata=toml_key("peer"))
    """Every node of the cluster as it starts, this one included, the same on all of them. Used for the first start
    and for discovery: once the cluster runs, the node table in the register is what counts. None: a cluster of one."""

    metastore: tuple[int, ...] = ()
    """Ids of the first members of the MetaStore, the same on all nodes. A majority of them must live to change the
    chain; three survive one failure, five survive two. None: all peers."""

    roles: tuple[str, ...] = ROLES
    """What loglets may use this node for: `sequencer` (orders appends), `log-server` (stores entries). A node whose only
    role is `log-server` is a disaggregated log server."""

    loglet: str = "native"
    """Kind of the first loglet of a new cluster; later ones are chosen by `virtuallog reconfigure`."""

    log_level: str = "info"
    """Least important messages that are logged to stderr: debug, info, warning or error."""

    log_json: bool = False
    """Log one JSON object per line instead of text for people."""

    def __attrs_post_init__(self) -> None:
        if not 1 <= self.id <= NODE_ID_MAX:
            raise FieldError(f"must be between 1 and {NODE_ID_MAX}, not {self.id}", "id")
        _check_address(self.listen, "listen")
        _check_unique([peer.id for peer in self.peers], "peer")
        known = {peer.id for peer in self.all_peers}
        if self.id not in known:
            raise FieldError(f"the list of peers lacks this node, {self.id}", "peer")
        _check_known(self.metastore, known, "metastore", "no peer")
        _check_known(self.roles, ROLES, "roles", f"no role (roles: {', '.join(ROLES)})")
        _check_known([self.log_level], LOG_LEVELS, "log_level", f"no level (levels: {', '.join(LOG_LEVELS)})")

    @property
    def node(self) -> NodeId:
        return NodeId(self.id)

    @property
    def all_peers(self) -> tuple[NodeAddress, ...]:
        """The initial nodes, this one included even if no list was given."""
        return self.peers or (NodeAddress(id=self.id, address=self.listen),)

    @property
    def members(self) -> tuple[NodeId, ...]:
        """The first members of the MetaStore, in order of their ids."""
        return tuple(NodeId(member) for member in sorted(self.metastore or (peer.id for peer in self.all_peers)))

    @property
    def all_roles(self) -> tuple[str, ...]:
        """`roles`, and `metastore` if this node is one of its first members."""
        return (*self.roles, *(("metastore",) if self.node in self.members else ()))


@attrs.frozen(kw_only=True)
class ClusterFile:
    """Where a client starts to look for a cluster: `cluster.toml`."""

    nodes: tuple[NodeAddress, ...] = attrs.field(metadata=toml_key("node"))
    """Some nodes of the cluster; one that answers is enough, it names the others."""

    def __attrs_post_init__(self) -> None:
        if not self.nodes:
            raise FieldError("needs at least one node", "node")
        _check_unique([node.id for node in self.nodes], "node")

    def spell(self) -> str:
        """The file that reads back as this."""
        head = "# Where clients of this cluster start to look for it.\n"
        return head + "".join(f'\n[[node]]\nid = {node.id}\naddress = "{node.address}"\n' for node in self.nodes)


def read_node_config(path: Path) -> NodeConfig:
    """The node's config file; a relative data directory counts from the folder that the file is in.

    Raises:
        InvalidSettingError: names file, line and key.
    """
    config = _read(NodeConfig, path)
    return attrs.evolve(config, data=path.parent / config.data)


def read_cluster_file(path: Path) -> ClusterFile:
    """The client's list of nodes.

    Raises:
        InvalidSettingError: names file, line and key.
    """
    return _read(ClusterFile, path)


def parse_peers(text: str) -> tuple[NodeAddress, ...]:
    """The value of `--peers`: `1@127.0.0.1:7001,2@127.0.0.1:7002`.

    Raises:
        FieldError: it does not look like that.
    """
    peers = []
    for part in text.split(","):
        number, at, address = part.strip().partition("@")
        if not at or not number.isdecimal():
            raise FieldError(f"'{part}' is not id@host:port", "peer")
        peers.append(NodeAddress(id=int(number), address=address))
    return tuple(peers)


def split_address(address: str) -> tuple[str, int]:
    """Host and port of `host:port`; an IPv6 host stands in brackets.

    Raises:
        FieldError: it does not look like that.
    """
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 1 << 16:
        raise FieldError(f"'{address}' is not host:port")
    return host.removeprefix("[").removesuffix("]"), int(port)


def _read(settings: type[SettingsT], path: Path) -> SettingsT:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidSettingError(str(path), f"cannot be read: {error}") from error
    return toml_text.parse(settings, text, path)


def _check_address(address: str, field: str) -> None:
    try:
        split_address(address)
    except FieldError as error:
        raise FieldError(str(error), field) from None


def _check_unique(ids: Sequence[int], field: str) -> None:
    for index, node in enumerate(ids):
        if node in ids[:index]:
            raise FieldError(f"node {node} is listed twice", field, index, "id")


def _check_known(values: Iterable[object], known: Iterable[object], field: str, reason: str) -> None:
    for value in values:
        if value not in known:
            raise FieldError(f"{value!r} is {reason}", field)
