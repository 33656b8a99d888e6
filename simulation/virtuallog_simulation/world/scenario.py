"""A scenario: a named story that one seed runs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import attrs

from virtuallog_simulation.world.world import World


@attrs.frozen(kw_only=True)
class Scenario:
    """A story that plays in a fresh world and ends by running its checks (`World.check`)."""

    name: str
    about: str
    story: Callable[[World], Awaitable[None]]
    limit_seconds: float
    """Simulated time after which the story is stuck, which is a violation by itself."""
    needs: str = ""
    """Module that the story imports and that only an extra installs; empty if there is none."""
    draws_bounds: bool = True
    """True if bounds of the product may be small (`virtuallog_simulation.runs.bounds`). False where
    a story says what must happen after each step."""
