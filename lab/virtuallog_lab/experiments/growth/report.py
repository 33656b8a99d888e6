"""Report of growth: tables with the targets beside the figures. See `growth.py`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from virtuallog.contract.register import REGISTER_BYTES_MAX
from virtuallog_lab.experiments.growth.chain import ChainLook
from virtuallog_lab.experiments.growth.stages import Stage, Trimmed
from virtuallog_lab.harness.machine import Machine
from virtuallog_lab.harness.report import Report, Table

MEMORY_BYTES_MAX: Final = 600 << 20
RESTART_SECONDS_MAX: Final = 10.0
CHANGE_MAX: Final = 0.20
"""Most change of throughput (relative to the floor) and memory, from the first stage to the
last."""
MIB: Final = 1 << 20


def report(machine: Machine, stages: Sequence[Stage], trimmed: Trimmed | None, looks: Sequence[ChainLook]) -> Report:
    """All that was seen."""
    tables = [*([_stages(stages), _targets(stages)] if stages else []), *([_trim(trimmed)] if trimmed else [])]
    tables += [_chain(looks)] if looks else []
    problems = [
        f"the register took {look.register_bytes_max:,} bytes after {look.reconfigurations:,} reconfigurations"
        for look in looks
        if look.register_bytes_max > REGISTER_BYTES_MAX
    ]
    return Report(
        title="Growth",
        machine=machine,
        tables=tables,
        plain={
            "stages": [stage.plain() for stage in stages],
            "trim": None if trimmed is None else {"before": trimmed.before_bytes, "after": trimmed.after_bytes},
            "reconfigurations": [look.plain() for look in looks],
        },
        verdict="Every entry was acknowledged, and those read were there",
        problems=problems,
    )


def _stages(stages: Sequence[Stage]) -> Table:
    columns = (
        "entries", "appends/s", "of floor", "sequencer MiB", "server MiB", "restarted MiB", "client MiB", "restart s",
        "disk MiB", "reads/s",
    )  # fmt: skip
    rows = [
        (
            f"{stage.entries:,}",
            f"{stage.ops_per_s:,.0f}",
            f"{stage.share_of_floor:.0%}",
            *(f"{size / MIB:,.0f}" for size in (stage.memory.sequencer, stage.memory.servers, stage.restarted_memory)),
            f"{stage.memory.client / MIB:,.0f}",
            f"{stage.restart_seconds:.1f}",
            f"{stage.disk_bytes / MIB:,.0f}",
            f"{stage.reads_per_s:,.0f}",
        )
        for stage in stages
    ]
    return Table("A log that grows", columns, rows)


def _targets(stages: Sequence[Stage]) -> Table:
    first, last = stages[0], stages[-1]
    server = max(last.memory.sequencer, last.memory.servers, last.restarted_memory)
    rows = [
        ("memory of a node", f"{server / MIB:,.0f} MiB", f"at most {MEMORY_BYTES_MAX / MIB:,.0f} MiB"),
        ("restart", f"{last.restart_seconds:.1f} s", f"at most {RESTART_SECONDS_MAX:g} s"),
        ("memory, last to first", _change(first.memory.servers, last.memory.servers), f"at most +{CHANGE_MAX:.0%}"),
        (
            "share of floor, last to first",
            _change(first.share_of_floor, last.share_of_floor),
            f"at least -{CHANGE_MAX:.0%}",
        ),
    ]
    return Table("Targets", ("what", "measured", "target"), rows)


def _change(first: float, last: float) -> str:
    return f"{last / first - 1:+.0%}" if first else "-"


def _trim(trimmed: Trimmed) -> Table:
    row = (f"{trimmed.before_bytes / MIB:,.0f}", f"{trimmed.after_bytes / MIB:,.0f}", f"{trimmed.seconds:.1f}")
    return Table("Disk of a node around a trim of everything", ("before MiB", "after MiB", "seconds"), [row])


def _chain(looks: Sequence[ChainLook]) -> Table:
    columns = (
        "reconfigurations", "register bytes", "at most", "segments", "node MiB", "disk MiB", "votes KiB", "a second",
    )  # fmt: skip
    rows = [
        (
            f"{look.reconfigurations:,}",
            f"{look.register_bytes:,}",
            f"{look.register_bytes_max:,}",
            f"{look.segments}",
            f"{look.resident_bytes / MIB:,.0f}",
            f"{look.disk_bytes / MIB:,.0f}",
            f"{look.metastore_bytes / 1024:,.0f}",
            f"{look.per_s:.1f}",
        )
        for look in looks
    ]
    return Table("A chain that is extended often, and trimmed", columns, rows)
