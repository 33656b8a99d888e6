"""Disk of one node in an exploration: pairs in the product's format, written in groups as by `GroupCommit`.

A crash begins with what the product restores from these pairs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

import attrs

from virtuallog.contract.errors import VirtualLogError
from virtuallog.contract.ports import Changes, CutChanges, Span
from virtuallog.contract.types import NodeId
from virtuallog_loglets.paxos.config import Ensemble
from virtuallog_loglets.paxos.core.effects import AnswerFromDisk, PaxosAnswer, PaxosPersist
from virtuallog_loglets.paxos.core.replica import Replica
from virtuallog_loglets.paxos.drivers import disk_format
from virtuallog_loglets.paxos.messages import PaxosRecord
from virtuallog_simulation.explorer.batches import SEGMENT

INCARNATION: Final = 1
"""Incarnation of each store: none is lost."""
_ENSEMBLE: Final = Ensemble(members=(), quorum=0)
"""Ensemble in a header, which no step reads."""

StoredAnswer: TypeAlias = PaxosAnswer | AnswerFromDisk


@attrs.define(eq=False)
class PaxosGroup:
    """Changes that are synced together, and the answers that wait for them."""

    changes: dict[bytes, bytes] = attrs.field(factory=dict)
    answers: list[StoredAnswer] = attrs.field(factory=list)


@attrs.define(eq=False)
class PaxosDisk:
    """A `DurableMap` to read from, and the groups that are not in it yet."""

    pairs: dict[bytes, bytes] = attrs.field(factory=dict)
    writing: PaxosGroup | None = None
    next: PaxosGroup | None = None

    @classmethod
    def of(cls, replica: Replica) -> PaxosDisk:
        """Disk of a replica that has just been made."""
        return cls(dict([disk_format.header_pair(replica, _ENSEMBLE)]))

    # -- writing --------------------------------------------------------------------------------------------------

    def persist(self, effect: PaxosPersist) -> None:
        """Add changes to the next group."""
        if self.next is None:
            self.next = PaxosGroup()
        self.next.changes.update(disk_format.record_pair(SEGMENT, record) for record in effect.records)

    def holds(self, answer: StoredAnswer) -> bool:
        """Keep an answer until all earlier changes are synced; False if they are."""
        group = self.next or self.writing
        if group is not None:
            group.answers.append(answer)
        return group is not None

    def cut(self, replica: Replica) -> None:
        """Begin to write the next group, with the present header, if none is written."""
        if self.writing is None and self.next is not None:
            self.writing, self.next = self.next, None
            self.writing.changes.update([disk_format.header_pair(replica, _ENSEMBLE)])

    def sync(self, replica: Replica) -> list[StoredAnswer]:
        """Finish the write; returns the answers that waited for it."""
        group, self.writing = self.writing, None
        assert group is not None
        self.pairs.update(group.changes)
        self.cut(replica)
        return group.answers

    # -- reading --------------------------------------------------------------------------------------------------

    def header(self) -> disk_format.Header:
        return next(found for pair in self.pairs.items() if (found := disk_format.parse_header(*pair)) is not None)

    def records(self) -> list[PaxosRecord]:
        """Stored records, by position."""
        parsed = [disk_format.parse_record(*pair) for pair in sorted(self.pairs.items())]
        return [each[1] for each in parsed if each is not None]

    def record(self, position: int) -> PaxosRecord | None:
        return next((record for record in self.records() if record.position == position), None)

    def restore(self, node: NodeId) -> Replica:
        """Replica after a crash."""
        self.writing = self.next = None
        restoring = disk_format.restore(self, self.header(), node, INCARNATION)
        try:
            restoring.send(None)  # a dictionary never waits, so it ends at once
        except StopIteration as stop:
            replica: Replica = stop.value
            return replica
        raise AssertionError("reading a dictionary has waited for something")

    # -- DurableMap -----------------------------------------------------------------------------------------------

    @property
    def has_room(self) -> bool:
        return True

    async def get(self, key: bytes) -> bytes | None:
        return self.pairs.get(key)

    async def scan(self, prefix: bytes) -> list[tuple[bytes, bytes]]:
        return sorted(pair for pair in self.pairs.items() if pair[0].startswith(prefix))

    async def scan_span(self, span: Span, max_bytes: int) -> list[tuple[bytes, bytes]]:
        return sorted(pair for pair in self.pairs.items() if span[0] <= pair[0] < span[1])

    async def write(self, changes: Changes, dropped: Sequence[Span] = ()) -> None:
        raise AssertionError("groups are written by `sync`")

    def write_soon(self, cut: CutChanges, done: Callable[[VirtualLogError | None], None]) -> None:
        raise AssertionError("groups are written by `sync`")

    async def reclaim(self, span: Span) -> None:
        raise AssertionError("nothing is truncated here")
