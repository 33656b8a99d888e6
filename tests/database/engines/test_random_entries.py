"""Entries that no engine may have written, in the log of three replicas: all come to the same, and none of them breaks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import attrs
import hypothesis.strategies as st
import trio
from hypothesis import Phase, given, settings
from trio.testing import MockClock

from tests.database.engines.world import ListApplication, Running, replicas
from tests.database.replica.test_replay import whole_log
from virtuallog.contract.errors import UnavailableError
from virtuallog_database.engines import brain_doctor
from virtuallog_database.engines.core.enabled_engines import FLOOR
from virtuallog_database.engines.core.entry import PROPOSER, TOKEN_BYTES, Entry
from virtuallog_database.engines.core.keys import read_cursor
from virtuallog_database.engines.layers.command_layer import CommandLayer
from virtuallog_database.engines.lease import LeaseEngine
from virtuallog_database.engines.log_backup import LogBackupEngine
from virtuallog_database.engines.rollout import RolloutEngine
from virtuallog_database.engines.session_order import Stamp
from virtuallog_database.engines.stack import KNOWN
from virtuallog_database.engines.time_engine import TimeEngine
from virtuallog_database.engines.view_tracking import ViewTrackingEngine
from virtuallog_database.errors import BinaryTooOldError
from virtuallog_database.replica.replay import Replay
from virtuallog_database.testing.memory_store import MemoryDisk

COMMANDED: Final[tuple[type[CommandLayer], ...]] = (
    LeaseEngine,
    LogBackupEngine,
    RolloutEngine,
    TimeEngine,
    ViewTrackingEngine,
)
"""Those of Checksums are left out: a report is believed, and a replica that differs from all others stops."""
NAMES: Final = st.sampled_from(("9-made-up", "1-" + "31" * 8, *KNOWN, ""))
FIELDS: Final[Mapping[str, st.SearchStrategy[Any]]] = {
    "int": st.integers(-10, 1 << 40),
    "LogPosition": st.integers(0, 1 << 40),
    "str": NAMES,
    "tuple[str, ...]": st.lists(NAMES, max_size=3).map(tuple),
    "Mapping[str, str]": st.dictionaries(NAMES, NAMES, max_size=2),
}


@st.composite
def commands(draw: st.DrawFn) -> tuple[str, bytes]:
    """A header as an engine writes it."""
    engine = draw(st.sampled_from(COMMANDED))
    kind = draw(st.sampled_from(engine.vocabulary.classes))
    value = kind(*(draw(FIELDS[str(field.type)]) for field in attrs.fields(kind)))
    return engine.name, engine.vocabulary.encode(value)


STAMPS: Final = st.builds(Stamp, st.sampled_from((bytes(16), b"\1" * 16)), st.integers(0, 3), NAMES.map(str.encode))
HEADERS: Final = st.one_of(
    commands(),
    STAMPS.map(lambda stamp: ("session_order", stamp.encode())),
    st.integers(0, 1 << 40).map(lambda began: (FLOOR, began.to_bytes(8, "big"))),
    st.binary(max_size=4).map(lambda value: ("brain_doctor", brain_doctor.encode({b"key": value}))),
    st.tuples(st.sampled_from((*KNOWN, "later")), st.binary(max_size=24)),
)


def cut(blob: bytes, at: int) -> bytes:
    return blob[: at % (len(blob) + 1)]


def flipped(blob: bytes, at: int) -> bytes:
    if not blob:
        return blob
    at, bit = at // 8 % len(blob), at % 8
    return blob[:at] + bytes((blob[at] ^ 1 << bit,)) + blob[at + 1 :]


DAMAGE: Final = st.tuples(
    st.sampled_from((cut, flipped, lambda blob, _: blob, lambda blob, _: blob)), st.integers(0, 1 << 12)
)


@st.composite
def entries(draw: st.DrawFn) -> bytes:
    """Random entry: whole or with damaged headers, a damaged entry, one of another version, or
    garbage."""
    headers = {PROPOSER: bytes(TOKEN_BYTES)}
    for name, value in draw(st.lists(HEADERS, max_size=3)):
        damage, at = draw(DAMAGE)
        headers[name] = value if name == "brain_doctor" else damage(value, at)
    damage, at = draw(DAMAGE)
    blob = damage(Entry(draw(st.binary(max_size=6)), headers).encode(), at)
    shape: bytes = draw(st.sampled_from((blob, blob, blob, b"VE\2" + blob[3:], draw(st.binary(max_size=20)))))
    return shape


@settings(max_examples=60, deadline=None, phases=[Phase.generate])
@given(st.lists(entries(), min_size=1, max_size=12))
def test_replicas_agree_about_whatever_is_in_the_log(blobs: list[bytes]) -> None:
    """They go on with equal states, or all stop at one entry, of a later version as it seems; one that replays agrees."""
    has_stopped = trio.run(_play, blobs, clock=MockClock(autojump_threshold=0))
    assert not has_stopped or any(map(may_be_later, blobs))


def may_be_later(blob: bytes) -> bool:
    """True if it may be of a later version: an entry of this one, damaged into another engine's
    command."""
    return blob.startswith(b"VE\1") and any(engine.name.encode() in blob for engine in COMMANDED)


async def _play(blobs: list[bytes]) -> bool:
    """True if all replicas have stopped."""
    async with replicas() as world:
        world.provider.trim_refusal = UnavailableError("drawn announcements would allow it")
        present = [await world.start(node) for node in (1, 2, 3)]
        log = world.world.client(world.nursery)
        for blob in blobs:
            await log.append(blob)
        await trio.sleep(2.0)
        return await _judge(present, Running(present[0].replica, None, MemoryDisk(), log, trio.CancelScope()))


async def _judge(present: list[Running], reader: Running) -> bool:
    failures = [running.failure for running in present]
    assert {type(failure) for failure in failures} in ({type(None)}, {BinaryTooOldError})
    states = {read_cursor(running.disk.content): dict(running.disk.content.pairs) for running in present}
    disk = MemoryDisk()
    replay = Replay(disk.open(), application=ListApplication())
    compared = set[int]()
    try:
        for piece in await whole_log(reader):
            replay.apply([piece])  # one entry each
            if replay.cursor in states:
                assert dict(disk.content.pairs) == states[replay.cursor]
                compared.add(replay.cursor)
    except BinaryTooOldError:
        assert None not in failures
        return True
    assert compared == states.keys()
    return False
