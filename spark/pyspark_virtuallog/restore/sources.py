"""Finds the remains of a log: the log itself, archives of its segments, backups of ranges,
compactions of its database.

Archives and backups have one format and one layout (docs/howto/archive.md): a directory
`CLUSTER-START-STOP` each, below a location, with `-backup` behind it for a backup (not those of
former versions), and the number of its run if it was made by `virtuallog backup`. One without a manifest is ignored: its writer was killed, or is not finished.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

import attrs

from pyspark_virtuallog.restore.coverage import Span, reach
from virtuallog.client.virtual_log import VirtualLog
from virtuallog.contract.errors import CorruptionError, InvalidSettingError, MalformedError, WrongRecipientError
from virtuallog.contract.types import LogPosition
from virtuallog_database.snapshots.compaction_store import CompactionStore
from virtuallog_loglets.archive.config import ArchiveConfig, join
from virtuallog_loglets.archive.core import manifest as manifests
from virtuallog_loglets.archive.core.manifest import checksum
from virtuallog_loglets.archive.drivers.fsspec_files import FsspecFiles
from virtuallog_loglets.archive.drivers.trim_markers import trim_point
from virtuallog_loglets.archive.restored_origin import ARCHIVES

_ARCHIVE: Final = re.compile(r"([0-9a-f]{32})-(\d{20})-(\d{20})(?:-backup(?:-\d{10})?)?")


@attrs.frozen
class Live:
    """Source: the log itself, archived segments of its chain included."""


What: TypeAlias = Live | ArchiveConfig


@attrs.frozen(kw_only=True)
class LogSources:
    """The sources of one log."""

    cluster: bytes
    spans: Sequence[Span[What]] = attrs.field(factory=tuple)
    """Readable sources; the log itself comes last, so it is asked last among those that reach
    equally far."""
    compactions: Sequence[tuple[LogPosition, CompactionStore]] = attrs.field(factory=tuple)
    """Compactions of its database: positions and locations."""
    has_database: bool = False
    unusable: Sequence[str] = ()
    """Damaged archives, with the reason. Ignored unless a part of the log is missing."""

    @property
    def reach(self) -> tuple[int, int]:
        """First remaining position, and one past the last one in any source or compaction."""
        first, stop = reach(self.spans)
        return first, max([stop, *(position for position, _ in self.compactions)])


@attrs.frozen
class _Archive:
    cluster: str
    config: ArchiveConfig
    begin: int
    """First position that is not trimmed."""
    damage: str = ""
    """Reason why it cannot be used; empty if it can."""


async def find(urls: Sequence[str], log: VirtualLog | None, cluster: bytes | None) -> LogSources:
    """Find the sources.

    Args:
        urls: locations.
        log: the log itself. None if it is gone.
        cluster: cluster of the log, needed if there is no log and the locations have several.

    Raises:
        WrongRecipientError: the log, or everything at a location, is of another cluster.
        InvalidSettingError: nothing is at a location; or the locations have several logs, and
            `cluster` is None.
        VirtualLogError: a location cannot be read.
    """
    register = await log.view.refresh() if log is not None else None
    if register is not None and cluster not in {None, register.cluster}:
        raise WrongRecipientError("cluster", (cluster or b"").hex(), register.cluster.hex())
    there = {url: await _look_at(url) for url in urls}
    chosen = _chosen(register.cluster if register is not None else cluster, there)
    archives = [each for place in there.values() for each in place.archives if each.cluster == chosen.hex()]
    spans: list[Span[What]] = [Span(each.begin, each.config.stop, each.config) for each in archives if not each.damage]
    if log is not None:
        spans.append(Span(await log.find_trim_point(), (await log.check_tail()).tail, Live()))
    places = [CompactionStore(url) for url in urls]
    compactions = [(position, place) for place in places for position in await place.positions(chosen)]
    return LogSources(
        cluster=chosen,
        spans=spans,
        compactions=compactions,
        has_database=(register is not None and register.database) or bool(compactions),
        unusable=[each.damage for each in archives if each.damage],
    )


@attrs.frozen
class _There:
    """Content of a location, of any cluster."""

    archives: Sequence[_Archive]
    compacted: set[str]
    """Clusters that have compactions there."""

    @property
    def clusters(self) -> set[str]:
        return {each.cluster for each in self.archives} | self.compacted


async def _look_at(url: str) -> _There:
    archives = [each for place in (url, join(url, ARCHIVES)) for each in await _archives(place)]
    return _There(archives, {cluster.hex() for cluster in await CompactionStore(url).clusters()})


def _chosen(cluster: bytes | None, there: Mapping[str, _There]) -> bytes:
    """Cluster of the log. Each named location must have something of it: a misspelled name looks
    like an empty location, and would be missed when it is too late."""
    for url, place in there.items():
        if not place.clusters:
            raise InvalidSettingError("from", f"{url} has no archives, backups or compactions")
    if cluster is None:
        known = set[str]().union(*(place.clusters for place in there.values()))
        if len(known) != 1:
            found = (
                f"have logs of {', '.join(sorted(known))}: say whose with --cluster-id" if known else "none are named"
            )
            raise InvalidSettingError("from", f"the places {found}")
        return bytes.fromhex(known.pop())
    for place in there.values():
        if cluster.hex() not in place.clusters:
            raise WrongRecipientError("cluster", cluster.hex(), ", ".join(sorted(place.clusters)))
    return cluster


async def _archives(url: str) -> Sequence[_Archive]:
    found = list[_Archive]()
    for name in await FsspecFiles(url).directories():
        match = _ARCHIVE.fullmatch(name)
        if match is not None:
            found += await _archive(url, name, match[1], int(match[2]), int(match[3]))
    return found


async def _archive(url: str, directory: str, cluster: str, start: int, stop: int) -> Sequence[_Archive]:
    """The archive in a directory; empty without a manifest."""
    files = FsspecFiles(join(url, directory))
    blob = await files.read(manifests.NAME)
    if blob is None:
        return []
    config = ArchiveConfig(
        url=url, directory=directory, start=start, stop=stop, manifest=checksum(blob), cluster=cluster
    )
    try:
        manifest = manifests.decode_untrusted(blob)
        manifest.check_range(cluster, start, stop)
    except (CorruptionError, MalformedError) as error:
        return [_Archive(cluster, config, start, f"{config.location}: {error}")]
    return [_Archive(cluster, config, trim_point(manifest, await files.list()))]
