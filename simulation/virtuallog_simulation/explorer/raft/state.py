"""States of the Raft system as moves and checks see them, and the bounds of a configuration."""

from __future__ import annotations

from typing import TypeAlias

import attrs

from virtuallog_loglets.raft.core.records import RaftRecord, RecordKind

RecordId: TypeAlias = int


@attrs.frozen(kw_only=True)
class RaftBounds:
    """Limits of one configuration."""

    nodes: int = 3
    terms: int = 1
    """Highest term in which a replica stands."""
    batches: int = 0
    seals: int = 0
    reads: int = 0
    crashes: int = 0
    trims: int = 0
    in_flight: int = 1
    duplicates: bool = False
    """True if a request may arrive a second time."""
    late: bool = False
    """True if a leader may take a message for lost that is under way."""
    queued_disk: bool = False
    """True if writes are synced one by one, in steps of their own; else each is synced before the next step."""
    first_leader: int = 0
    """Replica that leads term 1 without an election."""
    standers: tuple[int, ...] = ()
    """Replicas that may stand; all if empty."""
    asks: bool = False
    """True if elections begin with a pre-vote."""
    single_records: bool = False
    """True if a message holds one record at most."""
    stand_to_seal: bool = False
    """True if a replica that does not lead may stand to seal."""


@attrs.frozen
class RaftView:
    """Part of a replica's state that moves and checks look at."""

    node: int
    term: int
    vote: int
    leads: bool
    may_stand: bool
    commit: int
    base: int
    records: tuple[RecordId, ...]
    """Records above the base."""
    terms: tuple[int, ...]
    durable: int
    """Index up to which the log is synced."""
    disk: tuple[int, int] | None
    """Term and vote on the disk; None if it is not kept."""
    matches: tuple[tuple[int, int], ...]
    """Match index of each peer, of a leader."""
    flights: frozenset[tuple[int, int]]
    """Peer and number of the messages that a leader waits for."""
    owed: frozenset[tuple[int, int, int, int]]
    """Sender, term, incarnation and number of the records whose answers wait for the disk."""
    writing: int
    seal: int
    incarnation: int
    trim: int
    campaign: int

    @property
    def last(self) -> int:
        return self.base + len(self.records)

    def record(self, index: int) -> RecordId | None:
        return self.records[index - self.base - 1] if self.base < index <= self.last else None


@attrs.frozen
class RaftHistory:
    """Past of a run, as far as states alone do not show it. It never goes back."""

    leaders: tuple[int, ...]
    """Leader of each term so far; 0 if there was none."""
    committed: tuple[RecordId, ...]
    """Records that some replica has taken for committed."""
    batches: int = 0
    seals: int = 0
    reads: int = 0
    crashes: int = 0
    trims: int = 0


@attrs.define(eq=False)
class RecordTable:
    """All records that any replica has made, by number."""

    records: list[RaftRecord] = attrs.field(factory=list, init=False)
    _numbers: dict[bytes, RecordId] = attrs.field(factory=dict, init=False)

    def __getitem__(self, number: RecordId) -> RaftRecord:
        return self.records[number]

    def add(self, record: RaftRecord) -> RecordId:
        """Number of a record."""
        found = self._numbers.get(record.blob)
        if found is None:
            found = self._numbers[record.blob] = len(self.records)
            self.records.append(record)
        return found

    def tail_of(self, history: RaftHistory) -> tuple[int, bool]:
        """Offset behind what is committed, and if that is sealed."""
        found = [self.records[each] for each in history.committed]
        return (found[-1].stop if found else 0), any(record.kind is RecordKind.SEAL for record in found)
