"""Manifests of backups: what is written is read back, and nothing else is taken for one."""

from __future__ import annotations

import json
import random
from itertools import pairwise
from typing import Any

import attrs
import pytest

from virtuallog.contract.errors import CorruptionError, MalformedError, TooLargeError, VirtualLogError
from virtuallog_server.backup.core import manifest as manifests
from virtuallog_server.backup.core.manifest import BackupManifest, SavedRange, SavedState, decode_untrusted

SUM = f"sha256:{'9f' * 32}"


def saved(start: int, stop: int, number: int = 1) -> SavedRange:
    return SavedRange(
        start=start, stop=stop, number=number, entries=stop - start, bytes=100, first_ms=1000 + start, last_ms=1000 + stop - 1,
        checksum=SUM,
    )  # fmt: skip


def with_ranges(*edges: int, number: int = 3, base: int = 1) -> BackupManifest:
    """A backup of a database with ranges between these positions."""
    ranges = tuple(saved(low, high, base) for low, high in pairwise(edges))
    start = edges[0]
    state = SavedState(position=start, time_ms=1000 + start, pairs=12, bytes=950, checksum=SUM) if start else None
    return BackupManifest(
        number=number, base=base, cluster="c3" * 16, database=True, start=start, stop=edges[-1],
        covered_ms=1000 + edges[-1], digests={"keys 6e": "9f"}, state=state, ranges=ranges, writer="test",
    )  # fmt: skip


@pytest.mark.parametrize(
    "manifest",
    [
        with_ranges(10, 20, 35),
        with_ranges(0, 20),
        with_ranges(10),
        attrs.evolve(with_ranges(10, 20), database=False, state=None, digests={}),
    ],
)
def test_what_is_written_is_read_back(manifest: BackupManifest) -> None:
    """With a state and without, with ranges and without, of a log and of a database."""
    assert decode_untrusted(manifest.encode()) == manifest


def test_later_programs_may_add_fields() -> None:
    """They are skipped, and the checksum covers them; another version is refused."""
    fields = json.loads(with_ranges(10, 20).encode())
    fields["more"] = [1]
    assert decode_untrusted(signed(fields)) == with_ranges(10, 20)
    with pytest.raises(CorruptionError, match="checksum"):
        decode_untrusted(json.dumps({**json.loads(signed(fields)), "more": [2]}).encode())
    with pytest.raises(MalformedError, match="version 2"):
        decode_untrusted(signed({**fields, "version": 2}))


def test_a_changed_bit_is_noticed() -> None:
    """Each bit of a manifest in turn: refused with an error of its type, or, as in the case of a space, the same manifest."""
    manifest = with_ranges(10, 20, 35)
    blob = manifest.encode()
    for bit in range(8 * len(blob)):
        changed = bytearray(blob)
        changed[bit // 8] ^= 1 << bit % 8
        try:
            assert decode_untrusted(bytes(changed)) == manifest
        except (CorruptionError, MalformedError):
            continue


def test_what_is_cut_or_mixed_up_is_refused() -> None:
    """Cut at any place, or with pieces of it repeated, dropped and swapped."""
    blob, chance = with_ranges(10, 20, 35).encode(), random.Random(7)
    for length in range(len(blob)):
        with pytest.raises(VirtualLogError):
            decode_untrusted(blob[:length])
    for _ in range(2000):
        low, high = sorted(chance.sample(range(len(blob)), 2))
        mixed = blob[:low] + chance.choice([b"", blob[low:high] * 2, chance.randbytes(5)]) + blob[high:]
        try:  # a space more or less, or a field given twice, says the same
            assert decode_untrusted(mixed) == decode_untrusted(blob)
        except (CorruptionError, MalformedError):
            continue


@pytest.mark.parametrize(
    "change",
    [
        {"ranges": []},
        {"ranges": None},
        {"start": 11},
        {"stop": 36},
        {"stop": -1},
        {"stop": 1 << 63},
        {"stop": True},
        {"number": 0},
        {"base": 4},
        {"base": 0},
        {"cluster": "../../../etc"},
        {"cluster": "C3" * 16},
        {"database": 1},
        {"database": False},
        {"digests": {}},
        {"digests": {"keys": 1}},
        {"state": None},
        {"state": {"position": 11, "time_ms": 0, "pairs": 1, "bytes": 1, "checksum": SUM}},
        {"state": {"position": 10, "time_ms": 0, "pairs": 1, "bytes": 1, "checksum": "sha256:"}},
        {"writer": None},
        {"format": "virtuallog-archive"},
    ],
)
def test_contradictions_are_refused(change: dict[str, Any]) -> None:
    """Also with a right checksum, by the program of an attacker or by a wrong one."""
    fields = json.loads(with_ranges(10, 20, 35).encode())
    with pytest.raises(MalformedError):
        decode_untrusted(signed({**fields, **change}))


@pytest.mark.parametrize("blob", [b"", b"[]", b"null", b"{}", b"\xff" * 100, b"[" * 100_000, b"1" * 5000])
def test_other_files_are_refused(blob: bytes) -> None:
    """Files of other programs, under the name of a manifest."""
    with pytest.raises(MalformedError):
        decode_untrusted(blob)


def test_names_are_numbers() -> None:
    """Names sort like the numbers, and no other name counts."""
    names = [manifests.name_of(number) for number in (1, 9, 10, 5000)]
    assert names == sorted(names)
    assert [manifests.number_of(name) for name in names] == [1, 9, 10, 5000]
    others = (
        "backup-1.json",
        "backup-0000000000.json",
        f"backup-{chr(0x660) * 9}{chr(0x661)}.json",
        "manifest.json",
        "",
    )
    assert [manifests.number_of(name) for name in others] == [None] * 5


def test_ranges_are_bounded() -> None:
    """A backup that was never full again says so, before it writes a manifest that no program would read."""
    edges = range(10, 12 + manifests.RANGES_MAX)
    with pytest.raises(TooLargeError, match="full"):
        with_ranges(*edges).encode()
    assert len(with_ranges(*edges[:-1]).encode()) < manifests.BYTES_MAX


def signed(fields: dict[str, Any]) -> bytes:
    """The fields with a right checksum."""
    plain = {name: value for name, value in fields.items() if name != "checksum"}
    return json.dumps({**plain, "checksum": manifests._checksum(plain)}).encode()
