"""Records of the log and their addresses."""

from __future__ import annotations

from typing import Final, NewType

import attrs

Address = NewType("Address", int)
"""Address of a record: segment sequence << 32 | byte offset of the record's header. Ordered like
the log; below 2**63."""

KIND_MAX: Final = 255
"""Highest kind of a record: it is one byte in the header."""
SEQUENCE_MAX: Final = (1 << 31) - 1
"""Highest sequence number of a segment: an address, with 32 bits of offset, stays below 2**63."""
_OFFSET_BITS: Final = 32
_OFFSET_MASK: Final = (1 << _OFFSET_BITS) - 1


@attrs.frozen
class WalRecord:
    """One record. The log writes it unparsed and returns it unchanged."""

    kind: int
    """The caller's own numbering, 0 to 255."""
    payload: bytes
    more: tuple[bytes, ...] = ()
    """Chunks that follow `payload`, so that a caller need not join a small prefix and a large blob.
    Empty in every record that is read: there the payload is whole."""

    def __attrs_post_init__(self) -> None:
        # found here, not by the appender, whose failure would end the log for all callers
        if not 0 <= self.kind <= KIND_MAX:
            raise ValueError(f"a record of kind {self.kind}: kinds are 0 to {KIND_MAX}")


def address_of(sequence: int, offset: int) -> Address:
    return Address(sequence << _OFFSET_BITS | offset)


def sequence_of(address: Address) -> int:
    return address >> _OFFSET_BITS


def offset_of(address: Address) -> int:
    return address & _OFFSET_MASK
