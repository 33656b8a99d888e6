"""Paths of znodes: validity and parts, by ZooKeeper's rules."""

from __future__ import annotations

import re
from typing import Final

ROOT: Final = "/"
SYSTEM: Final = "/zookeeper"
CONFIG: Final = "/zookeeper/config"
QUOTA: Final = "/zookeeper/quota"
SYSTEM_PATHS: Final = (SYSTEM, CONFIG, QUOTA)
"""Paths that exist from the beginning, and cannot be deleted."""

_UNSUITABLE: Final = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\uf8ff\ufff0-\U0010ffff]|//|/\\.\\.?(/|$)")


def is_valid(path: str) -> bool:
    """True if the path starts with a slash, does not end with one, and has neither empty parts nor
    `.` or `..` nor unprintable characters. Characters above U+FFFF are invalid as well: ZooKeeper
    looks at halves of surrogate pairs."""
    return path == ROOT or (path[:1] == "/" and path[-1] != "/" and _UNSUITABLE.search(path) is None)


def parent_of(path: str) -> str:
    """Parent of a path; the root is its own."""
    return path[: path.rindex("/")] or ROOT


def name_of(path: str) -> str:
    return path[path.rindex("/") + 1 :]
