"""Promises to readers under any concurrent operations: validators over what each reader saw.

ordered, unique        a read begins at its start and covers every position once, in order; a reader that follows the
                       log goes on where it was
gap-honest             a gap says why: trimmed only where a client asked for it, filler only where nothing ever is,
                       and nothing is lost
resumable, repeatable  a reader sees what another one that passed there saw: the same record, or that it was trimmed
atomic                 entries that were offered together lie side by side, all of them or none
no future leak         nothing is read at or past a tail that a client sees later (`order.possible_in_time`: reads prove
                       tails), nor before a client offered it (`facts.content`)
follows                where the log goes (`followers_reach_the_tail`)
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Iterator
from typing import Final

from virtuallog.contract.types import Gap, GapKind
from virtuallog.testing.checker.actions import LogAppend, LogCheckTail, LogFollow, LogRead, LogTrim
from virtuallog.testing.checker.history import History, Operation
from virtuallog.testing.checker.linearizability import FarthestTrim
from virtuallog.testing.checker.violation import Check, Violation, proof
from virtuallog_simulation.checks.history.facts import chains, content, end_of, stop_of


def reads_without_holes(history: History) -> Iterator[Violation]:
    """A read returns positions from its start on, each once, in order; nothing is ever lost."""
    for read in history.operations(LogRead):
        if not read.returned:
            continue
        expected = read.action.start
        for record in read.result:
            start = record.start if isinstance(record, Gap) else record.position
            if start != expected:
                yield Violation("reads without holes", f"found {start} where {expected} was due", proof(read))
            if isinstance(record, Gap) and record.kind is GapKind.LOST:
                yield Violation("reads without holes", f"[{start}, {record.stop}) is reported as lost", proof(read))
            expected = stop_of(record)
        if not read.result or expected > read.action.stop:
            yield Violation("reads without holes", f"{len(read.result)} records, up to {expected}", proof(read))


def gaps_are_honest(history: History) -> Iterator[Violation]:
    """A position is reported as trimmed only if a client wanted it trimmed before the read had
    ended; filler never hides an entry."""
    log, asked = content(history), _asked(history)
    places = sorted(log.entries.at) if log.gaps else []
    for read, gap in log.gaps:
        if gap.kind is GapKind.TRIMMED and gap.stop > asked.until(read):
            message = f"[{gap.start}, {gap.stop}) was read as trimmed, asked for was {asked.until(read)}"
            yield Violation("gaps are honest", message, proof(read))
        elif gap.kind is GapKind.FILLER:
            for position in _within(places, gap):
                entry = log.entries.at[position]
                message = f"[{gap.start}, {gap.stop}) was read as filler; {entry} is at {position}"
                yield Violation("gaps are honest", message, proof(entry.known_by, read))


def acknowledged_survives(history: History) -> Iterator[Violation]:
    """I10: a read that begins after an entry was acknowledged, or read by any client, finds it, or
    that it was trimmed."""
    log, asked = content(history), _asked(history)
    places = sorted(log.entries.at) if log.gaps else []
    for read, gap in log.gaps:
        for position in _within(places, gap):
            entry = log.entries.at[position]
            trimmed = gap.kind is GapKind.TRIMMED and position < asked.until(read)
            if not trimmed and entry.seen < read.invoked:
                acknowledged = entry.acknowledged is not None and entry.acknowledged.before(read)
                check = "acknowledged survives" if acknowledged else "what was read stays"
                message = f"position {position} held {entry}, later it was read as a gap ({gap.kind.value})"
                yield Violation(check, message, proof(entry.acknowledged or entry.known_by, read))


def batches_are_whole(history: History) -> Iterator[Violation]:
    """Entries of one append lie side by side, all of them, and no tail or boundary ever lies in
    their middle."""
    log, tails = content(history), sorted(_ends(history), key=lambda end: end[0])
    for append in history.operations(LogAppend):
        count = len(append.action.payloads)
        if append.returned and append.result != range(append.result.start, append.result.start + count):
            yield Violation("batches are whole", f"{count} entries got {append.result}", proof(append))
        found = [log.entries.named[payload] for payload in append.action.payloads] if count > 1 else []
        start = next((one.place - index for index, one in enumerate(found) if one.place is not None), None)
        if start is None:
            continue
        for position, entry in enumerate(found, start=start):
            other = log.entries.at.get(position, entry)
            if other is not entry or entry.place not in {None, position}:
                message = f"{entry} belongs at {position}, with what was offered together with it"
                yield Violation("batches are whole", message, proof(append, other.known_by, entry.known_by))
        index = bisect.bisect_right(tails, start, key=lambda end: end[0])
        if index < len(tails) and tails[index][0] < start + count:
            message = f"a tail at {tails[index][0]}, inside of what was offered as one at {start}, {count} entries"
            yield Violation("batches are whole", message, proof(append, tails[index][1]))


def followers_go_on(history: History) -> Iterator[Violation]:
    """A reader that follows the log begins where it was to begin, and each of its records where the one before ended."""
    for follow, reads in _followed(history):
        expected = follow.action.start
        for read in reads:
            if read.action.start != expected:
                message = f"{follow.client} was handed {read.action.start} where {expected} was due"
                yield Violation("followers go on", message, proof(follow, read))
            expected = stop_of(read.result[-1]) if read.result else read.action.stop


READER_CHECKS: Final[tuple[Check, ...]] = (
    reads_without_holes,
    gaps_are_honest,
    acknowledged_survives,
    batches_are_whole,
    followers_go_on,
)


def followers_reach_the_tail(history: History) -> Iterator[Violation]:
    """Every live follower of the log has received all of it. Valid for a run that has waited for
    that, in peace."""
    tails = [tail for tail in history.operations(LogCheckTail) if tail.returned]
    for follow, reads in _followed(history):
        if follow.ended is not None or not tails:
            continue
        reached = stop_of(reads[-1].result[-1]) if reads and reads[-1].result else follow.action.start
        if reached < tails[-1].result.tail:
            message = f"{follow.client} follows the log and has reached {reached}, the tail is {tails[-1].result.tail}"
            yield Violation("followers reach the tail", message, proof(follow, reads[-1] if reads else None, tails[-1]))


def _followed(history: History) -> Iterator[tuple[Operation, list[Operation]]]:
    """Each reader that follows the log, and what it was handed, in order. A client follows once at a time."""
    follows = history.operations(LogFollow)
    handed: dict[str, list[Operation]] = {follow.client: [] for follow in follows}
    for read in history.operations(LogRead) if follows else ():
        if read.client in handed:
            handed[read.client].append(read)
    for follow in follows:
        end = math.inf if follow.ended is None else follow.ended
        yield follow, [read for read in handed[follow.client] if follow.invoked < read.invoked < end and read.returned]


def _ends(history: History) -> Iterator[tuple[int, Operation]]:
    """Every position at which a client saw the log, or a segment, end."""
    for tail in history.operations(LogCheckTail):
        if tail.returned:
            yield tail.result.tail, tail
    for known in chains(history).values():
        yield end_of(known.chain), known.known_by


def _asked(history: History) -> FarthestTrim:
    return FarthestTrim((trim, trim.action.position) for trim in history.operations(LogTrim))


def _within(places: list[int], gap: Gap) -> list[int]:
    return places[bisect.bisect_left(places, gap.start) : bisect.bisect_left(places, gap.stop)]
