"""Operations that empty agents: draining, deactivation, and back. An agent that is not known is no error, and nothing changes.

Each applies to an admitted agent, else to the unreachable one of that id.
"""

from __future__ import annotations

from typing import Any, Final

import attrs

from virtuallog_database.registrar.core.edit import Edit, NotPermittedError
from virtuallog_database.registrar.core.tables import RecordTable
from virtuallog_lab.agents.capabilities import AGENT_DRAINING, release, require
from virtuallog_lab.agents.records import (
    ADMITTED,
    DEACTIVATED,
    UNREACHABLE,
    AdmittedAgent,
    DrainInfo,
    DrainState,
    UnreachableAgent,
)
from virtuallog_lab.agents.validation import check_grace

_LISTS: Final[tuple[RecordTable[Any], ...]] = (ADMITTED, UNREACHABLE)


def _find(edit: Edit, agent: str) -> tuple[RecordTable[Any], AdmittedAgent | UnreachableAgent] | None:
    for table in _LISTS:
        record = edit.get(table, agent)
        if record is not None:
            return table, record
    return None


@attrs.frozen
class Drain:
    """Order to empty an agent."""

    agent: str
    grace_seconds: float | None = None
    """Most time that a task gets to end; None if it stays as it is."""
    mark_gone: bool = False
    """The agent is marked gone once it is drained."""

    def perform(self, edit: Edit) -> None:
        """Set DRAINING, also if it is DRAINED, and deactivate the agent."""
        check_grace(self.grace_seconds)
        found = _find(edit, self.agent)
        if found is None:
            return
        table, record = found
        former = record.drain_info or DrainInfo()
        grace = former.grace_seconds if self.grace_seconds is None else self.grace_seconds
        order = attrs.evolve(former, state=DrainState.DRAINING, mark_gone=self.mark_gone, grace_seconds=grace)
        edit.put(table, self.agent, attrs.evolve(record, drain_info=order, deactivated=True))
        require(edit, AGENT_DRAINING)


@attrs.frozen
class MarkDrained:
    """Report that a draining agent is empty. A known agent that is not draining is refused."""

    agent: str

    def perform(self, edit: Edit) -> None:
        """Set DRAINED."""
        found = _find(edit, self.agent)
        if found is None:
            return
        table, record = found
        order = record.drain_info
        if order is None or order.state is not DrainState.DRAINING:
            raise NotPermittedError(f"agent {self.agent} is not draining")
        edit.put(table, self.agent, attrs.evolve(record, drain_info=attrs.evolve(order, state=DrainState.DRAINED)))


@attrs.frozen
class Deactivate:
    """Give an agent no new tasks."""

    agent: str

    def perform(self, edit: Edit) -> None:
        """Set the flag."""
        found = _find(edit, self.agent)
        if found is None:
            return
        table, record = found
        edit.put(table, self.agent, attrs.evolve(record, deactivated=True))
        require(edit, AGENT_DRAINING)


@attrs.frozen
class Reactivate:
    """Take back a drain or a deactivation.

    The capability is dropped with the last deactivated agent of both lists. As in Mesos nothing else drops it: it stays if the
    last deactivated agent is removed or gone.
    """

    agent: str

    def perform(self, edit: Edit) -> None:
        """Clear flag and order, and drop the capability if no other agent needs it."""
        is_known = is_needed = False
        for table in _LISTS:
            if is_known and is_needed:
                break
            record = edit.get(table, self.agent)
            if record is not None:
                is_known = True
                edit.put(table, self.agent, attrs.evolve(record, drain_info=None, deactivated=False))
            is_needed = is_needed or edit.tagged(table, DEACTIVATED) > 0
        if is_known and not is_needed:
            release(edit, AGENT_DRAINING)
