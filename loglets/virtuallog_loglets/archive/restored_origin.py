"""Origin of a restored cluster's log: what a restore leaves in a directory, for the first start of
a new cluster.

        history: archives, or nothing     | the first loglet of the new cluster
    ....|----------|---------------------|------------------------------>
        trimmed below                     position

Positions keep their meaning: what lay at position 4711 of the former log lies there in the new one.
Below `position` is history, which can be read and trimmed, or counts as trimmed. The new cluster
has an id of its own. The restore draws it, not the first start, so that all that was restored for
the cluster names it. A state of a database, or an archive, is taken by its own cluster only. So one
origin is for one cluster; another cluster takes another restore
(docs/decisions/0010-a-log-that-begins-later.md).

Durable format `origin.json`, version 1, written last; unknown fields are ignored:

    {"format": "virtuallog-origin", "version": 1, "cluster": "c3..", "position": 4711,
     "history": [{"directory": "c3..-0-4711", "start": 0, "stop": 4711, "manifest": "sha256:9f.."}]}

The archives lie in `archives/` below that directory, the state of a database in `compacted/`.
Nothing in here says where the directory is: it may be moved until the cluster has started.

Durable format `started.json` beside it, JSON without a version: {"stores": {"1": "5e..", ..}}, the
data directories, by node, of the cluster that continues from here. It is written before the cluster
proposes its register, so a second cluster cannot begin with the same id.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any, Final

import attrs

from virtuallog.contract.chain import Segment, SegmentId
from virtuallog.contract.errors import InvalidSettingError, MalformedError
from virtuallog.contract.register import ClusterId
from virtuallog.contract.types import LogletOffset, LogPosition, NodeId
from virtuallog_loglets.archive.config import ArchiveConfig, join
from virtuallog_loglets.archive.core.json_fields import integer, object_of, text
from virtuallog_loglets.archive.drivers.files import Files
from virtuallog_loglets.archive.provider import KIND

NAME: Final = "origin.json"
STARTED: Final = "started.json"
ARCHIVES: Final = "archives"
_FORMAT: Final = "virtuallog-origin"
_VERSION: Final = 1
_CLUSTER_BYTES: Final = 16


@attrs.frozen(kw_only=True)
class Origin:
    """Origin of a cluster's log."""

    cluster: ClusterId
    """Id of the new cluster."""
    position: LogPosition = LogPosition(0)  # noqa: RUF009 -- an int at run time
    """First position of the new cluster's own entries."""
    history: tuple[ArchiveConfig, ...] = ()
    """History: adjacent archives, the last of which ends at `position`."""

    def __attrs_post_init__(self) -> None:
        stops = [archive.stop for archive in self.history]
        starts = [archive.start for archive in self.history]
        if stops != [*starts[1:], *([self.position] if starts else [])]:
            raise MalformedError(f"the history of an origin at {self.position} is not whole: {starts} to {stops}")
        if any(archive.cluster != self.cluster.hex() for archive in self.history):
            raise MalformedError("the history of an origin is that of another cluster")

    def segments(self, random: Random) -> Sequence[Segment]:
        """The history as the first segments of a chain, of version 1."""
        return [
            Segment(
                id=SegmentId(1, random.getrandbits(63)),
                kind=KIND,
                config=archive.encode(),
                start=LogPosition(archive.start),
                stop=LogPosition(archive.stop),
                base=LogletOffset(archive.start),
            )
            for archive in self.history
        ]

    def encode(self) -> bytes:
        history = [
            {name: getattr(archive, name) for name in ("directory", "start", "stop", "manifest")}
            for archive in self.history
        ]
        return json.dumps(
            {
                "format": _FORMAT,
                "version": _VERSION,
                "cluster": self.cluster.hex(),
                "position": self.position,
                "history": history,
            }
        ).encode()


def decode_untrusted(blob: bytes, url: str) -> Origin:
    """Decode the origin in `blob`, which lies in the directory `url`.

    Raises:
        MalformedError: not an origin, or one of a later version.
    """
    try:
        fields = object_of(json.loads(blob))
        if text(fields, "format") != _FORMAT or integer(fields, "version") != _VERSION:
            raise MalformedError(f"not an origin of version {_VERSION}: {blob[:100]!r}")
        cluster, position = bytes.fromhex(text(fields, "cluster")), integer(fields, "position")
        history = tuple(_archive(object_of(archive), cluster, url) for archive in _list(fields["history"]))
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise MalformedError(f"not an origin: {blob[:100]!r}") from error
    if len(cluster) != _CLUSTER_BYTES:
        raise MalformedError(f"an origin of cluster {cluster.hex()}, which is no id")
    return Origin(cluster=ClusterId(cluster), position=LogPosition(position), history=history)


async def read_origin(files: Files, url: str) -> Origin:
    """Read the origin in the directory `url`, whose files are `files`.

    Raises:
        InvalidSettingError: there is none: nothing was restored there, or not to the end.
        MalformedError: it is unusable.
        VirtualLogError: as `Files`.
    """
    blob = await files.read(NAME)
    if blob is None:
        raise InvalidSettingError(
            "origin", f"there is no {NAME} in {url}: nothing was restored there, or not to the end"
        )
    return decode_untrusted(blob, url)


async def claim_origin(files: Files, url: str, stores: Mapping[NodeId, bytes]) -> None:
    """Note in the directory `url`, whose files are `files`, that a cluster with these data
    directories continues from there.

    All its nodes note the same, as often as they like.

    Args:
        files: files of the directory.
        url: URL of the directory.
        stores: ids of data directories, by node.

    Raises:
        InvalidSettingError: another cluster does.
        VirtualLogError: as `Files`; above all StorageError, if it may not be written to.
    """
    blob = json.dumps({"stores": {str(node): stores[node].hex() for node in sorted(stores)}}).encode()
    if not await files.write(STARTED, blob, replace=False) and await files.read(STARTED) != blob:
        raise InvalidSettingError(
            "origin",
            f"{url} is that of another cluster: restore again for this one. If that never began, remove {STARTED}",
        )


def _archive(fields: Mapping[str, Any], cluster: bytes, url: str) -> ArchiveConfig:
    return ArchiveConfig(
        url=join(url, ARCHIVES),
        directory=text(fields, "directory"),
        start=integer(fields, "start"),
        stop=integer(fields, "stop"),
        manifest=text(fields, "manifest"),
        cluster=cluster.hex(),
    )


def _list(value: object) -> Sequence[Any]:
    if not isinstance(value, list):
        raise TypeError(f"{str(value)[:100]} is not a list")
    return value
