"""Quotas by ZooKeeper's rules, for the model.

A path P is limited by /zookeeper/quota/P/zookeeper_limits. Znodes at P and below are counted in
zookeeper_stats beside it, from the creation of that znode on. A znode belongs to the longest
limited path that it is at or below. Written from docs/reference/zookeeper.md and ZooKeeper's manual, not from
`virtuallog_database.tree.quotas`, which it is there to judge.
"""

from __future__ import annotations

from collections.abc import Mapping

QUOTA = "/zookeeper/quota"
LIMITS = "/zookeeper_limits"
STATS = "/zookeeper_stats"


def limited(paths: Mapping[str, object], path: str) -> str | None:
    """The longest limited path that `path` is at or below. None if it is not limited."""
    above = path
    while above not in ("", "/"):
        if QUOTA + above + LIMITS in paths:
            return above
        above = above[: above.rindex("/")]
    return None


def numbers(text: bytes | None) -> dict[str, int]:
    """Numbers by name of a text such as `count=5,bytes=7=;byteHardLimit=8`."""
    found = {}
    for pair in (text or b"").decode("latin-1").replace(";", ",").split(","):
        name, _, value = pair.partition("=")
        digits = value.rstrip("=")
        if name.isalpha() and digits.removeprefix("-").isdigit():
            found[name] = int(digits)
    return found


def is_too_much(limits: Mapping[str, int], stats: Mapping[str, int], znodes: int, size: int) -> bool:
    """True if so many more znodes and bytes exceed a hard limit."""
    grown = ((znodes, "count", "countHardLimit"), (size, "bytes", "byteHardLimit"))
    return any(
        more != 0 and limits.get(hard, -1) >= 0 and stats.get(name, -1) + more > limits[hard]
        for more, name, hard in grown
    )


def text(stats: Mapping[str, int]) -> bytes:
    """Content of zookeeper_stats."""
    others = "".join(f";{name}={stats[name]}" for name in sorted(stats) if name not in ("count", "bytes"))
    first = f"count={stats.get('count', -1)},bytes={stats.get('bytes', -1)}"
    return (first + ("=" + others if others else "")).encode()


def counted(paths: Mapping[str, int], path: str) -> tuple[int, int]:
    """Znodes and bytes at and below a path, from the data lengths by path."""
    below = "/" if path == "/" else path + "/"
    sizes = [size for each, size in paths.items() if each == path or each.startswith(below)]
    return len(sizes), sum(sizes)
