"""Brings observations together in Spark: sums, the worst examples of each kind, and what spans several tasks.

Nothing that grows with the log comes to the driver: Spark sorts runs by session and prefixes by bytes, and gives some dozens of
rows of each sort. Only pieces are as many as tasks.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final

from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame, Row, Window
from pyspark.sql import functions as f

from pyspark_virtuallog.audit.evidence import (
    EXAMPLES_MAX,
    Evidence,
    Fault,
    GapSum,
    Growth,
    Markers,
    Piece,
    PrefixSum,
    Rate,
    Round,
    SegmentSum,
    SessionSum,
)
from pyspark_virtuallog.audit.judging import DOUBLED, REORDERED, SKIPPED, UNKEPT
from pyspark_virtuallog.audit.observations import BUCKET_MS, STRUCTS
from pyspark_virtuallog.audit.spans import span_of
from pyspark_virtuallog.audit.spelling import digests_of

_DIFFERING_MAX: Final = 100
"""Comparisons with differences that are told one by one: a replica that differs stops itself, so these are few."""


def gather(seen: DataFrame, *, prefixes_max: int) -> Evidence:
    """All evidence in observations, which are computed once and kept until this returns."""
    seen.persist(StorageLevel.DISK_ONLY)
    try:
        return _gather(
            {kind: seen.where(f.col(kind).isNotNull()).select(f"{kind}.*") for kind in STRUCTS}, prefixes_max
        )
    finally:
        seen.unpersist()


def _gather(seen: Mapping[str, DataFrame], prefixes_max: int) -> Evidence:
    pieces = [Piece(**row.asDict()) for row in seen["piece"].collect()]
    low, high = seen["tally"].agg(f.min("bucket"), f.max("bucket")).collect()[0]
    span = span_of(low, high)
    sums = (
        seen["run"]
        .groupBy("session")
        .agg(
            f.sum("count").alias("entries"),
            f.sum("bytes").alias("bytes"),
            f.min("start").alias("start"),
            f.max("last").alias("last"),
        )
    )
    prefixes = _prefixes(seen["growth"], prefixes_max)
    differing = _differing(seen["report"])
    named = _that_count(seen["marker"])
    remarks = seen["remark"].unionByName(_session_faults(seen["run"])).unionByName(_unkept(named, sums, pieces))
    return Evidence(
        pieces=pieces,
        gaps=_gaps(seen["gap"]),
        segments=_segments(seen["tally"]),
        span_ms=span * BUCKET_MS,
        rates=_rates(seen["tally"], span),
        sessions=sums.count(),
        largest_sessions=_largest(sums),
        faults=_faults(remarks),
        **_reports(seen["report"]),
        differing=differing,
        prefixes=prefixes,
        growth=_growth(seen["growth"], prefixes, span),
        markers=_markers(named, sums),
    )


# -- the log as a whole ---------------------------------------------------------------------------------------------------


def _gaps(gaps: DataFrame) -> list[GapSum]:
    counts = gaps.groupBy("kind").count().orderBy("kind").collect()
    first = _first_of_each(gaps, "kind", "start") if counts else {}
    return [
        GapSum(kind=kind, count=count, examples=[(row["start"], row["stop"]) for row in first[kind]])
        for kind, count in counts
    ]


def _faults(remarks: DataFrame) -> list[Fault]:
    counts = remarks.groupBy("check").agg(f.sum("count")).orderBy("check").collect()
    first = _first_of_each(remarks, "check", "position") if counts else {}
    return [Fault(check=check, count=count, examples=[row["text"] for row in first[check]]) for check, count in counts]


def _first_of_each(frame: DataFrame, by: str, order: str) -> dict[str, list[Row]]:
    """The first rows of each sort."""
    rank = f.row_number().over(Window.partitionBy(by).orderBy(order))
    found: defaultdict[str, list[Row]] = defaultdict(list)
    for row in frame.withColumn("rank", rank).where(f.col("rank") <= EXAMPLES_MAX).orderBy(by, "rank").collect():
        found[row[by]].append(row)
    return found


def _segments(tallies: DataFrame) -> list[SegmentSum]:
    sums = tallies.groupBy("segment", "loglet").agg(
        *(f.sum(name).alias(name) for name in ("entries", "bytes", "fillers")),
        f.min("first").alias("first"),
        f.max("last").alias("last"),
        (f.min("bucket") * BUCKET_MS).alias("first_ms"),
        (f.max("bucket") * BUCKET_MS).alias("last_ms"),
    )
    return [SegmentSum(**row.asDict()) for row in sums.orderBy("first").collect()]


def _rates(tallies: DataFrame, span: int) -> list[Rate]:
    timed = tallies.where(f.col("bucket").isNotNull())
    sums = timed.groupBy(_at_ms(span), "loglet").agg(f.sum("entries").alias("entries"), f.sum("bytes").alias("bytes"))
    return [Rate(**row.asDict()) for row in sums.orderBy("at_ms", "loglet").collect()]


def _at_ms(span: int) -> Column:
    """When the span of a bucket begins."""
    return (f.floor(f.col("bucket") / span) * (span * BUCKET_MS)).cast("long").alias("at_ms")


# -- sessions and markers -------------------------------------------------------------------------------------------------


def _largest(sums: DataFrame) -> list[SessionSum]:
    largest = sums.orderBy(f.desc("entries"), "start").limit(EXAMPLES_MAX)
    return [SessionSum(**row.asDict()) for row in largest.withColumn("session", _hex("session")).collect()]


def _session_faults(runs: DataFrame) -> DataFrame:
    """Numbers of a session that stand there twice or not at all, and runs that stand behind later ones, as remarks.

    By number, a run that begins below what others reach is there again, and one that begins above leaves a hole. By position, a
    run of smaller numbers is out of order; one that is there again is not counted as that, too.
    """
    stop = f.col("first") + f.col("count")
    by_number = Window.partitionBy("session").orderBy("first", "start").rowsBetween(Window.unboundedPreceding, -1)
    by_position = Window.partitionBy("session").orderBy("start").rowsBetween(Window.unboundedPreceding, -1)
    judged = (
        runs.withColumn("stop", stop)
        .withColumn("reached", f.max("stop").over(by_number))
        .withColumn("before", f.max("stop").over(by_position))
        .withColumn("doubled", f.greatest(f.lit(0), f.least("stop", "reached") - f.col("first")))
        .withColumn("skipped", f.greatest(f.lit(0), f.col("first") - f.col("reached")))
        .withColumn("reordered", ((f.col("first") < f.col("before")) & (f.col("doubled") == 0)).cast("long"))
        .where("reached is not null and (doubled > 0 or skipped > 0) or reordered > 0")
    )
    checks = {DOUBLED: "doubled", SKIPPED: "skipped", REORDERED: "reordered"}
    faults = [f.struct(f.lit(check).alias("check"), f.col(count).alias("count")) for check, count in checks.items()]
    text = f.concat(
        f.lit("session "),
        _hex("session"),
        f.lit(": "),
        "first",
        f.lit(" to "),
        f.col("stop") - 1,
        f.lit(" at "),
        "start",
    )
    found = judged.select(
        f.explode(f.array(*faults)).alias("fault"), f.col("start").alias("position"), text.alias("text")
    )
    return found.select("fault.check", "fault.count", "position", "text").where(f.col("count") > 0)


def _that_count(markers: DataFrame) -> DataFrame:
    """What markers name that count: of each query the first one of a batch, in the order of batches (`ledger`)."""
    earlier = Window.partitionBy("query").orderBy("position").rangeBetween(Window.unboundedPreceding, -1)
    newest = f.max("batch").over(earlier)
    return (
        markers.withColumn("newest", newest).where("batch is null or newest is null or batch > newest").drop("newest")
    )


def _unkept(named: DataFrame, sums: DataFrame, pieces: Sequence[Piece]) -> DataFrame:
    """Attempts that a marker names, that lie within what was read, and whose entries are not all there, as remarks."""
    begin = min((piece.first for piece in pieces), default=0)
    attempts = named.where(f.col("first") >= begin).alias("named").join(sums.alias("sums"), "session", "left")
    is_whole = f.expr("named.first <=> sums.start and named.last <=> sums.last and named.entries <=> sums.entries")
    text = f.concat(
        f.lit("session "), _hex("session"), f.lit(": "), f.coalesce("sums.entries", f.lit(0)), f.lit(" entries of "),
        f.col("named.entries"), f.lit(", named at "), f.col("named.position"),
    )  # fmt: skip
    return attempts.where(~is_whole).select(
        f.lit(UNKEPT).alias("check"), f.lit(1).cast("long").alias("count"), f.col("named.position"), text.alias("text")
    )


def _markers(named: DataFrame, sums: DataFrame) -> Markers:
    batches, queries = named.agg(f.count_distinct("position"), f.count_distinct("query")).collect()[0]
    if not batches:
        return Markers()
    winners = named.select("session").distinct().withColumn("is_named", f.lit(True))
    split = sums.join(winners, "session", "left").groupBy(f.coalesce("is_named", f.lit(False)).alias("is_named"))
    parts = {
        row["is_named"]: row
        for row in split.agg(f.count("*").alias("sessions"), f.sum("entries").alias("entries")).collect()
    }
    return Markers(
        batches=batches,
        queries=queries,
        committed_entries=parts[True]["entries"] if True in parts else 0,
        uncommitted_sessions=parts[False]["sessions"] if False in parts else 0,
        uncommitted_entries=parts[False]["entries"] if False in parts else 0,
    )


def _hex(column: str) -> Column:
    return f.lower(f.hex(column))


# -- the database ---------------------------------------------------------------------------------------------------------


def _reports(reports: DataFrame) -> dict[str, int]:
    """How many comparisons there were with reports of several replicas, and how many reports these are."""
    rounds = reports.groupBy("compared").agg(f.count_distinct("replica").alias("replicas")).where("replicas > 1")
    count, total = rounds.agg(f.count("*"), f.sum("replicas")).collect()[0]
    return {"rounds": count, "reports": total or 0}


def _differing(reports: DataFrame) -> list[Round]:
    differing = reports.groupBy("compared").agg(f.count_distinct("digests").alias("states")).where("states > 1")
    first = differing.orderBy("compared").limit(_DIFFERING_MAX).select("compared")
    found: defaultdict[int, defaultdict[str, list[dict[str, str]]]] = defaultdict(lambda: defaultdict(list))
    for row in reports.join(first, "compared").distinct().orderBy("compared", "replica", "digests").collect():
        found[row["compared"]][row["replica"]].append(digests_of(row["digests"]))
    return [Round(compared=compared, reports=dict(by_replica)) for compared, by_replica in found.items()]


def _prefixes(growth: DataFrame, count: int) -> list[PrefixSum]:
    sums = growth.groupBy("prefix").agg(*(f.sum(name).alias(name) for name in ("writes", "deletes", "bytes")))
    return [PrefixSum(**row.asDict()) for row in sums.orderBy(f.desc("bytes"), "prefix").limit(count).collect()]


def _growth(growth: DataFrame, prefixes: Sequence[PrefixSum], span: int) -> list[Growth]:
    """Of these prefixes only."""
    if not prefixes:
        return []
    of_those = growth.where(f.col("prefix").isin([prefix.prefix for prefix in prefixes]))
    sums = of_those.groupBy(_at_ms(span), "prefix").agg(f.sum("writes").alias("writes"), f.sum("bytes").alias("bytes"))
    return [Growth(**row.asDict()) for row in sums.orderBy("at_ms", "prefix").collect()]
