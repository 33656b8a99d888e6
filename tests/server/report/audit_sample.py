"""An audit as its page gets it, made up: a log of an hour over three kinds of loglets."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark_virtuallog.audit.core.evidence import Evidence, Growth, PrefixSum, Rate, SegmentSum, SessionSum
from pyspark_virtuallog.audit.core.findings import ChainHistory, ChainSegment, Finding, Findings, Severity
from tests.server.report.demo_sample import NASTY

BEGIN_MS = 1_700_000_000_000
SPAN_MS = 60_000
KINDS = ("archive", "native", NASTY)
PREFIXES = (*(f"/prefix-{number}" for number in range(9)), NASTY)


def findings(wrong: Sequence[str] = ()) -> Findings:
    """With a violation for each text."""
    found = [Finding(check=text, severity=Severity.VIOLATION, text=text, count=1, examples=[text]) for text in wrong]
    found.append(Finding(check="lost", severity=Severity.FINE, text="nothing is lost"))
    return Findings(
        cluster="5e" * 16, start=1000, stop=90_000, findings=found, chain=_chain(), evidence=_evidence(),
    )  # fmt: skip


def _chain() -> ChainHistory:
    starts = (1000, 30_000, 60_000)
    return ChainHistory(version=7, segments=[
        ChainSegment(segment=f"{number + 3}.a", loglet=kind, start=start, stop=start + 30_000 if number < 2 else None)
        for number, (kind, start) in enumerate(zip(KINDS, starts, strict=True))
    ])  # fmt: skip


def _evidence() -> Evidence:
    times = [BEGIN_MS + minute * SPAN_MS for minute in range(60)]
    return Evidence(
        segments=[
            SegmentSum(segment=f"{number + 3}.a", loglet=kind, entries=29_000, bytes=2_900_000, fillers=7, first=1000, last=2000,
                       first_ms=times[0], last_ms=times[-1])
            for number, kind in enumerate(KINDS)
        ],
        span_ms=SPAN_MS,
        rates=[
            Rate(at_ms=at, loglet=kind, entries=(1 + number) * (1 + index), bytes=100)
            for number, at in enumerate(times) for index, kind in enumerate(KINDS)
        ],
        sessions=2,
        largest_sessions=[SessionSum(session="ab" * 16, entries=900, bytes=90_000, start=1000, last=89_999)],
        prefixes=[PrefixSum(prefix=prefix, writes=100 - number, deletes=3, bytes=10_000_000 >> number) for number, prefix in enumerate(PREFIXES)],
        growth=[
            Growth(at_ms=at, prefix=prefix, writes=1, bytes=100_000 >> number)
            for at in times for number, prefix in enumerate(PREFIXES)
        ],
    )  # fmt: skip
