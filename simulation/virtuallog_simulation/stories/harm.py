"""What happens to one node in the stories about failures, and how it ends."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, TypeAlias

import attrs

from virtuallog.types import NodeId
from virtuallog_simulation.world.cluster import Cluster

Heal: TypeAlias = Callable[[], None]


@attrs.frozen(eq=False)
class Harm:
    """Each method does something to a node, and returns what ends it."""

    cluster: Cluster

    def kill(self, node: NodeId) -> Heal:
        """The process dies."""
        return self._down(node, power=False)

    def crash(self, node: NodeId) -> Heal:
        """The machine loses its power."""
        return self._down(node, power=True)

    def pause(self, node: NodeId) -> Heal:
        """The process stands still: connections stay open, nothing is answered. It wakes up in the belief that nothing
        has happened."""
        machine = self.cluster.machines[node]
        machine.pause()
        return machine.resume

    def isolate(self, node: NodeId) -> Heal:
        """No other node reaches it; clients do."""
        return self._cut([node], [other for other in self.cluster.nodes if other != node])

    def halve(self, node: NodeId) -> Heal:
        """It is left alone with as many others as make no majority."""
        others = [other for other in self.cluster.nodes if other != node]
        few = (len(self.cluster.nodes) - 1) // 2
        return self._cut([node, *others[: few - 1]], others[few - 1 :])

    def _down(self, node: NodeId, *, power: bool) -> Heal:
        machine = self.cluster.machines[node]
        machine.crash(power=power)
        return machine.start

    def _cut(self, some: Iterable[NodeId], others: Iterable[NodeId]) -> Heal:
        network = self.cluster.world.network
        for one in some:
            for other in others:
                network.link(one, other).blocked = network.link(other, one).blocked = True
        return network.heal


HARMS: Final = (Harm.kill, Harm.crash, Harm.pause, Harm.isolate, Harm.halve)
"""All of them take a sequencer away from the majority of the others."""
