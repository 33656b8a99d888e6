"""Records of the registry of agents, and their tables.

    ADMITTED        by agent     agents that may run tasks
    UNREACHABLE     by agent     agents that the master has lost; oldest first
    GONE            by agent     agents that never come back; oldest first
    SCHEDULES       one          planned maintenance
    MACHINES        by machine   machines of the schedule
    QUOTAS, OLD_QUOTAS, WEIGHTS  by role
    CAPABILITIES    by name      capabilities that a master must have to read the registry
    MASTER          one          the master that owns the registry

Times are seconds since 1970, durations are seconds. Fields that a later program adds are kept, and do not count as a difference.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Any, Final

import attrs

from virtuallog_database.registrar.core.tables import RecordTable
from virtuallog_database.registrar.json_codec import json_table


def _unknown() -> Any:
    """Field for what a later program has added."""
    return attrs.field(factory=dict, eq=False, repr=False)


@attrs.frozen
class AgentInfo:
    """Description of an agent, as it announces itself."""

    id: str
    """Given by a master. Mesos makes ids of 36 to 40 characters; any id that is a file name will do."""
    hostname: str
    cpus: float = 0.0
    mem: float = 0.0
    """Megabytes."""
    disk: float = 0.0
    """Megabytes."""
    attributes: Mapping[str, str] = attrs.field(factory=dict)
    unknown: Mapping[str, Any] = _unknown()


class DrainState(enum.Enum):
    """Progress of an agent that an operator empties."""

    DRAINING = "draining"
    DRAINED = "drained"


@attrs.frozen
class DrainInfo:
    """Order to empty an agent."""

    state: DrainState = DrainState.DRAINING
    mark_gone: bool = False
    """The agent is marked gone once it is drained."""
    grace_seconds: float | None = None
    """Most time that a task gets to end; None if each task has its own."""
    unknown: Mapping[str, Any] = _unknown()


@attrs.frozen
class AdmittedAgent:
    """Agent that may run tasks."""

    info: AgentInfo
    drain_info: DrainInfo | None = None
    """None if it is not drained."""
    deactivated: bool = False
    """It gets no new tasks."""
    unknown: Mapping[str, Any] = _unknown()


@attrs.frozen
class UnreachableAgent:
    """Agent that the master has lost. It may come back."""

    id: str
    time: float
    drain_info: DrainInfo | None = None
    """None if it is not drained."""
    deactivated: bool = False
    unknown: Mapping[str, Any] = _unknown()


@attrs.frozen
class GoneAgent:
    """Agent that an operator has declared lost for good."""

    id: str
    time: float
    unknown: Mapping[str, Any] = _unknown()


@attrs.frozen
class MachineId:
    """Host of agents, by name, address or both."""

    hostname: str = ""
    ip: str = ""
    """IPv4."""

    @property
    def key(self) -> str:
        """Key in its table."""
        return f"{self.hostname}/{self.ip}"

    def __str__(self) -> str:
        return self.key.strip("/")


@attrs.frozen
class Unavailability:
    """Period of maintenance."""

    start: float
    duration: float | None = None
    """None if it has no end."""


class MachineMode(enum.Enum):
    """State of a host."""

    UP = "up"
    """The mode of a machine without a record: it is not scheduled."""
    DRAINING = "draining"
    DOWN = "down"


@attrs.frozen
class ScheduledMachine:
    """Machine of the schedule."""

    id: MachineId
    mode: MachineMode
    unavailability: Unavailability
    unknown: Mapping[str, Any] = _unknown()


@attrs.frozen
class Window:
    """Machines that are maintained at the same time."""

    machine_ids: tuple[MachineId, ...]
    unavailability: Unavailability
    unknown: Mapping[str, Any] = _unknown()


@attrs.frozen
class Schedule:
    """Planned maintenance. A schedule without windows is not the same as none."""

    windows: tuple[Window, ...] = ()
    unknown: Mapping[str, Any] = _unknown()

    @property
    def machine_ids(self) -> tuple[MachineId, ...]:
        """All machines, in order."""
        return tuple(machine for window in self.windows for machine in window.machine_ids)


@attrs.frozen
class QuotaConfig:
    """Quantities of resources for a role, by name of the resource. Memory and disk are in megabytes."""

    role: str
    guarantees: Mapping[str, float] = attrs.field(factory=dict)
    limits: Mapping[str, float] = attrs.field(factory=dict)
    """A resource without a limit is not limited."""
    unknown: Mapping[str, Any] = _unknown()

    @property
    def is_default(self) -> bool:
        """True if it says nothing: a guarantee of zero is none, but a limit of zero is one."""
        return not any(self.guarantees.values()) and not self.limits


@attrs.frozen
class OldQuota:
    """Quota of masters without the capability QUOTA_V2: the guarantee is also the limit."""

    role: str
    guarantee: Mapping[str, float] = attrs.field(factory=dict)
    unknown: Mapping[str, Any] = _unknown()


@attrs.frozen
class Weight:
    """Share of a role, relative to the others. A role without a record has weight 1."""

    role: str
    weight: float
    unknown: Mapping[str, Any] = _unknown()


@attrs.frozen
class MinimumCapability:
    """Capability without which a master must not use the registry."""

    name: str
    unknown: Mapping[str, Any] = _unknown()


@attrs.frozen
class MasterInfo:
    """Address of the master that owns the registry."""

    id: str
    hostname: str = ""
    ip: str = ""
    port: int = 5050
    unknown: Mapping[str, Any] = _unknown()


DEACTIVATED: Final = "deactivated"
"""Tag of agents that take no tasks."""


def _tags(agent: AdmittedAgent | UnreachableAgent) -> tuple[str, ...]:
    return (DEACTIVATED,) if agent.deactivated else ()


ADMITTED: Final = json_table("admitted", AdmittedAgent, _tags)
UNREACHABLE: Final = json_table("unreachable", UnreachableAgent, _tags)
GONE: Final = json_table("gone", GoneAgent)
MACHINES: Final = json_table("machines", ScheduledMachine)
SCHEDULES: Final = json_table("schedules", Schedule)
QUOTAS: Final = json_table("quotas", QuotaConfig)
OLD_QUOTAS: Final = json_table("old_quotas", OldQuota)
WEIGHTS: Final = json_table("weights", Weight)
CAPABILITIES: Final = json_table("capabilities", MinimumCapability)
MASTER: Final = json_table("master", MasterInfo)

TABLES: Final[tuple[RecordTable[Any], ...]] = (
    MASTER, ADMITTED, UNREACHABLE, GONE, MACHINES, SCHEDULES, QUOTAS, OLD_QUOTAS, WEIGHTS, CAPABILITIES,
)  # fmt: skip
"""All tables of the registry of agents."""

ONLY: Final = "only"
"""Key of the record of a table that has at most one."""


def sample_agent(number: int) -> AgentInfo:
    """Agent of Mesos' benchmarks of the registrar: the same size of record. Numbers have one to five digits."""
    return AgentInfo(
        f"201310101658-2280333834-5050-48574-{number}", "localhost", 1.0, 512.0, 2048.0, {"foo": "bar", "baz": "quux"}
    )
