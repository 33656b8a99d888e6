"""Operations on the maintenance of machines. There is at most one schedule.

UpdateSchedule      new machines are DRAINING, kept ones keep their mode, others vanish
StartMaintenance    -> DOWN
StopMaintenance     -> no longer scheduled
"""

from __future__ import annotations

import attrs

from virtuallog_database.registrar.core.edit import Edit, NotPermittedError
from virtuallog_lab.agents.records import MACHINES, ONLY, SCHEDULES, MachineId, MachineMode, Schedule, ScheduledMachine
from virtuallog_lab.agents.validation import check_machines, check_schedule


@attrs.frozen
class UpdateSchedule:
    """Replace the schedule.

    A schedule with an empty window, with a machine twice, with a machine that is none, or without a machine that is down is
    refused.
    """

    schedule: Schedule

    def perform(self, edit: Edit) -> None:
        """Store the schedule, and make the list of machines follow it."""
        former = dict(edit.items(MACHINES))
        check_schedule(self.schedule, former)
        windows = {machine.key: window for window in self.schedule.windows for machine in window.machine_ids}
        for key in former:
            if key not in windows:
                edit.delete(MACHINES, key)
        for machine in self.schedule.machine_ids:
            period = windows[machine.key].unavailability
            kept = former.get(machine.key)
            if kept is None:
                edit.put(MACHINES, machine.key, ScheduledMachine(machine, MachineMode.DRAINING, period))
            else:
                edit.put(MACHINES, machine.key, attrs.evolve(kept, unavailability=period))
        edit.put(SCHEDULES, ONLY, self.schedule)


@attrs.frozen
class StartMaintenance:
    """Take machines down. Those that are not scheduled are ignored."""

    machines: tuple[MachineId, ...]
    is_checked: bool = False
    """Refuse what Mesos' master refuses before it asks its registrar: no machines, one twice, or one that is not draining."""

    def perform(self, edit: Edit) -> None:
        """Set DOWN."""
        if self.is_checked:
            _check_modes(edit, self.machines, MachineMode.DRAINING)
        for machine in self.machines:
            record = edit.get(MACHINES, machine.key)
            if record is not None:
                edit.put(MACHINES, machine.key, attrs.evolve(record, mode=MachineMode.DOWN))


@attrs.frozen
class StopMaintenance:
    """Take machines out of maintenance. Those that are not scheduled are ignored."""

    machines: tuple[MachineId, ...]
    is_checked: bool = False
    """Refuse what Mesos' master refuses before it asks its registrar: no machines, one twice, or one that is not down."""

    def perform(self, edit: Edit) -> None:
        """Delete them from list and schedule; windows and a schedule that are then empty vanish."""
        if self.is_checked:
            _check_modes(edit, self.machines, MachineMode.DOWN)
        for machine in self.machines:
            edit.delete(MACHINES, machine.key)
        schedule = edit.get(SCHEDULES, ONLY)
        if schedule is None:
            return
        stopped = {*self.machines}
        trimmed = (
            attrs.evolve(window, machine_ids=tuple(each for each in window.machine_ids if each not in stopped))
            for window in schedule.windows
        )
        windows = tuple(window for window in trimmed if window.machine_ids)
        if windows:
            edit.put(SCHEDULES, ONLY, attrs.evolve(schedule, windows=windows))
        else:
            edit.delete(SCHEDULES, ONLY)


def _check_modes(edit: Edit, machines: tuple[MachineId, ...], mode: MachineMode) -> None:
    check_machines(machines)
    for machine in machines:
        record = edit.get(MACHINES, machine.key)
        if record is None:
            raise NotPermittedError(f"machine {machine} is not scheduled for maintenance")
        if record.mode is not mode:
            raise NotPermittedError(f"machine {machine} is {record.mode.value}, not {mode.value}")
