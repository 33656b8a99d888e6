"""Records of one replica against a naive model: a list of terms and offsets, and what of it is durable."""

from __future__ import annotations

import random

import attrs
import pytest

from virtuallog.contract.batch import Batch, SessionId
from virtuallog.contract.chain import SegmentId
from virtuallog.contract.types import NodeId
from virtuallog_loglets.raft.core import log as raft_log
from virtuallog_loglets.raft.core.log import LogPoint, RaftLog, committed_index
from virtuallog_loglets.raft.core.membership import Configuration, MemberKind, RaftMember
from virtuallog_loglets.raft.core.records import RaftRecord, RecordKind, RecordPlace, build, build_batches
from virtuallog_loglets.wal.core.record import Address

SEGMENT = SegmentId(1, 0)
MEMBERS = Configuration.of_voters((NodeId(1), NodeId(2), NodeId(3)))


@attrs.define
class Entry:
    """One record of the model."""

    record: RaftRecord
    write: int
    address: int = 0


@attrs.define
class Model:
    """The log as lists."""

    entries: list[Entry] = attrs.field(factory=list)
    base: LogPoint = raft_log.START
    commit: int = 0
    dropped_seal: int = 0
    dropped_configuration: int = 0

    @property
    def last(self) -> int:
        return self.base.index + len(self.entries)

    def term_at(self, index: int) -> int | None:
        if index == self.base.index:
            return self.base.term
        return self.entries[index - self.base.index - 1].record.term if self.base.index < index <= self.last else None

    def offset_at(self, index: int) -> int:
        return self.entries[index - self.base.index - 1].record.stop if index > self.base.index else self.base.offset

    def index_of(self, offset: int) -> int:
        found = (e.record.index for e in self.entries if e.record.stop > offset)
        return next(found, self.last + 1) if self.entries and offset >= self.base.offset else self.base.index + 1

    def hint(self, index: int, term: int) -> tuple[int, int]:
        for place in range(min(index, self.last), self.base.index, -1):
            found = self.term_at(place)
            if found is not None and found <= term:
                return place, found
        return self.base.index, self.base.term

    @property
    def durable(self) -> int:
        reached = self.base.index
        for entry in self.entries:
            if not entry.address:
                break
            reached = entry.record.index
        return reached

    @property
    def seal(self) -> int:
        return next((e.record.index for e in self.entries if e.record.kind is RecordKind.SEAL), self.dropped_seal)


def new_record(model: Model, term: int, chance: random.Random) -> RaftRecord:
    """A record that follows: mostly batches."""
    place = RecordPlace(
        segment=SEGMENT, index=model.last + 1, term=term, first=model.offset_at(model.last), commit=0, time_ms=0
    )  # fmt: skip
    kind = chance.random()
    if kind < 0.6 and not model.seal:
        return build_batches(place, [Batch.build(SessionId(bytes(16)), 0, [b"x"] * chance.randint(1, 3))])
    if kind < 0.65 and not model.seal:
        return build(place, RecordKind.SEAL)
    if kind < 0.75:
        member = {NodeId(chance.randint(1, 9)): RaftMember(MemberKind.VOTER)}
        return build(place, RecordKind.CONFIGURATION, Configuration(place.index, member).encode())
    return build(place, RecordKind.NOOP)


@pytest.mark.parametrize("first", range(0, 40, 20))
def test_log_is_what_a_list_of_records_would_be(first: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Appends, truncations, syncs that come late, drops from the front, and records that leave the memory."""
    monkeypatch.setattr(raft_log, "KEPT_BYTES_MAX", 300)
    for seed in range(first, first + 20):
        run(random.Random(seed))


def run(chance: random.Random) -> None:
    """One log and its model, through some steps."""
    log, model = RaftLog(MEMBERS), Model()
    write, term, address = 0, 1, 100
    writes: list[tuple[int, list[RaftRecord]]] = []
    for _ in range(60):
        step = chance.random()
        if step < 0.45:
            term += chance.random() < 0.2
            write += 1
            added = []
            for _ in range(chance.randint(1, 3)):
                added.append(new_record(model, term, chance))
                log.append(added[-1], write)
                model.entries.append(Entry(added[-1], write))
            writes.append((write, added))
        elif step < 0.75 and writes:
            done, stored = writes.pop(0)
            addresses = {record.index: Address(address + number) for number, record in enumerate(stored)}
            address += len(stored)
            log.synced(done, addresses)
            for entry in model.entries:
                if entry.write == done:
                    entry.address = addresses[entry.record.index]
        elif step < 0.85:
            last = chance.randint(model.commit, model.last)
            log.truncate(last)
            del model.entries[last - model.base.index :]
            term += 1
        elif step < 0.95:
            model.commit = chance.randint(model.commit, max(model.commit, model.durable))
            log.release(model.commit)
        else:
            last = chance.randint(model.base.index, max(model.base.index, min(model.commit, model.durable)))
            log.drop_below(last)
            model.dropped_seal = model.seal if model.seal <= last else 0
            changes = [e.record.index for e in model.entries if e.record.kind is RecordKind.CONFIGURATION]
            model.dropped_configuration = max(
                (index for index in changes if index <= last), default=model.dropped_configuration
            )
            point = LogPoint(last, model.term_at(last) or 0, model.offset_at(last))
            model.entries, model.base = model.entries[last - model.base.index :], point
        check(log, model)


def check(log: RaftLog, model: Model) -> None:
    """Compare every question."""
    assert (log.last_index, log.next_offset, log.durable_index) == (
        model.last,
        model.offset_at(model.last),
        model.durable,
    )
    assert log.last_term == model.term_at(model.last)
    assert log.base == model.base
    assert log.seal == model.seal
    for index in range(model.last + 2):
        assert log.term_at(index) == model.term_at(index)
        for term in range(1, 4):
            assert log.hint(index, term) == model.hint(index, term)
    for entry in model.entries:
        index = entry.record.index
        assert log.offset_at(index) == entry.record.stop
        assert log.first_at(index) == entry.record.first
        kept = log.kept(index)
        assert kept is None or kept.blob == entry.record.blob
        assert kept is not None or (index <= model.commit and log.address(index) == entry.address)
        if entry.address:
            assert log.address(index) == entry.address
    for offset in range(model.base.offset, model.offset_at(model.last) + 2):
        assert log.index_of(offset) == model.index_of(offset)
    newest = [e.record.index for e in model.entries if e.record.kind is RecordKind.CONFIGURATION]
    assert log.configuration.index == max(newest, default=model.dropped_configuration)


@pytest.mark.parametrize(
    ("matches", "committed"),
    [({1: 5}, 0), ({1: 5, 2: 3}, 3), ({1: 5, 2: 3, 3: 4}, 4), ({2: 3, 3: 4}, 3), ({1: 9, 4: 9, 5: 9}, 0)],
)
def test_index_of_a_majority_counts_voters_only(matches: dict[int, int], committed: int) -> None:
    """The smallest index of the best majority; members without a vote do not count."""
    assert committed_index({NodeId(node): index for node, index in matches.items()}, MEMBERS) == committed
