"""Agents that are emptied. Names in capitals are those of the cases of Mesos' registrar_tests.cpp."""

from __future__ import annotations

import itertools

import pytest

from tests.lab.agents.memory_registrar import MemoryRegistrar, agent
from virtuallog_database.registrar.core.edit import Operation
from virtuallog_lab.agents.agent_operations import Admit, MarkGone, MarkReachable, MarkUnreachable, Remove
from virtuallog_lab.agents.drain_operations import Deactivate, Drain, MarkDrained, Reactivate
from virtuallog_lab.agents.records import ADMITTED, UNREACHABLE, AdmittedAgent, DrainInfo, DrainState, UnreachableAgent

ORDER = DrainInfo(DrainState.DRAINING, mark_gone=True)
DRAINED = DrainInfo(DrainState.DRAINED, mark_gone=True)


@pytest.fixture
def registrar() -> MemoryRegistrar:
    """A registrar with the agent `1`."""
    made = MemoryRegistrar()
    assert made.apply(Admit(agent("1")))
    return made


def flags(registrar: MemoryRegistrar) -> str:
    """Ids of the deactivated agents, `|` between the lists."""
    admitted = "".join(each.info.id for each in registrar.records(ADMITTED) if each.deactivated)
    return admitted + "|" + "".join(each.id for each in registrar.records(UNREACHABLE) if each.deactivated)


def test_drain_agent(registrar: MemoryRegistrar) -> None:
    """DrainAgent: an unknown agent changes nothing; the order of a known one survives its loss and its return."""
    assert registrar.apply(Drain("not-admitted")) and registrar.changes == 0
    assert registrar.records(ADMITTED) == [AdmittedAgent(agent("1"))] and registrar.capabilities == []

    assert registrar.apply(Drain("1", mark_gone=True))
    assert registrar.records(ADMITTED) == [AdmittedAgent(agent("1"), ORDER, deactivated=True)]
    assert registrar.capabilities == ["AGENT_DRAINING"]

    assert registrar.apply(MarkUnreachable("1", 3.0))
    assert registrar.records(ADMITTED) == []
    assert registrar.records(UNREACHABLE) == [UnreachableAgent("1", 3.0, ORDER, deactivated=True)]

    assert registrar.apply(MarkReachable(agent("1")))
    assert registrar.records(UNREACHABLE) == []
    assert registrar.records(ADMITTED) == [AdmittedAgent(agent("1"), ORDER, deactivated=True)]


def test_mark_agent_drained(registrar: MemoryRegistrar) -> None:
    """MarkAgentDrained: only of an agent that is draining, admitted or unreachable."""
    assert not registrar.apply(MarkDrained("1"))
    assert registrar.apply(Drain("1", mark_gone=True))
    assert registrar.apply(MarkDrained("1"))
    assert registrar.records(ADMITTED)[0].drain_info == DRAINED
    assert not registrar.apply(MarkDrained("1"))

    assert registrar.apply(Remove("1")) and registrar.apply(Admit(agent("1")))
    assert registrar.apply(MarkUnreachable("1", 1.0))
    assert not registrar.apply(MarkDrained("1"))
    assert registrar.apply(Drain("1", mark_gone=True))
    assert registrar.apply(MarkDrained("1"))
    assert registrar.records(UNREACHABLE)[0].drain_info == DRAINED
    assert registrar.apply(MarkDrained("unknown")) and registrar.changes == 0


def test_deactivate_agent(registrar: MemoryRegistrar) -> None:
    """DeactivateAgent: as for a drain, but without an order."""
    assert registrar.apply(Deactivate("not-admitted")) and registrar.changes == 0
    assert registrar.records(ADMITTED) == [AdmittedAgent(agent("1"))] and registrar.capabilities == []

    assert registrar.apply(Deactivate("1"))
    assert registrar.records(ADMITTED) == [AdmittedAgent(agent("1"), None, deactivated=True)]
    assert registrar.capabilities == ["AGENT_DRAINING"]
    assert registrar.apply(MarkUnreachable("1", 3.0))
    assert registrar.records(UNREACHABLE) == [UnreachableAgent("1", 3.0, None, deactivated=True)]
    assert registrar.apply(MarkReachable(agent("1")))
    assert registrar.records(ADMITTED) == [AdmittedAgent(agent("1"), None, deactivated=True)]


def test_reactivate_agent() -> None:
    """ReactivateAgent: the capability goes with the last deactivated agent, over both lists and in any order."""
    registrar = MemoryRegistrar()
    assert all(registrar.apply_all([Admit(agent(name)) for name in "abuv"]))
    assert all(registrar.apply_all([MarkUnreachable("u", 1.0), MarkUnreachable("v", 1.0)]))
    story: list[tuple[Operation, str, bool]] = [
        (Deactivate("a"), "a|", True), (Deactivate("b"), "ab|", True),
        (Reactivate("a"), "b|", True), (Reactivate("b"), "|", False),
        (Deactivate("u"), "|u", True), (Deactivate("v"), "|uv", True), (Reactivate("a"), "|uv", True),
        (Reactivate("v"), "|u", True), (Reactivate("u"), "|", False),
        (Deactivate("a"), "a|", True), (Deactivate("u"), "a|u", True), (Reactivate("a"), "|u", True),
    ]  # fmt: skip

    for operation, deactivated, is_needed in story:
        assert registrar.apply(operation)
        assert (flags(registrar), registrar.capabilities) == (deactivated, ["AGENT_DRAINING"] if is_needed else [])


@pytest.mark.parametrize("order", list(itertools.permutations("abuv")), ids="".join)
def test_capability_goes_with_the_last(order: tuple[str, ...]) -> None:
    """Whichever agent is the last one, drained or only deactivated."""
    registrar = MemoryRegistrar()
    assert all(registrar.apply_all([Admit(agent(name)) for name in "abuv"]))
    assert all(registrar.apply_all([MarkUnreachable("u", 1.0), MarkUnreachable("v", 1.0)]))
    assert all(registrar.apply_all([Drain("a"), Deactivate("b"), Drain("u"), Deactivate("v")]))

    for left in (3, 2, 1, 0):
        assert registrar.apply(Reactivate(order[3 - left]))
        assert bool(registrar.capabilities) == bool(left)
    assert flags(registrar) == "|"
    assert {each.drain_info for each in registrar.records(ADMITTED)} == {None}


def test_reactivate_clears_the_order(registrar: MemoryRegistrar) -> None:
    """An agent that is active again has no order left; and one that is not known is no error."""
    assert registrar.apply_all([Drain("1", 5.0), MarkDrained("1"), Reactivate("1"), Reactivate("?")]) == [True] * 4
    assert registrar.records(ADMITTED) == [AdmittedAgent(agent("1"))]
    assert not registrar.apply(MarkDrained("1"))


def test_grace_stays_unless_it_is_given(registrar: MemoryRegistrar) -> None:
    """A second order without a grace keeps that of the first; the rest is of the second. A drained agent drains once more."""
    assert registrar.apply_all([Drain("1", 5.0, True), MarkDrained("1"), Drain("1")]) == [True] * 3
    assert registrar.records(ADMITTED)[0].drain_info == DrainInfo(DrainState.DRAINING, False, 5.0)
    assert registrar.apply(Drain("1", 0.0))
    assert registrar.records(ADMITTED)[0].drain_info == DrainInfo(DrainState.DRAINING, False, 0.0)
    assert registrar.apply(Drain("1", 0.0)) and registrar.changes == 0


def test_only_a_reactivation_drops_the_capability(registrar: MemoryRegistrar) -> None:
    """As in the original: it stays when the last deactivated agent leaves, until any known agent is reactivated."""
    assert registrar.apply(Admit(agent("2")))
    assert registrar.apply_all([Drain("1"), MarkGone("1", 1.0)]) == [True, True]
    assert registrar.capabilities == ["AGENT_DRAINING"]
    assert registrar.apply(Reactivate("1")) and registrar.changes == 0
    assert registrar.apply(Reactivate("2"))
    assert registrar.capabilities == []


def test_an_admitted_agent_comes_first(registrar: MemoryRegistrar) -> None:
    """An id in both lists means the admitted agent; the capability stays for the unreachable one until that is cleared too."""
    assert registrar.apply_all([MarkUnreachable("1", 1.0), Admit(agent("1")), Drain("1")]) == [True] * 3
    assert flags(registrar) == "1|"
    assert registrar.apply(Reactivate("1"))
    assert flags(registrar) == "|" and registrar.capabilities == []


def test_an_id_in_both_lists_is_cleared_in_the_first_while_others_are_deactivated() -> None:
    """As in the original, which looks at the second list only if it must."""
    registrar = MemoryRegistrar()
    assert all(
        registrar.apply_all(
            [Admit(agent("1")), Drain("1"), MarkUnreachable("1", 1.0), Admit(agent("1")), Admit(agent("2"))]
        )
    )
    assert all(registrar.apply_all([Deactivate("1"), Deactivate("2")]))
    assert flags(registrar) == "12|1"

    assert registrar.apply(Reactivate("1"))
    assert flags(registrar) == "2|1"
    assert registrar.apply_all([Deactivate("1"), Reactivate("2"), Reactivate("1")]) == [True] * 3
    assert flags(registrar) == "|" and registrar.capabilities == []
