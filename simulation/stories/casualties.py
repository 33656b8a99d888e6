"""What the nemesis has left of the nodes: whether it is to blame that nobody can append to a loglet any more.

A sequencer never starts in place. So a native loglet takes no more appends once the node of its sequencer is down, has
lost its data, or has started again; then an operator has to replace it. Nothing else excuses it, and nothing at all in a
run without faults.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from simulation.faults.nemesis import Nemesis
from simulation.workload.actor import Stage
from simulation.world.cluster import Cluster
from virtuallog.chain import Segment
from virtuallog.types import NodeId


@attrs.frozen(eq=False)
class Casualties:
    """See above. Asked again and again while a run goes on: nodes are still starting when the faults stop."""

    cluster: Cluster
    nodes: frozenset[int]
    """Dead for good, or without the data that they had."""
    outside: str | None
    """The kind of loglets that live on somebody else's service, which is well."""
    faults: bool
    """Whether there have been any."""

    @classmethod
    def after(cls, stage: Stage, nemesis: Nemesis, dead: Sequence[NodeId]) -> Casualties:
        """`dead`: what `Nemesis.stop` has returned."""
        outside = None if stage.archive is None else stage.archive.kind
        return cls(stage.cluster, frozenset(dead) | nemesis.wounds.lost, outside, bool(nemesis.plan.active))

    def explain(self, active: Segment, config: Mapping[str, Any]) -> bool:
        """Whether faults explain that nobody can append to this loglet, as its provider describes it."""
        if not self.faults or active.kind == self.outside:
            return False
        if "sequencer" in config:
            return self._is_gone(config["sequencer"], config["boot"])
        return any(self._is_hurt(node) for node in self.cluster.nodes)  # of an unknown kind: it may depend on any

    def _is_gone(self, node: NodeId, boot: int) -> bool:
        """Whether the process that this boot number means is no more."""
        product = self.cluster.products.get(node)
        return self._is_down(node) or product is None or product.identity.boot != boot

    def _is_hurt(self, node: NodeId) -> bool:
        process = self.cluster.machines[node].process
        return self._is_down(node) or process is None or process.boot > 1

    def _is_down(self, node: NodeId) -> bool:
        return node in self.nodes or not self.cluster.machines[node].running
