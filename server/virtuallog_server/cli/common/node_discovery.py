"""All nodes of a cluster, found through the nodes that a cluster file lists."""

from __future__ import annotations

import attrs

from virtuallog.admin.cluster_status import fetch_statuses
from virtuallog.client.cluster_file import ClusterFile, NodeAddress
from virtuallog.contract.errors import UnavailableError
from virtuallog.contract.types import NodeId
from virtuallog.node_services import newest_register, open_services_to


async def with_all_nodes(cluster: ClusterFile) -> ClusterFile:
    """The cluster file, extended by every node of the register at its address there.

    A node that is in the file and not in the register stays: it may have been removed, or never have joined. If no node
    answers, the file is returned as it is.
    """
    async with open_services_to(cluster) as services:
        answers = await fetch_statuses(services, [NodeId(node.id) for node in cluster.nodes])
    try:
        register = newest_register(answers)
    except UnavailableError:
        return cluster
    known = {node.id: node for node in cluster.nodes}
    for node, entry in register.nodes.items():
        if entry.addresses:
            known[node] = NodeAddress(id=node, address=entry.addresses[0])
    return attrs.evolve(cluster, nodes=tuple(known[node] for node in sorted(known)))
