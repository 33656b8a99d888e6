"""The file `cluster.toml`: the nodes that a client asks first, and its TLS files.

All else about a cluster is in its register. `virtuallog up` writes such a file.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import attrs

from virtuallog.contract.errors import InvalidSettingError
from virtuallog.rpc.security.tls_files import TlsFiles
from virtuallog.runtime.toml import FieldError, check_address, check_unique, read_toml, toml_key

NODE_ID_MAX: Final = (1 << 32) - 1
"""Node ids are 32 bits wide in the register."""


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
        check_address(self.address, "address")

    def __str__(self) -> str:
        return f"{self.id}@{self.address}"


@attrs.frozen(kw_only=True)
class ClusterFile:
    """Content of a `cluster.toml`."""

    nodes: tuple[NodeAddress, ...] = attrs.field(metadata=toml_key("node"))
    """Some nodes of the cluster; one that answers is enough, it names the others."""
    tls: TlsFiles | None = None
    """Certificate, key and authority. None if connections are neither encrypted nor authenticated; nodes
    offer that on loopback addresses only."""

    def __attrs_post_init__(self) -> None:
        if not self.nodes:
            raise FieldError("needs at least one node", "node")
        check_unique([node.id for node in self.nodes], "node")

    def spell(self) -> str:
        """The file that reads back as this."""
        head = "# Where clients of this cluster start to look for it.\n"
        nodes = "".join(f'\n[[node]]\nid = {node.id}\naddress = "{node.address}"\n' for node in self.nodes)
        return head + nodes + (self.tls.spell() if self.tls else "")


def read_cluster_file(path: Path) -> ClusterFile:
    """Read a `cluster.toml`. Relative paths in it count from its own folder.

    Raises:
        InvalidSettingError: names file, line and key.
    """
    cluster = read_toml(ClusterFile, path)
    return attrs.evolve(cluster, tls=cluster.tls.below(path.parent)) if cluster.tls else cluster


def with_own_certificate(cluster: ClusterFile, environment: Mapping[str, str]) -> ClusterFile:
    """The cluster, with the certificate that the environment names, as many clients share one file.

    Args:
        cluster: content of the file.
        environment: `os.environ`; VIRTUALLOG_CERTIFICATE, VIRTUALLOG_KEY and VIRTUALLOG_AUTHORITY are used.

    Raises:
        InvalidSettingError: a certificate without its key, or no authority is given.
    """
    found = {field.name: environment.get(f"VIRTUALLOG_{field.name.upper()}", "") for field in attrs.fields(TlsFiles)}
    given = {name: Path(path) for name, path in found.items() if path}
    if not given:
        return cluster
    if ("certificate" in given) != ("key" in given):
        raise InvalidSettingError("environment", "VIRTUALLOG_CERTIFICATE and VIRTUALLOG_KEY go together")
    if cluster.tls is not None:
        return attrs.evolve(cluster, tls=attrs.evolve(cluster.tls, **given))
    if len(given) < len(found):
        needed = "needs VIRTUALLOG_CERTIFICATE, VIRTUALLOG_KEY and VIRTUALLOG_AUTHORITY"
        raise InvalidSettingError("environment", needed)
    return attrs.evolve(cluster, tls=TlsFiles(**given))
