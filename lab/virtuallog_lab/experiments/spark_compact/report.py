"""Report of a compaction run, in tables."""

from __future__ import annotations

from typing import Final

from virtuallog_lab.experiments.spark_compact.run import WIPED, CompactionFindings, Step
from virtuallog_lab.harness.machine import Machine
from virtuallog_lab.harness.report import Report, Table

MIB: Final = 1 << 20
LOG_BYTES_MAX: Final = (3 * 64 + 16) * MIB
"""Two segments of the write-ahead log, which is given back in whole ones, one that is laid out ahead, and what the MetaStore keeps."""


def report(machine: Machine, found: CompactionFindings) -> Report:
    """All that was seen."""
    return Report(
        title="Archive, compact, trim, rejoin",
        machine=machine,
        tables=[_steps(found), _targets(found)],
        plain=found.plain(),
        verdict=(
            f"{found.writes:,} writes over {found.plan.keys:,} znodes: no acknowledged write is missing, and all servers "
            f"hold the same (checksum {min(found.checksums.values()):08x})"
        ),
        problems=found.problems,
    )


def _steps(found: CompactionFindings) -> Table:
    columns = ["step", "seconds", "writes", "log MiB", "database MiB", "log begins at", "and ends at"]
    return Table("Step by step; the most that any server takes", columns, [_row(step) for step in found.steps])


def _row(step: Step) -> list[str]:
    look = step.look
    return [
        step.what,
        f"{step.seconds:,.1f}",
        f"{look.writes:,}",
        *(f"{look.most(name) / MIB:,.0f}" for name in ("log_bytes", "store_bytes")),
        f"{look.trim_point:,}",
        f"{look.most('cursor'):,}",
    ]


def _targets(found: CompactionFindings) -> Table:
    before, after = found.look("log grows"), found.look("rejoin")
    positions = [each["position"] for each in found.compactions]
    restored = "nothing" if found.restored_at is None else f"the compaction at {found.restored_at:,}"
    rows = [
        ["segments archived", f"{found.archived}", "all that are closed"],
        ["a compaction killed, and given again", f"{len(found.kills)} times: {', '.join(found.kills)}", "equal state"],
        ["log begins at", f"{after.trim_point:,}", f"at least {positions[1]:,}, the second compaction"],
        ["log on the disk, before", f"{before.most('log_bytes') / MIB:,.0f} MiB", ""],
        [
            "log on the disk, in the end",
            f"{after.most('log_bytes') / MIB:,.0f} MiB",
            f"at most {LOG_BYTES_MAX // MIB} MiB, a few segments",
        ],
        [f"server {WIPED} has begun with", restored, f"the compaction at {positions[-1]:,}"],
        ["servers with the same znodes", f"{len(found.checksums) if not found.problems else 'WRONG'}", "3"],
    ]
    return Table("Targets", ["what", "measured", "target"], rows)
