"""What `spark.py` has measured, in tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from bench.spark_processes import ROLES, Look
from bench.spark_run import ARCHIVE, BATCHES, FILES, LIVE, PLAIN, Findings
from bench.spark_targets import Group, group, halves, long_looks, short_looks, targets
from virtuallog_server.bench.report import Report, Table
from virtuallog_server.machine import Machine

MIB: Final = 1 << 20


def report(machine: Machine, found: Findings) -> Report:
    """All that was seen."""
    judged = Table("Targets", ["what", "measured", "target", "met"], [target.row() for target in targets(found)])
    return Report(
        title="The log as a table of Spark",
        machine=machine,
        tables=[_readers(found), _sizes(found), _memory(found), _besides(found), judged],
        plain=found.plain(),
        verdict=f"Every reader found all of it: {found.contents}",
        problems=found.problems,
    )


def readers(found: Findings) -> dict[str, Group]:
    """All that have read everything, by name, in the order of the table."""
    cores = sorted({1, found.plan.cores})
    wanted = [(PLAIN, 0), (BATCHES, 0), *((what, count) for what in (LIVE, ARCHIVE, FILES) for count in cores)]
    named = {(f"Spark, {what}, local[{count}]" if count else what): group(found, what, count) for what, count in wanted}
    return {name: one for name, one in named.items() if one}


def _readers(found: Findings) -> Table:
    plain, roles = group(found, PLAIN).rate, ("reader", *ROLES)
    rows = [
        [
            name,
            f"{one.rate:,.0f}",
            f"{one.rate / plain:.2f}" if plain else "-",
            " ".join(f"{reading.rate / 1e6:.2f}" for reading in one.rounds),
            *(f"{one.cpu(role):.2f}" if role in one.rounds[0].cpu else "-" for role in roles),
            f"{one.cpu():.2f}",
        ]
        for name, one in readers(found).items()
    ]
    columns = ["reader", "entries/s", "of plain", "each round, M/s", *(f"CPU {role}" for role in roles), "CPU, all"]
    title = f"{found.plan.entries:,} entries of {found.plan.size} bytes, medians; CPU seconds for a million"
    return Table(title, columns, rows)


def _sizes(found: Findings) -> Table:
    readers = ((LIVE, ROLES), (ARCHIVE, ROLES[:2]), (FILES, ROLES[:1]))
    columns, rows = ["rows"], [[f"{size:,}"] for size in found.plan.sizes]
    for what, roles in readers:
        columns += [f"{what}: rows/s", *roles, *(["all"] if len(roles) > 1 else [])]
        for row, size in zip(rows, found.plan.sizes, strict=True):
            one = group(found, what, found.plan.cores, size)
            cells = [one.cpu(role) for role in roles] + ([one.cpu()] if len(roles) > 1 else [])
            row.extend([f"{one.rate:,.0f}", *(f"{cell:.2f}" for cell in cells)] if one else ["-"] * (1 + len(cells)))
    return Table(f"Sizes, local[{found.plan.cores}]; CPU seconds for a million", columns, rows)


def _memory(found: Findings) -> Table:
    parts = [short_looks(found), *halves(long_looks(found))]
    fields = {"Java": "jvm", "workers of Python": "python", "largest of them": "worker", "largest server": "servers"}
    rows = [[name, *(_most(looks, field) for looks in parts)] for name, field in fields.items()]
    columns = ["MiB at most", f"{found.plan.sizes[0]:,} rows", f"{found.plan.entries:,}, first half", "second half"]
    return Table(f"Memory while the live log is read, local[{found.plan.cores}]", columns, rows)


def _most(looks: Sequence[Look], field: str) -> str:
    return f"{max(getattr(look, field) for look in looks) / MIB:,.0f}" if looks else "-"


def _besides(found: Findings) -> Table:
    tenth, archived = found.plan.sizes[0], found.archived
    warm = group(found, LIVE, found.plan.cores, tenth)
    rows = [
        ["appending all entries", f"{found.load_seconds:.1f} s"],
        ["Spark's start: Java and a session", f"{found.cold.start_seconds:.1f} s"],
        [f"its first query, of {tenth:,} entries", f"{found.cold.first_seconds:.1f} s"],
        ["the same when it is warm", f"{tenth / warm.rate:.2f} s" if warm else "-"],
        ["`virtuallog spark archive`, all of it", f"{archived.seconds:.1f} s"],
        ["its files", f"{archived.files}, {archived.bytes / MIB:,.0f} MiB"],
    ]
    return Table("What no rate contains", ["what", "measured"], rows)
