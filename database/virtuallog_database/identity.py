"""Identity and name of a replica."""

from __future__ import annotations

import attrs

from virtuallog.contract.types import NodeId


@attrs.frozen(kw_only=True)
class ReplicaIdentity:
    """A local store and the process that plays the log into it. A wiped node is another replica:
    its store is another one."""

    node: NodeId
    store: bytes
    """Random, made when the data directory was formatted."""
    boot: int
    """Grows with every start of the process on this store."""
    life: int = 0
    """Grows when a process installs another snapshot under its replica and starts anew
    (`virtuallog_database.replica.host`). Then, too, nothing from before is known any more. An
    incarnation is all three: store, boot and life."""

    @property
    def name(self) -> str:
        """Name of the store in the state and in the log, independent of the process that plays into
        it."""
        return replica_name(self.node, self.store)


def replica_name(node: NodeId, store: bytes) -> str:
    """Name of the replica on the data directory `store` of `node`."""
    return f"{node}-{store.hex()[:16]}"


def node_of(replica: str) -> NodeId:
    """Node of the replica with this name."""
    return NodeId(int(replica.partition("-")[0]))
