"""The ports of one node: everything it reaches of the outside world."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Collection

import attrs

from virtuallog.contract.errors import UnsupportedError
from virtuallog.contract.ports import Clock, DurableMap, Services, Storage
from virtuallog.contract.types import NodeId
from virtuallog_database.ports import StoreDirectory
from virtuallog_loglets.archive.restored_origin import Origin
from virtuallog_server.node.bootstrap import Claim, claim_nothing
from virtuallog_server.node.identity_fence import AddressProbe, no_address_probe


async def _no_local_store(role: str) -> StoreDirectory:
    raise UnsupportedError(f"this node has no place for the state of a {role}")


def _no_connections(on_broken: Callable[[NodeId], None]) -> None:
    """Report nothing: these services have no connections."""


def _unknown_space() -> tuple[int, int]:
    return 0, 0


async def _no_origin() -> Origin | None:
    return None


@attrs.frozen(kw_only=True)
class NodePorts:
    """The ports of one node; no other node may use them."""

    services: Services
    clock: Clock
    random: random.Random
    storage: Callable[[str], Awaitable[Storage]]
    """Opens the directory of the role of this name.

    A role that begins anew opens it again, once the tasks of its former life have ended.
    """
    key_values: Callable[[str], Awaitable[DurableMap]]
    """Opens the small durable map of the role of this name; may be called again like `storage`."""
    local_store: Callable[[str], Awaitable[StoreDirectory]] = _no_local_store
    """Opens the directory of a database replica and its snapshots, for the role of this name.

    Called only if the config has `[zookeeper]`.
    """
    origin: Callable[[], Awaitable[Origin | None]] = _no_origin
    """Reads the origin that a new cluster continues from. None if a new log begins at 0.

    Called at the first start only.
    """
    claim_origin: Claim = claim_nothing
    """Claims the origin for this cluster, before the origin is proposed."""
    stores_present: Collection[tuple[str, str]] = ()
    """Stores with any content when this process began, by folder and role (`virtuallog_server.storage.stores`)."""
    disk_space: Callable[[], tuple[int, int]] = _unknown_space
    """Returns the free bytes and the size of the disk of the data directory; (0, 0) if they are not known. Must not block."""
    nonce: bytes = b""
    """Random bytes that identify this process."""
    who_is_at: AddressProbe = no_address_probe
    """Asks an address for the identity of the process there. It is used for the node's own address as well."""
    watch_connections: Callable[[Callable[[NodeId], None]], None] = _no_connections
    """Names a function to call with a node when an open connection to it has ended (`RpcServices.watch_connections`)."""
