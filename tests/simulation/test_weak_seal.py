"""The ordering rule: the correct loglet passes, each of the two wrong orders is found."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from simulation.runner import Report, run_seed
from virtuallog.errors import SealedError
from virtuallog.testing.weak_seal import WeakSealLoglet, Write
from virtuallog.types import Open, Sealed, Tail

SEEDS = range(1, 101)


async def seal_bit_before_tail(self: WeakSealLoglet) -> Tail:
    """The published OSDI'20 text allows this."""
    sealed = await self._is_sealed()
    tail = await self._tail()
    return Sealed(tail) if sealed else Open(tail)


async def sealed_tail_not_read_again(self: WeakSealLoglet) -> Tail:
    tail = await self._tail()
    return Sealed(tail) if await self._is_sealed() else Open(tail)


async def check_then_write(self: WeakSealLoglet, batch: Any, *, opens: bool, expected_tail: Any = None) -> range:
    if await self._is_sealed():
        raise SealedError
    written = await self._call(self._entries, Write(batch, opens, expected_tail))
    return range(written.start, written.stop)


def first_violation(patches: Mapping[str, Any]) -> Report:
    for seed in SEEDS:
        report = run_seed(seed, "weak-seal", patches)
        if report.violations:
            return report
    raise AssertionError(f"not found within {len(SEEDS)} seeds")


def test_the_correct_loglet_keeps_every_promise() -> None:
    """Tail before bit, write before bit: nothing to find in as many seeds as the planted bugs get."""
    for seed in SEEDS:
        assert run_seed(seed, "weak-seal").violations == ()


@pytest.mark.parametrize(
    ("name", "mutant", "found_by"),
    [
        ("check_tail", seal_bit_before_tail, "open tails below the stop"),
        ("check_tail", sealed_tail_not_read_again, "acknowledged below the stop"),
        ("append", check_then_write, "acknowledged below the stop"),
    ],
)
def test_a_planted_wrong_order_is_found(
    name: str, mutant: Any, found_by: str, record_property: Callable[[str, object], None]
) -> None:
    """Within 100 seeds, by the check that stands for the broken promise."""
    report = first_violation({f"virtuallog.testing.weak_seal:WeakSealLoglet.{name}": mutant})

    record_property("found with seed", report.seed)
    assert found_by in {violation.check for violation in report.violations}


def test_a_bug_that_is_planted_nowhere_is_refused() -> None:
    """A renamed function must not turn a planted bug into a test of nothing."""
    with pytest.raises(LookupError, match="no_such"):
        run_seed(1, "weak-seal", {"virtuallog.testing.weak_seal:WeakSealLoglet.no_such": None})


def test_the_same_seed_gives_the_same_history() -> None:
    """Events, times and results alike."""
    first, second = (run_seed(5, "weak-seal", messages=True).history.events for _ in range(2))

    assert first == second
