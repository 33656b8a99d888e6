"""Kills the driver of a stream in the middle of batches, each time at another stage, and starts another one."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

import attrs

from virtuallog.contract.errors import UnavailableError
from virtuallog.contract.ports import Clock
from virtuallog_lab.experiments.spark_stream.query import Progress, Query
from virtuallog_lab.harness.report import tell

STAGES: Final = ("planned", "writing", "listed")
"""Stages at which it is killed, in turn; `query.py` defines them."""
WRITING_SECONDS: Final = 0.4
"""Behind the plan of a batch: then its tasks run."""
STAGE_SECONDS: Final = 60.0
"""Seconds to wait for a batch at the wanted stage: being listed and not committed lasts
milliseconds. Then any stage will do."""
TRIES_MAX: Final = 10
"""A batch may end just before the signal."""
BATCH_SECONDS: Final = 240.0
"""Seconds for a driver to get to a batch at all: a JVM starts, on a busy machine."""
STARTS_MAX: Final = 20
"""Most starts of drivers, also of those that have ended by themselves, which none should."""
POLL_SECONDS: Final = 0.005


@attrs.define(eq=False)
class DriverKills:
    """Kills of the driver, spread over the run.

    Args:
        count: how many.
        query: that the drivers run.
        done: how much of the run is over, from 0 to 1.
        clock: to wait with.
        problems: receives the problems.
    """

    count: int
    query: Query
    done: Callable[[], float]
    clock: Clock
    problems: list[str]
    stages: list[str] = attrs.field(factory=list, init=False)
    """Stages of the batches in which it was killed."""

    async def run(self) -> None:
        """All of them. A driver runs when this begins, and when it has ended.

        Raises:
            UnavailableError: drivers end by themselves, again and again.
        """
        for number in range(self.count):
            share = (number + 1) / (self.count + 1.5)
            await self._wait(partial(self._has_come, share))
            await self._kill_once(STAGES[number % len(STAGES)])

    def _has_come(self, share: float) -> bool:
        return self.done() >= share

    async def _kill_once(self, stage: str) -> None:
        for _ in range(TRIES_MAX):
            found = await self._kill_at(stage)
            await self._start_again()
            if found.is_in_a_batch:
                self.stages.append(found.stage)
                tell(f"driver killed in batch {found.planned}: {found.stage}")
                return
        self._complain("no driver could be killed in the middle of a batch")

    async def _kill_at(self, stage: str) -> Progress:
        """Kill when a batch is at this stage, or, if none is seen there for long, somewhere in a
        batch."""
        before = self.query.progress.planned
        await self._wait(lambda: self.query.progress.committed > before, BATCH_SECONDS)
        if not await self._wait(lambda: self._is_at(stage), STAGE_SECONDS):
            await self._wait(lambda: self.query.progress.is_in_a_batch, BATCH_SECONDS)
        if stage == "writing":
            await self.clock.sleep(WRITING_SECONDS)
        return await self.query.kill()

    def _is_at(self, stage: str) -> bool:
        progress = self.query.progress
        return progress.is_in_a_batch and (stage != "listed" or progress.stage == "listed")

    async def _wait(self, condition: Callable[[], bool], seconds: float | None = None) -> bool:
        """Returns whether it has come true in time. A driver that ends by itself meanwhile is wrong; another one is started."""
        deadline = None if seconds is None else self.clock.monotonic() + seconds
        while not condition():
            if deadline is not None and self.clock.monotonic() >= deadline:
                return False
            if self.query.has_ended():
                self._complain(f"the driver ended by itself: {self.query.last_words}")
                await self.query.close()
                await self._start_again()
            await self.clock.sleep(POLL_SECONDS)
        return True

    async def _start_again(self) -> None:
        if self.query.starts >= STARTS_MAX:
            raise UnavailableError(f"{STARTS_MAX} drivers have been started: {self.query.last_words}")
        await self.query.start()

    def _complain(self, problem: str) -> None:
        tell(problem)
        self.problems.append(problem)
