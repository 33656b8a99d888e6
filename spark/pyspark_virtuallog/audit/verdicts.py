"""Verdicts on the evidence: one finding for each check, good or bad."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

from pyspark_virtuallog.audit.core.anomalies import EXAMPLES_MAX
from pyspark_virtuallog.audit.core.evidence import Comparisons, Ends, Evidence, Fault, ObservedRange, Round
from pyspark_virtuallog.audit.core.findings import ChainHistory, Finding, Severity
from pyspark_virtuallog.audit.core.row_observer import AGAIN, MISSING, TIME_BACK, UNREADABLE
from pyspark_virtuallog.audit.core.sink_markers import NEWER_MARKER
from pyspark_virtuallog.audit.database_entries import COMPARED, FOREIGN, NEWER, STRAY
from virtuallog.contract.types import GapKind
from virtuallog_database.engines.core.state_digests import differences, majority

DOUBLED: Final = "session number doubled"
SKIPPED: Final = "session number missing"
REORDERED: Final = "session out of order"
UNKEPT: Final = "marker without its entries"
VIOLATION, NOTABLE, FINE = Severity.VIOLATION, Severity.NOTABLE, Severity.FINE

_VERDICTS: Final[dict[str, tuple[Severity, str, str]]] = {
    AGAIN: (VIOLATION, "positions that stand in the log twice, or out of order", "every position stands there once, in order"),
    MISSING: (VIOLATION, "positions of which nothing is known", "there is an entry or a gap at every position"),
    UNREADABLE: (VIOLATION, "ranges that are damaged wherever they are kept", "all that is kept can be read"),
    DOUBLED: (VIOLATION, "numbers of a session that stand in the log more than once", "no number of a session stands there twice"),
    SKIPPED: (VIOLATION, "numbers of a session that are missing between others", "no session has a hole in its numbers"),
    REORDERED: (VIOLATION, "runs of a session that stand behind later ones", "every session stands in its order, across all segments"),
    UNKEPT: (VIOLATION, "attempts that a marker names and whose entries are not all there", "whatever a marker names is there"),
    TIME_BACK: (NOTABLE, "times at which a clock went back within a segment", "time does not go back within a segment"),
    STRAY: (NOTABLE, "entries in a database's log that are none of a database; replicas pass them over", "every entry is one of a database"),
    NEWER: (NOTABLE, "entries of a later version than this program knows", "every entry of the database is of a version known here"),
    FOREIGN: (NOTABLE, "entries that begin like the database's and that no engine here can read", "every entry and every command can be read"),
    NEWER_MARKER: (NOTABLE, "markers of a later version than this program knows", "every marker is of a version known here"),
}  # fmt: skip
"""For each check its severity, the noun that is counted, and the sentence if there is no fault."""
_OF_DATABASES: Final = (STRAY, NEWER, FOREIGN)
_OF_MARKERS: Final = (UNKEPT, NEWER_MARKER)


def judge(evidence: Evidence, chain: ChainHistory, start: int, stop: int, *, is_database: bool) -> list[Finding]:
    """One finding for each check that applies to this log."""
    faults = _joined({fault.check: fault for fault in evidence.faults}, _between(evidence.pieces, start, stop))
    checks = [check for check in _VERDICTS if check not in (*_OF_DATABASES, *_OF_MARKERS)]
    checks += _OF_MARKERS if evidence.markers.batches or not faults.keys().isdisjoint(_OF_MARKERS) else ()
    checks += _OF_DATABASES if is_database else ()
    found = [*_gaps(evidence, start), *(_of_fault(check, faults.get(check)) for check in checks)]
    found += [_chain(evidence, chain), _ends(evidence.ends)]
    found += _checksums(evidence.comparisons, faults.get(COMPARED)) if is_database else ()
    found += _markers(evidence)
    order = list(Severity)
    return sorted(found, key=lambda finding: order.index(finding.severity))


def _of_fault(check: str, fault: Fault | None) -> Finding:
    severity, wrong, right = _VERDICTS[check]
    if fault is None:
        return Finding(check=check, severity=FINE, text=right)
    text = f"{fault.count:,} {wrong}"
    return Finding(check=check, severity=severity, text=text, count=fault.count, examples=fault.examples)


def _joined(faults: dict[str, Fault], more: Iterator[tuple[str, int, str]]) -> dict[str, Fault]:
    """Faults, joined with those between neighbouring pieces, each (check, count, example)."""
    for check, count, example in more:
        known = faults.get(check) or Fault(check=check, count=0, examples=())
        examples = (*known.examples, example)[:EXAMPLES_MAX]
        faults[check] = Fault(check=check, count=known.count + count, examples=examples)
    return faults


def _between(pieces: Sequence[ObservedRange], start: int, stop: int) -> Iterator[tuple[str, int, str]]:
    """Faults between pieces: each must begin where the one before ends, and the last one end where
    the audit does."""
    ordered = sorted(pieces, key=lambda piece: (piece.first, piece.last))
    reached, is_open = start, False
    for piece in ordered:
        yield from _seam(reached, piece.first, is_open)
        reached, is_open = max(reached, piece.last + 1), piece.ends_in_gap
    if reached != stop and not (is_open and reached < stop):
        yield from _seam(reached, stop, False)
    for before, after in pairwise(ordered):
        yield from _times(before, after)


def _times(before: ObservedRange, after: ObservedRange) -> Iterator[tuple[str, int, str]]:
    ended, begins = before.last_time_ms, after.first_time_ms
    if before.last_segment == after.first_segment and ended is not None and begins is not None and ended > begins:
        yield TIME_BACK, 1, f"by {ended - begins} ms at {after.first}"


def _seam(reached: int, begins: int, is_open: bool) -> Iterator[tuple[str, int, str]]:
    """Faults at one seam. `is_open`: the piece that ended at `reached` ended in a gap, which goes
    on to the next row."""
    if begins < reached:
        yield AGAIN, reached - begins, f"[{begins}, {reached}) was read by two tasks"
    elif begins > reached and not is_open:
        yield MISSING, begins - reached, f"no row for [{reached}, {begins})"


def _gaps(evidence: Evidence, start: int) -> Iterator[Finding]:
    found = {gap.kind: gap for gap in evidence.gaps}
    lost, trimmed = found.get(GapKind.LOST.value), found.get(GapKind.TRIMMED.value)
    if lost is None:
        yield Finding(check="lost", severity=FINE, text="nothing is lost")
    else:
        examples = [_range(*example) for example in lost.examples]
        text = f"{lost.count:,} ranges whose copies are all gone"
        yield Finding(check="lost", severity=VIOLATION, text=text, count=lost.count, examples=examples)
    if trimmed is None:
        yield Finding(check="trimmed", severity=FINE, text="nothing in this range has been trimmed")
    elif trimmed.count == 1 and trimmed.examples[0][0] == start:
        yield Finding(check="trimmed", severity=FINE, text=f"{_range(*trimmed.examples[0])} has been trimmed")
    else:
        examples = [_range(*example) for example in trimmed.examples]
        text = f"{trimmed.count:,} ranges have been trimmed, perhaps while they were read"
        yield Finding(check="trimmed", severity=NOTABLE, text=text, count=trimmed.count, examples=examples)


def _range(start: int, stop: int | None) -> str:
    return f"[{start}, {'...' if stop is None else stop})"


def _chain(evidence: Evidence, chain: ChainHistory) -> Finding:
    known = {segment.segment: segment for segment in chain.segments}
    wrong, replaced = [], []
    for seen in evidence.segments:
        segment = known.get(seen.segment)
        if segment is None:
            replaced.append(f"{seen.segment} ({seen.loglet}) over [{seen.first}, {seen.last + 1})")
        elif segment.loglet != seen.loglet or not segment.start <= seen.first <= seen.last < (
            segment.stop or seen.last + 1
        ):
            wrong.append(
                f"{seen.segment} is {segment.loglet} from {segment.start}, and was read as {seen.loglet} from {seen.first} to {seen.last}"
            )
    if wrong:
        text = "segments hold what the chain does not give them"
        return Finding(check="chain", severity=VIOLATION, text=text, count=len(wrong), examples=wrong)
    if replaced:
        text = f"{len(replaced)} segments came into the chain while it was read"
        return Finding(check="chain", severity=NOTABLE, text=text, count=len(replaced), examples=replaced)
    text = f"what was read lies where version {chain.version} of the chain says"
    return Finding(check="chain", severity=FINE, text=text)


def _ends(ends: Ends) -> Finding:
    check = "segment ends"
    if ends.wrong:
        text = f"{len(ends.wrong)} of {ends.asked} closed segments do not end where the chain says"
        examples = ends.wrong[:EXAMPLES_MAX]
        return Finding(check=check, severity=VIOLATION, text=text, count=len(ends.wrong), examples=examples)
    if ends.silent:
        text = f"{len(ends.silent)} of {ends.asked} closed segments did not say where they end"
        examples = ends.silent[:EXAMPLES_MAX]
        return Finding(check=check, severity=NOTABLE, text=text, count=len(ends.silent), examples=examples)
    text = f"{ends.asked} closed segments are sealed where the chain says, or behind that"
    return Finding(check=check, severity=FINE, text=text)


def _checksums(comparisons: Comparisons, compared: Fault | None) -> Iterator[Finding]:
    check, wrong = "states agree", comparisons.differing
    if wrong:
        examples = [_differences(each) for each in comparisons.examples]
        text = f"in {wrong:,} of {comparisons.rounds:,} comparisons replicas do not report the same state"
        yield Finding(check=check, severity=VIOLATION, text=text, count=wrong, examples=examples)
    elif comparisons.rounds:
        text = f"in each of {comparisons.rounds:,} comparisons all replicas report the same state ({comparisons.reports:,} reports)"
        yield Finding(check=check, severity=FINE, text=text)
    else:
        asked = compared.count if compared else 0
        text = f"no two replicas have reported a state in this range ({asked:,} comparisons were asked for)"
        yield Finding(check=check, severity=NOTABLE, text=text)


def _differences(round_: Round) -> str:
    """Replicas that differ from the majority, and the parts; without a majority, compared with the
    first one."""
    reports = {replica: digests[0] for replica, digests in sorted(round_.reports.items())}
    agreed = majority(reports, len(reports))
    told = []
    for replica, digests in sorted(round_.reports.items()):
        parts = sorted({part for each in digests for part in differences(each, agreed or next(iter(reports.values())))})
        if parts:
            told.append(f"{replica} in {', '.join(parts)}")
    whom = "the others" if agreed else f"{next(iter(reports))}, and none has a majority"
    return f"at {round_.compared}: {'; '.join(told)} not as {whom}"


def _markers(evidence: Evidence) -> Iterator[Finding]:
    markers = evidence.markers
    if markers.batches:
        text = (
            f"{markers.batches:,} batches of {markers.queries:,} queries are committed, with {markers.committed_entries:,} entries; "
            f"{markers.uncommitted_entries:,} entries of {markers.uncommitted_sessions:,} sessions are named by no marker"
        )
        yield Finding(check="markers", severity=FINE, text=text)
