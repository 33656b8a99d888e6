"""Addresses, and the networks that an ACL may name: IPv4 in decimals, as ZooKeeper 3.8 reads them.                 Pure.

Every replica must read them alike for as long as the log is kept, whatever it runs on: so nothing is asked of `ipaddress`, whose rules
go by the version of Python (leading zeros), nor of `int` beyond the digits of ASCII.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

BITS: Final = 32
CHARACTERS_MAX: Final = 64
"""Of a network; zeros may lead each of its numbers. ZooKeeper bounds the request only."""
_REMEMBERED: Final = 4096
"""Pairs of an address and a network: to read their texts takes longer than the rest of a check."""

_NETWORK: Final = re.compile(r"([0-9]+)\.([0-9]+)\.([0-9]+)\.([0-9]+)(?:/([0-9]+))?")


def is_network(text: str) -> bool:
    """An address, or one with the number of bits that count: `10.1.0.0/16`."""
    return _parse(text) is not None


@lru_cache(_REMEMBERED)
def is_within(address: str, network: str) -> bool:
    """Not, if either is none. An address with a number of bits is taken for one without."""
    ours, theirs = _parse(address), _parse(network)
    if ours is None or theirs is None:
        return False
    number, bits = theirs
    return (ours[0] ^ number) >> (BITS - bits) == 0


def _parse(text: str) -> tuple[int, int] | None:
    """As a number, and how many of its bits count."""
    found = _NETWORK.fullmatch(text) if len(text) <= CHARACTERS_MAX else None
    if found is None:
        return None
    *octets, bits = map(int, found.groups(default=str(BITS)))
    if max(octets) > 255 or bits > BITS:
        return None
    return int.from_bytes(bytes(octets), "big"), bits
