"""Image of a state in a log: the entries behind its records, and which positions of the log are still needed.

Each name needs the position of its SNAPSHOT and all DIFFs behind that. The lowest position that any name needs is the
*truncation point*: everything below may be dropped.

A name that is rarely written would hold the truncation point for ever. So the log is *defragmented*: once less than half
of it is needed, each write is followed by a SNAPSHOT of the oldest names, of at least as many bytes. Then the log, and the
time to replay it, stay below a multiple of what is needed, however many names there are.

A log that was truncated may begin with changes of names whose SNAPSHOT is gone: other names hold the truncation point, and
these have a later SNAPSHOT or are expunged. So an image of such a log is *incomplete* at first. When all is applied, no name
may be left without a SNAPSHOT; from then on each DIFF must fit the present version.

Source: Mesos, src/state/log.cpp, which does not defragment. There a DIFF whose base was truncated ends the process, also if
nothing needs it (docs/internals/sources.md, defect 9).
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterator
from typing import Final

import attrs

from virtuallog.contract.errors import CorruptionError
from virtuallog_database.state.core.log_records import DiffRecord, ExpungeRecord, LogRecord, SnapshotRecord, cost_of
from virtuallog_database.state.variable import StateEntry

FIRST_POSITION: Final = 1
"""First position of a log that may hold a record."""


@attrs.define
class _Kept:
    """An entry with what it needs of the log."""

    entry: StateEntry
    position: int
    """Position of its SNAPSHOT."""
    cost: int
    """Bytes of the SNAPSHOT and of the DIFFs behind it."""
    diffs: int = 0


@attrs.define(eq=False)
class LogImage:
    """Entries of all names, behind all records below `next_position`.

    Args:
        next_position: position of the first record to apply. From one behind FIRST_POSITION on the image is incomplete.
        diffs_between_snapshots: most DIFFs behind one SNAPSHOT.
        slack_bytes: bytes that are not needed and kept all the same, as a small log is not worth the work.
    """

    next_position: int = FIRST_POSITION
    diffs_between_snapshots: int = 0
    slack_bytes: int = 0
    live_bytes: int = attrs.field(default=0, init=False)
    """Bytes of the records that are needed."""
    log_bytes: int = attrs.field(default=0, init=False)
    """Bytes of all records from the truncation point on."""
    garbage_bytes: int = attrs.field(default=0, init=False)
    """Bytes of all records below the truncation point, since the last call of `truncated`."""
    _kept: dict[str, _Kept] = attrs.field(factory=dict, init=False)
    _pins: OrderedDict[int, dict[str, None]] = attrs.field(factory=OrderedDict, init=False)
    """Names by the position of their SNAPSHOT. New positions are the highest, so the first one is the lowest."""
    _costs: deque[tuple[int, int]] = attrs.field(factory=deque, init=False)
    """Positions and bytes of the records from the truncation point on."""
    _is_complete: bool = attrs.field(init=False)
    _orphans: dict[str, bytes] = attrs.field(factory=dict, init=False)
    """Versions of names with a DIFF and no SNAPSHOT, while the image is incomplete."""

    def __attrs_post_init__(self) -> None:
        self._is_complete = self.next_position <= FIRST_POSITION

    # -- entries ------------------------------------------------------------------------------------------------------

    def get(self, name: str) -> StateEntry | None:
        """The entry of a name; None if there is none."""
        kept = self._kept.get(name)
        return None if kept is None else kept.entry

    def version(self, name: str) -> bytes | None:
        """The version of a name; None if there is none."""
        kept = self._kept.get(name)
        return None if kept is None else kept.entry.version

    def names(self) -> frozenset[str]:
        """All names with an entry."""
        return frozenset(self._kept)

    # -- records ------------------------------------------------------------------------------------------------------

    def apply(self, position: int, record: LogRecord) -> None:
        """Apply the record at a position. Positions ascend; those in between hold no records.

        Raises:
            CorruptionError: the record is for another version than the present one. The image must not be used any more.
        """
        assert position >= self.next_position
        self.next_position = position + 1
        self._costs.append((position, record.cost))
        self.log_bytes += record.cost
        match record:
            case SnapshotRecord(entries):
                for name, entry in entries:
                    self._forget(name)
                    self._keep(name, _Kept(entry, position, cost_of(name, entry.value)))
            case DiffRecord(name):
                self._check_version(name, record.base)
                self._change(name, record)
            case ExpungeRecord(name, version):
                self._check_version(name, version)
                self._forget(name)
        self._drop_costs()

    def complete(self) -> None:
        """Note that the image is that of a whole log, behind the truncation that has moved its beginning.

        Raises:
            CorruptionError: a name has a DIFF and no SNAPSHOT.
        """
        if self._orphans:
            raise CorruptionError(f"the log does not hold the value that '{min(self._orphans)}' had before its changes")
        self._is_complete = True

    def skip(self, position: int) -> None:
        """Note that all positions through this one hold no records that are not applied."""
        self.next_position = max(self.next_position, position + 1)
        self._drop_costs()

    def next_record(self, name: str, entry: StateEntry) -> SnapshotRecord | DiffRecord:
        """The record that stores an entry: the difference to the present one, if that is smaller and allowed."""
        kept = self._kept.get(name)
        if kept is not None and kept.diffs < self.diffs_between_snapshots:
            diff = DiffRecord.between(name, kept.entry, entry)
            if len(diff.encode()) < len(entry.value):
                return diff
        return SnapshotRecord(((name, entry),))

    # -- what the log holds -------------------------------------------------------------------------------------------

    @property
    def truncation_point(self) -> int:
        """Lowest position that is needed; `next_position` if none is."""
        return next(iter(self._pins), self.next_position)

    def truncated(self) -> None:
        """Note that everything below the truncation point has been dropped."""
        self.garbage_bytes = 0

    def rewrite(self, bytes_min: int, bytes_max: int) -> SnapshotRecord | None:
        """SNAPSHOT of the oldest names, to be appended; None if enough of the log is needed.

        Args:
            bytes_min: bytes to move to the tail, at least: those of the write before. Then the log stays bounded.
            bytes_max: bytes that fit into one entry of the log.
        """
        if self.log_bytes <= 2 * self.live_bytes + self.slack_bytes:
            return None
        entries, total = list[tuple[str, StateEntry]](), 0
        for name, entry in self._oldest():
            cost = cost_of(name, entry.value)
            if entries and (total >= bytes_min or total + cost > bytes_max):
                break
            entries.append((name, entry))
            total += cost
        return SnapshotRecord(tuple(entries)) if entries else None

    def _oldest(self) -> Iterator[tuple[str, StateEntry]]:
        for names in self._pins.values():
            for name in names:
                yield name, self._kept[name].entry

    # -- details ------------------------------------------------------------------------------------------------------

    def _check_version(self, name: str, version: bytes) -> None:
        """Check that a record is for the present version of a name."""
        kept = self._kept.get(name)
        present = self._orphans.get(name) if kept is None else kept.entry.version
        if present != version and (present is not None or self._is_complete):
            found = "none" if present is None else present.hex()
            raise CorruptionError(f"a record in the log is for version {version.hex()} of '{name}', which has {found}")

    def _change(self, name: str, diff: DiffRecord) -> None:
        kept = self._kept.get(name)
        if kept is None:
            self._orphans[name] = diff.version
            return
        kept.entry = diff.applied(kept.entry)
        kept.diffs += 1
        kept.cost += diff.cost
        self.live_bytes += diff.cost

    def _keep(self, name: str, kept: _Kept) -> None:
        self._kept[name] = kept
        self._pins.setdefault(kept.position, {})[name] = None
        self.live_bytes += kept.cost

    def _forget(self, name: str) -> None:
        self._orphans.pop(name, None)
        kept = self._kept.pop(name, None)
        if kept is None:
            return
        self.live_bytes -= kept.cost
        names = self._pins[kept.position]
        del names[name]
        if not names:
            del self._pins[kept.position]

    def _drop_costs(self) -> None:
        point = self.truncation_point
        while self._costs and self._costs[0][0] < point:
            cost = self._costs.popleft()[1]
            self.log_bytes -= cost
            self.garbage_bytes += cost
