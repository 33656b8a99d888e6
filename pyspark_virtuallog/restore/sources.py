"""Finds what is left of a log: the log itself, archives of its segments, backups of ranges, compactions of its database.

Archives and backups have one format and one layout (docs/archive.md): a directory `CLUSTER-START-STOP` each, below a place. One
without a manifest is not there: somebody was killed while he wrote it, or is at it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, TypeAlias

import attrs

from database.snapshots.place import Place
from loglets.archive import manifest as manifests
from loglets.archive.config import ArchiveConfig, join
from loglets.archive.fsspec_files import FsspecFiles
from loglets.archive.manifest import checksum
from loglets.archive.origin import ARCHIVES
from loglets.archive.trimming import trim_point
from pyspark_virtuallog.restore.covering import Span, reach
from virtuallog.errors import InvalidSettingError, WrongRecipientError
from virtuallog.types import LogPosition
from virtuallog.virtual_log import VirtualLog

_ARCHIVE: Final = re.compile(r"([0-9a-f]{32})-(\d{20})-(\d{20})")


@attrs.frozen
class Live:
    """The log itself, archived segments of its chain included."""


What: TypeAlias = Live | ArchiveConfig


@attrs.frozen(kw_only=True)
class Found:
    """What there is of one log."""

    cluster: bytes
    spans: Sequence[Span[What]] = attrs.field(factory=tuple)
    """What can be read; the log itself comes last: files are read without bothering its servers."""
    compactions: Sequence[tuple[LogPosition, Place]] = attrs.field(factory=tuple)
    """Of its database: where they stand, and where they are."""
    has_database: bool = False

    @property
    def reach(self) -> tuple[int, int]:
        """First position that is left of it, and one past the last that is, or that is in a compaction."""
        first, stop = reach(self.spans)
        return first, max([stop, *(position for position, _ in self.compactions)])


@attrs.frozen
class _Archive:
    cluster: str
    config: ArchiveConfig
    begin: int
    """First position that is not trimmed."""


async def find(urls: Sequence[str], log: VirtualLog | None, cluster: bytes | None) -> Found:
    """Look around.

    Args:
        urls: of places.
        log: the log itself, if it is still there.
        cluster: whose log is meant, if there is none and places have several.

    Raises:
        WrongRecipientError: the log, or all that is at the places, is of another cluster.
        InvalidSettingError: nothing is there; or the places have several logs, and nobody says which.
        VirtualLogError: a place cannot be read; what there is is damaged.
    """
    register = await log.view.refresh() if log is not None else None
    if register is not None and cluster not in {None, register.cluster}:
        raise WrongRecipientError("cluster", (cluster or b"").hex(), register.cluster.hex())
    cluster = register.cluster if register is not None else cluster
    archives = [each for url in urls for place in (url, join(url, ARCHIVES)) for each in await _archives(place)]
    places = [Place(url) for url in urls]
    chosen = _chosen(cluster, {each.cluster for each in archives} | await _compacted(places), urls)
    spans: list[Span[What]] = [
        Span(each.begin, each.config.stop, each.config) for each in archives if each.cluster == chosen.hex()
    ]
    if log is not None:
        spans.append(Span(await log.find_trim_point(), (await log.check_tail()).tail, Live()))
    compactions = [(position, place) for place in places for position in await place.positions(chosen)]
    has_database = (register is not None and register.database) or bool(compactions)
    return Found(cluster=chosen, spans=spans, compactions=compactions, has_database=has_database)


def _chosen(cluster: bytes | None, there: set[str], urls: Sequence[str]) -> bytes:
    """Whose log is meant."""
    if cluster is None:
        if len(there) != 1:
            found = (
                f"has logs of {', '.join(sorted(there))}: say whose with --cluster-id" if there else "has no archives"
            )
            raise InvalidSettingError("from", f"{', '.join(urls)} {found}")
        return bytes.fromhex(there.pop())
    if there and cluster.hex() not in there:
        raise WrongRecipientError("cluster", cluster.hex(), ", ".join(sorted(there)))
    return cluster


async def _compacted(places: Sequence[Place]) -> set[str]:
    return {cluster.hex() for place in places for cluster in await place.clusters()}


async def _archives(url: str) -> Sequence[_Archive]:
    found = list[_Archive]()
    for name in await FsspecFiles(url).directories():
        match = _ARCHIVE.fullmatch(name)
        if match is not None:
            found += await _archive(url, name, match[1], int(match[2]), int(match[3]))
    return found


async def _archive(url: str, directory: str, cluster: str, start: int, stop: int) -> Sequence[_Archive]:
    """One of them; none without a manifest."""
    files = FsspecFiles(join(url, directory))
    blob = await files.read(manifests.NAME)
    if blob is None:
        return []
    manifest = manifests.decode_untrusted(blob)
    manifest.check_range(cluster, start, stop)
    config = ArchiveConfig(
        url=url, directory=directory, start=start, stop=stop, manifest=checksum(blob), cluster=cluster
    )
    return [_Archive(cluster, config, trim_point(manifest, await files.list()))]
