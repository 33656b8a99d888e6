"""Runs a function over many items on Spark, from a driver that runs trio: results in order,
progress, and Ctrl-C."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count
from typing import Final, TypeVar

import trio
from pyspark import SparkContext
from pyspark.sql import SparkSession

from virtuallog.contract.ports import Clock

ThingT = TypeVar("ThingT")
ResultT = TypeVar("ResultT")

_NUMBERS: Final = count(1)
"""Numbers that distinguish concurrent jobs of the same name."""
_LOOK_SECONDS: Final = 0.5
"""Interval between two looks at the number of finished tasks, which users watch."""


async def run_all(
    spark: SparkSession, name: str, function: Callable[[ThingT], ResultT], things: Sequence[ThingT], clock: Clock,
    tell: Callable[[int], None] = lambda done: None,
) -> list[ResultT]:  # fmt: skip
    """Results of the function for each item, one task each. If cancelled, Spark is asked to end its
    tasks, without waiting for them.

    Args:
        spark: the session.
        name: Spark's name for the job.
        function: known to workers by its module and name.
        things: items; they and the results must be picklable.
        clock: clock of the pauses between looks.
        tell: gets the number of finished tasks.

    Raises:
        Py4JError, PySparkException: the function raised something, or Spark has given up.
    """
    if not things:
        return []
    context, group = spark.sparkContext, f"{next(_NUMBERS)} {name}"

    def run() -> list[ResultT]:
        context.setJobGroup(group, name, interruptOnCancel=True)
        found: list[ResultT] = context.parallelize(things, len(things)).map(function).collect()
        return found

    async with trio.open_nursery() as nursery:
        nursery.start_soon(_watch, context, group, clock, tell)
        try:
            results = await trio.to_thread.run_sync(run, abandon_on_cancel=True)
        except trio.Cancelled:
            context.cancelJobGroup(group)
            raise
        nursery.cancel_scope.cancel()
    tell(len(results))
    return results


async def _watch(context: SparkContext, group: str, clock: Clock, tell: Callable[[int], None]) -> None:
    tracker = context.statusTracker()
    while True:
        await clock.sleep(_LOOK_SECONDS)
        jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(group)]
        stages = [tracker.getStageInfo(stage) for job in jobs if job for stage in job.stageIds]
        tell(sum(stage.numCompletedTasks for stage in stages if stage))
