"""The ordering rule: the correct loglet passes. That each wrong order is found: `tests/planted_bugs/loglets/weak_seal.py`."""

from __future__ import annotations

from virtuallog_simulation.runs.runner import run_seed

SEEDS = range(1, 101)


def test_the_correct_loglet_keeps_every_promise() -> None:
    """Tail before bit, write before bit: nothing to find in more seeds than the planted bugs get."""
    for seed in SEEDS:
        assert run_seed(seed, "weak-seal").violations == ()


def test_the_same_seed_gives_the_same_history() -> None:
    """Events, times and results alike."""
    first, second = (run_seed(5, "weak-seal", messages=True).history.events for _ in range(2))

    assert first == second
