"""The simulator finds bugs: known ones are planted in product code, and each must be found within a bounded search.

A test here fails when the simulator has gone blind, or when the planted code no longer is where it was.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import pytest

from loglets.native.log_server import LogServer
from loglets.native.log_server_effects import Answer, Persist
from simulation.runner import run_seed
from virtuallog.types import Open

SEEDS = range(1, 101)

answered_when_durable = LogServer._seal


async def acknowledge_before_sync(self: Any) -> None:
    """`WriteAheadLog._write_group`: called back, and counted as durable, before it is written."""
    segment, chunks, self._opening = self._segment, self._opening, []
    offset = segment.synced
    group = self._take_group(chunks)
    segment.group_synced()
    for done, addresses in group:
        done(addresses)
    await self._write_synced(offset, chunks)
    if not offset:
        self._shelf.make_spare()


def answer_a_seal_at_once(self: Any, *arguments: Any) -> list[Any]:
    """`LogServer._seal`: the answer does not wait for stores that are in flight, so it does not cover them."""
    effects = answered_when_durable(self, *arguments)
    answers = []
    for effect in effects:
        if isinstance(effect, Persist):
            sealed = attrs.evolve(self.state(effect.entry.segment), sealed=True)
            answers += [Answer(question.ticket, sealed) for question in effect.entry.questions]
            effect.entry.questions.clear()
    return [*answers, *effects]


def believe_the_known_tail(self: Any) -> list[Any]:
    """`TailCheck._check_unsealed_again`: no R2 round; a tail known by hearsay is called open (as published in P1)."""
    finish: list[Any] = self._finish(Open(self._target))
    return finish


@pytest.mark.parametrize(
    ("target", "mutant", "scenario", "found_by"),
    [
        (
            "loglets.wal.log:WriteAheadLog._write_group",
            acknowledge_before_sync,
            "loaded",
            {"acknowledged below the stop", "loglet tails move forward", "acknowledged is readable"},
        ),
        (
            "loglets.native.log_server:LogServer._seal",
            answer_a_seal_at_once,
            "loaded",
            {"acknowledged below the stop", "sealed takes nothing"},
        ),
        (
            "loglets.native.tail_check:TailCheck._check_unsealed_again",
            believe_the_known_tail,
            "repair",
            {"open tails below the stop"},
        ),
    ],
    ids=["acknowledged before sync", "a seal that does not cover what is in flight", "no R2 round"],
)
def test_a_planted_bug_is_found(
    target: str,
    mutant: Any,
    scenario: str,
    found_by: set[str],
    record_property: Callable[[str, object], None],
) -> None:
    """Within 100 seeds, by a check that stands for the broken promise."""
    for seed in SEEDS:
        violations = run_seed(seed, scenario, {target: mutant}).violations
        if violations:
            record_property("found with seed", seed)
            assert found_by & {violation.check for violation in violations}
            return
    raise AssertionError(f"not found within {len(SEEDS)} seeds")


@pytest.mark.parametrize("scenario", ["loaded", "native", "repair"])
def test_without_a_planted_bug_there_is_nothing_to_find(scenario: str) -> None:
    """The same scenarios pass with the real code."""
    for seed in range(1, 21):
        assert run_seed(seed, scenario).violations == ()
