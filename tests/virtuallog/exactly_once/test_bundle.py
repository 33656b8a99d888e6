"""Several batches at one position."""

from __future__ import annotations

import pytest

from virtuallog.contract.batch import Batch, SessionId
from virtuallog.contract.errors import MalformedError
from virtuallog.exactly_once import bundle
from virtuallog.exactly_once.bundle import BundledBatch

A, B = SessionId(b"a" * 16), SessionId(b"b" * 16)
ONE = Batch.build(A, 0, [b"x", b"y"])
TWO = Batch.build(B, 7, [b"z"])


def test_a_lone_batch_is_itself() -> None:
    """The body of one batch is the batch, without a copy."""
    assert bundle.join([ONE]) is ONE.blob
    assert bundle.split_untrusted(ONE.blob) == [BundledBatch(0, len(ONE.blob), 0, 2)]


def test_batches_come_apart_again_wherever_the_body_begins() -> None:
    """Batches come in their order, each with the number of entries before it."""
    value = b"prefix" + bundle.join([ONE, TWO, ONE])

    parts = bundle.split_untrusted(value, 6)

    assert [value[part.start : part.stop] for part in parts] == [ONE.blob, TWO.blob, ONE.blob]
    assert [(part.index, part.count) for part in parts] == [(0, 2), (2, 1), (3, 2)]


def test_what_is_no_body_is_refused() -> None:
    """Every cut, and every count or size that does not add up, is a typed error."""
    body = bundle.join([ONE, TWO])
    for cut in range(len(body)):
        with pytest.raises(MalformedError):
            bundle.split_untrusted(body[:cut])
    for at in range(24):
        changed = bytearray(body)
        changed[at] ^= 0x40
        try:
            parts = bundle.split_untrusted(bytes(changed))
        except MalformedError:
            continue
        assert parts[-1].stop == len(body), "only a number of entries may pass: the batch itself says how many it has"
        assert at in {8, 9, 16, 17}
