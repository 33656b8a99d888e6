"""A replica on disk: what comes back, and what is noticed."""

from __future__ import annotations

import random
from typing import Any

import attrs
import pytest
import trio
from crc32c import crc32c
from hypothesis import given, settings
from hypothesis import strategies as st

from virtuallog.contract.batch import Batch, SessionId
from virtuallog.contract.chain import SegmentId
from virtuallog.contract.errors import CorruptionError, MalformedError
from virtuallog.contract.types import NodeId
from virtuallog.testing.sim.clock import SimulatedClock
from virtuallog.testing.sim.key_values import SimulatedKeyValues, SimulatedKeyValuesDisk
from virtuallog.testing.sim.process import Process
from virtuallog_loglets.paxos.config import Ensemble
from virtuallog_loglets.paxos.core import values
from virtuallog_loglets.paxos.core.effects import PaxosPersist
from virtuallog_loglets.paxos.core.replica import Replica
from virtuallog_loglets.paxos.drivers import disk_format, group_commit
from virtuallog_loglets.paxos.drivers.group_commit import GroupCommit, StoredReplica
from virtuallog_loglets.paxos.messages import (
    Decided,
    Incarnation,
    Learn,
    PaxosRecord,
    PaxosRecover,
    PaxosWrite,
    Promise,
    Status,
    TrimSealed,
)

LOG, OTHER = SegmentId(3, 7), SegmentId(3, 8)
NODE, LEADER = NodeId(1), NodeId(2)
ENSEMBLE = Ensemble(members=(NodeId(1), NodeId(2), NodeId(3)), quorum=2)
RECORD = PaxosRecord(position=5, promised=9, performed=4, value=values.append(b"hello", 12), learned=True)

GOLDEN = {
    "founding": ("66", "564cf4cbadea01050000000000000003000000000000000200000000000000"),
    "record": (
        "72000000000000000300000000000000070000000000000005",
        "564c2772b52001010900000000000000040000000000000056500102490453410c0000000000000068656c6c6f",
    ),
    "header": (
        "6800000000000000030000000000000007",
        "564cb8b7c59d01030900000000000000020000000000000000000000000000000200000000000000"
        "0100000000000000ffffffffffffffff0000000000000000030001000200010000000200000003000000030000000000000000010000",
    ),
    "digest": (
        "6400000000000000030000000000000007",
        "564c19a402ea0102000000000000000001000000737373737373737373737373737373730100000000000000"
        "010000000000000000010000000000000000000000",
    ),
}
"""Key and value of each record, as the first version writes it. These bytes never change."""


def opened() -> tuple[SimulatedKeyValuesDisk, SimulatedKeyValues]:
    disk = SimulatedKeyValuesDisk(random.Random(1))
    return disk, disk.open(Process(NODE), SimulatedClock(Process(NODE)))


def replica(status: Status = Status.VOTING) -> Replica:
    return Replica(LOG, NODE, 11, status)


def batch(number: int) -> bytes:
    return values.append(Batch.build(SessionId(b"s" * 16), number, [b"x"]).blob, 1)


async def store(store_map: SimulatedKeyValues, stored: StoredReplica, effects: list[Any]) -> None:
    """Write the effects of one request as group commit does."""
    changes: dict[bytes, bytes | None] = {}
    dropped = []
    for effect in effects:
        if isinstance(effect, PaxosPersist):
            changes.update(disk_format.record_pair(LOG, record) for record in effect.records)
            changes.update(stored.pairs())
            if effect.drop_below:
                dropped.append(disk_format.record_span(LOG, 0, effect.drop_below))
    await store_map.write(changes, dropped)


async def restored(store_map: SimulatedKeyValues) -> Replica:
    (header,) = await disk_format.headers(store_map)
    return await disk_format.restore(store_map, header, NODE, 11)


def filled() -> Replica:
    """A log of two positions, told of a store that was lost."""
    told = (Incarnation(node=NodeId(3), incarnation=1 << 40),)
    made = Replica(LOG, NODE, 11, Status.VOTING, 9, LEADER, incarnations=told)
    made.step(PaxosWrite(segment=LOG, proposal=9, coordinator=LEADER, first=0, values=(values.nop(), batch(0))), None)
    made.step(Learn(segment=LOG, decided=Decided(proposal=9, first=0, stop=2)), None)
    return made


def test_bytes_on_disk_never_change() -> None:
    """A program of today reads what the first one wrote, and writes the same."""
    made = filled()
    written = {
        "founding": disk_format.incarnation_pair(5, 3, 2),
        "record": disk_format.record_pair(LOG, RECORD),
        "header": disk_format.header_pair(made, ENSEMBLE),
        "digest": disk_format.digest_pair(LOG, made.slots.digest),
    }
    assert {name: (key.hex(), value.hex()) for name, (key, value) in written.items()} == GOLDEN

    assert disk_format.parse_incarnation(bytes.fromhex(GOLDEN["founding"][1])) == (5, 3, 2)
    assert disk_format.parse_record(*map(bytes.fromhex, GOLDEN["record"])) == (LOG, RECORD)
    header = disk_format.parse_header(*map(bytes.fromhex, GOLDEN["header"]))
    assert header is not None
    assert (header.segment, header.status, header.promised, header.coordinator) == (LOG, Status.VOTING, 9, LEADER)
    assert (header.begin, header.learned, header.end, header.seal, header.trim) == (0, 2, 1, -1, 0)
    assert (header.ensemble, header.incarnations) == (ENSEMBLE, made.incarnations)


def test_keys_are_in_the_order_of_positions() -> None:
    """Keys sort by position, also where numbers get longer, and no key of another log lies between."""
    places = [0, 1, 255, 256, 2**31, 2**32, 9_999_999_999, 10_000_000_000, 2**47 - 2]
    keys = [disk_format.record_pair(LOG, PaxosRecord(position=place, promised=1))[0] for place in places]
    start, stop = disk_format.record_span(LOG, 0, 2**47)

    assert keys == sorted(keys)
    assert start <= keys[0] and keys[-1] < stop
    assert not start <= disk_format.record_pair(OTHER, PaxosRecord(position=5, promised=1))[0] < stop
    (spans,) = [[span for span in disk_format.spans_of(LOG) if span[0] <= key < span[1]] for key in keys[:1]]
    assert len(spans) == 1


@pytest.mark.parametrize("name", GOLDEN)
async def test_every_flipped_bit_is_noticed(name: str) -> None:
    """A damaged record is never read as another one, nor as one of a later format."""
    key, whole = map(bytes.fromhex, GOLDEN[name])
    for bit in range(8 * len(whole)):
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(CorruptionError):
            await read(name, key, bytes(damaged))
    for length in range(len(whole)):
        with pytest.raises(CorruptionError):
            await read(name, key, whole[:length])


@pytest.mark.parametrize("name", GOLDEN)
async def test_a_later_format_is_refused_by_name(name: str) -> None:
    """An operator who went back to an older version reads what is wrong, and nothing is taken for damaged."""
    key, whole = map(bytes.fromhex, GOLDEN[name])
    later = b"\x02" + whole[7:]
    with pytest.raises(MalformedError, match="format 2"):
        await read(name, key, whole[:2] + crc32c(later).to_bytes(4, "little") + later)


async def read(name: str, key: bytes, stored: bytes) -> None:
    if name == "founding":
        disk_format.parse_incarnation(stored)
    elif name == "record":
        disk_format.parse_record(key, stored)
    elif name == "header":
        disk_format.parse_header(key, stored)
    else:
        disk, store_map = opened()
        disk.pairs.update(dict([disk_format.header_pair(filled(), ENSEMBLE)]) | {key: stored})
        await restored(store_map)


async def test_a_replica_that_lacks_a_decided_position_is_not_restored() -> None:
    """Otherwise the digest would be wrong, and readers would wait for ever."""
    disk, store_map = opened()
    stored = StoredReplica(replica(), ENSEMBLE)
    await store(store_map, stored, write(stored, 0, 3))
    await store(
        store_map, stored, stored.core.step(Learn(segment=LOG, decided=Decided(proposal=1, first=0, stop=3)), None)
    )
    await store(store_map, stored, [PaxosPersist()])
    del disk.pairs[disk_format.record_pair(LOG, PaxosRecord(position=1, promised=1))[0]]

    with pytest.raises(CorruptionError, match="position 1"):
        await restored(store_map)


def write(stored: StoredReplica, first: int, count: int, proposal: int = 1) -> list[Any]:
    values_ = tuple(batch(first + index) for index in range(count))
    request = PaxosWrite(segment=LOG, proposal=proposal, coordinator=LEADER, first=first, values=values_)
    return list(stored.core.step(request, None))


async def test_the_digest_is_stored_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    """A start folds only the entries behind the last stored digest, and knows the same sessions."""
    monkeypatch.setattr(group_commit, "CHECKPOINT_POSITIONS", 10)
    disk, store_map = opened()
    stored = StoredReplica(replica(), ENSEMBLE)
    for first in range(0, 34, 2):
        await store(store_map, stored, write(stored, first, 2))
        decided = Decided(proposal=1, first=0, stop=first + 2)
        await store(store_map, stored, [*stored.core.step(Learn(segment=LOG, decided=decided), None), PaxosPersist()])
    (checkpoint,) = [value for key, value in disk.pairs.items() if key[:1] == b"d"]
    assert int.from_bytes(checkpoint[7:15], "little") == 30

    for position in range(1, 29):  # a start needs them no more
        del disk.pairs[disk_format.record_pair(LOG, PaxosRecord(position=position, promised=1))[0]]
    again = await restored(store_map)

    assert list(again.slots.digest.sessions()) == list(stored.core.slots.digest.sessions())
    assert again.slots.digest.stop == 34


PLACE = st.integers(0, 12)
NUMBER = st.integers(1, 6)
REQUEST = st.one_of(
    st.builds(lambda n: Promise(segment=LOG, proposal=n, coordinator=LEADER), NUMBER),
    st.builds(
        lambda n, p, c: Promise(segment=LOG, proposal=n, coordinator=LEADER, first=p, stop=p + c), NUMBER, PLACE, NUMBER
    ),
    st.builds(
        lambda n, p, kinds: PaxosWrite(
            segment=LOG,
            proposal=n,
            coordinator=LEADER,
            first=p,
            values=tuple(value_of(n, at, kind) for at, kind in enumerate(kinds, p)),
        ),
        NUMBER,
        PLACE,
        st.lists(st.sampled_from("aaant"), min_size=1, max_size=4),
    ),
    st.builds(
        lambda n, p, c: Learn(segment=LOG, decided=Decided(proposal=n, first=p, stop=p + c)), NUMBER, PLACE, NUMBER
    ),
    st.builds(lambda p, kind: Learn(segment=LOG, records=(decision(p, kind),)), PLACE, st.sampled_from("aants")),
    st.builds(
        lambda node, n: PaxosRecover(segment=LOG, node=NodeId(node), incarnation=n),
        st.integers(2, 3),
        st.integers(-1, 4),
    ),
    st.builds(lambda p: TrimSealed(segment=LOG, offset=p << 16), PLACE),
)


def value_of(number: int, position: int, kind: str) -> bytes:
    """One value for each number at a position, as proposers ensure, for any drawn kind."""
    if kind == "t":
        return values.truncate(position // 2, number)
    return values.nop(number) if kind == "n" else values.append(b"%d at %d" % (number, position), 1)


def decision(position: int, kind: str) -> PaxosRecord:
    value = values.seal(1) if kind == "s" and position == 9 else value_of(7, position, kind)
    return PaxosRecord(position=position, promised=7, performed=7, value=value, learned=True)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(REQUEST, st.booleans()), max_size=30))
def test_whatever_was_told_is_there_after_a_restart(requests: list[tuple[Any, bool]]) -> None:
    """After any prefix of what was written, the replica that is restored stands as the one stood that wrote it. Only what is
    decided may be forgotten in part, and never below what was durable with the last group."""
    assert trio.run(_restarts_alike, requests) >= sum(settles for _, settles in requests)


async def _restarts_alike(requests: list[tuple[Any, bool]]) -> int:
    """Number of times a replica was restored and compared: at least once for each request that settles."""
    restarts = 0
    _, store_map = opened()
    stored = StoredReplica(replica(), ENSEMBLE)
    for request, settles in requests:
        effects = stored.core.step(request, None)
        await store(store_map, stored, [*effects, PaxosPersist()] if settles else effects)
        if not settles and not any(isinstance(effect, PaxosPersist) for effect in effects):
            continue
        again = await restored(store_map)
        assert durable(again) == durable(stored.core)
        assert again.learned == stored.core.learned
        assert again.slots.digest.stop == (again.learned if again.seal < 0 else again.slots.digest.stop)
        restarts += 1
    return restarts


def durable(core: Replica) -> dict[str, Any]:
    """Parts of a standing that must never be taken back."""
    standing = attrs.asdict(core.standing())
    return {name: standing[name] for name in ("status", "promised", "begin", "end", "seal", "trim", "incarnations")}


async def test_the_end_waits_for_the_group_that_is_written(autojump_clock: trio.testing.MockClock) -> None:
    """What reads the store after the end sees all that was on its way; its callers hear nothing, and no group follows."""
    process = Process(NodeId(1))
    disk = SimulatedKeyValuesDisk(random.Random(1), write_seconds=2.0)
    clock, stored, told = SimulatedClock(process), StoredReplica(replica(), ENSEMBLE), list[str]()
    store_map = disk.open(process, clock)
    async with trio.open_nursery() as nursery:
        commit = GroupCommit(store_map, lambda answers, seconds: None, lambda: 0.0)
        nursery.start_soon(commit.run)
        for first in range(2):
            for effect in write(stored, first, 1):
                if isinstance(effect, PaxosPersist):
                    commit.persist(stored, effect, None)
            commit.then(lambda: told.append("durable"))
            await clock.sleep(0.5)
        nursery.cancel_scope.cancel()

    assert clock.monotonic() == pytest.approx(2.0, abs=0.1)
    assert (disk.writes, told) == (1, [])
    assert (await restored(store_map)).end == 0


async def test_the_age_of_a_write_is_told_while_the_disk_is_stuck(autojump_clock: trio.testing.MockClock) -> None:
    """A histogram has nothing of a write that does not end."""
    process = Process(NodeId(1))
    disk = SimulatedKeyValuesDisk(random.Random(1), write_seconds=100.0)
    clock, stored = SimulatedClock(process), StoredReplica(replica(), ENSEMBLE)
    async with trio.open_nursery() as nursery:
        commit = GroupCommit(disk.open(process, clock), lambda answers, seconds: None, clock.monotonic)
        nursery.start_soon(commit.run)
        assert commit.writing_seconds == 0
        for effect in write(stored, 0, 1):
            if isinstance(effect, PaxosPersist):
                commit.persist(stored, effect, None)
        await clock.sleep(40.0)
        assert commit.writing_seconds == pytest.approx(40.0, abs=0.1)
        await commit.settled()
        assert commit.writing_seconds == 0
        nursery.cancel_scope.cancel()


async def test_a_group_is_one_write() -> None:
    """Changes that arrive during a write share the next one; headers are as new as possible."""
    disk, store_map = opened()
    stored = StoredReplica(replica(), ENSEMBLE)
    async with trio.open_nursery() as nursery:
        commit = GroupCommit(store_map, lambda answers, seconds: None, lambda: 0.0)
        nursery.start_soon(commit.run)
        for first in range(5):
            for effect in write(stored, first, 1):
                if isinstance(effect, PaxosPersist):
                    commit.persist(stored, effect, None)
        stored.core.step(Learn(segment=LOG, decided=Decided(proposal=1, first=0, stop=5)), None)
        await commit.settled()
        nursery.cancel_scope.cancel()

    assert disk.writes == 1
    assert (await restored(store_map)).learned == 5
