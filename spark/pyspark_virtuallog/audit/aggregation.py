"""Aggregation of observations: the small ones on the driver, the others in Spark, which gives sums
and a few examples.

Nothing that grows with the number of entries comes to the driver. Runs are sorted by session, once
by number and once by position; prefixes by the bytes written to them.

Positions trimmed while tasks read are a gap for some tasks and rows for others. So sessions and
markers are judged only from the position that all tasks could read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import attrs
from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as f

from pyspark_virtuallog.audit.core.anomalies import EXAMPLES_MAX
from pyspark_virtuallog.audit.core.evidence import (
    Comparisons,
    Evidence,
    Fault,
    Growth,
    Markers,
    PrefixSum,
    Round,
    SessionSum,
)
from pyspark_virtuallog.audit.core.observation_sums import ObservationSums, rates_of, segments_of
from pyspark_virtuallog.audit.core.observations import SMALL
from pyspark_virtuallog.audit.core.sink_markers import MARKED
from pyspark_virtuallog.audit.core.text import digests_of
from pyspark_virtuallog.audit.core.time_buckets import BUCKET_MS
from pyspark_virtuallog.audit.verdicts import DOUBLED, REORDERED, SKIPPED, UNKEPT

_FAULTS: Final = {DOUBLED: "doubled", SKIPPED: "skipped", REORDERED: "reordered"}
_TOLD: Final = {
    "doubled": "format_string('%d to %d in runs from %d and from %d', first, least(stop, reached) - 1, reached_at, start)",
    "skipped": "format_string('%d to %d are not there, before %d', reached, first - 1, start)",
    "reordered": "format_string('%d to %d at %d, behind %d', first, stop - 1, start, before - 1)",
}
"""Examples, in SQL."""


def gather(
    seen: DataFrame, *, prefixes_max: int, is_database: bool, tell: Callable[[str], None] = lambda what: None
) -> Evidence:
    """All evidence in observations, which are computed once, and kept on disks until this returns."""
    seen.persist(StorageLevel.DISK_ONLY)
    try:
        return _gather(seen, prefixes_max, tell, is_database=is_database)
    finally:
        seen.unpersist()


def _gather(seen: DataFrame, prefixes_max: int, tell: Callable[[str], None], *, is_database: bool) -> Evidence:
    folded = ObservationSums.of(row.asDict(recursive=True) for row in _that_are(seen, *SMALL).select(*SMALL).collect())
    tell("comparing sessions")
    tallies, remarks = folded.tallies(), folded.remarks
    sessions = _sessions(_that_are(seen, "run").select("run.*").where(f.col("start") >= folded.kept_from))
    count, faults = _session_faults(sessions)
    evidence = Evidence(
        pieces=folded.pieces,
        gaps=folded.gaps,
        segments=segments_of(tallies),
        span_ms=tallies.span * BUCKET_MS,
        rates=rates_of(tallies),
        sessions=count,
        largest_sessions=_largest(sessions),
        faults=[*remarks, *faults],
    )
    if is_database:
        tell("adding up what was written to keys")
        prefixes, growth = _growth(_that_are(seen, "growth").select("growth.*"), prefixes_max, tallies.span)
        evidence = attrs.evolve(evidence, prefixes=prefixes, growth=growth)
        tell("comparing what replicas have reported")
        comparisons = _comparisons(_that_are(seen, "report").select("report.*"))
        evidence = attrs.evolve(evidence, comparisons=comparisons)
    if any(remark.check == MARKED for remark in remarks):
        tell("looking for what markers name")
        begin = max(folded.pieces[0].first, folded.kept_from)
        markers, unkept = _markers(_that_are(seen, "marker").select("marker.*"), sessions, begin)
        evidence = attrs.evolve(evidence, markers=markers, faults=[*evidence.faults, *unkept])
    return evidence


def _that_are(seen: DataFrame, *kinds: str) -> DataFrame:
    return seen.where(" or ".join(f"{kind} is not null" for kind in kinds))


# -- sessions -------------------------------------------------------------------------------------------------------------


def _sessions(runs: DataFrame) -> DataFrame:
    """A row for each session: its entries, the numbers that are doubled, missing or out of order,
    and the first example of each.

    By number, a run that begins below what earlier runs reach is a duplicate, and one that begins
    above leaves a hole. By position, a run of smaller numbers is out of order; a duplicate is not
    counted as that, too.
    """
    by_number = Window.partitionBy("session").orderBy("first", "start").rowsBetween(Window.unboundedPreceding, -1)
    by_position = Window.partitionBy("session").orderBy("start").rowsBetween(Window.unboundedPreceding, -1)
    judged = (
        runs.withColumn("stop", f.col("first") + f.col("count"))
        .withColumn("reached", f.coalesce(f.max("stop").over(by_number), "first"))
        .withColumn("reached_at", f.max_by("start", "stop").over(by_number))
        .withColumn("before", f.coalesce(f.max("stop").over(by_position), "first"))
        .withColumn("doubled", f.expr("greatest(0, least(stop, reached) - first)"))
        .withColumn("skipped", f.expr("greatest(0, first - reached)"))
        .withColumn("reordered", f.expr("cast(first < before and doubled = 0 as long)"))
    )
    sums = (
        f.sum("count").alias("entries"), f.sum("bytes").alias("bytes"), f.min("start").alias("start"), f.max("last").alias("last"),
    )  # fmt: skip
    faults = (f.sum(fault).alias(fault) for fault in _FAULTS.values())
    examples = (_first_example(fault).alias(f"{fault}_run") for fault in _FAULTS.values())
    return judged.groupBy("session").agg(*sums, *faults, *examples)


def _first_example(fault: str) -> Column:
    is_one = f.col(fault) > 0
    return f.min_by(f.when(is_one, f.expr(_TOLD[fault])), f.when(is_one, f.col("start")))


def _session_faults(sessions: DataFrame) -> tuple[int, list[Fault]]:
    """Number of sessions, and their faults."""
    count, *sums = sessions.agg(f.count("*"), *(f.sum(fault) for fault in _FAULTS.values())).collect()[0]
    found = []
    for (check, fault), total in zip(_FAULTS.items(), sums, strict=True):
        if total:
            first = sessions.where(f.col(fault) > 0).orderBy("start").limit(EXAMPLES_MAX)
            examples = [
                f"session {row[0]}: {row[1]}" for row in first.select(_hex("session"), f"{fault}_run").collect()
            ]
            found.append(Fault(check=check, count=total, examples=examples))
    return count, found


def _largest(sessions: DataFrame) -> list[SessionSum]:
    largest = sessions.orderBy(f.desc("entries"), "start").limit(EXAMPLES_MAX)
    rows = largest.select(_hex("session").alias("session"), "entries", "bytes", "start", "last").collect()
    return [SessionSum(**row.asDict()) for row in rows]


def _hex(column: str) -> Column:
    return f.lower(f.hex(column))


# -- markers --------------------------------------------------------------------------------------------------------------


def _markers(markers: DataFrame, sessions: DataFrame, begin: int) -> tuple[Markers, list[Fault]]:
    """Sessions named by markers, and the attempts behind `begin` whose entries are not all there."""
    named = _that_count(markers)
    joined = sessions.join(
        named.withColumnsRenamed({"first": "from", "last": "to", "entries": "told"}), "session", "full"
    )
    is_whole = f.expr(f"`from` < {begin} or (`from` <=> start and `to` <=> last and told <=> entries)")
    is_named = f.col("position").isNotNull()
    text = f.concat(
        f.lit("session "), _hex("session"), f.lit(": "), f.coalesce("entries", f.lit(0)), f.lit(" entries of "), "told",
        f.lit(", named at "), "position",
    )  # fmt: skip
    broken = joined.where(is_named & ~is_whole)
    total, batches, queries, kept, others, rest = joined.agg(
        f.count_if(is_named & ~is_whole), f.count_distinct("position"), f.count_distinct("query"),
        f.sum(f.when(is_named, f.col("entries"))), f.count_if(~is_named), f.sum(f.when(~is_named, f.col("entries"))),
    ).collect()[0]  # fmt: skip
    found = Markers(
        batches=batches,
        queries=queries,
        committed_entries=kept or 0,
        uncommitted_sessions=others,
        uncommitted_entries=rest or 0,
    )
    if not total:
        return found, []
    examples = [row[0] for row in broken.orderBy("position", "session").limit(EXAMPLES_MAX).select(text).collect()]
    return found, [Fault(check=UNKEPT, count=total, examples=examples)]


def _that_count(markers: DataFrame) -> DataFrame:
    """Markers that count: for each query the first one of a batch, in the order of batches
    (`ledger`)."""
    earlier = Window.partitionBy("query").orderBy("position").rangeBetween(Window.unboundedPreceding, -1)
    newest = f.max("batch").over(earlier)
    return (
        markers.withColumn("newest", newest).where("batch is null or newest is null or batch > newest").drop("newest")
    )


# -- the database ---------------------------------------------------------------------------------------------------------


def _comparisons(reports: DataFrame) -> Comparisons:
    """Comparisons of state reports. Equal digests are equal texts. A replica may contradict itself."""
    by_replica = reports.groupBy("compared", "replica").agg(f.sort_array(f.collect_set("digests")).alias("told"))
    rounds = by_replica.groupBy("compared").agg(
        f.sort_array(f.collect_list(f.struct("replica", "told"))).alias("reports")
    )
    differs = f.size(f.array_distinct(f.flatten("reports.told"))) > 1
    several, told, differing = rounds.agg(
        f.count_if(f.size("reports") > 1), f.sum(f.size("reports")), f.count_if(differs)
    ).collect()[0]
    rows = rounds.where(differs).orderBy("compared").limit(EXAMPLES_MAX).collect() if differing else []
    examples = tuple(
        Round(
            compared=row["compared"],
            reports={each["replica"]: [digests_of(text) for text in each["told"]] for each in row["reports"]},
        )
        for row in rows
    )
    return Comparisons(rounds=several, reports=told or 0, differing=differing, examples=examples)


def _growth(growth: DataFrame, count: int, span: int) -> tuple[list[PrefixSum], list[Growth]]:
    """The prefixes with the most bytes written, and their growth over time."""
    names = ("writes", "deletes", "bytes")
    at_ms = (f.floor(f.col("bucket") / span) * (span * BUCKET_MS)).cast("long").alias("at_ms")
    by_span = growth.groupBy("prefix", at_ms).agg(*(f.sum(name).alias(name) for name in names))
    when = f.sort_array(f.collect_list(f.struct("at_ms", "writes", "bytes"))).alias("when")
    by_prefix = by_span.groupBy("prefix").agg(*(f.sum(name).alias(name) for name in names), when)
    rows = by_prefix.orderBy(f.desc("bytes"), "prefix").limit(count).collect()
    prefixes = [PrefixSum(prefix=row["prefix"], **{name: row[name] for name in names}) for row in rows]
    return prefixes, [Growth(prefix=row["prefix"], **each.asDict()) for row in rows for each in row["when"]]
