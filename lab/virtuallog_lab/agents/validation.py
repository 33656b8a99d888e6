"""Checks of what operators and agents send. Mesos' master makes them before it asks its registrar.

Two requests that are checked against the same memory can contradict each other in the registry, so these operations check
once more, against the registry.
"""

from __future__ import annotations

import ipaddress
import math
import sys
from collections.abc import Mapping
from typing import Final

from virtuallog_database.registrar.core.edit import NotPermittedError
from virtuallog_lab.agents.records import (
    AgentInfo,
    MachineId,
    MachineMode,
    QuotaConfig,
    Schedule,
    ScheduledMachine,
    Weight,
)

ID_BYTES_MAX: Final = 255
"""Longest id of an agent, in UTF-8: it is a file name on the agent."""
NAME_BYTES_MAX: Final = 253
"""Longest name of a host, as in DNS, and of a role."""
MEGABYTES_MAX: Final = 1024.0**4
"""Largest quota of memory or disk: an exabyte, so that sums stay exact."""
QUANTITY_MAX: Final = 1e12
"""Largest quota of any other resource, for the same reason."""
_CONTROL: Final = frozenset(map(chr, (*range(32), 127)))
_NO_ROLE: Final = frozenset("\t\n\v\f\r \x7f")


def check_agent_id(agent: str) -> None:
    """Refuse an id that is no file name."""
    if not agent or agent in (".", ".."):
        raise NotPermittedError(f"'{agent}' is no id of an agent")
    _check_text("id of an agent", agent, ID_BYTES_MAX)
    if _CONTROL & {*agent} or "/" in agent or "\\" in agent:
        raise NotPermittedError(f"an id of an agent has no slash and no control character: {agent!r}")


def check_agent(info: AgentInfo) -> None:
    """Refuse an agent without a text as hostname, or with quantities that are none."""
    check_agent_id(info.id)
    _check_text("hostname", info.hostname, NAME_BYTES_MAX)
    for name in ("cpus", "mem", "disk"):
        check_number(f"{name} of agent {info.id}", getattr(info, name))


def check_number(what: str, number: float) -> None:
    """Refuse what is no number, not finite, or negative."""
    if type(number) not in (int, float) or not math.isfinite(number) or number < 0:
        raise NotPermittedError(f"{what} is {number!r}, and must be a number, finite and not negative")


def check_grace(grace_seconds: float | None) -> None:
    """Refuse a time that a task gets to end which is none."""
    if grace_seconds is not None:
        check_number("the time to end", grace_seconds)


def _check_text(what: str, text: str, bytes_max: int) -> None:
    try:
        size = len(text.encode())
    except (AttributeError, UnicodeEncodeError) as error:
        raise NotPermittedError(f"{text!r} is no {what}") from error
    if size > bytes_max:
        raise NotPermittedError(f"the {what} has at most {bytes_max} bytes, this one {size}")


def check_machine(machine: MachineId) -> None:
    """Refuse a machine without a name and an address, or with an address that is none."""
    if not machine.hostname and not machine.ip:
        raise NotPermittedError("a machine needs a hostname or an ip")
    _check_text("hostname", machine.hostname, NAME_BYTES_MAX)
    if "/" in machine.hostname:
        raise NotPermittedError(f"'{machine.hostname}' is no hostname")
    if machine.ip:
        try:
            ipaddress.IPv4Address(machine.ip)
        except ValueError as error:
            raise NotPermittedError(f"'{machine.ip}' is no IPv4 address") from error


def check_machines(machines: tuple[MachineId, ...]) -> None:
    """Refuse an empty list, and one that names a machine twice."""
    if not machines:
        raise NotPermittedError("the list of machines is empty")
    seen = set[MachineId]()
    for machine in machines:
        check_machine(machine)
        if machine in seen:
            raise NotPermittedError(f"machine {machine} appears more than once")
        seen.add(machine)


def check_schedule(schedule: Schedule, machines: Mapping[str, ScheduledMachine]) -> None:
    """Refuse a schedule that contradicts itself, or drops a machine that is down."""
    for window in schedule.windows:
        if not window.machine_ids:
            raise NotPermittedError("a window of maintenance has no machines")
        check_number("the start of maintenance", window.unavailability.start)
        if window.unavailability.duration is not None:
            check_number("the duration of maintenance", window.unavailability.duration)
    scheduled = schedule.machine_ids
    if scheduled:
        check_machines(scheduled)
    kept = {machine.key for machine in scheduled}
    for key, machine in machines.items():
        if machine.mode is MachineMode.DOWN and key not in kept:
            raise NotPermittedError(f"machine {machine.id} is down and cannot leave the schedule")


def check_role(role: str) -> None:
    """Refuse a name that is no role: '*', or names of directories separated by slashes."""
    if role == "*":
        return
    _check_text("role", role, NAME_BYTES_MAX)
    for component in role.split("/"):
        if component in ("", ".", "..", "*") or component.startswith("-") or _NO_ROLE & {*component}:
            raise NotPermittedError(f"{role!r} is no role")


def check_quota(config: QuotaConfig) -> None:
    """Refuse quantities that are no numbers, too large, or more than their limit."""
    check_role(config.role)
    for quantities in (config.guarantees, config.limits):
        for name, quantity in quantities.items():
            check_number(f"a quota of {name}", quantity)
            largest = MEGABYTES_MAX if name in ("mem", "disk") else QUANTITY_MAX
            if quantity > largest:
                raise NotPermittedError(f"a quota of {name} of {quantity:g} is more than {largest:g}")
            if 0 < quantity < sys.float_info.min:
                raise NotPermittedError(f"a quota of {name} cannot be {quantity:g}")
    for name, quantity in config.guarantees.items():
        if quantity > config.limits.get(name, math.inf):
            raise NotPermittedError(f"the guarantee of {name} for '{config.role}' is more than its limit")


def check_weight(weight: Weight) -> None:
    """Refuse a weight that is not positive."""
    check_role(weight.role)
    check_number(f"the weight of '{weight.role}'", weight.weight)
    if weight.weight <= 0:
        raise NotPermittedError(f"the weight of '{weight.role}' is {weight.weight:g}, and must be positive")
