"""Every loglet keeps every clause of the contract."""

from __future__ import annotations

import pytest
import trio

from tests.simulation.conformance.fixtures import FIXTURES
from virtuallog.testing.loglet_suite import CLAUSES, Clause, run_clause


@pytest.mark.parametrize("clause", CLAUSES, ids=lambda clause: clause.__name__)
@pytest.mark.parametrize("loglet", FIXTURES)
async def test_clause(loglet: str, clause: Clause, autojump_clock: trio.testing.MockClock) -> None:
    """The loglet keeps the clause (its docstring says which promise that is)."""
    async with FIXTURES[loglet]() as fixture:
        await run_clause(clause, fixture)
