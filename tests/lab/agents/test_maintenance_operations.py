"""Maintenance of machines. Names in capitals are those of the cases of Mesos' registrar_tests.cpp."""

from __future__ import annotations

import pytest

from tests.lab.agents.memory_registrar import MACHINE_1, MACHINE_2, MACHINE_3, MemoryRegistrar, contents
from virtuallog_database.registrar.core.edit import Edit, NotPermittedError
from virtuallog_lab.agents.maintenance_operations import StartMaintenance, StopMaintenance, UpdateSchedule
from virtuallog_lab.agents.records import MACHINES, SCHEDULES, MachineId, Schedule, Unavailability, Window

NOW = Unavailability(1000.0)
NAMES = {MACHINE_1: "1", MACHINE_2: "2", MACHINE_3: "3"}


def schedule(*windows: tuple[MachineId, ...], at: Unavailability = NOW) -> Schedule:
    """A schedule of these windows."""
    return Schedule(tuple(Window(machines, at) for machines in windows))


def state(registrar: MemoryRegistrar) -> tuple[str, str]:
    """The schedule, with commas between its windows, `-` if there is none; and the machines with two letters of their modes."""
    schedules = [
        ",".join("".join(NAMES[each] for each in window.machine_ids) for window in stored.windows)
        for stored in registrar.records(SCHEDULES)
    ]
    machines = " ".join(NAMES[each.id] + each.mode.value[:2] for each in registrar.records(MACHINES))
    assert len(schedules) <= 1
    return (schedules or ["-"])[0], machines


def test_update_maintenance_schedule() -> None:
    """UpdateMaintenanceSchedule: the machines follow the schedule while it grows, is rearranged, shrinks and is cleared."""
    registrar = MemoryRegistrar()
    story = [
        (schedule((MACHINE_1,)), ("1", "1dr")),
        (schedule((MACHINE_1,), (MACHINE_2,)), ("1,2", "1dr 2dr")),
        (schedule((MACHINE_1,), (MACHINE_2, MACHINE_3)), ("1,23", "1dr 2dr 3dr")),
        (schedule((MACHINE_1, MACHINE_2, MACHINE_3)), ("123", "1dr 2dr 3dr")),
        (schedule((MACHINE_2, MACHINE_3)), ("23", "2dr 3dr")),
        (Schedule(), ("", "")),
    ]

    for wanted, expected in story:
        assert registrar.apply(UpdateSchedule(wanted)) and registrar.changes > 0
        assert state(registrar) == expected
    assert registrar.records(SCHEDULES) == [Schedule()]


def test_start_maintenance() -> None:
    """StartMaintenance: scheduled machines go down, and a later schedule leaves them down."""
    registrar = MemoryRegistrar()

    assert registrar.apply(UpdateSchedule(schedule((MACHINE_1, MACHINE_2))))
    assert registrar.apply(StartMaintenance((MACHINE_2,)))
    assert state(registrar) == ("12", "1dr 2do")
    assert registrar.apply(UpdateSchedule(schedule((MACHINE_1, MACHINE_2, MACHINE_3))))
    assert state(registrar) == ("123", "1dr 2do 3dr")
    assert registrar.apply(StartMaintenance((MACHINE_1, MACHINE_3)))
    assert state(registrar) == ("123", "1do 2do 3do")


def test_stop_maintenance() -> None:
    """StopMaintenance: machines leave list and schedule; empty windows vanish, and at last the schedule."""
    registrar = MemoryRegistrar()

    assert registrar.apply(UpdateSchedule(schedule((MACHINE_1, MACHINE_2), (MACHINE_3,))))
    assert registrar.apply_all([StartMaintenance((MACHINE_3,)), StopMaintenance((MACHINE_3,))]) == [True, True]
    assert state(registrar) == ("12", "1dr 2dr")
    both = (MACHINE_1, MACHINE_2)
    assert registrar.apply_all([StartMaintenance(both), StopMaintenance(both)]) == [True, True]
    assert state(registrar) == ("-", "")
    assert registrar.stored == {}


def test_new_window_of_a_kept_machine() -> None:
    """A machine that stays in the schedule gets the new time and keeps its mode."""
    registrar = MemoryRegistrar()
    later = Unavailability(5000.0, 60.0)
    assert registrar.apply(UpdateSchedule(schedule((MACHINE_1, MACHINE_2))))
    assert registrar.apply(StartMaintenance((MACHINE_1,)))

    assert registrar.apply(UpdateSchedule(schedule((MACHINE_2, MACHINE_1), at=later)))
    assert state(registrar) == ("21", "1do 2dr")
    assert {each.unavailability for each in registrar.records(MACHINES)} == {later}


@pytest.mark.parametrize(
    ("refused", "reason"),
    [
        (schedule((MACHINE_1, MACHINE_2), ()), "no machines"),
        (schedule((MACHINE_1, MACHINE_2), (MACHINE_1,)), "more than once"),
        (schedule((MACHINE_1, MACHINE_1)), "more than once"),
        (schedule((MACHINE_1,)), "2 is down and cannot leave"),
        (Schedule(), "2 is down and cannot leave"),
        (schedule((MACHINE_2, MachineId())), "needs a hostname or an ip"),
        (schedule((MACHINE_2, MachineId("h", "1.2.3"))), "no IPv4 address"),
        (schedule((MACHINE_2, MachineId("h", "::1"))), "no IPv4 address"),
        (schedule((MACHINE_2, MachineId("h/1.2.3.4"))), "no hostname"),
        (schedule((MACHINE_2,), at=Unavailability(0.0, -1.0)), "negative"),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_a_schedule_is_checked_against_the_registry(refused: Schedule, reason: str) -> None:
    """A schedule that contradicts itself or the machines is refused as a whole."""
    registrar = MemoryRegistrar()
    assert registrar.apply(UpdateSchedule(schedule((MACHINE_1, MACHINE_2))))
    assert registrar.apply(StartMaintenance((MACHINE_2,)))
    before = contents(registrar.registry)

    with pytest.raises(NotPermittedError, match=reason):
        Edit(registrar.registry).run(UpdateSchedule(refused))
    assert not registrar.apply(UpdateSchedule(refused))
    assert contents(registrar.registry) == before


def test_two_requests_that_passed_the_masters_checks_do_not_contradict() -> None:
    """A machine that went down in an earlier operation of the batch keeps a later one from dropping it."""
    registrar = MemoryRegistrar()
    assert registrar.apply(UpdateSchedule(schedule((MACHINE_1, MACHINE_2))))

    assert registrar.apply_all([StartMaintenance((MACHINE_1,)), UpdateSchedule(schedule((MACHINE_2,)))]) == [
        True,
        False,
    ]
    assert state(registrar) == ("12", "1do 2dr")


def test_machines_that_are_not_scheduled_are_ignored() -> None:
    """Unless the checks of the master are wanted: then nothing at all happens."""
    registrar = MemoryRegistrar()
    assert registrar.apply(UpdateSchedule(schedule((MACHINE_1, MACHINE_2))))

    for machines in ((), (MACHINE_3,), (MachineId(),)):
        assert registrar.apply_all([StartMaintenance(machines), StopMaintenance(machines)]) == [True, True]
        assert registrar.changes == 0
        assert not registrar.apply(StartMaintenance(machines, is_checked=True))
        assert not registrar.apply(StopMaintenance(machines, is_checked=True))
    assert not registrar.apply(StartMaintenance((MACHINE_1, MACHINE_3), is_checked=True))
    assert not registrar.apply(StartMaintenance((MACHINE_1, MACHINE_1), is_checked=True))
    assert not registrar.apply(StopMaintenance((MACHINE_1,), is_checked=True))
    assert state(registrar) == ("12", "1dr 2dr")
    assert registrar.apply(StartMaintenance((MACHINE_1,), is_checked=True))
    assert not registrar.apply(StartMaintenance((MACHINE_1,), is_checked=True))
    assert registrar.apply(StopMaintenance((MACHINE_1,), is_checked=True))
    assert state(registrar) == ("2", "2dr")


def test_a_draining_machine_may_leave() -> None:
    """A stop without checks does not need it to be down."""
    registrar = MemoryRegistrar()

    assert registrar.apply_all([UpdateSchedule(schedule((MACHINE_1,))), StopMaintenance((MACHINE_1,))]) == [True, True]
    assert state(registrar) == ("-", "")


def test_a_stop_drops_an_empty_schedule() -> None:
    """As in the original, even if it names no machine of it."""
    registrar = MemoryRegistrar()

    assert registrar.apply(UpdateSchedule(Schedule()))
    assert registrar.apply(StopMaintenance((MACHINE_1,)))
    assert state(registrar) == ("-", "")
