"""The identity file: durable before visible, and refused when it is another node's."""

from __future__ import annotations

import random
from contextlib import suppress

import attrs
import pytest

from virtuallog.contract.errors import (
    CorruptionError,
    MalformedError,
    StorageError,
    VirtualLogError,
    WrongRecipientError,
)
from virtuallog.contract.ports import Storage
from virtuallog.contract.register import ClusterId
from virtuallog.contract.types import NodeId
from virtuallog.testing.sim.disk import Disk, DiskFaults
from virtuallog_server.storage.identity import FILE_NAME, FormatPhase, Identity, IdentityRecord, decode_untrusted

NODE = NodeId(3)
CLUSTER = ClusterId(b"c" * 16)


async def formatted(storage: Storage) -> Identity:
    identity = await Identity.open(storage, NODE)
    await identity.start_formatting(random.Random(1))
    await identity.finish_formatting()
    return identity


async def test_an_empty_directory_is_unformatted_until_told_otherwise() -> None:
    """Nothing is written by just looking; the two steps of formatting are visible one after the other."""
    storage = Disk(random.Random(1)).mount()
    identity = await Identity.open(storage, NODE)

    assert (identity.phase, identity.store_id, identity.boot) == (FormatPhase.UNFORMATTED, b"", 0)
    assert await storage.names() == []

    await identity.start_formatting(random.Random(1))
    assert (identity.phase, identity.boot > 0) == (FormatPhase.FORMATTING, True)
    await identity.finish_formatting()
    assert identity.phase is FormatPhase.FORMATTED
    assert len(identity.store_id) == 16


async def test_each_start_has_a_boot_number_of_its_own() -> None:
    """Store id and cluster survive a power loss; the boot number goes up with every start."""
    disk = Disk(random.Random(1))
    first = await formatted(disk.mount())
    await first.join(CLUSTER)
    boots = [first.boot]
    for _ in range(3):
        disk.crash()
        again = await Identity.open(disk.mount(), NODE)
        assert (again.store_id, again.cluster, again.phase) == (first.store_id, CLUSTER, FormatPhase.FORMATTED)
        boots.append(again.boot)

    assert boots == list(range(first.boot, first.boot + 4))


async def test_a_directory_that_replaces_a_lost_one_has_other_boot_numbers() -> None:
    """The chain names a sequencer by node and boot. A wiped node that is let in again must not be taken for it."""
    boots = set()
    for seed in range(100):
        identity = await Identity.open(Disk(random.Random(1)).mount(), NODE)
        await identity.start_formatting(random.Random(seed))
        boots.add(identity.boot)

    assert len(boots) == 100


@pytest.mark.parametrize("seed", range(20))
async def test_a_boot_number_is_never_given_out_twice(seed: int) -> None:
    """Power may fail while the counter is written, at any point: the next start still gets a higher number."""
    source = random.Random(seed)
    disk = Disk(source)
    await formatted(disk.mount())
    seen = [1]
    disk.crash()
    for _ in range(10):
        disk.faults = DiskFaults(write_error=source.choice((0.0, 0.5)), sync_error=source.choice((0.0, 0.5)))
        with suppress(StorageError):
            seen.append((await Identity.open(disk.mount(), NODE)).boot)
        disk.crash()

    assert seen == sorted(set(seen))


async def test_a_directory_of_another_node_is_refused() -> None:
    """Two nodes with swapped data paths must not vote for each other."""
    disk = Disk(random.Random(1))
    await formatted(disk.mount())
    disk.crash()

    with pytest.raises(WrongRecipientError, match="wrong data directory: expected one of node 4, found one of node 3"):
        await Identity.open(disk.mount(), NodeId(4))


async def test_a_directory_of_another_cluster_is_refused() -> None:
    """A node joins one cluster in its life."""
    identity = await formatted(Disk(random.Random(1)).mount())
    await identity.join(CLUSTER)
    await identity.join(CLUSTER)

    with pytest.raises(WrongRecipientError, match="data directory"):
        await identity.join(ClusterId(b"d" * 16))


MARKER = IdentityRecord(node=NODE, phase=FormatPhase.FORMATTED, boot=7, store_id=b"s" * 16, cluster=CLUSTER)
JOINED = IdentityRecord(node=NODE, phase=FormatPhase.FORMATTED, boot=7, store_id=b"s" * 16, cluster=CLUSTER, joined=12)
FIRST_FORMAT = bytes.fromhex(
    "564c4f474e4f4445010001000300000007000000000000007373737373737373737373737373737363636363636363636363636363636363"
)
"""The bytes of MARKER in the first version of the file, without the checksum."""


@pytest.mark.parametrize(
    "marker",
    [
        MARKER,
        JOINED,
        IdentityRecord(node=NODE, phase=FormatPhase.FORMATTING, boot=1, store_id=b"t" * 16),
        IdentityRecord(node=NODE, phase=FormatPhase.JOINING, boot=1, store_id=b"t" * 16),
    ],
    ids=["formatted", "joined", "formatting", "joining"],
)
def test_the_file_reads_back_as_it_was_written(marker: IdentityRecord) -> None:
    """In every phase, with and without a cluster."""
    assert decode_untrusted(marker.encode()) == marker


def test_a_first_node_is_written_as_the_first_version_did() -> None:
    """Older programs read it. What they could not say, a directory that joined later, they refuse: it has format 2."""
    assert MARKER.encode()[:-4] == FIRST_FORMAT
    assert [marker.encode()[8] for marker in (MARKER, JOINED, attrs.evolve(MARKER, phase=FormatPhase.JOINING))] == [
        1,
        2,
        2,
    ]


async def test_a_directory_that_joins_has_its_store_id_before_anybody_is_told() -> None:
    """It survives a crash in between, so that a claim that was decided is recognised; then it says since which version."""
    disk = Disk(random.Random(1))
    identity = await Identity.open(disk.mount(), NODE)
    await identity.start_joining(random.Random(1))
    disk.crash()

    again = await Identity.open(disk.mount(), NODE)
    assert (again.phase, again.store_id) == (FormatPhase.JOINING, identity.store_id)
    await again.finish_joining(CLUSTER, 12)
    disk.crash()

    last = await Identity.open(disk.mount(), NODE)
    assert (last.phase, last.cluster, last.joined) == (FormatPhase.FORMATTED, CLUSTER, 12)


@pytest.mark.parametrize("marker", [MARKER, JOINED], ids=["first", "joined"])
def test_a_flipped_bit_anywhere_is_noticed(marker: IdentityRecord) -> None:
    """No single flipped bit is read as another identity."""
    whole = marker.encode()
    for bit in range(8 * len(whole)):
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(VirtualLogError):
            decode_untrusted(bytes(damaged))


def test_a_later_format_is_refused_by_name() -> None:
    """An old program does not guess what a newer one has written."""
    later = bytearray(MARKER.encode())
    later[8] = 3

    with pytest.raises(MalformedError, match="format 3; this program reads formats up to 2"):
        decode_untrusted(bytes(later))


@pytest.mark.parametrize("size", [0, 5, 10, 59])
def test_a_cut_file_is_refused(size: int) -> None:
    """The file is replaced as a whole, so a short one is damage and not a crash."""
    with pytest.raises((MalformedError, CorruptionError)):
        decode_untrusted(MARKER.encode()[:size])


def test_the_name_on_disk_is_fixed() -> None:
    """Part of the disk format."""
    assert FILE_NAME == "identity"
