"""The demo's page: what became of the log, and what the changes cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from string import ascii_lowercase
from typing import Final

from virtuallog.contract.chain import Segment
from virtuallog.contract.errors import VirtualLogError
from virtuallog.contract.placement import Placement
from virtuallog.contract.provider import LogletProvider, replicated
from virtuallog_lab.demo.changes import Change
from virtuallog_lab.demo.demonstration import CLIENTS, LOG_NODES, NODES, WRITERS_PER_CLIENT, DemoOutcome, Event
from virtuallog_lab.harness.machine import Machine
from virtuallog_lab.workload.latencies import BIN_SECONDS, LatencyBins
from virtuallog_server.report import (
    Axis,
    Band,
    Block,
    ChainDiagram,
    Chart,
    FactList,
    Figure,
    Mark,
    Page,
    Section,
    Series,
    Span,
    Table,
    Timeline,
    Tone,
    Verdict,
    tone_of,
)

TITLE: Final = "One log, swapped live under load"
RIGHT: Final = "Nothing lost, nothing doubled, every writer's entries in order"
CHECKED: Final = (
    "Each acknowledged entry is at the position that its writer was told, and nowhere else.",
    "The entries of each writer, and of each session, are there once, in order, without a hole.",
    "An entry that was acknowledged before another was offered stands before it, by whichever client.",
    "Nothing is in the log that was not written, and nothing is missing that was not trimmed.",
    "What was trimmed had been read from its archive, or from the nodes, and compared, before it went.",
)
Providers = Mapping[str, LogletProvider]


def demo_page(outcome: DemoOutcome, providers: Providers, machine: Machine, command: str, made: str) -> Page:
    """Page of a run of the demonstration."""
    return Page(
        title=TITLE,
        lead=f"{CLIENTS * WRITERS_PER_CLIENT} writers append without a pause to {NODES} nodes and {LOG_NODES} log servers on one machine. "
        "Meanwhile what orders and stores the log is replaced again and again, old parts become files, "
        "the beginning is trimmed, and the node that orders is killed.",
        verdict=_verdict(outcome),
        sections=[
            _chain_section(outcome, providers),
            _time_section(outcome, providers),
            _swap_section(outcome, providers),
            _event_section(outcome),
            Section(title="What was checked", content=FactList(CHECKED)),
            Section(title="Where this was", content=FactList(_facts(machine, made))),
        ],
        command=command,
        made=made,
    )  # fmt: skip


def _verdict(outcome: DemoOutcome) -> Verdict:
    workload, problems = outcome.workload, outcome.verdict.problems
    figures = [
        Figure(f"{workload.acknowledged:,}", "entries acknowledged as durable"),
        Figure(f"{outcome.verdict.entries:,}", "entries found in the log"),
        Figure(f"{len(outcome.changes)}", "live swaps"),
        Figure(f"{_median_gap_ms(outcome.changes):,.0f} ms", "median gap of a swap that was asked for"),
        Figure(f"{workload.slowest_seconds:.2f} s", "the slowest append of all"),
    ]
    if workload.unknown:
        figures.append(Figure(f"{workload.unknown:,}", "appends whose outcome stayed unknown"))
    headline = f"The log is wrong: at least {len(problems)} problems" if problems else RIGHT
    return Verdict(headline=headline, problems=problems, figures=figures)


def _median_gap_ms(changes: Sequence[Change]) -> float:
    gaps = [1000 * change.gap_seconds for change in changes if not change.by_itself]
    return median(gaps) if gaps else 0.0


def _chain_section(outcome: DemoOutcome, providers: Providers) -> Section:
    blocks = [_block(segment, outcome.trim_point, providers) for segment in outcome.chain.segments]
    if outcome.trim_point > 0:
        gone = Block(
            kind="trimmed", tone="grey", start=0, stop=outcome.trim_point, servers="space given back", is_gone=True,
        )  # fmt: skip
        blocks.insert(0, gone)
    return Section(
        title="The log in the end",
        note="From its first position to where appends go now. Not to scale; point at a segment to see its settings.",
        content=ChainDiagram(blocks=blocks),
    )


def _block(segment: Segment, trim_point: int, providers: Providers) -> Block:
    return Block(
        kind=segment.kind, tone=tone_of(segment.kind), start=max(segment.start, trim_point), stop=segment.stop,
        servers=placement_text(segment, providers), details=placement_details(segment, providers),
    )  # fmt: skip


def _time_section(outcome: DemoOutcome, providers: Providers) -> Section:
    bins = LatencyBins.of(outcome.workload.told.values())
    rates: list[tuple[float, float | None]] = [*bins.rates(), (bins.seconds, 0.0)]
    slowest, middle = bins.milliseconds(1.0), bins.milliseconds(0.5)
    latencies = [value for _, value in (*slowest, *middle) if value is not None]
    timeline = Timeline(
        seconds=bins.seconds,
        bands=[Band(title="which loglet takes appends", spans=_spans(outcome, bins.seconds, providers))],
        charts=[
            Chart(
                title=f"appends per second, in each {BIN_SECONDS:g} s",
                y=Axis.above_zero(value for _, value in bins.rates()),
                series=[Series(label="appends/s", tone="blue", points=rates, shape="area")],
            ),
            Chart(
                title="latency of an append, ms, log scale",
                y=Axis.logarithmic(latencies),
                series=[
                    Series(label="slowest, ms", tone="red", points=slowest),
                    Series(label="median, ms", tone="green", points=middle),
                ],
            ),
        ],
        marks=_marks(outcome),
    )
    return Section(
        title="Over time",
        note="Numbers are swaps, letters whatever else was done: see the tables. Appends are counted when they end; where none ended, "
        "the lines of latency have a hole.",
        content=timeline,
    )


def _spans(outcome: DemoOutcome, end: float, providers: Providers) -> list[Span]:
    stops = [*(change.ended for change in outcome.changes), end]
    return [
        Span(
            start=reign.since if index else 0.0, stop=stop, label=reign.segment.kind, tone=tone_of(reign.segment.kind),
            details=f"{reign.segment.kind}: {placement_text(reign.segment, providers)}",
        )
        for index, (reign, stop) in enumerate(zip(outcome.reigns, stops, strict=True))
    ]  # fmt: skip


def _marks(outcome: DemoOutcome) -> list[Mark]:
    swaps = [
        Mark(
            at=change.began, badge=str(number), group="swap", tone="grey",
            label=f"swap {number}: {change.source.kind} to {change.target.kind}, a gap of {1000 * change.gap_seconds:,.0f} ms",
        )
        for number, change in enumerate(outcome.changes, 1)
    ]  # fmt: skip
    others = [
        Mark(at=event.at, badge=letter, group="fault" if event.is_fault else "event", label=event.label, tone=_tone(event))
        for letter, event in _lettered(outcome.events)
    ]  # fmt: skip
    return sorted([*swaps, *others], key=lambda mark: mark.at)


def _tone(event: Event) -> Tone:
    return "red" if event.is_fault else "teal"


def _swap_section(outcome: DemoOutcome, providers: Providers) -> Section:
    rows = [
        [str(number), *_ends(change, providers), f"{1000 * change.gap_seconds:,.0f}", _took(change)]
        for number, change in enumerate(outcome.changes, 1)
    ]
    columns = ["", "from", "to", "gap, ms", "asked to answered, ms"]
    return Section(
        title="The swaps",
        note="Gap: the longest stretch, from when the swap is asked for until half a second after it is decided, in which no append at all "
        "was acknowledged. If no client asked, it begins with the death of the node.",
        content=Table(columns=columns, rows=rows, figures=[3, 4], names=[row[0] for row in rows]),
    )


def _ends(change: Change, providers: Providers) -> list[str]:
    return [f"{segment.kind}: {placement_text(segment, providers)}" for segment in (change.source, change.target)]


def _took(change: Change) -> str:
    return "by itself" if change.by_itself else f"{1000 * (change.ended - change.began):,.0f}"


def _event_section(outcome: DemoOutcome) -> Section:
    rows = [[letter, f"{event.at:.1f}", event.label] for letter, event in _lettered(outcome.events)]
    names = [row[0] for row in rows]
    content = Table(columns=["", "at, s", "what was done"], rows=rows, figures=[1], names=names)
    return Section(
        title="What else was done",
        note="To archive, another process reads and writes on the same machine; the beginning is read by the process that appends. Both show.",
        content=content,
    )


def _lettered(events: Sequence[Event]) -> list[tuple[str, Event]]:
    return list(zip(ascii_lowercase, events, strict=False))


def _facts(machine: Machine, made: str) -> dict[str, str]:
    return {
        "machine": str(machine),
        "software": made,
        "durability": "each acknowledged entry is synced to the disks of a majority of its segment's servers",
        "client": f"{CLIENTS} connections with {WRITERS_PER_CLIENT} writers each, one append outstanding per writer, in one process",
    }


def placement_text(segment: Segment, providers: Mapping[str, LogletProvider]) -> str:
    """Nodes that order and keep a segment, in a few words, or that no node does."""
    provider = providers.get(segment.kind)
    try:
        kept = replicated(provider)
        return _nodes(kept.placement(segment.config)) if kept else "files, on no node"
    except VirtualLogError:
        return "unreadable"


def placement_details(segment: Segment, providers: Mapping[str, LogletProvider]) -> list[tuple[str, str]]:
    """Id of a segment and the facts that its kind reports about its config."""
    provider = providers.get(segment.kind)
    try:
        told = dict(provider.describe(segment.config)) if provider else {}
    except VirtualLogError as error:
        told = {"unreadable": str(error)}
    return [("segment", str(segment.id)), *((name, _words(value)) for name, value in told.items())]


def _nodes(placement: Placement) -> str:
    servers = f"nodes {_words(placement.servers)}"
    orderers = sorted(placement.orders)
    if not orderers:
        return servers
    return f"sequencer{'s' if len(orderers) > 1 else ''} {_words(orderers)}; {servers}"


def _words(value: object) -> str:
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return ", ".join(map(_words, value))
    return str(value)
