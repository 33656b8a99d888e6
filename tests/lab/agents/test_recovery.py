"""Agents that do not come back after a failover, and records that grow old."""

from __future__ import annotations

import pytest

from tests.lab.agents.memory_registrar import MemoryRegistrar, agent
from virtuallog.contract.errors import InvalidSettingError
from virtuallog_lab.agents import recovery
from virtuallog_lab.agents.agent_operations import Admit, MarkGone, MarkReachable, MarkUnreachable, Prune
from virtuallog_lab.agents.records import ADMITTED, GONE, UNREACHABLE
from virtuallog_lab.agents.recovery import (
    DAY_SECONDS,
    AgentReturns,
    GarbageCollection,
    GarbageSettings,
    RemovalLimitError,
    RemovalRate,
    ReturnSettings,
    TokenBucket,
    garbage,
)

START = 1.7e9
"""A time of today, in seconds since 1970."""


def returns(settings: ReturnSettings, known: str = "abcdefghij") -> AgentReturns:
    """A recovery at `START`."""
    return AgentReturns(settings, tuple(known), START)


def test_agents_have_ten_minutes() -> None:
    """Those that have not registered by then are lost, each once, in the order in which they were admitted."""
    found = returns(ReturnSettings())
    for name in "jca":
        found.registered(name)
    found.registered("unknown")

    assert found.lost(START) == found.lost(START + 599.9) == ()
    assert found.next_time() == START + 600
    assert found.lost(START + 600) == tuple("bdefghi")
    assert found.lost(START + 900) == () and found.next_time() is None


def test_a_failover() -> None:
    """The whole story: a new master recovers, two of three agents come back, the third one is marked, and returns late."""
    registrar = MemoryRegistrar()
    assert registrar.apply_all([Admit(agent(name)) for name in "abc"]) == [True] * 3
    found = AgentReturns.of(ReturnSettings(), registrar.registry, START)

    for name in "ca":
        assert registrar.apply(MarkReachable(agent(name))) and registrar.changes == 0
        found.registered(name)
    lost = found.lost(START + 600)
    assert registrar.apply_all([MarkUnreachable(name, START + 600) for name in lost]) == [True]
    assert (registrar.keys(ADMITTED), registrar.keys(UNREACHABLE)) == (["a", "c"], ["b"])
    assert registrar.apply(MarkReachable(agent("b")))
    assert registrar.keys(ADMITTED) == ["a", "c", "b"]


@pytest.mark.parametrize(
    ("limit", "missing", "permitted"),
    [
        (100, 10, True),
        (50, 5, True),
        (50, 6, False),
        (0, 0, True),
        (0, 1, False),
        (99, 10, False),
        (33, 3, True),
        (33, 4, False),
    ],
)
def test_a_human_decides_above_the_limit(limit: int, missing: int, permitted: bool) -> None:
    """If a larger share than the limit is missing, none is removed."""
    found = returns(ReturnSettings(limit_percent=limit))
    for name in "abcdefghij"[missing:]:
        found.registered(name)

    assert found.lost(START + 1) == ()
    if permitted:
        assert len(found.lost(START + 600)) == missing
    else:
        with pytest.raises(RemovalLimitError, match=f"{missing} of 10 agents"):
            found.lost(START + 600)
        assert len(found.missing) == missing


def test_the_limit_holds_until_enough_are_back() -> None:
    """A master that goes on may ask again: the network may heal. Once the limit was kept, the rest is removed."""
    found = returns(ReturnSettings(limit_percent=20, rate=RemovalRate(1, 10.0)))
    for name in "abcdefg":
        found.registered(name)

    with pytest.raises(RemovalLimitError, match="3 of 10"):
        found.lost(START + 600)
    found.registered("h")
    assert found.lost(START + 601) == ("i",)
    assert found.lost(START + 611) == ("j",)


def test_an_empty_registry_loses_no_agents() -> None:
    """Also with the strictest limit."""
    found = returns(ReturnSettings(limit_percent=0), "")

    assert found.next_time() is None and found.lost(START + 600) == ()


def test_removals_are_limited_in_rate() -> None:
    """An agent that comes back while it waits for its removal is not removed."""
    found = returns(ReturnSettings(rate=RemovalRate(2, 60.0)), "abcdef")

    assert found.lost(START + 600) == ("a", "b")
    assert found.lost(START + 629) == ()
    found.registered("c")
    assert found.next_time() == START + 630
    assert found.lost(START + 630) == ("d",)
    assert found.lost(START + 900) == ("e", "f")
    assert found.missing == ()


@pytest.mark.parametrize("seconds", [0.1, 1.0, 7.0, 600.0])
@pytest.mark.parametrize("count", [1, 3, 7])
def test_a_driver_that_sleeps_until_the_next_time_never_wakes_in_vain(count: int, seconds: float) -> None:
    """All are removed, at the wanted rate after the first ones, in spite of the rounding of large times."""
    found = returns(ReturnSettings(rate=RemovalRate(count, seconds)), "".join(map(chr, range(200, 300))))
    now, times = START + 600, list[float]()
    while found.missing:
        lost = found.lost(now)
        assert lost
        times += [now] * len(lost)
        now = found.next_time() or now

    assert len(times) == 100
    assert times[99] == pytest.approx(START + 600 + (100 - count) * seconds / count, abs=1e-3)


def test_token_bucket() -> None:
    """It is full at first, fills while it rests, and never holds more than its size."""
    bucket = TokenBucket(RemovalRate(3, 30.0))

    assert [bucket.take(wanted, now) for wanted, now in ((2, 0.0), (5, 1.0), (1, 9.0), (1, 10.0), (9, 1000.0))] == [
        2,
        1,
        0,
        1,
        3,
    ]
    assert bucket.next_time() == 1010.0
    assert bucket.take(1, 500.0) == 0
    assert bucket.take(0, 2000.0) == 0


@pytest.mark.parametrize(("timeout", "limit"), [(599.0, 100), (600.0, 101), (600.0, -1)])
def test_settings_are_checked(timeout: float, limit: int) -> None:
    """As those of the original."""
    with pytest.raises(InvalidSettingError):
        ReturnSettings(timeout, limit)


def with_old_agents() -> MemoryRegistrar:
    """Five unreachable agents and four gone ones: one of each day since `START`."""
    registrar = MemoryRegistrar()
    assert all(registrar.apply_all([Admit(agent(name)) for name in "abcdewxyz"]))
    for day, name in enumerate("abcde"):
        assert registrar.apply(MarkUnreachable(name, START + day * DAY_SECONDS))
    for day, name in enumerate("wxyz"):
        assert registrar.apply(MarkGone(name, START + day * DAY_SECONDS))
    return registrar


@pytest.mark.parametrize(
    ("days", "count", "pruned"),
    [
        (14.0, 99, None),
        (14.1, 99, Prune(("a",), ("w",))),
        (17.5, 99, Prune(tuple("abcd"), tuple("wxyz"))),
        (99.0, 99, Prune(tuple("abcde"), tuple("wxyz"))),
        (4.0, 4, Prune(("a",), ())),
        (4.0, 2, Prune(tuple("abc"), tuple("wx"))),
        (15.5, 4, Prune(tuple("ab"), tuple("wx"))),
        (4.0, 0, Prune(tuple("abcde"), tuple("wxyz"))),
    ],
)
def test_garbage_by_age_and_count(days: float, count: int, pruned: Prune | None) -> None:
    """Each list loses its oldest records above the count, and those older than two weeks, in one operation."""
    registrar = with_old_agents()
    settings = GarbageSettings(count_max=count)

    found = garbage(settings, registrar.registry, START + days * DAY_SECONDS)
    assert found == pruned
    if found is not None:
        assert registrar.apply(found)
        assert registrar.keys(UNREACHABLE) == [name for name in "abcde" if name not in found.unreachable]
        assert registrar.keys(GONE) == [name for name in "wxyz" if name not in found.gone]
        assert garbage(settings, registrar.registry, START + days * DAY_SECONDS) is None


def test_garbage_is_collected_each_quarter_of_an_hour() -> None:
    """Not more often, also if there is none; and in the original's sizes."""
    registrar = with_old_agents()
    collection = GarbageCollection(GarbageSettings(), START + 900)
    assert (collection.settings.age_seconds, collection.settings.count_max) == (14 * 86_400, 102_400)

    assert collection.due(registrar.registry, START + 899) is None
    assert collection.due(registrar.registry, START + 901) is None
    assert collection.next_time == START + 1801
    assert collection.due(registrar.registry, START + 15 * DAY_SECONDS) == Prune(tuple("a"), tuple("w"))
    assert collection.due(registrar.registry, START + 15 * DAY_SECONDS + 899) is None
    assert collection.due(registrar.registry, START + 15 * DAY_SECONDS + 900) == Prune(tuple("ab"), tuple("wx"))


def test_much_garbage_is_collected_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """An operation is one command of the log, so it is bounded; the next one is due at once."""
    monkeypatch.setattr(recovery, "PRUNE_MAX", 3)
    registrar = with_old_agents()
    collection, now = GarbageCollection(GarbageSettings(), START), START + 15 * DAY_SECONDS + 901

    first = collection.due(registrar.registry, now)
    assert first == Prune(tuple("ab"), tuple("w"))
    assert registrar.apply(first)
    assert collection.due(registrar.registry, now) == Prune((), tuple("x"))
    assert collection.next_time == now + 900


def test_an_agent_with_a_clock_that_went_back_is_pruned_by_its_own_age() -> None:
    """The lists are in the order of their changes, so a younger record may stand before an older one."""
    registrar = MemoryRegistrar()
    assert all(registrar.apply_all([Admit(agent("a")), Admit(agent("b"))]))
    assert all(registrar.apply_all([MarkGone("a", START), MarkGone("b", START - DAY_SECONDS)]))

    assert garbage(GarbageSettings(), registrar.registry, START + 13.5 * DAY_SECONDS) == Prune((), ("b",))
