"""Who a replica is.                                                                                            Pure."""

from __future__ import annotations

import attrs

from virtuallog.contract.types import NodeId


@attrs.frozen(kw_only=True)
class ReplicaIdentity:
    """A local store and the process that plays the log into it. A wiped node is another replica: it has another store."""

    node: NodeId
    store: bytes
    """Random, made when the data directory was formatted."""
    boot: int
    """Grows with every start of the process on this store."""
    life: int = 0
    """Grows when a process puts another snapshot under its replica and begins anew (`virtuallog_database.replica.host`): then, too, nothing of
    what came before is known any more. So an incarnation is all three: store, boot and life."""

    @property
    def name(self) -> str:
        """Names the store in the state and in the log, whichever process plays into it."""
        return replica_name(self.node, self.store)


def replica_name(node: NodeId, store: bytes) -> str:
    """Of the replica on this data directory."""
    return f"{node}-{store.hex()[:16]}"


def node_of(replica: str) -> NodeId:
    """Of the replica that has this name."""
    return NodeId(int(replica.partition("-")[0]))
