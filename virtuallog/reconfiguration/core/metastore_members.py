"""Members of the MetaStore: eligible nodes, replacement of one by another, and checks of a new set."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from virtuallog.contract.errors import InvalidSettingError
from virtuallog.contract.placement import Cluster
from virtuallog.contract.register import Register
from virtuallog.contract.types import NodeId


def check_members(members: Sequence[NodeId], cluster: Cluster) -> None:
    """Check that the register would be safe with these members, and could be changed again.

    Raises:
        InvalidSettingError: duplicates, none, unknown nodes, or no majority of them lives.
    """
    if not members or len(set(members)) != len(members):
        raise InvalidSettingError("members", f"needs different nodes, at least one, not {list(members)}")
    known = {member.node: member.alive and member.votes for member in cluster.members}
    if strangers := [node for node in members if node not in known]:
        raise InvalidSettingError("members", f"no nodes of this cluster: {strangers}")
    if 2 * sum(known[node] for node in members) <= len(members):
        raise InvalidSettingError("members", f"fewer than a majority of {list(members)} answers")


@attrs.frozen(kw_only=True)
class ReplaceMember:
    """Give the seat of one member of the MetaStore to another node. No change if it is no member any more.

    The new member is the first candidate that is eligible in the register that is changed.
    """

    leaves: NodeId
    """The member that gives up its seat."""
    candidates: Sequence[NodeId]
    """Nodes whose acceptors are open, the preferred one first."""

    def amend(self, register: Register) -> Register | None:
        """See `Amendment.amend`."""
        if self.leaves not in register.members:
            return None
        free = eligible_members(register) - {self.leaves}
        comes = next((node for node in self.candidates if node in free), None)
        if comes is None:
            raise InvalidSettingError(
                f"node {self.leaves}", "no node is free to take its seat in the MetaStore: add one"
            )
        changed = register.with_members(tuple(sorted({*register.members, comes} - {self.leaves})))
        assert changed is not None
        if not changed.is_decidable:
            raise InvalidSettingError("members", f"most of {list(changed.members)} wait for a new data directory")
        return changed


def eligible_members(register: Register) -> set[NodeId]:
    """Nodes that may get a seat in the MetaStore: with roles, with a data directory, without a seat.

    A drained node is not eligible: it answers until it is stopped, and its seat would be lost then.
    """
    return {
        node
        for node, entry in register.nodes.items()
        if entry.roles and not entry.is_expected and node not in register.members
    }


def drained_members(register: Register) -> list[NodeId]:
    """Members of the MetaStore that are drained: their operators may be about to stop them."""
    return [node for node in register.drained(register.members) if node in register.nodes]


def too_few_seats(register: Register) -> str:
    """Reason why the seats of drained members have no nodes to go to; empty if they have."""
    leaving, free = drained_members(register), eligible_members(register)
    if len(leaving) <= len(free):
        return ""
    seats = f"nodes {', '.join(map(str, leaving))} leave the MetaStore"
    return f"{seats}, and {len(free)} other nodes could take their seats: add one first"
