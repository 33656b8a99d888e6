"""A LogServer that recovers by indexes knows what it would know from replaying everything."""

from __future__ import annotations

from random import Random

import attrs
import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from tests.loglets.native.core.log_server_bench import SEGMENT
from tests.loglets.wal.recorded_log import put, until
from virtuallog.contract.batch import Batch, SessionId
from virtuallog.contract.chain import SegmentId
from virtuallog.contract.errors import MalformedError
from virtuallog.testing.sim.disk import Disk
from virtuallog_loglets.native.core import segment_index
from virtuallog_loglets.native.core import wave as waves
from virtuallog_loglets.native.core.durable_state import (
    Change,
    DurableLogs,
    KnownTailRaised,
    LogletSealed,
    LogletTrimmed,
    encode,
)
from virtuallog_loglets.native.core.wave_index import WaveIndex
from virtuallog_loglets.tombstones import LiveLogletSet, VersionFloor
from virtuallog_loglets.wal import Address, WalRecord, WalSettings, WriteAheadLog
from virtuallog_loglets.wal.core import index_format

SETTINGS = WalSettings(
    segment_bytes=4096, record_bytes_max=1024, group_bytes_max=2048, queue_bytes_max=8192, headroom_bytes=512
)


def wave(segment: SegmentId, first: int, entries: int, known_tail: int) -> waves.Wave:
    batch = Batch.build(SessionId(bytes(16)), first, [b"x" * 20] * entries)
    return waves.build(segment=segment, first=first, known_tail=known_tail, time_ms=1, batches=[batch])


def changes(random: Random, count: int, durable: DurableLogs) -> list[Change]:
    """A life of some loglets: they fill, with gaps, are sealed, trimmed and dropped; stores come late or too early."""
    tails = {segment: loglet.tail for segment, loglet in durable.loglets.items()}
    found: list[Change] = []
    floor = max(1, durable.lowest_live_version, durable.tombstones.horizon + 1)
    for _ in range(count):
        segment = SegmentId(random.randrange(floor, floor + 3), 7)
        tail = tails.get(segment, 0)
        match random.choices(("wave", "early", "gap", "seal", "trim", "floor", "live"), (80, 4, 3, 2, 4, 1, 1))[0]:
            case "wave":
                entries = random.randint(1, 5)
                found.append(wave(segment, tail, entries, random.randint(0, tail)))
                tails[segment] = tail + entries
            case "early":
                found.append(wave(segment, tail + 3, 1, 0))
            case "gap":
                found += [KnownTailRaised(segment, tail + 2), wave(segment, tail + 2, 2, tail + 2)]
                tails[segment] = tail + 4
            case "seal":
                found.append(LogletSealed(segment))
            case "trim":
                found.append(LogletTrimmed(segment, random.randint(0, tail)))
            case "floor":
                floor += 1
                found.append(VersionFloor(floor))
            case "live":
                horizon = floor + 1
                found.append(LiveLogletSet(horizon, (SegmentId(floor, 7),)))
                floor += 2
    return found


def told(durable: DurableLogs) -> object:
    """All that it knows, in a form that compares."""
    return durable.lowest_live_version, durable.lowest_address_needed(), {
        segment: (attrs.astuple(loglet, recurse=False)[:-1], list(loglet.waves))
        for segment, loglet in sorted(durable.loglets.items())
    }  # fmt: skip


@pytest.mark.parametrize("seed", range(8))
async def test_a_recovery_by_indexes_gives_what_a_replay_gives(seed: int) -> None:
    """Indexes and a replay give the same, also if any of the indexes are missing, and after more restarts."""
    disk, random = Disk(Random(seed)), Random(seed)
    for _ in range(3):
        durable = DurableLogs()
        wal = await WriteAheadLog.open(disk.mount(), SETTINGS, durable.replay, indexes=durable)
        async with trio.open_nursery() as nursery:
            await nursery.start(wal.run, durable.snapshot)
            for change in changes(random, 150, durable):
                (address,) = await put(wal, encode(change))
                durable.apply(change, address)
            wanted = [index_format.name_of(sequence) for sequence in wal.closed]
            await until(lambda wanted=wanted: set(wanted) <= disk.files.keys())  # type: ignore[misc]
            nursery.cancel_scope.cancel()
        disk.kill()
        for name in wanted:
            if random.random() < 0.2:
                disk.files.pop(name)

        replayed, restored = DurableLogs(), DurableLogs()
        await WriteAheadLog.open(disk.mount(), SETTINGS, replayed.replay)
        disk.kill()
        wal = await WriteAheadLog.open(disk.mount(), SETTINGS, restored.replay, indexes=restored)
        disk.kill()
        assert len(wal.unread) > 3
        assert told(restored) == told(replayed) == told(durable)
        assert durable.loglets


@given(st.binary(max_size=200), st.integers(0, 40), st.integers(0, 255))
def test_bytes_that_are_no_index_are_refused(noise: bytes, at: int, flip: int) -> None:
    """Any other bytes are refused by type, and nothing has changed."""
    index = WaveIndex()
    index.add(wave(SEGMENT, 0, 2, 0), Address(1 << 32 | 64))
    image = bytearray(segment_index.encode({SEGMENT: index}) + noise)
    image[at] ^= flip
    durable = DurableLogs()
    try:
        segment_index.decode_untrusted(bytes(image))
    except MalformedError:
        assert not durable.restore_untrusted(1, bytes(image))
        assert not durable.loglets
    else:
        assert durable.restore_untrusted(1, bytes(image)) == bool(durable.loglets)


def test_an_index_that_repeats_what_is_known_is_refused() -> None:
    """It would put two waves at one offset."""
    durable = DurableLogs()
    durable.apply(wave(SEGMENT, 0, 2, 0), Address(1 << 32 | 64))
    again = durable.index(1)

    assert not durable.restore_untrusted(1, again)
    assert len(durable.loglets[SEGMENT].waves) == 1


def test_an_index_of_a_segment_has_its_waves_only() -> None:
    """The index has the waves of each loglet, in columns: 24 bytes a wave, and 24 a loglet."""
    durable = DurableLogs()
    for number in range(10):
        durable.replay(Address((1 + number // 5) << 32 | 64 + number), encode_wave(number))
    parts = segment_index.decode_untrusted(durable.index(2))

    assert [first for first, _, _ in parts[SEGMENT]] == [5, 6, 7, 8, 9]
    assert len(durable.index(2)) == 8 + 24 + 5 * 24


def encode_wave(first: int) -> WalRecord:
    stored = encode(wave(SEGMENT, first, 1, 0))
    return WalRecord(stored.kind, stored.payload)
