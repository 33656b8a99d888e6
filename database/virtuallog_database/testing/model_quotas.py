"""Quotas as ZooKeeper's rules say them, for the model.                                                                Pure.

A path P is limited by /zookeeper/quota/P/zookeeper_limits. What lies at P and below is counted in zookeeper_stats beside it, from the creation of
that znode on. A znode belongs to the longest limited path that it is at or below. Written from docs/reference/zookeeper.md and ZooKeeper's
manual, not from `virtuallog_database.tree.quotas`, which it is there to judge.
"""

from __future__ import annotations

from collections.abc import Mapping

QUOTA = "/zookeeper/quota"
LIMITS = "/zookeeper_limits"
STATS = "/zookeeper_stats"


def limited(paths: Mapping[str, object], path: str) -> str | None:
    """The longest limited path that `path` is at or below; None: nothing limits it."""
    above = path
    while above not in ("", "/"):
        if QUOTA + above + LIMITS in paths:
            return above
        above = above[: above.rindex("/")]
    return None


def numbers(text: bytes | None) -> dict[str, int]:
    """`count=5,bytes=7=;byteHardLimit=8` as numbers by name."""
    found = {}
    for pair in (text or b"").decode("latin-1").replace(";", ",").split(","):
        name, _, value = pair.partition("=")
        digits = value.rstrip("=")
        if name.isalpha() and digits.removeprefix("-").isdigit():
            found[name] = int(digits)
    return found


def is_too_much(limits: Mapping[str, int], stats: Mapping[str, int], znodes: int, size: int) -> bool:
    """Whether so many more znodes and bytes pass a hard limit."""
    grown = ((znodes, "count", "countHardLimit"), (size, "bytes", "byteHardLimit"))
    return any(
        more != 0 and limits.get(hard, -1) >= 0 and stats.get(name, -1) + more > limits[hard]
        for more, name, hard in grown
    )


def text(stats: Mapping[str, int]) -> bytes:
    """What zookeeper_stats says."""
    others = "".join(f";{name}={stats[name]}" for name in sorted(stats) if name not in ("count", "bytes"))
    first = f"count={stats.get('count', -1)},bytes={stats.get('bytes', -1)}"
    return (first + ("=" + others if others else "")).encode()


def counted(paths: Mapping[str, int], path: str) -> tuple[int, int]:
    """Znodes and bytes at and below a path, by their lengths."""
    below = "/" if path == "/" else path + "/"
    sizes = [size for each, size in paths.items() if each == path or each.startswith(below)]
    return len(sizes), sum(sizes)
