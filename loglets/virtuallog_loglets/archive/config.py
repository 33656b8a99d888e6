"""Config of an archive in the chain: JSON, so that it outlives every binary.

    {"url": "file:///archives", "directory": "<cluster>-<start>-<stop>", "start": 0, "stop": 150, "manifest": "sha256:9f..",
     "cluster": "c3..", "hot": {"id": "4.1c", "kind": "native", "config": "<base64>", "base": 0, "release_at_ms": 1793..}}

The checksum of the manifest ties everything to the chain: the manifest has the checksum of each
file. `hot` names the loglet that the archive replaced, until it is no longer needed: nodes keep it
so long, reads fall back on it, and it can be put back. Credentials are never in here, because
everyone who may read the chain would have them: fsspec finds its own. Unknown fields are preserved.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

import attrs

from virtuallog.contract.chain import Segment, SegmentId
from virtuallog.contract.errors import InvalidSettingError, MalformedError
from virtuallog.contract.types import LogletOffset
from virtuallog_loglets.archive.core.json_fields import integer, object_of, text

_KNOWN = ("url", "directory", "start", "stop", "manifest", "cluster", "hot")
GRACE_SECONDS: Final = 3600.0
"""Seconds that the hot copy stays by default: time to notice that readers cannot reach the archive."""


@attrs.frozen(kw_only=True)
class HotCopy:
    """The loglet that an archive replaced."""

    id: SegmentId
    kind: str
    config: bytes = attrs.field(repr=False)
    base: LogletOffset
    release_at_ms: int
    """Wall-clock time in ms from which on nodes may drop it."""

    @classmethod
    def of(cls, segment: Segment, release_at_ms: int) -> HotCopy:
        return cls(
            id=segment.id, kind=segment.kind, config=segment.config, base=segment.base, release_at_ms=release_at_ms
        )


@attrs.frozen(kw_only=True)
class ArchiveConfig:
    """Location and identity of an archive."""

    url: str
    """URL of the place where archives are, without credentials."""
    directory: str
    """Directory of this archive, below `url`."""
    start: int
    """First position; offsets of this loglet are positions of the log."""
    stop: int
    manifest: str
    """Checksum of the manifest."""
    cluster: str
    """Id of the log's cluster, in hexadecimal digits."""
    hot: HotCopy | None = None
    others: Mapping[str, Any] = attrs.field(factory=dict)
    """Fields of later versions, preserved on encoding."""

    @property
    def location(self) -> str:
        """URL of the directory."""
        return join(self.url, self.directory)

    def encode(self) -> bytes:
        known: dict[str, Any] = {
            name: getattr(self, name) for name in ("url", "directory", "start", "stop", "manifest", "cluster")
        }
        if self.hot is not None:
            known["hot"] = _plain(self.hot)
        return json.dumps({**self.others, **known}, sort_keys=True).encode()

    def released(self, now_ms: int) -> ArchiveConfig | None:
        """The config without the hot copy, once its time is over; None before that and afterwards."""
        due = self.hot is not None and now_ms >= self.hot.release_at_ms
        return attrs.evolve(self, hot=None) if due else None


def join(url: str, directory: str) -> str:
    return f"{url.rstrip('/')}/{directory}"


def directory_of(cluster: str, start: int, stop: int) -> str:
    """Directory of an archive. Always the same for the same part of the same log, so a half-made
    archive is found again."""
    return f"{cluster}-{start:020d}-{stop:020d}"


def backup_directory_of(cluster: str, start: int, stop: int) -> str:
    """Directory of a backup. It differs from an archive's: an archive of the same range is trimmed
    with the log."""
    return f"{directory_of(cluster, start, stop)}-backup"


def check_url(url: str) -> None:
    """Refuse a URL that must not get into the chain.

    Raises:
        InvalidSettingError: not a URL, no place in it, or a password in it, which may also be in a query.
    """
    try:
        parts = [urlsplit(part) for part in url.split("::")]
    except ValueError as error:
        raise InvalidSettingError("url", f"'{url}' is none: {error}") from error
    if not parts[-1].scheme:
        raise InvalidSettingError("url", f"'{url}' does not name a protocol, such as file://")
    if not parts[-1].netloc and not parts[-1].path.strip("/"):
        raise InvalidSettingError("url", f"'{url}' names no place")
    if any("@" in part.netloc for part in parts) or any(part.query and part.scheme != "file" for part in parts):
        raise InvalidSettingError("url", "has a user or a password in it, and all would see that: configure fsspec")


def decode_untrusted(blob: bytes) -> ArchiveConfig:
    """Decode the config in `blob`.

    Raises:
        MalformedError: `blob` is not a config of an archive.
    """
    try:
        fields = object_of(json.loads(blob))
        hot = _hot_untrusted(object_of(fields["hot"])) if "hot" in fields else None
        names = {name: text(fields, name) for name in ("url", "directory", "manifest", "cluster")}
        start, stop = integer(fields, "start"), integer(fields, "stop")
        check_url(names["url"])
    except (ValueError, TypeError, KeyError, RecursionError, InvalidSettingError) as error:
        raise MalformedError(f"not the config of an archive: {blob[:100]!r}") from error
    if not 0 <= start <= stop or "/" in names["directory"] or names["directory"].startswith("."):
        raise MalformedError(f"the config of an archive names [{start}, {stop}) in '{names['directory']}'")
    others = {name: value for name, value in fields.items() if name not in _KNOWN}
    return ArchiveConfig(**names, start=start, stop=stop, hot=hot, others=others)


def _plain(hot: HotCopy) -> dict[str, Any]:
    return {
        "id": str(hot.id),
        "kind": hot.kind,
        "config": base64.b64encode(hot.config).decode(),
        "base": hot.base,
        "release_at_ms": hot.release_at_ms,
    }


def _hot_untrusted(fields: Mapping[str, Any]) -> HotCopy:
    return HotCopy(
        id=SegmentId.parse(text(fields, "id")),
        kind=text(fields, "kind"),
        config=base64.b64decode(text(fields, "config"), validate=True),
        base=LogletOffset(integer(fields, "base")),
        release_at_ms=integer(fields, "release_at_ms"),
    )
