"""Operations on agents: their ways between the lists of admitted, unreachable and gone ones.

             Admit                 MarkUnreachable                MarkGone
(unknown) ----------> admitted -----------------> unreachable ------------> gone
                         ^ <------------------------- |                      ^
                         |        MarkReachable                              |
                         +---------------------------------------------------+
Remove: admitted -> unknown.   Prune: unreachable, gone -> unknown
"""

from __future__ import annotations

import enum

import attrs

from virtuallog_database.registrar.core.edit import Edit, NotPermittedError
from virtuallog_lab.agents.records import (
    ADMITTED,
    GONE,
    UNREACHABLE,
    AdmittedAgent,
    AgentInfo,
    GoneAgent,
    UnreachableAgent,
)
from virtuallog_lab.agents.validation import check_agent, check_number


class Rules(enum.Enum):
    """Answers to requests that do not fit the lists."""

    CURRENT = "current"
    """Mesos since 1.0: an agent is admitted once; any agent may come back, also one that is gone."""
    GONE_STAYS = "gone_stays"
    """The same, but an agent that is gone is not admitted again, until `Prune` has dropped its record."""
    STRICT = "strict"
    """Mesos before 1.0 with `registry_strict`: only a known agent may come back or be removed, and no agent that is unreachable
    or gone is admitted as new."""
    LENIENT = "lenient"
    """Mesos before 1.0 without `registry_strict`: no list is a reason to refuse, so a running cluster can fill an empty registry."""

    @property
    def is_gone_refused(self) -> bool:
        """True if an agent that is gone cannot come back."""
        return self in (Rules.GONE_STAYS, Rules.STRICT)


def _check_not_gone(edit: Edit, agent: str, rules: Rules) -> None:
    if rules.is_gone_refused and edit.get(GONE, agent) is not None:
        raise NotPermittedError(f"agent {agent} is gone")


@attrs.frozen
class Admit:
    """Admit a new agent.

    An agent that is admitted already is refused, with `LENIENT` left as it is. The lists of unreachable and gone agents are
    not looked at, except by the stricter rules.
    """

    info: AgentInfo
    rules: Rules = Rules.CURRENT

    def perform(self, edit: Edit) -> None:
        """Append to the admitted agents."""
        agent = self.info.id
        check_agent(self.info)
        if edit.get(ADMITTED, agent) is not None:
            if self.rules is Rules.LENIENT:
                return
            raise NotPermittedError(f"agent {agent} is admitted already")
        _check_not_gone(edit, agent, self.rules)
        if self.rules is Rules.STRICT and edit.get(UNREACHABLE, agent) is not None:
            raise NotPermittedError(f"agent {agent} is unreachable, and not new")
        edit.put(ADMITTED, agent, AdmittedAgent(self.info))


@attrs.frozen
class Update:
    """Replace the description of an admitted agent. Another agent is refused."""

    info: AgentInfo

    def perform(self, edit: Edit) -> None:
        """Replace in place. An equal description changes nothing."""
        agent = self.info.id
        check_agent(self.info)
        former = edit.get(ADMITTED, agent)
        if former is None:
            raise NotPermittedError(f"agent {agent} is not admitted")
        edit.put(ADMITTED, agent, attrs.evolve(former, info=self.info))


@attrs.frozen
class MarkUnreachable:
    """Move an admitted agent to the unreachable ones. Another agent is refused."""

    agent: str
    time: float
    """Since when, in seconds since 1970."""

    def perform(self, edit: Edit) -> None:
        """Append to the unreachable agents, with its orders to drain."""
        check_number("the time", self.time)
        former = edit.get(ADMITTED, self.agent)
        if former is None:
            raise NotPermittedError(f"agent {self.agent} is not admitted")
        edit.delete(ADMITTED, self.agent)
        edit.delete(UNREACHABLE, self.agent)  # it was admitted a second time: the later time counts
        lost = UnreachableAgent(self.agent, self.time, former.drain_info, former.deactivated)
        edit.put(UNREACHABLE, self.agent, lost)


@attrs.frozen
class MarkReachable:
    """Admit an agent that registers again.

    It need not be known: its record may have been pruned, or the registry is filled by a running cluster. `STRICT` refuses
    an unknown one. As in Mesos, a gone agent comes back unless the rules say otherwise.
    """

    info: AgentInfo
    rules: Rules = Rules.CURRENT

    def perform(self, edit: Edit) -> None:
        """Append to the admitted agents, with the orders to drain that it had as an unreachable one."""
        agent = self.info.id
        check_agent(self.info)
        if edit.get(ADMITTED, agent) is not None:
            return
        _check_not_gone(edit, agent, self.rules)
        lost = edit.get(UNREACHABLE, agent)
        if lost is None:
            if self.rules is Rules.STRICT:
                raise NotPermittedError(f"agent {agent} is not known")
            edit.put(ADMITTED, agent, AdmittedAgent(self.info))
            return
        edit.delete(UNREACHABLE, agent)
        edit.put(ADMITTED, agent, AdmittedAgent(self.info, lost.drain_info, lost.deactivated))


@attrs.frozen
class MarkGone:
    """Declare an admitted or unreachable agent lost for good. One that is gone already, or not known, is refused."""

    agent: str
    time: float
    """Since when, in seconds since 1970."""

    def perform(self, edit: Edit) -> None:
        """Append to the gone agents."""
        check_number("the time", self.time)
        if edit.get(GONE, self.agent) is not None:
            raise NotPermittedError(f"agent {self.agent} is gone already")
        if not edit.delete(ADMITTED, self.agent) and not edit.delete(UNREACHABLE, self.agent):
            raise NotPermittedError(f"agent {self.agent} is not known")
        edit.put(GONE, self.agent, GoneAgent(self.agent, self.time))


@attrs.frozen
class Remove:
    """Forget an admitted agent. Another agent is refused, with `LENIENT` ignored."""

    agent: str
    rules: Rules = Rules.CURRENT

    def perform(self, edit: Edit) -> None:
        """Delete from the admitted agents."""
        if not edit.delete(ADMITTED, self.agent) and self.rules is not Rules.LENIENT:
            raise NotPermittedError(f"agent {self.agent} is not admitted")


@attrs.frozen
class Prune:
    """Forget unreachable and gone agents. Those that are no longer there are ignored.

    Mesos deletes too much if an agent is not the first of its list. Here exactly the named ones are deleted, in time linear in
    their number.
    """

    unreachable: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()

    def perform(self, edit: Edit) -> None:
        """Delete from both lists."""
        for agent in self.unreachable:
            edit.delete(UNREACHABLE, agent)
        for agent in self.gone:
            edit.delete(GONE, agent)
