"""HTML page of an audit."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

from pyspark_virtuallog.audit.core.evidence import Evidence, PrefixSum
from pyspark_virtuallog.audit.core.findings import ChainSegment, Findings, Severity
from pyspark_virtuallog.audit.core.summary import headline
from pyspark_virtuallog.audit.core.text import size_text, span_text
from virtuallog_server.report import (
    Axis,
    Bar,
    Bars,
    Block,
    ChainDiagram,
    Columns,
    Figure,
    Label,
    Page,
    Section,
    Series,
    Table,
    Tone,
    Verdict,
    tone_of,
)

TITLE: Final = "Audit of a log"
_LINES: Final[Sequence[Tone]] = ("blue", "orange", "violet", "green", "teal", "brown", "red", "grey")
"""Colours of lines. More lines than that cannot be told apart: the table has the other prefixes."""
_LABELS: Final = 4
"""Labels on an axis of times: they fit beside each other on a phone."""
_DAYS_FROM_MS: Final = 2 * 86_400_000
_TONES: Final[dict[Severity, Tone]] = {Severity.VIOLATION: "red", Severity.NOTABLE: "orange", Severity.FINE: "green"}


def audit_page(findings: Findings, command: str, made: str) -> Page:
    """The page of an audit."""
    evidence = findings.evidence
    sections = [_checks(findings), _chain(findings)]
    if evidence.rates:
        sections += [_rates(findings), _segments(findings)]
    if evidence.largest_sessions:
        sections.append(_sessions(findings))
    if evidence.prefixes:
        sections += [_prefixes(evidence.prefixes), _growth(findings)]
    return Page(
        title=TITLE,
        lead=f"Every entry of [{findings.start}, {findings.stop}) of the log of cluster {findings.cluster} was read, and compared with what "
        "the log promises.",
        verdict=_verdict(findings),
        sections=sections,
        command=command,
        made=made,
    )  # fmt: skip


def _verdict(findings: Findings) -> Verdict:
    evidence = findings.evidence
    figures = [
        Figure(f"{findings.entries:,}", "entries read"),
        Figure(size_text(findings.bytes), "in their payloads"),
        Figure(f"{evidence.sessions:,}", "sessions"),
        Figure(f"{len(findings.chain.segments):,}", "segments in the chain"),
    ]
    problems = [line for each in findings.violations for line in (each.text, *each.examples)]
    return Verdict(headline=headline(findings), problems=problems, figures=figures)


def _checks(findings: Findings) -> Section:
    rows = [(each.check, each.severity.value, "; ".join((each.text, *each.examples))) for each in findings.findings]
    return Section(title="What was checked", content=Table(columns=("check", "result", "what was found"), rows=rows))


# -- the log --------------------------------------------------------------------------------------------------------------


def _chain(findings: Findings) -> Section:
    blocks = [_block(segment) for segment in findings.chain.segments]
    if (begin := findings.chain.segments[0].start) > 0:
        blocks.insert(0, Block(kind="trimmed", tone="grey", start=0, stop=begin, servers="", is_gone=True))
    note = f"As of version {findings.chain.version}, when the audit began. The number of a segment is that of the change that put it there."
    return Section(title="The chain", note=note, content=ChainDiagram(blocks=blocks))


def _block(segment: ChainSegment) -> Block:
    version = segment.segment.partition(".")[0]
    return Block(
        kind=segment.loglet, tone=tone_of(segment.loglet), start=segment.start, stop=segment.stop,
        servers=f"since version {version}", details=[("segment", segment.segment)],
    )  # fmt: skip


def _rates(findings: Findings) -> Section:
    evidence = findings.evidence
    loglets = sorted({rate.loglet for rate in evidence.rates})
    points = {
        loglet: [(rate.at_ms, float(rate.entries)) for rate in evidence.rates if rate.loglet == loglet]
        for loglet in loglets
    }
    series = [Series(label=loglet, tone=tone_of(loglet), points=points[loglet]) for loglet in loglets]
    return Section(
        title="Entries over time",
        note="By the clocks of those that ordered them. Each colour is a kind of loglet, as it keeps the entries today.",
        content=_over_time(f"entries in {span_text(evidence.span_ms)}", series, evidence, evidence.span_ms),
    )


def _segments(findings: Findings) -> Section:
    rows = [
        (each.segment, each.loglet, f"{each.first:,}", f"{each.last:,}", f"{each.entries:,}", size_text(each.bytes), f"{each.fillers:,}",
         _time(each.first_ms), _time(each.last_ms))
        for each in findings.evidence.segments
    ]  # fmt: skip
    columns = ("segment", "kind", "first", "last", "entries", "payloads", "fillers", "from", "to")
    return Section(title="Segments", content=Table(columns=columns, rows=rows, figures=(2, 3, 4, 5, 6)))


def _sessions(findings: Findings) -> Section:
    bars = [
        Bar(name=each.session[:16], value=each.entries, text=f"{each.entries:,} entries, {size_text(each.bytes)}")
        for each in findings.evidence.largest_sessions
    ]
    note = f"Of {findings.evidence.sessions:,}: the ones with the most entries, by the first half of their names."
    return Section(title="Sessions", note=note, content=Bars(bars=bars))


# -- the database ---------------------------------------------------------------------------------------------------------


def _prefixes(prefixes: Sequence[PrefixSum]) -> Section:
    bars = [
        Bar(name=each.prefix, value=each.bytes, text=f"{size_text(each.bytes)}, {each.writes:,} writes, {each.deletes:,} deletes", tone=tone)
        for each, tone in zip(prefixes, _tones(len(prefixes)), strict=True)
    ]  # fmt: skip
    note = "Paths and data of all commands, as they were proposed: whether each succeeded only a replay knows."
    return Section(title="What was written to which keys", note=note, content=Bars(bars=bars))


def _growth(findings: Findings) -> Section:
    evidence = findings.evidence
    unit, name = _unit(max(each.bytes for each in evidence.prefixes))
    low, high = _times(evidence)
    series = []
    for prefix, tone in zip(evidence.prefixes, _LINES, strict=False):
        total, points = 0, [(low, 0.0)]
        for each in evidence.growth:
            if each.prefix == prefix.prefix:
                points.append((float(each.at_ms), total / unit))
                total += each.bytes
                points.append((float(each.at_ms + evidence.span_ms), total / unit))
        series.append(Series(label=prefix.prefix, tone=tone, points=[*points, (high, total / unit)]))
    return Section(
        title="Growth",
        note="All that had been written up to then, overwritten and deleted data included.",
        content=_over_time(f"{name} written in all", series, evidence),
    )


def _unit(most: int) -> tuple[float, str]:
    return next(
        ((unit, name) for unit, name in ((1e9, "GB"), (1e6, "MB"), (1e3, "KB")) if most >= unit), (1.0, "bytes")
    )


def _tones(count: int) -> list[Tone]:
    return [_LINES[index] if index < len(_LINES) else "grey" for index in range(count)]


# -- time -----------------------------------------------------------------------------------------------------------------


def _over_time(title: str, series: Sequence[Series], evidence: Evidence, width: float | None = None) -> Columns:
    low, high = _times(evidence)
    form = "%d %b" if high - low > _DAYS_FROM_MS else "%H:%M" if evidence.span_ms % 60_000 == 0 else "%H:%M:%S"
    places = [low + (high - low) * index / _LABELS for index in range(_LABELS)]
    labels = [Label(at=at, text=f"{_at(at):{form}}") for at in places]
    told = f"{title}; UTC, from {_at(low):%Y-%m-%d %H:%M}"
    return Columns(title=told, x=Axis(low, high), labels=labels, series=series, width=width)


def _times(evidence: Evidence) -> tuple[float, float]:
    """Times of the first entry and the last."""
    times = [rate.at_ms for rate in evidence.rates]
    return float(min(times)), float(max(times) + evidence.span_ms)


def _at(time_ms: float) -> datetime:
    return datetime.fromtimestamp(time_ms / 1000, UTC)


def _time(at_ms: int | None) -> str:
    return "" if at_ms is None else f"{_at(at_ms):%Y-%m-%d %H:%M:%S}"
