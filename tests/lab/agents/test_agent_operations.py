"""Agents on their ways between the lists. Names in capitals are those of the cases of Mesos' registrar_tests.cpp."""

from __future__ import annotations

import math
from typing import Any

import attrs
import pytest

from tests.lab.agents.memory_registrar import MemoryRegistrar, agent, contents
from virtuallog_database.registrar.core.edit import Edit, NotPermittedError, Operation
from virtuallog_lab.agents.agent_operations import (
    Admit,
    MarkGone,
    MarkReachable,
    MarkUnreachable,
    Prune,
    Remove,
    Rules,
    Update,
)
from virtuallog_lab.agents.drain_operations import Drain
from virtuallog_lab.agents.maintenance_operations import UpdateSchedule
from virtuallog_lab.agents.records import (
    ADMITTED,
    GONE,
    UNREACHABLE,
    AgentInfo,
    GoneAgent,
    MachineId,
    QuotaConfig,
    Schedule,
    Unavailability,
    UnreachableAgent,
    Weight,
    Window,
)
from virtuallog_lab.agents.role_operations import UpdateQuota, UpdateWeights

_NONE: Any = None
CURRENT, GONE_STAYS, STRICT, LENIENT = Rules.CURRENT, Rules.GONE_STAYS, Rules.STRICT, Rules.LENIENT


def with_lists(admitted: str = "", unreachable: str = "", gone: str = "") -> MemoryRegistrar:
    """A registrar with agents of one letter in its lists."""
    registrar = MemoryRegistrar()
    assert all(registrar.apply_all([Admit(agent(name)) for name in unreachable + gone + admitted] or [Prune()]))
    for name in unreachable:
        assert registrar.apply(MarkUnreachable(name, 1.0))
    for name in gone:
        assert registrar.apply(MarkGone(name, 2.0))
    return registrar


def lists(registrar: MemoryRegistrar) -> tuple[str, str, str]:
    """The same letters."""
    admitted, unreachable, gone = ("".join(registrar.keys(table)) for table in (ADMITTED, UNREACHABLE, GONE))
    return admitted, unreachable, gone


def test_recover_operations() -> None:
    """Recover: operations that wait for recovery succeed in order, in one batch that leaves nothing behind."""
    registrar = MemoryRegistrar()
    waiting: list[Operation] = [
        Admit(agent("1")), MarkUnreachable("1", 1.0), MarkReachable(agent("1")), Remove("1"),
    ]  # fmt: skip

    assert registrar.apply_all(waiting) == [True] * 4
    assert registrar.changes == 0 and registrar.stored == {}


def test_admit() -> None:
    """Admit: once, and a second time is refused and leaves no trace."""
    registrar = MemoryRegistrar()

    assert registrar.apply(Admit(agent("1")))
    before = contents(registrar.registry)
    assert not registrar.apply(Admit(agent("1", "another")))
    assert registrar.changes == 0 and contents(registrar.registry) == before


def test_update_slave() -> None:
    """UpdateSlave: the new description is stored in place; the same once more is permitted and changes nothing."""
    registrar = MemoryRegistrar()
    assert registrar.apply_all([Admit(agent("1", "original")), Admit(agent("2"))]) == [True, True]

    assert registrar.apply(Update(agent("1", "changed"))) and registrar.changes > 0
    assert [each.info.hostname for each in registrar.records(ADMITTED)] == ["changed", "localhost"]
    assert registrar.apply(Update(agent("1", "changed"))) and registrar.changes == 0
    assert not registrar.apply(Update(agent("3")))


def test_mark_reachable() -> None:
    """MarkReachable: an admitted agent stays as it is, as often as wanted; one that is not known is admitted."""
    registrar = MemoryRegistrar()
    assert registrar.apply(Admit(agent("1")))

    for _ in range(2):
        assert registrar.apply(MarkReachable(agent("1", "new name"))) and registrar.changes == 0
    assert registrar.apply(MarkReachable(agent("2")))
    assert [each.info for each in registrar.records(ADMITTED)] == [agent("1"), agent("2")]


def test_an_agent_comes_back_at_the_end_with_its_new_description() -> None:
    """An agent that was unreachable is appended, as it describes itself now."""
    registrar = with_lists(admitted="ac", unreachable="b")

    assert registrar.apply(MarkReachable(agent("b", "moved")))
    assert lists(registrar) == ("acb", "", "")
    assert registrar.records(ADMITTED)[2].info.hostname == "moved"


def test_mark_unreachable() -> None:
    """MarkUnreachable: an admitted agent, also again after it came back; not one that is unreachable already."""
    registrar = MemoryRegistrar()

    assert registrar.apply(Admit(agent("1")))
    assert registrar.apply(MarkUnreachable("1", 1.0))
    assert registrar.apply(MarkReachable(agent("1")))
    assert registrar.apply(MarkUnreachable("1", 2.0))
    assert not registrar.apply(MarkUnreachable("1", 3.0))
    assert registrar.records(UNREACHABLE) == [UnreachableAgent("1", 2.0)]


def test_mark_gone() -> None:
    """MarkGone: an admitted agent is gone."""
    registrar = with_lists(admitted="a")

    assert registrar.apply(MarkGone("a", 7.0))
    assert registrar.records(GONE) == [GoneAgent("a", 7.0)] and lists(registrar) == ("", "", "a")


def test_mark_unreachable_gone() -> None:
    """MarkUnreachableGone: an unreachable agent is gone, once; and is then no longer marked unreachable."""
    registrar = with_lists(unreachable="a")

    assert registrar.apply(MarkGone("a", 2.0))
    assert not registrar.apply(MarkGone("a", 3.0))
    assert not registrar.apply(MarkUnreachable("a", 4.0))
    assert not registrar.apply(MarkGone("unknown", 5.0))
    assert registrar.records(GONE) == [GoneAgent("a", 2.0)]


def test_prune() -> None:
    """Prune: pruned agents are not known any more, and are admitted again; twice over."""
    registrar = MemoryRegistrar()

    for _ in range(2):
        assert registrar.apply_all([Admit(agent(name)) for name in "123"]) == [True] * 3
        lost: list[Operation] = [MarkUnreachable("1", 1.0), MarkUnreachable("2", 1.0), MarkGone("3", 1.0)]
        assert [registrar.apply(each) for each in lost] == [True] * 3
        assert [registrar.apply(each) for each in (Prune(("1",)), Prune(("2",)), Prune((), ("3",)))] == [True] * 3
        assert lists(registrar) == ("", "", "")


@pytest.mark.parametrize(
    ("unreachable", "gone", "left"),
    [
        ("c", "", ("", "abde", "vwxyz")),
        ("", "y", ("", "abcde", "vwxz")),
        ("bd", "xz", ("", "ace", "vwy")),
        ("eb", "v", ("", "acd", "wxyz")),
        ("x", "a", ("", "abcde", "vwxyz")),
        ("?", "?", ("", "abcde", "vwxyz")),
        ("abcde", "vwxyz", ("", "", "")),
    ],
)
def test_prune_in_the_middle(unreachable: str, gone: str, left: tuple[str, str, str]) -> None:
    """Prune deletes exactly the named agents, wherever they stand in their lists. The original deletes those behind them too."""
    registrar = with_lists(unreachable="abcde", gone="vwxyz")

    assert registrar.apply(Prune(tuple(unreachable), tuple(gone)))
    assert lists(registrar) == left
    assert (registrar.changes > 0) == (left != ("", "abcde", "vwxyz"))


def test_remove() -> None:
    """Remove: an admitted agent, once; it may be admitted again."""
    registrar = with_lists(admitted="123")

    assert registrar.apply(Remove("1"))
    assert not registrar.apply(Remove("1"))
    assert registrar.apply(Admit(agent("1")))
    for name in "23":
        assert registrar.apply(Remove(name))
        assert not registrar.apply(Remove(name))
    assert lists(registrar) == ("1", "", "")


def test_bootstrap() -> None:
    """Bootstrap: an agent that registers again on an empty registry is admitted, and the next master knows it."""
    registrar = MemoryRegistrar()

    assert registrar.apply(MarkReachable(agent("1")))
    assert [each.info for each in registrar.records(ADMITTED)] == [agent("1")]


@pytest.mark.parametrize(
    ("operation", "answers"),
    [
        (Admit(agent("a")), {CURRENT: False, GONE_STAYS: False, STRICT: False, LENIENT: True}),
        (Admit(agent("u")), {CURRENT: True, GONE_STAYS: True, STRICT: False, LENIENT: True}),
        (Admit(agent("g")), {CURRENT: True, GONE_STAYS: False, STRICT: False, LENIENT: True}),
        (Admit(agent("?")), {CURRENT: True, GONE_STAYS: True, STRICT: True, LENIENT: True}),
        (MarkReachable(agent("a")), {CURRENT: True, GONE_STAYS: True, STRICT: True, LENIENT: True}),
        (MarkReachable(agent("u")), {CURRENT: True, GONE_STAYS: True, STRICT: True, LENIENT: True}),
        (MarkReachable(agent("g")), {CURRENT: True, GONE_STAYS: False, STRICT: False, LENIENT: True}),
        (MarkReachable(agent("?")), {CURRENT: True, GONE_STAYS: True, STRICT: False, LENIENT: True}),
        (Remove("a"), {CURRENT: True, GONE_STAYS: True, STRICT: True, LENIENT: True}),
        (Remove("u"), {CURRENT: False, GONE_STAYS: False, STRICT: False, LENIENT: True}),
        (Remove("g"), {CURRENT: False, GONE_STAYS: False, STRICT: False, LENIENT: True}),
    ],
    ids=str,
)
def test_rules(operation: Admit | MarkReachable | Remove, answers: dict[Rules, bool]) -> None:
    """Each set of rules answers as its Mesos did, to requests for an agent that is admitted, unreachable, gone or not known."""
    for rules, answer in answers.items():
        registrar = with_lists(admitted="a", unreachable="u", gone="g")
        assert registrar.apply(attrs.evolve(operation, rules=rules)) == answer, rules


def test_lenient_rules_change_nothing_that_is_there() -> None:
    """What the old lenient registrar permitted without need is no change."""
    registrar = with_lists(admitted="a")

    assert registrar.apply(Admit(agent("a", "other"), LENIENT)) and registrar.changes == 0
    assert registrar.apply(Remove("?", LENIENT)) and registrar.changes == 0


@pytest.mark.parametrize("rules", [GONE_STAYS, STRICT])
def test_a_gone_agent_is_not_admitted_again(rules: Rules) -> None:
    """Under the stricter rules gone is for good, on every way, until the record is pruned."""
    registrar = with_lists(admitted="a", unreachable="u")
    assert registrar.apply_all([MarkGone("a", 1.0), MarkGone("u", 2.0)]) == [True, True]

    for name in "au":
        assert not registrar.apply(Admit(agent(name), rules))
        assert not registrar.apply(MarkReachable(agent(name), rules))
    assert lists(registrar) == ("", "", "au")
    assert registrar.apply(Prune((), ("u",)))
    assert registrar.apply(Admit(agent("u"), rules))


def test_the_later_loss_counts() -> None:
    """An agent that was admitted as new while it was unreachable has one record when it is lost again: the later one, last."""
    registrar = with_lists(unreachable="ab")

    assert registrar.apply_all([Admit(agent("a")), MarkUnreachable("a", 9.0)]) == [True, True]
    assert registrar.records(UNREACHABLE) == [UnreachableAgent("b", 1.0), UnreachableAgent("a", 9.0)]


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a\\b", "a\nb", "a\0b", "a" * 256])
def test_an_id_is_a_file_name(name: str) -> None:
    """An agent with another id is not admitted by any of the rules."""
    for rules in Rules:
        registrar = MemoryRegistrar()
        assert registrar.apply_all(
            [Admit(AgentInfo(name, "h"), rules), MarkReachable(AgentInfo(name, "h"), rules)]
        ) == [
            False,
            False,
        ]


@attrs.frozen
class Flawed:
    """An operation with a bug behind its changes."""

    def perform(self, edit: Edit) -> None:
        for name in "ac":
            MarkUnreachable(name, 1.0).perform(edit)
        raise ZeroDivisionError


def test_a_bug_leaves_no_trace() -> None:
    """An operation that fails by a bug fails alone: what it did is undone, and its neighbours are not."""
    registrar = with_lists(admitted="abc")
    edit = Edit(registrar.registry)

    assert edit.run(MarkUnreachable("b", 5.0))
    before = dict(edit.changes)
    with pytest.raises(ZeroDivisionError):
        edit.run(Flawed())
    assert dict(edit.changes) == before
    with pytest.raises(NotPermittedError, match="not admitted"):
        edit.run(MarkUnreachable("b", 6.0))
    assert [key for key, _ in edit.items(ADMITTED)] == ["a", "c"]


@pytest.mark.parametrize(
    "info",
    [
        AgentInfo("\N{GRINNING FACE}" * 64, "h"), AgentInfo("\ud800", "h"), AgentInfo("b", _NONE), AgentInfo("b", "\ud800"),
        AgentInfo("b", "h" * 254), AgentInfo("b", "h", cpus=math.nan), AgentInfo("b", "h", mem=math.inf), AgentInfo("b", "h", disk=-1.0),
        AgentInfo("b", "h", cpus=True), AgentInfo("b", "h", cpus=_NONE),
    ],
)  # fmt: skip
def test_a_description_that_could_not_be_kept_is_refused(info: AgentInfo) -> None:
    """Ids are counted in bytes, as file names are. NaN would be no JSON, and a hostname of None would be read as 'None'."""
    registrar = with_lists("a")
    operations: list[Operation] = [Admit(info), MarkReachable(info), Update(attrs.evolve(info, id="a"))]
    for operation in operations:
        if info.id == "b" or not isinstance(operation, Update):
            assert not registrar.apply(operation)
    assert registrar.apply(Admit(AgentInfo("\N{GRINNING FACE}" * 63, "h")))


@pytest.mark.parametrize("time", [math.nan, math.inf, -1.0, "soon", None])
def test_a_time_is_a_number(time: Any) -> None:
    """Of a loss, and of an order to drain, except that an order may have none."""
    registrar = with_lists("a")
    operations: list[Operation] = [
        MarkUnreachable("a", time),
        MarkGone("a", time),
        *([] if time is None else [Drain("a", time)]),
    ]
    assert not any(registrar.apply(operation) for operation in operations)
    assert lists(registrar) == ("a", "", "")


@pytest.mark.parametrize(
    "operation",
    [
        UpdateSchedule(Schedule((Window((MachineId("h"),), Unavailability(math.nan)),))),
        UpdateSchedule(Schedule((Window((MachineId("h"),), Unavailability(1.0, math.nan)),))),
        UpdateSchedule(Schedule((Window((MachineId("h" * 600),), Unavailability(1.0)),))),
        UpdateQuota((QuotaConfig("r" * 600, {"cpus": 1.0}),)),
        UpdateQuota((QuotaConfig("r", {"cpus": True}),)),
        UpdateWeights((Weight("r" * 600, 1.0),)),
        UpdateWeights((Weight("r", True),)),
    ],
)
def test_requests_of_operators_are_checked_alike(operation: Operation) -> None:
    """A name that is too long for a key, and what is no number, are refused, and are no errors of the registrar."""
    registrar = MemoryRegistrar()
    assert not registrar.apply(operation)
    assert registrar.stored == {}
