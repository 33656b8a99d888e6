"""Report of a stream run, in tables."""

from __future__ import annotations

from virtuallog_lab.experiments.spark_stream.run import StreamFindings
from virtuallog_lab.harness.machine import Machine
from virtuallog_lab.harness.report import Report, Table


def report(machine: Machine, found: StreamFindings) -> Report:
    """All that was seen."""
    problems = [*found.problems, *_undone(found)]
    return Report(
        title="A stream to Parquet that is killed",
        machine=machine,
        tables=[_done(found), _targets(found, problems)],
        plain=found.plain(),
        verdict=(
            f"{found.log_entries:,} entries are in the table, each once (checksum {found.table_checksum:016x}); "
            f"each of {found.plan.entries:,} acknowledged appends is in the log, once, where it was told to be"
        ),
        problems=problems,
    )


def _undone(found: StreamFindings) -> list[str]:
    """Demands of the run that were not met."""
    wanted = {
        f"the driver was killed {len(found.kills)} times in a batch, not {found.plan.kills}": len(found.kills)
        == found.plan.kills,
        f"a node was killed {found.node_kills} times, not once": found.node_kills == 1,
        "the log was never swapped": found.swaps > 0,
        "the stream holds no log": found.held_from is not None,
        f"{found.log_entries} entries are too few": found.log_entries >= found.plan.entries,
    }
    return [problem for problem, is_so in wanted.items() if not is_so]


def _done(found: StreamFindings) -> Table:
    segments = ", ".join(f"{count} {kind}" for kind, count in sorted(found.segments.items()))
    rate = found.plan.entries / found.seconds if found.seconds else 0.0
    rows = [
        ["appends acknowledged", f"{found.plan.entries:,} in {found.seconds:,.0f} s, {rate:,.0f}/s"],
        ["appends of unknown outcome", f"{found.unknown:,}"],
        ["writes to the database", f"{found.writes:,}"],
        ["segments of the log", segments],
        ["reconfigurations", f"{found.swaps}"],
        ["driver killed in a batch that was", "; ".join(found.kills)],
        ["node killed", f"once, for {found.plan.down_seconds:g} s"],
        ["batches of the stream", f"{found.batches}"],
        ["the last driver: start, read the rest, count", f"{found.finish_seconds:.0f} s"],
        ["positions of the log that are fillers", f"{found.fillers:,}"],
        ["log held for the stream from", f"{found.held_from:,}" if found.held_from is not None else "-"],
    ]
    return Table("What was done", ["what", "figure"], rows)


def _targets(found: StreamFindings, problems: list[str]) -> Table:
    killed = f"{len(found.kills)} times"
    rows = [
        ["entries", f"{found.log_entries:,}", f"{found.rows:,}", "equal", _met(found.log_entries == found.rows)],
        [
            "checksum",
            f"{found.log_checksum:016x}",
            f"{found.table_checksum:016x}",
            "equal",
            _met(found.log_checksum == found.table_checksum),
        ],
        [
            "driver killed in a batch",
            "",
            killed,
            f"{found.plan.kills} times",
            _met(len(found.kills) == found.plan.kills),
        ],
        ["node killed", "", f"{found.node_kills} times", "once", _met(found.node_kills == 1)],
        ["anything missing, doubled or changed", "", f"{len(problems)}", "0", _met(not problems)],
    ]
    return Table("Exactly once?", ["what", "log", "table", "target", ""], rows)


def _met(is_met: bool) -> str:
    return "met" if is_met else "missed"
