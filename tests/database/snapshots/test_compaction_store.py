"""Compactions at a place: what is there is what a manifest says, and a server that cannot use one says why."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import attrs
import pytest
import trio
from crc32c import crc32c
from trio.testing import MockClock

from tests.database.snapshots.replicas import CLUSTER, Machine, world
from tests.loglets.archive.archive_bench import ArchivePlace
from virtuallog.contract.errors import CorruptionError, MalformedError, UnavailableError, WrongRecipientError
from virtuallog.contract.types import LogPosition
from virtuallog_database.engines.core.keys import read_cursor
from virtuallog_database.errors import BinaryTooOldError
from virtuallog_database.ports import CheckpointFile
from virtuallog_database.snapshots.compaction_manifest import (
    FORMAT,
    Manifest,
    StoreFile,
    Table,
    decode_untrusted,
    manifest_name,
)
from virtuallog_database.snapshots.compaction_store import CompactionStore
from virtuallog_database.snapshots.policy import name_of

URL = "memory://place"


def manifest(**changes: Any) -> Manifest:
    """One with two tables."""
    made = Manifest(
        cluster=CLUSTER,
        position=LogPosition(7),
        time_ms=5,
        engines=("lease",),
        pairs=3,
        digests={"keys 6e": "00"},
        store=(StoreFile(CheckpointFile("000008.sst", 3, 17), "a-1.sst"),),
        tables=(Table("a.parquet", 9, 1, 2, b"a", b"b"), Table("c.parquet", 9, 1, 1, b"c", b"c")),
        writer="a test",
    )
    return attrs.evolve(made, **changes)


def test_a_manifest_comes_back_as_it_was() -> None:
    """A manifest survives a round trip, also one with an unknown field."""
    blob = manifest().encode()
    assert decode_untrusted(blob) == manifest()
    assert decode_untrusted(json.dumps({**json.loads(blob), "colour": "red"}).encode()) == manifest()
    assert manifest().stored("000008.sst") == "a-1.sst" and manifest().size == 3


@pytest.mark.parametrize(
    "change",
    [
        lambda fields: fields.pop("cluster"),
        lambda fields: fields.update(position=-1),
        lambda fields: fields.update(format="virtuallog-archive"),
        lambda fields: fields.update(pairs=4),
        lambda fields: fields.update(tables=fields["tables"][::-1]),
        lambda fields: fields["store"][0].update(stored="../../etc/passwd"),
        lambda fields: fields["store"][0].update(name="a/b"),
        lambda fields: fields.update(digests=[1]),
    ],
)
def test_what_is_no_manifest_is_refused(change: Callable[[dict[str, Any]], Any]) -> None:
    """Another process may have written it."""
    fields = json.loads(manifest().encode())
    change(fields)
    with pytest.raises(MalformedError):
        decode_untrusted(json.dumps(fields).encode())
    for blob in (b"", b"{", b"[]", b"null", manifest().encode()[:-9]):
        with pytest.raises(MalformedError):
            decode_untrusted(blob)


def test_one_of_a_later_program_is_refused_by_its_version() -> None:
    """Not as damaged: an operator must upgrade."""
    with pytest.raises(BinaryTooOldError, match="version 2"):
        decode_untrusted(json.dumps({"format": FORMAT, "version": 2}).encode())
    with pytest.raises(BinaryTooOldError, match="lease"):
        manifest().check(CLUSTER, ["time"])
    with pytest.raises(WrongRecipientError):
        manifest().check(b"d" * 16, ["lease"])


async def test_a_place_has_what_was_published_and_nothing_else() -> None:
    """Files without a manifest do not count; a second publisher gets the first one's; a removed one is gone."""
    shelf = ArchivePlace()
    place = CompactionStore(URL, shelf)
    assert await place.newest(CLUSTER) is None
    stored = await place.write_file(CLUSTER, 7, "000008", b"abc", ".sst")
    assert stored == f"000008-{crc32c(b'abc'):08x}.sst"
    assert await place.positions(CLUSTER) == []
    first = await place.publish(manifest())
    assert await place.publish(manifest(writer="another")) == first
    for position in (9, 11):
        await place.publish(manifest(position=LogPosition(position)))
    assert await place.positions(CLUSTER) == [7, 9, 11] and await place.positions(b"d" * 16) == []
    assert await place.newest(CLUSTER, up_to=10) == manifest(position=LogPosition(9))
    assert await place.read_file(first, stored, 1, 9) == b"bc"
    await place.remove(CLUSTER, 7)
    assert await place.positions(CLUSTER) == [9, 11]
    with pytest.raises(UnavailableError):
        await place.read_file(first, stored, 0, 1)
    with pytest.raises(UnavailableError):
        await place.read(CLUSTER, 7)


async def test_a_manifest_that_is_damaged_or_another_one_is_not_believed() -> None:
    """The name of the file says what must be in it."""
    shelf = ArchivePlace()
    place = CompactionStore(URL, shelf)
    await place.publish(manifest())
    files = shelf.directories[f"{URL}/compacted"].content
    files[manifest_name(CLUSTER, 9)] = files[manifest_name(CLUSTER, 7)]
    with pytest.raises(CorruptionError, match="another compaction"):
        await place.newest(CLUSTER)
    files[manifest_name(CLUSTER, 9)] = b"{"
    with pytest.raises(CorruptionError, match="not the manifest"):
        await place.newest(CLUSTER)


async def put_compaction(machine: Machine, place: CompactionStore, cursor: int, **changes: Any) -> Manifest:
    """A machine's store as a compaction."""
    replica, snapshots = await machine.replica(cursor)
    position = await snapshots.take(replica)
    found = []
    for file in await snapshots.checkpoints.files(name_of(position)):
        content = await snapshots.checkpoints.read(name_of(position), file.name, 0, file.size)
        found.append(StoreFile(file, await place.write_file(CLUSTER, position, file.name[:6], content, ".sst")))
    fields: dict[str, Any] = {"position": position, "engines": (), "store": tuple(found), **changes}
    return await place.publish(manifest(**fields))


async def test_a_server_begins_with_a_compaction_when_no_peer_has_a_snapshot(autojump_clock: MockClock) -> None:
    """The whole store, at the position of the compaction; the log must still have what follows."""
    async with world() as w:
        place = CompactionStore(URL, ArchivePlace())
        await put_compaction(w.machine(3), place, 50)
        w.trim_point = 50
        restorer = attrs.evolve(w.machine(1).restorer(peers=()), places=[place])
        store = await restorer.open_store()
        assert read_cursor(store) == 50
        assert restorer.meter.restores == 1 and restorer.meter.restore_bytes.value > 0


async def test_the_newest_of_peers_and_place_is_taken(autojump_clock: MockClock) -> None:
    """Whichever that is."""
    for behind, expected in ((40, 50), (60, 60)):
        async with world() as w:
            place = CompactionStore(URL, ArchivePlace())
            await put_compaction(w.machine(3), place, 50)
            replica, snapshots = await w.machine(2).replica(behind)
            await snapshots.take(replica)
            w.trim_point = 30
            restorer = attrs.evolve(w.machine(1).restorer(peers=(2,)), places=[place])
            assert read_cursor(await restorer.open_store()) == expected


async def refused(
    place: CompactionStore, change: Callable[[ArchivePlace], None], shelf: ArchivePlace, **changes: Any
) -> str:
    """Reason for which a server waits that finds no other source, after a change at the location."""
    async with world() as w:
        await put_compaction(w.machine(3), place, 50, **changes)
        change(shelf)
        w.trim_point = 50
        machine = w.machine(1)
        restorer = attrs.evolve(machine.restorer(peers=()), places=[place])
        with trio.move_on_after(5.0):
            await restorer.open_store()
        assert not machine.disk.content.pairs, "nothing was installed"
        return restorer.waiting_for


def nothing(_: ArchivePlace) -> None:
    """Happens."""


def flip_a_byte(shelf: ArchivePlace) -> None:
    (files,) = [files for url, files in shelf.directories.items() if not url.endswith("compacted")]
    name = max(files.content, key=lambda each: len(files.content[each]))
    content = bytearray(files.content[name])
    content[len(content) // 2] ^= 1
    files.content[name] = bytes(content)


def lose_a_file(shelf: ArchivePlace) -> None:
    (files,) = [files for url, files in shelf.directories.items() if not url.endswith("compacted")]
    files.content.popitem()


def lose_the_manifest(shelf: ArchivePlace) -> None:
    shelf.directories[f"{URL}/compacted"].content.clear()


def stop_answering(shelf: ArchivePlace) -> None:
    for files in shelf.directories.values():
        files.broken = True


@pytest.mark.parametrize(
    ("change", "changes", "reason"),
    [
        (flip_a_byte, {}, "not what its checksum says"),
        (lose_a_file, {}, "is not at"),
        (lose_the_manifest, {}, "they have none"),
        (stop_answering, {}, "does not answer"),
        (nothing, {"cluster": b"d" * 16}, "they have none"),
        (nothing, {"engines": ("of tomorrow",)}, "of tomorrow"),
    ],
)
async def test_a_server_that_cannot_use_a_compaction_installs_nothing_and_says_why(
    change: Callable[[ArchivePlace], None], changes: dict[str, Any], reason: str, autojump_clock: MockClock
) -> None:
    """Damaged, half written or half gone, not to be reached, of another cluster, of a later program."""
    shelf = ArchivePlace()
    assert reason in await refused(CompactionStore(URL, shelf), change, shelf, **changes)
