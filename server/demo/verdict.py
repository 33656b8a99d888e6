"""Was the log right? Compares what writers were told with what is in the log.                               Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

import attrs

from server.demo.workload import Entry
from virtuallog.batch import SessionId
from virtuallog.types import Data, LogPosition

PROBLEMS_MAX = 20
"""So many are listed; more say nothing new."""


@attrs.frozen
class Verdict:
    """What was found."""

    entries: int
    """In the log."""
    problems: tuple[str, ...]
    """Empty if all is well."""


def judge(acknowledged: Mapping[Entry, LogPosition], records: Iterable[Data]) -> Verdict:
    """Check that each acknowledged entry is where its writer was told, and that each writer's entries, and each
    session's, are there once, in order, without a hole."""
    problems: list[str] = []
    seen: dict[Entry, int] = {}
    next_number: Counter[int] = Counter()
    next_sequence: dict[SessionId, int] = {}
    count = 0
    for record in records:
        count += 1
        problems += _check_session(record, next_sequence)
        entry = Entry.parse(record.payload)
        if entry is None:
            problems.append(f"position {record.position} holds what nobody wrote: {record.payload[:40]!r}")
            continue
        if entry in seen:
            problems.append(f"{entry} is at {seen[entry]} and at {record.position}")
        elif entry.number != next_number[entry.writer]:
            problems.append(f"{entry} is at {record.position}, where number {next_number[entry.writer]} belongs")
        seen[entry] = record.position
        next_number[entry.writer] = entry.number + 1
    for entry, position in acknowledged.items():
        if seen.get(entry) != position:
            problems.append(f"{entry} was acknowledged at {position} but is at {seen.get(entry, 'no position')}")
    return Verdict(count, tuple(problems[:PROBLEMS_MAX]))


def _check_session(record: Data, next_sequence: dict[SessionId, int]) -> list[str]:
    expected = next_sequence.get(record.session, record.sequence)
    next_sequence[record.session] = record.sequence + 1
    if record.sequence == expected:
        return []
    return [f"position {record.position}: sequence {record.sequence} of a session, where {expected} belongs"]
