"""A set of paths that may be larger than the memory: the newest ones there, the others in a scratch store."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import attrs

from virtuallog_database.ports import LocalStore
from virtuallog_database.tree import keys

RECENT_MAX: Final = 50_000
"""Most paths in memory, some 10 MB. Most writes of a second touch the same ones, and cost nothing more then."""
_SCAN_COUNT: Final = 512
_END: Final = b"0"
"""Behind all paths, which start with a slash."""


@attrs.define(eq=False)
class TouchedPaths:
    """The set.

    Args:
        store: an empty store of its own.
        recent_max: most paths in memory.
    """

    _store: LocalStore
    _recent_max: int = RECENT_MAX
    _recent: dict[bytes, bytes] = attrs.field(factory=dict, init=False)

    def add(self, path: str) -> None:
        """Add a path."""
        self._recent[keys.encoded(path)] = b""
        if len(self._recent) >= self._recent_max:
            self._spill()

    def behind(self, path: str) -> Iterator[str]:
        """All paths behind this one, in the order of their bytes; from the first on if it is empty. Nothing may be added
        meanwhile."""
        self._spill()
        start = keys.encoded(path) + b"\0" if path else b"/"
        for key, _ in keys.scan_all(self._store, (start, _END), _SCAN_COUNT):
            yield keys.decoded(key)

    def _spill(self) -> None:
        if self._recent:
            self._store.write(self._recent)
            self._recent = {}
