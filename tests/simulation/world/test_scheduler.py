"""The seeded scheduler: one seed, one history."""

from __future__ import annotations

import random
import subprocess
import sys

import pytest
import trio

from virtuallog_simulation.world import scheduler
from virtuallog_simulation.world.scheduler import run

_STORY = """
import random, trio
from virtuallog_simulation.world.scheduler import run

async def story():
    events, garbage = [], []
    async def actor(name):
        for step in range(20):
            await trio.sleep(0.1)  # everybody wakes at the same moment
            events.append(f"{name}{step}")
            garbage.append({object() for _ in range(random.randrange(50))})
    async with trio.open_nursery() as nursery:
        for name in ("anna", "bert", "carl", "dora", "emil"):
            nursery.start_soon(actor, name)
    return events
"""


async def _race() -> list[int]:
    events: list[int] = []

    async def actor(name: int) -> None:
        for _ in range(10):
            await trio.sleep(0.1)
            events.append(name)

    async with trio.open_nursery() as nursery:
        for name in range(5):
            nursery.start_soon(actor, name)
    return events


def test_the_same_seed_gives_the_same_order_of_tasks() -> None:
    """Like trio's own test of deterministic scheduling: many runs of one seed, independent of the state of the heap."""
    histories = []
    for _ in range(10):
        ballast = [object() for _ in range(random.randrange(10_000))]
        histories.append(run(7, _race))
        del ballast

    assert all(history == histories[0] for history in histories)


def test_different_seeds_give_different_orders() -> None:
    """Otherwise the seed would explore nothing."""
    assert run(1, _race) != run(2, _race)


def test_time_jumps_to_the_next_deadline() -> None:
    """An hour of simulated time takes no time."""

    async def sleep() -> float:
        await trio.sleep(3600)
        return trio.current_time()

    assert run(1, sleep) == pytest.approx(3600)


def test_the_schedulers_own_randomness_is_left_as_it_was_found() -> None:
    """A simulation inside a test must not make the rest of the test run repeatable, or less random."""
    internals = scheduler._trio_internals()
    flag, state = internals._ALLOW_DETERMINISTIC_SCHEDULING, internals._r.getstate()

    run(1, _race)

    assert flag == internals._ALLOW_DETERMINISTIC_SCHEDULING
    assert state == internals._r.getstate()


@pytest.mark.parametrize("name", ["_ALLOW_DETERMINISTIC_SCHEDULING", "_r", "GLOBAL_RUN_CONTEXT"])
def test_a_trio_without_the_private_names_is_refused_with_a_clear_message(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """A silent loss of determinism would make every reported seed worthless."""
    monkeypatch.delattr(scheduler._trio_internals(), name)

    with pytest.raises(RuntimeError, match=f"{name}.*simulation/virtuallog_simulation/world/scheduler.py"):
        run(1, _race)


def test_two_processes_with_different_hash_seeds_agree() -> None:
    """PYTHONHASHSEED changes the order of sets of strings; the scheduler must not depend on it."""
    code = _STORY + "\nprint(run(3, story))"
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code], env={"PYTHONHASHSEED": seed}, capture_output=True, check=True, text=True
        ).stdout
        for seed in ("0", "1")
    }

    assert len(outputs) == 1
