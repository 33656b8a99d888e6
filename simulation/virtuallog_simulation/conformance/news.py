"""A nemesis that strikes at the worst moment: just when somebody has heard of an entry that may not be durable yet.

It is a client who asks for the tail again and again. What it has heard is in the history, like all that clients hear, so
a loglet that tells of what it may lose contradicts itself the next time it is asked. A nemesis that strikes at random
meets such a moment in a few of a hundred runs.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Final

import trio

from virtuallog.api import Loglet
from virtuallog.errors import RetryableError
from virtuallog_simulation.faults.registry import CLASSES
from virtuallog_simulation.faults.stage import Stage

POLL_SECONDS: Final = 0.005
QUIET_SECONDS: Final = 0.3
"""Mean time between two strikes, for something to happen that can be news."""


async def strike_at_news(loglet: Loglet, stage: Stage) -> None:
    """Let the class of faults strike whenever the tail has grown, for ever."""
    (act,) = [fault.act for fault in CLASSES if fault.name == stage.name]
    assert act is not None
    known = 0
    while True:
        with suppress(RetryableError):
            tail = (await loglet.check_tail()).tail
            if tail > known:
                await act(stage)
                await trio.sleep(stage.random.expovariate(1.0 / QUIET_SECONDS))
            known = tail
        await trio.sleep(POLL_SECONDS)
