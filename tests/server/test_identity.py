"""The identity file: durable before visible, and refused when it is somebody else's."""

from __future__ import annotations

import random
from contextlib import suppress

import pytest

from server.identity import FILE_NAME, Identity, Marker, Phase, decode_untrusted
from virtuallog.errors import CorruptionError, MalformedError, StorageError, VirtualLogError, WrongRecipientError
from virtuallog.ports import Storage
from virtuallog.register import ClusterId
from virtuallog.testing.storage import Disk, DiskFaults
from virtuallog.types import NodeId

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

    assert (identity.phase, identity.store_id, identity.boot) == (Phase.UNFORMATTED, b"", 0)
    assert await storage.names() == []

    await identity.start_formatting(random.Random(1))
    assert (identity.phase, identity.boot > 0) == (Phase.FORMATTING, True)
    await identity.finish_formatting()
    assert identity.phase is Phase.FORMATTED
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
        assert (again.store_id, again.cluster, again.phase) == (first.store_id, CLUSTER, Phase.FORMATTED)
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
    """Two nodes whose data paths were swapped must not vote for each other."""
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


MARKER = Marker(node=NODE, formatted=True, boot=7, store_id=b"s" * 16, cluster=CLUSTER)


def test_the_file_reads_back_as_it_was_written() -> None:
    """Both with and without a cluster."""
    for marker in (MARKER, Marker(node=NODE, formatted=False, boot=1, store_id=b"t" * 16)):
        assert decode_untrusted(marker.encode()) == marker


def test_a_flipped_bit_anywhere_is_noticed() -> None:
    """No single flipped bit is read as another identity."""
    whole = MARKER.encode()
    for bit in range(8 * len(whole)):
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(VirtualLogError):
            decode_untrusted(bytes(damaged))


def test_a_later_format_is_refused_by_name() -> None:
    """An old program does not guess what a newer one has written."""
    later = bytearray(MARKER.encode())
    later[8] = 2

    with pytest.raises(MalformedError, match="format 2; this program reads format 1"):
        decode_untrusted(bytes(later))


@pytest.mark.parametrize("size", [0, 5, 10, 59])
def test_a_cut_file_is_refused(size: int) -> None:
    """The file is replaced as a whole, so a short one is damage and not a crash."""
    with pytest.raises((MalformedError, CorruptionError)):
        decode_untrusted(MARKER.encode()[:size])


def test_the_name_on_disk_is_fixed() -> None:
    """Part of the disk format."""
    assert FILE_NAME == "identity"
