"""Waves as bytes: what goes in comes out, and nothing else is taken for a wave."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.loglets.native.core.log_server_bench import SEGMENT, batch_of, wave_of
from virtuallog.contract.errors import CorruptionError, MalformedError, VirtualLogError
from virtuallog_loglets.native.core import wave as waves


@given(
    counts=st.lists(st.integers(1, 5), min_size=1, max_size=6), first=st.integers(0, 1 << 62), known=st.integers(0, 9)
)
def test_a_wave_is_read_as_it_was_built(counts: list[int], first: int, known: int) -> None:
    """Header and batches, at their offsets."""
    batches = [batch_of(count, n) for n, count in enumerate(counts)]
    built = waves.build(
        segment=SEGMENT, first=first, known_tail=min(known, first), time_ms=1 << 41, batches=batches
    )  # fmt: skip

    read = waves.parse_untrusted(built.blob)

    assert (read.segment, read.first, read.stop) == (SEGMENT, first, first + sum(counts))
    assert (read.known_tail, read.time_ms, read.checksum) == (min(known, first), 1 << 41, built.checksum)
    placed = list(read.placed())
    assert [item.batch for item in placed] == batches
    assert [item.time_ms for item in placed] == [1 << 41] * len(batches)
    assert [place for item in placed for place in item.places] == list(range(first, read.stop))


def test_the_format_does_not_change() -> None:
    """Version 1 is on disks."""
    assert wave_of(2, known_tail=1).blob.hex() == (
        "56570100294cf7dc03000000000000004d000000000000000200000000000000010000000000000005000000000000000100000001000000"
        "010000002d000000" + batch_of(1, 2).blob.hex()
    )


@given(at=st.integers(0, 1 << 20), flip=st.integers(1, 255))
def test_a_changed_byte_is_noticed(at: int, flip: int) -> None:
    """Wherever it is."""
    blob = bytearray(wave_of(3, 2).blob)
    blob[at % len(blob)] ^= flip

    with pytest.raises((CorruptionError, MalformedError)):
        waves.parse_untrusted(bytes(blob))


@given(st.binary(max_size=200))
def test_other_bytes_are_no_wave(blob: bytes) -> None:
    """Typed errors, never an assertion or an index error."""
    with pytest.raises(VirtualLogError):
        waves.parse_untrusted(blob)
