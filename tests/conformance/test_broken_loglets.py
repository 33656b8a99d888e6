"""The suite notices: each loglet that breaks one promise is caught by the clause of that promise."""

from __future__ import annotations

import pytest
import trio

from tests.conformance.fixtures import alone
from tests.conformance.variants import BROKEN, Variant, VariantProvider
from virtuallog.testing.loglet_suite import CLAUSES, run_suite


@pytest.mark.parametrize("broken", BROKEN, ids=lambda broken: broken.__name__)
async def test_broken_loglet_is_caught(broken: type[Variant], autojump_clock: trio.testing.MockClock) -> None:
    """The clause that the loglet breaks says so, in words."""
    (clause,) = [clause for clause in CLAUSES if clause.__name__ == BROKEN[broken]]

    (verdict,) = await run_suite(lambda: alone(VariantProvider(loglet_class=broken)), [clause])

    assert not verdict.kept
    assert verdict.message.startswith("AssertionError: ")
