"""Quotas: limits on the znodes and bytes of a subtree, stored as clients of ZooKeeper 3.8 store
them.

To limit PATH, a client creates /zookeeper/quota/PATH/zookeeper_limits and then zookeeper_stats
beside it. The tree maintains the latter: znodes and bytes of data of PATH and below. A znode counts
for the longest limited path that it is in, and for that alone. Hard limits are enforced
(QUOTA_EXCEEDED). Soft ones are for operators to look at, and never enforced.

Texts are ZooKeeper's: `count=5,bytes=-1=;byteHardLimit=-1;countHardLimit=7`, -1 for none.

Bounds (`bounds.py`): a text has these four names and at most `TEXT_BYTES_MAX` bytes, or is refused
when it is written. Longer ones of the former version are shortened by the first write that looks at
them. A new quota counts at most `RECOUNT_MAX` znodes, one quota in a command, and all together as
many as a twentieth of a processor can: BAD_ARGUMENTS otherwise.

Departure: ZooKeeper refuses only with `zookeeper.enforceQuota=true`, a property of each server.
Here all replicas must agree, and a hard limit is meant to be enforced.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

import attrs

from virtuallog_database.tree import bounds, paths
from virtuallog_database.tree.execution import Execution, QuotaSearch
from virtuallog_database.tree.records import SeparateRecord, Znode
from virtuallog_database.tree.results import Error, RefusedError

LIMITS: Final = "zookeeper_limits"
STATS: Final = "zookeeper_stats"
DEPTH_MAX: Final = 64
"""Most names below /zookeeper/quota in a path there. Each write looks at no more znodes to find its
limits."""
TEXT_BYTES_MAX: Final = 200
"""Longest text of limits or statistics. The four numbers take 126 at most."""
_FORMER_BYTES: Final = 4096
"""Bytes that are read of a longer text of the former version."""
_BELOW_QUOTA: Final = paths.QUOTA + "/"
_NAME: Final = re.compile("[^/]+")
_PAIR: Final = re.compile(b"([A-Za-z]+)=(-?[0-9]{1,19})=*")
_NAMES: Final = ("count", "bytes", "byteHardLimit", "countHardLimit")
_TEXT: Final = re.compile(
    b"(?:(?:%s)=-?[0-9]{1,19}=*(?:[,;]|$))*" % b"|".join(name.encode() for name in _NAMES)
)  # fmt: skip
_HEAD: Final = re.compile(b"count=(-?[0-9]{1,19}),bytes=(-?[0-9]{1,19})(?=$|=;)")


def is_text(data: bytes | None) -> bool:
    """True if the text has the known names only, each with a number, and is short."""
    return not data or (len(data) <= TEXT_BYTES_MAX and _TEXT.fullmatch(data) is not None)


def check(execution: Execution, path: str, data: bytes | None, growth: int, znodes: int) -> None:
    """Check a write against the quotas. Raises RefusedError: QUOTA_EXCEEDED, if this growth is too
    much; BAD_ARGUMENTS, if the tree of quotas would be too deep, or if the data of limits or
    statistics are malformed (from the switch on)."""
    if path.startswith(_BELOW_QUOTA):
        is_to_be_text = execution.meta.is_bounded and paths.name_of(path) in {LIMITS, STATS}
        if (is_to_be_text and not is_text(data)) or path.count("/", len(paths.QUOTA)) > DEPTH_MAX:
            raise RefusedError(Error.BAD_ARGUMENTS)
    if not execution.meta.limits or (limited := _limited(execution, path)) is None:
        return
    limits, stats = _read(execution, limited, LIMITS), _read(execution, limited, STATS)
    for hard, counted, more in (("countHardLimit", stats.count, znodes), ("byteHardLimit", stats.size, growth)):
        limit = limits.others.get(hard, -1)
        if more and limit > -1 and counted + more > limit:
            raise RefusedError(Error.QUOTA_EXCEEDED)


def created(execution: Execution, path: str, znode: Znode) -> None:
    """Count a new znode, or start the count if it makes its path limited."""
    if path.startswith(_BELOW_QUOTA):
        if paths.name_of(path) == LIMITS:
            execution.counters().limits += 1
        elif paths.name_of(path) == STATS:
            limited = _of_quota_path(path)
            if limited != paths.ROOT:  # the root is not limited, so there are no statistics
                _count_anew(execution, limited)
    changed(execution, path, len(znode.data or b""), 1)


def deleted(execution: Execution, path: str, znode: Znode) -> None:
    if path.startswith(_BELOW_QUOTA) and paths.name_of(path) == LIMITS:
        execution.counters().limits -= 1
    changed(execution, path, -len(znode.data or b""), -1)


def changed(execution: Execution, path: str, growth: int, znodes: int) -> None:
    """Update the statistics of the limited path that this one is in."""
    meta = execution.meta
    if not meta.limits or (limited := _limited(execution, path, shorten=meta.is_bounded)) is None:
        return
    stats = _read(execution, limited, STATS)
    _write(execution, limited, Text(stats.count + znodes, stats.size + growth, stats.rest))


def parse(data: bytes | None) -> dict[str, int]:
    """Pairs of a text; malformed ones are skipped. Parsed as bytes: the digits of Unicode depend on
    the version of Python."""
    pairs = map(_PAIR.fullmatch, re.split(b"[,;]", data or b""))
    return {pair[1].decode(): int(pair[2]) for pair in pairs if pair is not None}


@attrs.frozen
class _Rest:
    """The part of a text behind count and bytes."""

    pairs: Mapping[str, int]
    tail: bytes
    """The rendered part."""

    @classmethod
    def of(cls, text: bytes) -> _Rest:
        pairs = parse(text)
        others = sorted(name for name in pairs if name not in {"count", "bytes"})
        tail = "=" + "".join(f";{name}={pairs[name]}" for name in others) if others else ""
        return cls(pairs, tail.encode())


_rests: Final[dict[bytes, _Rest]] = {}
"""Cache of the last few. A write changes count and bytes only. The rest, which may be 1 MiB in a
text of the former version, is parsed and rendered once."""
_RESTS_MAX: Final = 4


def _rest(text: bytes) -> _Rest:
    found = _rests.get(text)
    if found is None:
        if len(_rests) >= _RESTS_MAX:
            _rests.clear()
        found = _rests[text] = _Rest.of(text)
    return found


@attrs.frozen
class Text:
    """A text of limits or statistics."""

    count: int = -1
    size: int = -1
    rest: _Rest = _Rest({}, b"")

    @property
    def others(self) -> Mapping[str, int]:
        """Its values besides count and bytes."""
        return self.rest.pairs

    @classmethod
    def read(cls, data: bytes | None) -> Text:
        """As `parse`, with a cache for the part behind count and bytes."""
        text = data or b""
        head = _HEAD.match(text)
        if head is not None:
            rest = _rest(text[head.end() :])
            if "count" not in rest.pairs and "bytes" not in rest.pairs:
                return cls(int(head[1]), int(head[2]), rest)
        rest = _rest(text)
        return cls(rest.pairs.get("count", -1), rest.pairs.get("bytes", -1), rest)

    def render(self) -> bytes:
        """Render the text. Count and bytes come first, for clients that know no others."""
        return b"count=%d,bytes=%d" % (self.count, self.size) + self.rest.tail


def _limited(execution: Execution, path: str, *, shorten: bool = False) -> str | None:
    """The longest limited path that contains this one. None if there is none. Never the root:
    ZooKeeper limits all or a part.

    The search starts at the top, as it ends where no quota is set: so a write to a long path costs
    no more.
    """
    parent = paths.parent_of(path)
    known = execution.limited(parent)
    found = _search(execution, path, parent) if known is None else known.found
    if shorten:
        for above in found:
            _shorten(execution, above)
    return found[-1] if found else None


def _search(execution: Execution, path: str, parent: str) -> Sequence[str]:
    found: list[str] = []
    looked: list[str] = []
    work, is_same_for_all = execution.work, False
    for name in _NAME.finditer(path):
        above = path[: name.end()]
        limits = f"{paths.QUOTA}{above}/{LIMITS}"
        looked.append(limits)
        if execution.exists(limits):
            found.append(above)
            continue
        looked.append(paths.QUOTA + above)
        if not execution.exists(paths.QUOTA + above):
            is_same_for_all = above != path
            break
    if is_same_for_all:
        execution.keep_limited(parent, QuotaSearch(found, looked, execution.work - work))
    return found


def _of_quota_path(path: str) -> str:
    """The path that is limited by this znode."""
    return paths.parent_of(path)[len(paths.QUOTA) :] or paths.ROOT


def _read(execution: Execution, limited: str, name: str) -> Text:
    path = f"{paths.QUOTA}{limited}/{name}"
    text = execution.known_text(path)
    if text is None:
        znode, text = _look(execution, path)
        if znode is not None and isinstance(znode.data, SeparateRecord):
            text = execution.data(path, znode) or b""
    if execution.meta.is_bounded and len(text) > TEXT_BYTES_MAX:
        text = _known(text)
    return Text.read(text)


def _look(execution: Execution, path: str) -> tuple[Znode | None, bytes]:
    """A znode and its text, if that is short. Cached for the next operation of the command."""
    work, znode = execution.work, execution.find(path)
    data = b"" if znode is None else znode.data or b""
    if isinstance(data, SeparateRecord):
        return znode, b""
    if len(data) <= TEXT_BYTES_MAX:
        execution.keep_text(path, data, execution.work - work)
    return znode, data


def _known(text: bytes) -> bytes:
    """The part of a former version's longer text that counts."""
    if len(text) > _FORMER_BYTES:
        text = text[:_FORMER_BYTES].rpartition(b";")[0]
    pairs = parse(text)
    return Text.read(";".join(f"{name}={pairs[name]}" for name in _NAMES if name in pairs).encode()).render()


def _shorten(execution: Execution, limited: str) -> None:
    """Shorten limits of the former version to what counts, so that their length costs no other
    write."""
    path = f"{paths.QUOTA}{limited}/{LIMITS}"
    if execution.known_text(path) is not None:
        return
    znode, _ = _look(execution, path)
    if znode is not None and len(znode.data or b"") > TEXT_BYTES_MAX:
        _set_text(execution, path, znode, _known(execution.data(path, znode) or b""))


def _write(execution: Execution, limited: str, stats: Text) -> None:
    """Write statistics without a new version and without a watch, as in ZooKeeper. If the znode was
    deleted, nothing is written."""
    path = f"{paths.QUOTA}{limited}/{STATS}"
    znode = execution.find(path)
    if znode is not None:
        _set_text(execution, path, znode, stats.render())


def _set_text(execution: Execution, path: str, znode: Znode, text: bytes) -> None:
    execution.grew(path, len(text) - len(znode.data or b""), 0)
    znode.data = text
    execution.put(path, znode)


def _count_anew(execution: Execution, limited: str) -> None:
    meta, znodes_max = execution.meta, bounds.UNBOUNDED
    if meta.is_bounded:
        if execution.recounted or not bounds.may_recount(meta.recounted_ms, execution.time_ms):
            raise RefusedError(Error.BAD_ARGUMENTS)
        znodes_max = bounds.RECOUNT_MAX
    count, size = execution.count(limited, znodes_max)
    _write(execution, limited, attrs.evolve(_read(execution, limited, STATS), count=count, size=size))
