"""Runs a function over many things on Spark, from a driver that runs trio: results in order, with progress, and cancelled by Ctrl-C."""

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
"""So that jobs of the same name, at the same time, are told apart."""
_LOOK_SECONDS: Final = 0.5
"""Between two looks at how many tasks are done: people watch that."""


async def run_all(
    spark: SparkSession, name: str, function: Callable[[ThingT], ResultT], things: Sequence[ThingT], clock: Clock,
    tell: Callable[[int], None] = lambda done: None,
) -> list[ResultT]:  # fmt: skip
    """What the function returns for each, a task each. Cancelled, Spark is told to end its tasks, and nobody waits for them.

    Args:
        spark: the session.
        name: what Spark calls the job.
        function: is known to workers by its module and name.
        things: can be pickled, as can the results.
        clock: for the pauses between looks.
        tell: told how many are done.

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
