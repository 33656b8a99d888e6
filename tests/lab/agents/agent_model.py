"""A model of the registry of agents, which keeps the lists as Mesos does, as lists that are searched; and random operations on it."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, TypeVar

import attrs

from tests.lab.agents.memory_registrar import MACHINE_1, MACHINE_2, MACHINE_3, agent
from virtuallog_database.registrar.core.edit import Operation
from virtuallog_database.registrar.core.tables import RecordTable, Registry
from virtuallog_lab.agents.agent_operations import (
    Admit,
    MarkGone,
    MarkReachable,
    MarkUnreachable,
    Prune,
    Remove,
    Rules,
    Update,
)  # fmt: skip
from virtuallog_lab.agents.drain_operations import Deactivate, Drain, MarkDrained, Reactivate
from virtuallog_lab.agents.maintenance_operations import StartMaintenance, StopMaintenance, UpdateSchedule
from virtuallog_lab.agents.records import (
    ADMITTED,
    CAPABILITIES,
    GONE,
    MACHINES,
    QUOTAS,
    SCHEDULES,
    UNREACHABLE,
    WEIGHTS,
    MachineId,
    QuotaConfig,
    Schedule,
    Unavailability,
    Weight,
    Window,
)  # fmt: skip
from virtuallog_lab.agents.role_operations import UpdateQuota, UpdateWeights

AGENTS, ROLES, MACHINE_IDS = "abcde", "xyz", (MACHINE_1, MACHINE_2, MACHINE_3)

RecordT = TypeVar("RecordT")

Row = dict[str, Any]
"""A record of the model."""


@attrs.define
class Tables:
    """The model: lists of dicts, and for each operation its effect and answer."""

    admitted: list[Row] = attrs.field(factory=list)
    unreachable: list[Row] = attrs.field(factory=list)
    gone: list[Row] = attrs.field(factory=list)
    machines: list[Row] = attrs.field(factory=list)
    schedules: list[list[list[MachineId]]] = attrs.field(factory=list)
    quotas: list[Row] = attrs.field(factory=list)
    weights: list[Row] = attrs.field(factory=list)
    capabilities: set[str] = attrs.field(factory=set)

    def admit(self, name: str, host: str, rules: Rules) -> bool:
        if of(self.admitted, name):
            return rules is Rules.LENIENT
        if rules in (Rules.STRICT, Rules.GONE_STAYS) and of(self.gone, name):
            return False
        if rules is Rules.STRICT and of(self.unreachable, name):
            return False
        self.admitted.append({"id": name, "host": host, "drain": None, "off": False})
        return True

    def update(self, name: str, host: str) -> bool:
        for row in of(self.admitted, name):
            row["host"] = host
            return True
        return False

    def mark_unreachable(self, name: str, time: float) -> bool:
        for row in of(self.admitted, name):
            self.admitted.remove(row)
            self.unreachable[:] = others(self.unreachable, name)
            self.unreachable.append({"id": name, "time": time, "drain": row["drain"], "off": row["off"]})
            return True
        return False

    def mark_reachable(self, name: str, host: str, rules: Rules) -> bool:
        if of(self.admitted, name):
            return True
        if rules in (Rules.STRICT, Rules.GONE_STAYS) and of(self.gone, name):
            return False
        found = of(self.unreachable, name) or [{"drain": None, "off": False}]
        if rules is Rules.STRICT and not of(self.unreachable, name):
            return False
        self.unreachable[:] = others(self.unreachable, name)
        self.admitted.append({"id": name, "host": host, "drain": found[0]["drain"], "off": found[0]["off"]})
        return True

    def mark_gone(self, name: str, time: float) -> bool:
        if of(self.gone, name):
            return False
        for rows in (self.admitted, self.unreachable):
            if of(rows, name):
                rows[:] = others(rows, name)
                self.gone.append({"id": name, "time": time})
                return True
        return False

    def remove(self, name: str, rules: Rules) -> bool:
        found = of(self.admitted, name)
        self.admitted[:] = others(self.admitted, name)
        return bool(found) or rules is Rules.LENIENT

    def prune(self, unreachable: str, gone: str) -> bool:
        self.unreachable[:] = [row for row in self.unreachable if row["id"] not in unreachable]
        self.gone[:] = [row for row in self.gone if row["id"] not in gone]
        return True

    def drain(self, name: str, grace: float | None, mark_gone: bool) -> bool:
        for row in self.known(name):
            former = row["drain"][2] if row["drain"] else None
            row.update(drain=("draining", mark_gone, former if grace is None else grace), off=True)
            self.capabilities.add("AGENT_DRAINING")
        return True

    def mark_drained(self, name: str) -> bool:
        for row in self.known(name):
            if not row["drain"] or row["drain"][0] != "draining":
                return False
            row["drain"] = ("drained", *row["drain"][1:])
        return True

    def deactivate(self, name: str) -> bool:
        for row in self.known(name):
            row["off"] = True
            self.capabilities.add("AGENT_DRAINING")
        return True

    def reactivate(self, name: str) -> bool:
        found = [*of(self.admitted, name)]
        if not found or not any(row["off"] for row in others(self.admitted, name)):
            found += of(self.unreachable, name)
        for row in found:
            row.update(drain=None, off=False)
        if found and not any(row["off"] for row in others(self.admitted + self.unreachable, name)):
            self.capabilities.discard("AGENT_DRAINING")
        return True

    def update_schedule(self, windows: list[list[MachineId]], start: float) -> bool:
        named = [machine for window in windows for machine in window]
        down = [row["id"] for row in self.machines if row["mode"] == "down"]
        if not all(windows) or len({*named}) < len(named) or {*down} - {*named}:
            return False
        self.machines[:] = [row for row in self.machines if row["id"] in named]
        for machine in named:
            for row in of(self.machines, machine):
                row["start"] = start
            if not of(self.machines, machine):
                self.machines.append({"id": machine, "mode": "draining", "start": start})
        self.schedules[:] = [windows]
        return True

    def start_maintenance(self, machines: list[MachineId]) -> bool:
        for machine in machines:
            for row in of(self.machines, machine):
                row["mode"] = "down"
        return True

    def stop_maintenance(self, machines: list[MachineId]) -> bool:
        self.machines[:] = [row for row in self.machines if row["id"] not in machines]
        for schedule in [*self.schedules]:
            left = [[each for each in window if each not in machines] for window in schedule]
            self.schedules[:] = [[window for window in left if window]] if any(left) else []
        return True

    def update_quota(self, quotas: list[tuple[str, float, float]]) -> bool:
        if any(cpus > limit for _, cpus, limit in quotas):
            return False
        for role, cpus, limit in quotas:
            if limit == 0:
                self.quotas[:] = others(self.quotas, role)
            elif of(self.quotas, role):
                of(self.quotas, role)[0].update(cpus=cpus, limit=limit)
            else:
                self.quotas.append({"id": role, "cpus": cpus, "limit": limit})
        self.capabilities.discard("QUOTA_V2")
        self.capabilities |= {"QUOTA_V2"} if self.quotas else set()
        return True

    def update_weights(self, weights: list[tuple[str, float]]) -> bool:
        for role, weight in weights:
            for row in of(self.weights, role):
                row["weight"] = weight
            if not of(self.weights, role):
                self.weights.append({"id": role, "weight": weight})
        return True

    def known(self, name: str) -> list[Row]:
        return of(self.admitted, name) or of(self.unreachable, name)


def of(rows: list[Row], name: Any) -> list[Row]:
    """Records of an id."""
    return [row for row in rows if row["id"] == name]


def others(rows: list[Row], name: Any) -> list[Row]:
    """Records of other ids."""
    return [row for row in rows if row["id"] != name]


def quota(role: str, cpus: float, limit: float) -> QuotaConfig:
    return QuotaConfig(role, {"cpus": cpus}, {"cpus": limit}) if limit else QuotaConfig(role)


def chosen(chance: random.Random, model: Tables) -> tuple[Operation, Callable[[], bool]]:
    """An operation, and what the model does for it."""
    name, other = chance.choice(AGENTS), chance.choice(AGENTS)
    host, rules, time = chance.choice("hi"), chance.choice([*Rules]), float(chance.randint(1, 99))
    grace, flag = chance.choice([None, 1.0, 2.0]), chance.random() < 0.5
    machines = chance.sample(MACHINE_IDS, chance.randint(0, 2))
    windows = [chance.sample(MACHINE_IDS, chance.choice([0, 1, 1, 1, 2, 3])) for _ in range(chance.randint(0, 2))]
    schedule = Schedule(tuple(Window(tuple(window), Unavailability(time)) for window in windows))
    quotas = [
        (role, float(chance.randint(0, 2)), chance.choice([0.0, 1.0, 2.0, 3.0])) for role in chance.sample(ROLES, 2)
    ]
    quotas = [(role, cpus if limit else 0.0, limit) for role, cpus, limit in quotas]
    weights = [(role, float(chance.randint(1, 2))) for role in chance.sample(ROLES, chance.randint(0, 2))]
    choices: list[tuple[Operation, Callable[[], bool]]] = [
        (Admit(agent(name, host), rules), lambda: model.admit(name, host, rules)),
        (Admit(agent(other, host)), lambda: model.admit(other, host, Rules.CURRENT)),
        (Update(agent(name, host)), lambda: model.update(name, host)),
        (MarkUnreachable(name, time), lambda: model.mark_unreachable(name, time)),
        (MarkReachable(agent(name, host), rules), lambda: model.mark_reachable(name, host, rules)),
        (MarkGone(name, time), lambda: model.mark_gone(name, time)),
        (Remove(name, rules), lambda: model.remove(name, rules)),
        (Prune((name,), (name, other)), lambda: model.prune(name, name + other)),
        (Drain(name, grace, flag), lambda: model.drain(name, grace, flag)),
        (MarkDrained(name), lambda: model.mark_drained(name)),
        (Deactivate(name), lambda: model.deactivate(name)),
        (Reactivate(name), lambda: model.reactivate(name)),
        (UpdateSchedule(schedule), lambda: model.update_schedule(windows, time)),
        (StartMaintenance(tuple(machines)), lambda: model.start_maintenance(machines)),
        (StopMaintenance(tuple(machines)), lambda: model.stop_maintenance(machines)),
        (UpdateQuota(tuple(quota(*each) for each in quotas)), lambda: model.update_quota(quotas)),
        (UpdateWeights(tuple(Weight(*each) for each in weights)), lambda: model.update_weights(weights)),
    ]  # fmt: skip
    return chance.choice(choices)


def rows(registry: Registry) -> Tables:
    """A registry in the form of the model."""

    def records(table: RecordTable[RecordT]) -> list[RecordT]:
        return [record for _, record in registry.items(table)]

    def drain(record: Any) -> tuple[str, bool, float | None] | None:
        order = record.drain_info
        return order and (order.state.value, order.mark_gone, order.grace_seconds)

    return Tables(
        [
            {"id": r.info.id, "host": r.info.hostname, "drain": drain(r), "off": r.deactivated}
            for r in records(ADMITTED)
        ],
        [{"id": r.id, "time": r.time, "drain": drain(r), "off": r.deactivated} for r in records(UNREACHABLE)],
        [{"id": r.id, "time": r.time} for r in records(GONE)],
        [{"id": r.id, "mode": r.mode.value, "start": r.unavailability.start} for r in records(MACHINES)],
        [[[*window.machine_ids] for window in r.windows] for r in records(SCHEDULES)],
        [{"id": r.role, "cpus": r.guarantees["cpus"], "limit": r.limits["cpus"]} for r in records(QUOTAS)],
        [{"id": r.role, "weight": r.weight} for r in records(WEIGHTS)],
        {capability for capability, _ in registry.items(CAPABILITIES)},
    )
