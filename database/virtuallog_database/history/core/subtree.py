"""A znode with all its descendants, as a filter of paths and of the keys of a store."""

from __future__ import annotations

from typing import Final

import attrs

from virtuallog_database.tree import keys, paths

_RECORDS: Final = frozenset(b"nad")
"""First bytes of the keys of a znode, of its ACL and of its data."""


@attrs.frozen
class Subtree:
    """The znode at `path`, and everything below it."""

    path: str
    is_alone: bool = False
    """True for the znode alone."""
    _start: bytes = attrs.field(init=False, repr=False)
    """Start of the path of each descendant, encoded."""
    _own: bytes = attrs.field(init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        own = keys.encoded(self.path)
        object.__setattr__(self, "_own", own)
        object.__setattr__(self, "_start", b"/" if self.path == paths.ROOT else own + b"/")

    def covers(self, path: str) -> bool:
        """True if the path is in the subtree."""
        return self._covers(keys.encoded(path))

    def path_in(self, key: bytes) -> bytes | None:
        """The encoded path in a key of the store. None if it is no record of a znode, or of one outside."""
        if key[:1] and key[0] in _RECORDS and self._covers(key[1:]):
            return key[1:]
        return None

    def _covers(self, path: bytes) -> bool:
        return path == self._own or (path.startswith(self._start) and not self.is_alone)
