"""Detection of a log that continues with fewer servers than before: operators must know that it survives fewer failures.

An extension takes the nodes that there are. Nothing is lost by that, but nothing restores the former number by itself: the
next loglet has as many servers as the one before it.
"""

from __future__ import annotations

from collections.abc import Callable

from virtuallog.contract.chain import Segment
from virtuallog.contract.placement import Placement
from virtuallog.contract.register import Register


def under_replication_problems(register: Register, placement: Callable[[Segment], Placement | None]) -> tuple[str, ...]:
    """Problems of the open segment for the status. Empty if there are none.

    A group of its servers is smaller than the groups of the segment on nodes before it; or it has one server where two nodes have
    the role.
    """
    last = register.chain.last
    present = placement(last) if last.stop is None else None
    if present is None:
        return ()
    smallest = min(len(group) for group in present.groups)
    placed = (found for segment in reversed(register.chain.segments[:-1]) if (found := placement(segment)) is not None)
    before = next(placed, None)
    former = min(len(group) for group in before.groups) if before is not None else 0
    able = sum(present.role in entry.roles for entry in register.nodes.values())
    remedy = "add a node, then `virtuallog reconfigure` with replicas="
    if smallest < former:
        return (
            f"the open segment {last.id} has {smallest} of {former} servers that the one before it had: {remedy}{former}",
        )
    if smallest == 1 and able == 2:
        return (
            f"the open segment {last.id} has 1 server, as {able} nodes with role {present.role} make no 3: {remedy}3",
        )
    return ()
