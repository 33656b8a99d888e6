"""Quotas: how many znodes and bytes a part of the tree may have, kept as clients of ZooKeeper 3.8 keep them.        Pure.

Whoever wants to limit PATH creates /zookeeper/quota/PATH/zookeeper_limits and then zookeeper_stats beside it; the tree keeps the
second one up to date: znodes and bytes of data of PATH and below. A znode counts for the longest limited path that it is in, and
for that alone. Hard limits are refused (QUOTA_EXCEEDED); soft ones are for people to look at, and compared by nobody.

Texts are ZooKeeper's: `count=5,bytes=-1=;byteHardLimit=-1;countHardLimit=7`, -1 for none.

Departure: ZooKeeper refuses only with `zookeeper.enforceQuota=true`, a property of each server. Here all must agree, and who sets
a hard limit means it.
"""

from __future__ import annotations

import re
from typing import Final

from database.kv import keys, paths
from database.kv.execution import Execution, find_znode
from database.kv.records import Znode, decode_znode
from database.kv.results import Error, RefusedError

LIMITS: Final = "zookeeper_limits"
STATS: Final = "zookeeper_stats"
DEPTH_MAX: Final = 64
"""Names below /zookeeper/quota in a path there. Each write looks at as many znodes, at most, to see what limits it."""
_BELOW_QUOTA: Final = paths.QUOTA + "/"
_NAME: Final = re.compile("[^/]+")
_PAIR: Final = re.compile(b"([A-Za-z]+)=(-?[0-9]{1,19})=*")


def check(execution: Execution, path: str, growth: int, znodes: int) -> None:
    """Raises RefusedError: QUOTA_EXCEEDED, if this much more would be too much; BAD_ARGUMENTS, if the tree of quotas would be too
    deep."""
    if path.startswith(_BELOW_QUOTA) and path.count("/", len(paths.QUOTA)) > DEPTH_MAX:
        raise RefusedError(Error.BAD_ARGUMENTS)
    if not execution.meta.limits or (limited := _limited(execution, path)) is None:
        return
    limits, stats = _read(execution, limited, LIMITS), _read(execution, limited, STATS)
    for name, hard, more in (("count", "countHardLimit", znodes), ("bytes", "byteHardLimit", growth)):
        limit = limits.get(hard, -1)
        if more and limit > -1 and stats.get(name, -1) + more > limit:
            raise RefusedError(Error.QUOTA_EXCEEDED)


def created(execution: Execution, path: str, znode: Znode) -> None:
    """A znode was created: it is counted, or it is one that begins to count others."""
    if path.startswith(_BELOW_QUOTA):
        if paths.name_of(path) == LIMITS:
            execution.meta.limits += 1
        elif paths.name_of(path) == STATS:
            _count_anew(execution, _of_quota_path(path))
    changed(execution, path, len(znode.data or b""), 1)


def deleted(execution: Execution, path: str, znode: Znode) -> None:
    if path.startswith(_BELOW_QUOTA) and paths.name_of(path) == LIMITS:
        execution.meta.limits -= 1
    changed(execution, path, -len(znode.data or b""), -1)


def changed(execution: Execution, path: str, growth: int, znodes: int) -> None:
    """Keep the statistics of the limited path that this one is in."""
    if not execution.meta.limits or (limited := _limited(execution, path)) is None:
        return
    stats = _read(execution, limited, STATS)
    count, size = stats.get("count", -1) + znodes, stats.get("bytes", -1) + growth
    _write(execution, limited, {**stats, "count": count, "bytes": size})


def parse(data: bytes | None) -> dict[str, int]:
    """The pairs of a text; what makes no sense is left out. Read as bytes: what else is a digit goes by the version of Python."""
    pairs = map(_PAIR.fullmatch, re.split(b"[,;]", data or b""))
    return {pair[1].decode(): int(pair[2]) for pair in pairs if pair is not None}


def render(stats: dict[str, int]) -> bytes:
    """The other way round. Count and bytes come first, for clients that know no others."""
    text = f"count={stats.get('count', -1)},bytes={stats.get('bytes', -1)}"
    others = sorted(name for name in stats if name not in {"count", "bytes"})
    if others:
        text += "=" + "".join(f";{name}={stats[name]}" for name in others)
    return text.encode()


def _limited(execution: Execution, path: str) -> str | None:
    """The longest path that has limits, and that this one is, or is below of. Never the root: ZooKeeper limits all or a part.

    Looked for from the top, as that ends where nobody has set a quota: however long a path is, its write costs no more for it.
    """
    found, get = None, execution.transaction.get
    for name in _NAME.finditer(path):
        above = path[: name.end()]
        if get(keys.znode(f"{paths.QUOTA}{above}/{LIMITS}")) is not None:
            found = above
        elif get(keys.znode(paths.QUOTA + above)) is None:
            break
    return found


def _of_quota_path(path: str) -> str:
    """The path that is limited by this znode."""
    return paths.parent_of(path)[len(paths.QUOTA) :] or paths.ROOT


def _read(execution: Execution, limited: str, name: str) -> dict[str, int]:
    znode = find_znode(execution.transaction, f"{paths.QUOTA}{limited}/{name}")
    return parse(znode.data) if znode is not None else {}


def _write(execution: Execution, limited: str, stats: dict[str, int]) -> None:
    """Without a new version, and without a watch, as ZooKeeper does; if somebody has deleted it, there is nothing to keep."""
    path = f"{paths.QUOTA}{limited}/{STATS}"
    znode = find_znode(execution.transaction, path)
    if znode is not None:
        former, znode.data = len(znode.data or b""), render(stats)
        execution.meta.data_bytes += len(znode.data) - former
        execution.put(path, znode)


def _count_anew(execution: Execution, limited: str) -> None:
    own = find_znode(execution.transaction, limited)
    count, size = (0, 0) if own is None else (1, len(own.data or b""))
    for _, blob in keys.scan_all(execution.transaction, keys.znodes_below(limited)):
        count, size = count + 1, size + len(decode_znode(blob).data or b"")
    _write(execution, limited, {**_read(execution, limited, STATS), "count": count, "bytes": size})
