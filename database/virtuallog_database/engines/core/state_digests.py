"""Digests of a state, part by part, and the digests that a majority reports."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from hashlib import blake2b
from typing import Any, Final

import attrs

from virtuallog.contract.ports import Span
from virtuallog_database.ports import StoreReader

EVERYTHING: Final[Span] = (b"", b"\xff" * 64)
_DIGEST_BYTES: Final = 8
"""Size of a digest: protects against accidents, not against deliberate collisions."""

_PAIRS_AT_ONCE: Final = 1024


def part_of(key: bytes) -> str:
    """Part of the state that a key belongs to: an engine's section, or the application's keys with
    the same first byte."""
    if key[:1] == b"\0":
        return "engine " + key[1:].partition(b"\0")[0].decode(errors="replace")
    return f"keys {key[:1].hex()}"


@attrs.define
class StateDigest:
    """Folds all pairs of a state in order of their keys."""

    _parts: dict[str, Any] = attrs.field(factory=dict, init=False)
    pairs: int = attrs.field(default=0, init=False)

    def add(self, pairs: Iterable[tuple[bytes, bytes]]) -> None:
        """Fold the pairs that follow."""
        for key, value in pairs:
            part = part_of(key)
            digest = self._parts.get(part)
            if digest is None:
                digest = self._parts[part] = blake2b(digest_size=_DIGEST_BYTES)
            # With the lengths before them, no two lists of pairs give the same bytes.
            digest.update(b"%d %d " % (len(key), len(value)) + key + value)
            self.pairs += 1

    def finish(self) -> Mapping[str, str]:
        """Digest of each part that has any keys."""
        return {part: digest.hexdigest() for part, digest in self._parts.items()}


def state_digest_of(state: StoreReader) -> StateDigest:
    """Fold a whole state without a pause: some 2 us a pair."""
    fold = StateDigest()
    start, stop = EVERYTHING
    while pairs := state.scan((start, stop), _PAIRS_AT_ONCE):
        fold.add(pairs)
        start = pairs[-1][0] + b"\0"
    return fold


def majority(reports: Mapping[str, Mapping[str, str]], voters: int) -> Mapping[str, str] | None:
    """The digests that more than half of the voters report, and at least two. None if nothing has a
    majority, yet or ever. More may report than voted: they have joined meanwhile."""
    counts = Counter(tuple(sorted(report.items())) for report in reports.values())
    for digests, count in counts.items():
        if 2 * count > max(voters, len(reports)) and count > 1:
            return dict(digests)
    return None


def differences(ours: Mapping[str, str], theirs: Mapping[str, str]) -> list[str]:
    """Parts whose digests differ, or that only one side has."""
    return sorted(part for part in ours.keys() | theirs.keys() if ours.get(part) != theirs.get(part))
