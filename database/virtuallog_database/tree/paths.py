"""Paths of znodes: which are allowed, and their parts. ZooKeeper's rules.                                          Pure."""

from __future__ import annotations

import re
from typing import Final

ROOT: Final = "/"
SYSTEM: Final = "/zookeeper"
CONFIG: Final = "/zookeeper/config"
QUOTA: Final = "/zookeeper/quota"
SYSTEM_PATHS: Final = (SYSTEM, CONFIG, QUOTA)
"""Exist from the beginning, and cannot be deleted."""

_UNSUITABLE: Final = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\uf8ff\ufff0-\U0010ffff]|//|/\\.\\.?(/|$)")


def is_valid(path: str) -> bool:
    """Starts with a slash, does not end with one, and has neither empty parts nor `.` or `..` nor characters that cannot be shown.
    Nor any above U+FFFF: ZooKeeper looks at halves of surrogate pairs."""
    return path == ROOT or (path[:1] == "/" and path[-1] != "/" and _UNSUITABLE.search(path) is None)


def parent_of(path: str) -> str:
    """Of the root: the root."""
    return path[: path.rindex("/")] or ROOT


def name_of(path: str) -> str:
    return path[path.rindex("/") + 1 :]
