"""Whether it is an operator's part to replace a loglet that takes no appends any more.

The cluster heals loglets that are copies on its own nodes by itself, and is judged by it. A kind that it knows nothing of
may rest on any node; whoever runs such loglets replaces them by hand when nodes have been hurt. Somebody else's service is
well, and nothing excuses anybody in a run without faults.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from virtuallog.chain import Segment
from virtuallog.replicated import replicated
from virtuallog.testing.weak_seal_provider import KIND as WEAK_SEAL
from virtuallog.types import NodeId
from virtuallog_simulation.faults.nemesis import Nemesis
from virtuallog_simulation.stories.outside import ZOOKEEPER
from virtuallog_simulation.workload.actor import Stage
from virtuallog_simulation.world.cluster import Cluster


@attrs.frozen(eq=False)
class Casualties:
    """See above. Asked again and again while a run goes on: nodes are still starting when the faults stop."""

    cluster: Cluster
    nodes: frozenset[int]
    """Dead for good, or without the data that they had."""
    outside: frozenset[str]
    """Kinds of loglets that live on somebody else's service, which is well."""
    faults: bool
    """Whether there have been any."""

    @classmethod
    def after(cls, stage: Stage, nemesis: Nemesis, dead: Sequence[NodeId]) -> Casualties:
        """`dead`: what `Nemesis.stop` has returned."""
        outside = frozenset({WEAK_SEAL, ZOOKEEPER})
        return cls(stage.cluster, frozenset(dead) | nemesis.wounds.lost, outside, bool(nemesis.plan.active))

    def excuse(self, active: Segment, provider: object) -> bool:
        """Whether nobody but an operator can be expected to replace this loglet."""
        if not self.faults or active.kind in self.outside or replicated(provider) is not None:
            return False
        return any(self._is_hurt(node) for node in self.cluster.nodes)

    def _is_hurt(self, node: NodeId) -> bool:
        machine = self.cluster.machines[node]
        return node in self.nodes or machine.process is None or not machine.running or machine.process.boot > 1
