"""What is run for a seed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import attrs

from virtuallog_simulation.world.world import World


@attrs.frozen(kw_only=True)
class Scenario:
    """A story told to a fresh world. It ends by running its checks (`World.check`)."""

    name: str
    about: str
    story: Callable[[World], Awaitable[None]]
    limit_seconds: float
    """Simulated time after which the story is stuck, which is a violation by itself."""
    needs: str = ""
    """Module that the story imports, and that only an extra brings; empty if there is none."""
    draws_bounds: bool = True
    """Whether bounds of the product may be small (`virtuallog_simulation.runs.bounds`). Not where a story tells what must happen after each step."""
