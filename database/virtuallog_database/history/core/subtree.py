"""A znode with all its descendants, as a filter of paths and of the keys of a store."""

from __future__ import annotations

from typing import Final

import attrs

from virtuallog_database.tree import keys, paths

_RECORDS: Final = (b"n", b"a", b"d")
"""First bytes of the keys of a znode, of its ACL and of its data."""


@attrs.frozen
class Subtree:
    """The znode at `path`, and everything below it."""

    path: str
    is_alone: bool = False
    """True for the znode alone."""
    _below: str = attrs.field(init=False, repr=False)
    """Start of the path of each descendant."""
    _keys: tuple[bytes, ...] = attrs.field(init=False, repr=False)
    """Starts of the keys of its records: nearly all other keys are told from them by one call."""

    def __attrs_post_init__(self) -> None:
        own = keys.encoded(self.path)
        object.__setattr__(self, "_below", paths.ROOT if self.path == paths.ROOT else f"{self.path}/")
        object.__setattr__(self, "_keys", tuple(kind + own for kind in _RECORDS))

    def covers(self, path: str) -> bool:
        """True if the path is in the subtree."""
        return path == self.path or (not self.is_alone and path.startswith(self._below))

    def path_in(self, key: bytes) -> str | None:
        """The path in a key of the store. None if it is no record of a znode, or of one outside."""
        if not key.startswith(self._keys):
            return None
        path = keys.decoded(key[1:])
        return path if self.covers(path) else None
