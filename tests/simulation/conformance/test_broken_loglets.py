"""The suite notices: each loglet that breaks one promise is caught by the clause of that promise."""

from __future__ import annotations

import pytest
import trio

from tests.simulation.conformance.fixtures import alone
from tests.simulation.conformance.variants import BROKEN, Stalls, Variant, VariantProvider
from virtuallog.testing.clauses.concurrency import random_histories_are_those_of_a_log
from virtuallog.testing.loglet_suite import CLAUSES, run_clause, run_suite


@pytest.mark.parametrize("broken", BROKEN, ids=lambda broken: broken.__name__)
async def test_broken_loglet_is_caught(broken: type[Variant], autojump_clock: trio.testing.MockClock) -> None:
    """The clause that the loglet breaks says so, in words."""
    (clause,) = [clause for clause in CLAUSES if clause.__name__ == BROKEN[broken]]

    (verdict,) = await run_suite(lambda: alone(VariantProvider(loglet_class=broken)), [clause])

    assert not verdict.kept
    assert verdict.message.startswith("AssertionError: ")


async def test_a_loglet_that_has_to_be_sealed_is_a_log_all_the_same(autojump_clock: trio.testing.MockClock) -> None:
    """The contract lets a tail stay undecided until a client seals. A client of a random history that gets this answer
    seals; the next answer has to fit everything before."""
    async with alone(VariantProvider(loglet_class=Stalls)) as fixture:
        await run_clause(random_histories_are_those_of_a_log, fixture)
