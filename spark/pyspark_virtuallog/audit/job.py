"""The audit from end to end: choose the range, observe it with Spark, judge the evidence."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import attrs
from pyspark.sql import SparkSession

from pyspark_virtuallog.audit.aggregation import gather
from pyspark_virtuallog.audit.core.findings import ChainHistory, ChainSegment, Findings
from pyspark_virtuallog.audit.segment_ends import check_ends
from pyspark_virtuallog.audit.source import DEPTH, NAME, AuditSource
from pyspark_virtuallog.audit.verdicts import judge
from pyspark_virtuallog.clients import client
from virtuallog.blocking import BlockingLog
from virtuallog.client.cluster_file import read_cluster_file
from virtuallog.contract.chain import Chain
from virtuallog.contract.errors import BeyondTailError, InvalidSettingError
from virtuallog.contract.types import LogPosition


@attrs.frozen(kw_only=True)
class AuditSettings:
    """Range and detail of an audit."""

    start: int | None = None
    """First position. None for the first one that is not trimmed; an audit never begins below that."""
    stop: int | None = None
    """One past the last position. None for the tail as it is when the audit begins."""
    prefixes_max: int = 10
    """Prefixes of keys to report, those with the most bytes."""
    depth: int = 1
    """Components of a path that make a prefix."""


def audit(
    spark: SparkSession, cluster_file: Path, settings: AuditSettings, tell: Callable[[str], None] = lambda what: None
) -> Findings:
    """Read a range of the log, and report its faults. Nothing is changed. `tell` gets the current
    step.

    Raises:
        InvalidSettingError: the end of the range is before its start.
        BeyondTailError: it goes past the tail.
        UnavailableError: no server that has a part of it answers.
    """
    log = client(read_cluster_file(cluster_file))
    register = log.register()
    start, stop = _range(log, settings)
    spark.dataSource.register(AuditSource)
    source = spark.read.format(NAME).option("cluster", str(cluster_file)).option("clusterId", register.cluster.hex())
    source = (
        source.option("startingOffsets", str(start))
        .option("endingOffsets", str(stop))
        .option("failOnDataLoss", "false")
    )
    if register.database:
        source = source.option(DEPTH, str(settings.depth))
    tell(f"reading [{start}, {stop})")
    evidence = gather(source.load(), prefixes_max=settings.prefixes_max, is_database=register.database, tell=tell)
    if evidence.pieces:  # positions trimmed before they could be planned are not missing
        start = LogPosition(max(start, min(log.find_trim_point(), evidence.pieces[0].first)))
    tell("asking segments where they end")
    evidence = attrs.evolve(evidence, ends=log.run(check_ends, start, stop))
    history = _history(register.chain)
    return Findings(
        cluster=register.cluster.hex(),
        start=start,
        stop=stop,
        findings=judge(evidence, history, start, stop, is_database=register.database),
        chain=history,
        evidence=evidence,
    )


def _range(log: BlockingLog, settings: AuditSettings) -> tuple[LogPosition, LogPosition]:
    tail = log.check_tail().tail
    stop = tail if settings.stop is None else settings.stop
    if stop > tail:
        raise BeyondTailError(LogPosition(stop), LogPosition(tail))
    first = max(log.find_trim_point(), log.register().chain.start)
    start = first if settings.start is None else max(first, settings.start)
    if settings.start is not None and settings.start > stop:
        raise InvalidSettingError("start", f"{settings.start} is behind the end, {stop}")
    return LogPosition(min(start, stop)), LogPosition(stop)


def _history(chain: Chain) -> ChainHistory:
    segments = [
        ChainSegment(segment=str(segment.id), loglet=segment.kind, start=segment.start, stop=segment.stop)
        for segment in chain.segments
    ]
    return ChainHistory(version=chain.version, segments=segments)
