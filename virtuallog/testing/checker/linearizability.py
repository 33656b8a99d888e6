"""Linearizability of one loglet: judges the history of many concurrent clients.

The witness order (`witness_order.py`) of a loglet, with the operations that reveal it:

    place   0    1     2    3          4    5     6
            e0   e1  | e2   e3  |  S | e4   e5  |
                     |          |    |          '- Sealed(6), seen later: the sealed tail has grown
                     |          |    '------------ Sealed(4)
                     |          '----------------- Open(4), just before the entry at its place
                     '---------------------------- Open(2)

The seal S stands behind everything that proves the loglet open, acknowledged entries and open
tails, and behind entries that were read before any client sealed. A sealed tail may grow, as
unacknowledged entries land (Delos, OSDI'20, section 3.4). These may stand behind the seal, so that
is no special case here. Batches are examined entry by entry: a striped log interleaves them.

Each contradiction has the name of the promise that it breaks; docs/reference/promises.md has a table of them.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias

import attrs

from virtuallog.contract.batch import Batch, SessionId
from virtuallog.contract.chain import SegmentId
from virtuallog.contract.errors import OutOfOrderError, TailMismatchError
from virtuallog.contract.types import Gap, GapKind, Open, PlacedBatch
from virtuallog.testing.checker.actions import LogletAppend, LogletCopy, LogletRead, LogletSeal, LogletTail, LogletTrim
from virtuallog.testing.checker.expectations import covered
from virtuallog.testing.checker.history import History, Operation
from virtuallog.testing.checker.violation import Violation, demand, proof
from virtuallog.testing.checker.witness_order import ANY_TIME, Entries, Entry, Step, in_order, out_of_time

Name: TypeAlias = tuple[SessionId, int]
"""Name of an entry of a loglet: session and sequence number."""

_KINDS = (LogletAppend, LogletTail, LogletSeal, LogletRead, LogletTrim, LogletCopy)

_OPEN, _SEAL, _SEALED, _ENTRY = range(4)
"""Order of the steps at one place."""


def check_log(history: History) -> None:
    """Check one loglet's history. Raises AssertionError with the first contradiction."""
    demand(history, loglets_are_linearizable)


def loglets_are_linearizable(history: History) -> Iterator[Violation]:
    """Every loglet in use looks like one log, used by one client at a time."""
    loglets: dict[SegmentId, _Loglet] = {}
    for kind in _KINDS:
        for operation in history.operations(kind):
            segment = operation.action.segment
            calls = loglets.get(segment)
            if calls is None:
                calls = loglets[segment] = _Loglet(segment)
            calls.of[kind].append(operation)
    for calls in loglets.values():
        yield from calls.judge()


@attrs.define(eq=False)
class _Loglet:
    """The operations on one loglet, in the order in which they began, and the facts that follow."""

    segment: SegmentId
    of: dict[type, list[Operation]] = attrs.field(factory=lambda: {kind: [] for kind in _KINDS})
    entries: Entries[Name] = attrs.field(factory=Entries)
    batches: dict[tuple[SessionId, int], Batch] = attrs.field(factory=dict)
    """Batches that were offered, and not refused for good, by session and first sequence number."""

    def judge(self) -> Iterator[Violation]:
        yield from self._offers()
        yield from self._acknowledgements()
        yield from self._conditions()
        yield from self._refusals()
        yield from self._reads()
        yield from self._gaps()
        yield from self._trims()
        yield from self._sessions()
        yield from self._copies()
        steps = list(self._steps())
        seal = _seal_step(self.of[LogletSeal], steps)
        yield from self._seal(seal, steps)
        yield from self._times(steps if seal is None else [*steps, seal])

    def broken(self, check: str, message: str, *operations: Operation | None) -> Violation:
        return Violation(check, f"loglet {self.segment}: {message}", proof(*operations))

    # -- where entries lie ----------------------------------------------------------------------------------------

    def _offers(self) -> Iterator[Violation]:
        for append in self.of[LogletAppend]:
            batch = append.action.batch
            # A batch refused for good leaves its numbers to another one: nothing was done, nor will
            # be.
            known = batch if append.failed else self.batches.setdefault((batch.session, batch.first_sequence), batch)
            if known != batch:
                yield self.broken("one batch per sequence", f"two batches were offered as {_names(batch)}", append)
            for name in _names(batch):
                self.entries.offer((batch.session, name), f"entry {name} of session {batch.session.hex()[:8]}", append)

    def _acknowledgements(self) -> Iterator[Violation]:
        for append in self.of[LogletAppend]:
            if not append.returned:
                continue
            batch, places = append.action.batch, append.result
            if len(places) != batch.count:
                yield self.broken("one batch per place", f"{batch} was given places {places}", append)
            for name, place in zip(_names(batch), places, strict=False):
                entry = self.entries.named[batch.session, name]
                entry.acknowledged = entry.acknowledged or append
                if conflict := self.entries.place(entry, place, append):
                    yield self.broken("one batch per place", f"an acknowledgement {conflict[0]}", conflict[1], append)

    def _conditions(self) -> Iterator[Violation]:
        """A conditional append lands where it was to land."""
        for append in self.of[LogletAppend]:
            expected = append.action.expected_tail
            if append.returned and expected is not None and append.result.start != expected:
                message = f"an append on condition of tail {expected} got {append.result.start}"
                yield self.broken("loglet conditions hold", message, append)

    def _refusals(self) -> Iterator[Violation]:
        """A permanent refusal gives a reason that was true at some time since its first call began.

        The tail that it names is no lower than one known before, and no higher than one reported
        later. A missing predecessor was not known to be there.
        """
        appends = [append for append in self.of[LogletAppend] if append.error is not None]
        mismatches = [append for append in appends if isinstance(append.error, TailMismatchError)]
        if mismatches:
            yield from self._mismatches(mismatches)
        for append in appends:
            if isinstance(append.error, OutOfOrderError):
                entry = self._entry_before(append)
                if entry is not None and entry.seen < append.invoked:
                    message = f"{append.action.batch} came too early, was said, but {entry} was in the log"
                    yield self.broken("loglet refusals are true", message, entry.known_by, append)

    def _mismatches(self, mismatches: Sequence[Operation]) -> Iterator[Violation]:
        """A batch's condition may be refused once more, with the tail of the first time: its first
        call is judged."""
        first: dict[tuple[SessionId, int, int | None], Operation] = {}
        for append in self.of[LogletAppend]:
            batch = append.action.batch
            first.setdefault((batch.session, batch.first_sequence, append.action.expected_tail), append)
        known = HighestTail(self._lower_bounds())
        later = sorted(
            (c for c in self._tails() if not c.action.lagging), key=lambda check: check.invoked, reverse=True
        )
        lowest: list[tuple[int, Operation]] = []
        """Lowest tails among those asked for from some time on, with that time, the latest first."""
        for check in later:
            if not lowest or check.result.tail < lowest[-1][1].result.tail:
                lowest.append((check.invoked, check))
        for append in mismatches:
            error, batch = append.error, append.action.batch
            assert isinstance(error, TailMismatchError)
            call = first[batch.session, batch.first_sequence, append.action.expected_tail]
            tail, witness = known.before(call.invoked)
            if error.found < tail:
                message = f"{batch} was refused at tail {error.found}, not {error.expected}, when {tail} was known"
                yield self.broken("loglet refusals are true", message, witness, append)
            lower = [c for since, c in lowest if append.ended is not None and since > append.ended]
            if lower and lower[-1].result.tail < error.found:
                message = f"{batch} was refused at tail {error.found}; later it was {lower[-1].result.tail}"
                yield self.broken("loglet refusals are true", message, append, lower[-1])

    def _tails(self) -> Iterator[Operation]:
        return (check for check in self.of[LogletTail] if check.returned and not check.action.of_copy)

    def _lower_bounds(self) -> Iterator[tuple[float, int, Operation | None]]:
        """Yield (start time, a tail that was surely reached, its proof)."""
        for place, entry in self.entries.at.items():
            yield entry.seen, place + 1, entry.known_by
        for check in self._tails():
            yield check.done, check.result.tail, check
        for trim in self.of[LogletTrim]:
            if trim.returned:
                yield trim.done, trim.result, trim
        for read in self.of[LogletRead]:
            if read.returned and read.result:
                yield read.done, read.result[-1].stop, read

    def _entry_before(self, append: Operation) -> Entry[Name] | None:
        batch = append.action.batch
        return self.entries.named.get((batch.session, batch.first_sequence - 1))

    def _reads(self) -> Iterator[Violation]:
        for read in self.of[LogletRead]:
            if not read.returned:
                continue
            try:
                covered(read.result, read.action.start, read.action.stop)
            except AssertionError as error:
                yield self.broken("loglet reads without holes", str(error), read)
            for item in read.result:
                if isinstance(item, PlacedBatch):
                    yield from self._found(read, item)

    def _found(self, read: Operation, found: PlacedBatch) -> Iterator[Violation]:
        session, first = found.batch.session, found.batch.first_sequence
        is_offered = self.batches.get((session, first)) == found.batch
        for sequence, place in enumerate(found.places, start=first + found.first):
            entry = self.entries.named.get((session, sequence))
            if entry is None or entry.started > read.done or not (is_offered or entry.refused):
                message = f"a read found entry {sequence} of {found.batch} that no client had offered"
                yield self.broken("loglet invents nothing", message, read)
            elif entry.refused:
                message = f"a read found {entry}, which had been refused with nothing done"
                yield self.broken("loglet invents nothing", message, entry.offers[-1], read)
            elif conflict := self.entries.place(entry, place, read):
                yield self.broken("acknowledged is readable", f"a read {conflict[0]}", conflict[1], read)

    def _gaps(self) -> Iterator[Violation]:
        """Filler hides no entry, nothing is lost, and only requested trims trim."""
        gaps = [(read, gap) for read in self.of[LogletRead] if read.returned for gap in read.result if type(gap) is Gap]
        if not gaps:
            return
        places = sorted(self.entries.at)
        asked = FarthestTrim((trim, trim.action.offset) for trim in self.of[LogletTrim])
        for read, gap in gaps:
            if gap.kind is GapKind.LOST:
                yield self.broken("loglet reads without holes", f"{gap} was reported", read)
            elif gap.kind is GapKind.TRIMMED:
                if gap.stop > asked.until(read):
                    message = f"{gap} was read when no client had asked to trim beyond {asked.until(read)}"
                    yield self.broken("loglet gaps are honest", message, read)
            elif (index := bisect.bisect_left(places, gap.start)) < len(places) and places[index] < gap.stop:
                holder = self.entries.at[places[index]]
                message = f"{gap} was read where {holder} is, at {places[index]}"
                yield self.broken("loglet gaps are honest", message, holder.known_by, read)

    def _trims(self) -> Iterator[Violation]:
        """The trim point never goes back."""
        steps = [
            Step(trim.result, 0, trim.invoked, trim.done, str(trim.result), trim)
            for trim in self.of[LogletTrim]
            if trim.returned
        ]
        for later, earlier in out_of_time(in_order(steps)):
            message = f"the trim point went back from {earlier.what} to {later.what}"
            yield self.broken("loglet trim points move forward", message, earlier.operation, later.operation)

    def _sessions(self) -> Iterator[Violation]:
        newest: dict[SessionId, Entry[Name]] = {}
        for place in sorted(self.entries.at):
            entry = self.entries.at[place]
            session, sequence = entry.name
            earlier = newest.get(session)
            if earlier is not None and sequence < earlier.name[1]:
                message = f"{entry} at {place} comes after a later one of its session"
                yield self.broken("loglet keeps sessions in order", message, earlier.known_by, entry.known_by)
            newest[session] = entry

    def _copies(self) -> Iterator[Violation]:
        """A moved loglet is sealed and has everything below the stop of its segment; past that it
        promises nothing."""
        copies = [copy for copy in self.of[LogletCopy] if copy.returned]
        for check in self.of[LogletTail]:
            if not (check.returned and check.action.of_copy) or (
                check.action.lagging and isinstance(check.result, Open)
            ):
                continue
            tail = check.result
            if isinstance(tail, Open):
                yield self.broken("copies are whole", f"{tail} was seen of a loglet that has been moved", check)
            made = max((copy for copy in copies if copy.before(check)), key=lambda copy: copy.action.stop, default=None)
            if made is not None and tail.tail < made.action.stop:
                message = f"{tail} was seen of a copy that was made up to {made.action.stop}"
                yield self.broken("copies are whole", message, made, check)

    # -- the witness order ----------------------------------------------------------------------------------------

    def _steps(self) -> Iterator[Step]:
        """Yield all steps but the seal, unsorted."""
        for place, entry in self.entries.at.items():
            yield Step(place, _ENTRY, entry.started, entry.seen, f"{entry} at {place}", entry.known_by, entry)
        for check in self.of[LogletTail]:
            if check.returned and not check.action.of_copy:
                tail, is_open = check.result, isinstance(check.result, Open)
                started = ANY_TIME if is_open and check.action.lagging else check.invoked
                yield Step(tail.tail, _OPEN if is_open else _SEALED, started, check.done, str(tail), check)

    def _seal(self, seal: Step | None, steps: Sequence[Step]) -> Iterator[Violation]:
        """No sealed tail lies below a step that came before the seal."""
        last = _last_before(self.of[LogletSeal], steps)
        for step in steps:
            if step.line != _SEALED:
                continue
            if seal is None:
                yield self.broken("sealed by another client", f"{step.what} was seen before any seal", step.operation)
            if last is not None and step.place < _bound(last):
                message = f"{step.what} was seen, which lies before {_behind(last)}"
                yield self.broken(_passed(last), message, _witness(last), step.operation)

    def _times(self, steps: Sequence[Step]) -> Iterator[Violation]:
        for later, earlier in out_of_time(in_order(steps)):
            if earlier.line == _SEAL and later.line == _SEALED:
                continue  # reported by `_seal`
            if earlier.line == _SEAL:
                check = "loglet tails move forward" if later.line == _OPEN else "sealed takes nothing"
            elif later.line == _SEAL:
                check = "sealed by another client"
            else:
                check = "loglet appends follow the tail" if later.entry is not None else "loglet tails move forward"
            message = f"{later.what} stands before {earlier.what}, but began only after that had ended"
            yield self.broken(check, message, earlier.operation, _witness(later))


class HighestTail:
    """The highest tail that was known at each moment."""

    def __init__(self, proofs: Iterable[tuple[float, int, Operation | None]]) -> None:
        """Take (start time, tail, proving operation) in any order."""
        self._since: list[float] = []
        self._highest: list[tuple[int, Operation | None]] = []
        for since, tail, witness in sorted(proofs, key=lambda proof: proof[:2]):
            if since < math.inf and (not self._highest or tail > self._highest[-1][0]):
                self._since.append(since)
                self._highest.append((tail, witness))

    def before(self, event: int) -> tuple[int, Operation | None]:
        """Return the highest tail proved by operations that had ended before this event."""
        index = bisect.bisect_left(self._since, event) - 1
        return self._highest[index] if index >= 0 else (0, None)


class FarthestTrim:
    """The farthest possible trim point at each time: at most what was asked for, and at most the
    result."""

    def __init__(self, trims: Iterable[tuple[Operation, int]]) -> None:
        """Take trims in the order in which they began, each with the requested point.

        A trim that has returned has done what it reported, and no more: it ends at the tail. Those
        that surely did nothing count as well, as another process may request them again on the
        caller's behalf.
        """
        self._since: list[int] = []
        self._farthest: list[int] = []
        for trim, wanted in trims:
            self._since.append(trim.invoked)
            done = min(wanted, trim.result) if trim.returned else wanted
            self._farthest.append(max(done, self._farthest[-1] if self._farthest else 0))

    def until(self, operation: Operation) -> int:
        """Return the farthest point of trims that had begun when `operation` ended."""
        index = bisect.bisect_left(self._since, operation.done) - 1
        return self._farthest[index] if index >= 0 else 0


def _names(batch: Batch) -> range:
    return range(batch.first_sequence, batch.stop_sequence)


def _unsealed(step: Step) -> bool:
    """True if no seal can have come before: an acknowledged entry or an open tail."""
    return step.line == _OPEN or (step.entry is not None and step.entry.acknowledged is not None)


def _bound(step: Step) -> int:
    """Return the least tail of a log in which this step was taken."""
    return step.place + (step.line == _ENTRY)


def _last_before(seals: Sequence[Operation], steps: Iterable[Step]) -> Step | None:
    """Return the last step, in the witness order, that must have come before the seal.

    Such steps prove that there was no seal, or are entries that were there before any client
    sealed.
    """
    began = seals[0].invoked if seals else ANY_TIME
    before = (step for step in steps if _unsealed(step) or (step.entry is not None and step.done < began))
    return max(before, key=_bound, default=None)


def _passed(last: Step) -> str:
    """Name the promise that a sealed tail below this step breaks."""
    if last.line == _OPEN:
        return "open tails below the stop"
    return "acknowledged below the stop" if _unsealed(last) else "loglet tails move forward"


def _seal_step(seals: Sequence[Operation], steps: Iterable[Step]) -> Step | None:
    """Merge all seals into one step: it happened after the first began and before the first returned."""
    if not seals:
        return None
    last, first = _last_before(seals, steps), min(seals, key=lambda seal: seal.done)
    what = _behind(last) if last else "the seal"
    return Step(_bound(last) if last else 0, _SEAL, seals[0].invoked, first.done, what, first)


def _behind(last: Step) -> str:
    return f"the seal (behind {last.what})"


def _witness(step: Step) -> Operation | None:
    return step.entry.acknowledged or step.operation if step.entry is not None else step.operation
