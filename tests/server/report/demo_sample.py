"""A run of the demo as its pages get it, made up: three changes, one of them by the cluster itself, a trim, holes."""

from __future__ import annotations

from virtuallog.contract.chain import close, extend, genesis
from virtuallog.contract.types import LogPosition
from virtuallog.runtime.clock import SystemClock
from virtuallog_lab.demo.changes import ActiveSegments, RequestedChange, find_changes
from virtuallog_lab.demo.demonstration import DemoOutcome, Event
from virtuallog_lab.workload.verdict import Verdict
from virtuallog_lab.workload.writers import Workload, WriterAcknowledgements, acknowledgement_times

STEP_SECONDS = 0.01
NASTY = "<script>alert(1)</script>\"'&"
"""Markup that a page must show as text."""


def outcome(*, problems: tuple[str, ...] = ()) -> DemoOutcome:
    """Six seconds with an append every ten milliseconds, except from 4.0 to 4.8, when nothing is acknowledged."""
    workload = Workload(SystemClock())
    writer = workload.told[0] = WriterAcknowledgements()
    for step in range(600):
        ended = step * STEP_SECONDS
        if not 4.0 < ended < 4.8:
            writer.add(LogPosition(len(writer.places)), max(0.0, ended - 0.004), ended)
            workload.acknowledged += 1
    chain = genesis("native", b"not a config of that kind", 1)
    reigns = ActiveSegments()
    reigns.see(0.0, chain)
    asked = []
    for at, kind in ((1.0, "paxos"), (2.5, NASTY), (4.9, "native")):
        chain = extend(chain, chain.last.start + 100, kind, b"", 1)
        reigns.see(at + 0.05, chain)
        if kind != "native":
            asked.append(RequestedChange(at, at + 0.05, chain.last.id))
    times = acknowledgement_times(workload.told.values())
    return DemoOutcome(
        workload=workload,
        events=(Event(3.0, f"trim {NASTY}"), Event(4.0, "kill -9 node 3", is_fault=True)),
        reigns=tuple(reigns.seen),
        changes=tuple(find_changes(reigns.seen, asked, [4.0], times)),
        chain=chain,
        trim_point=50,
        verdict=Verdict(workload.acknowledged, problems),
    )


def closed() -> DemoOutcome:
    """The same with a log that was closed in the end: no segment is open."""
    found = outcome()
    assert found.chain.active is not None
    return DemoOutcome(
        workload=found.workload, events=found.events, reigns=found.reigns, changes=found.changes,
        chain=close(found.chain, found.chain.last.start + 7), trim_point=0, verdict=found.verdict,
    )  # fmt: skip
