"""Looks at the place where archives are: what the chain names is there and whole, and no manifest is there before its files.

Damage that happens on the way there must have been noticed before the chain names the archive: from then on its owner keeps it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final

import attrs

from virtuallog.contract.types import LogPosition
from virtuallog.testing.checker.history import History
from virtuallog.testing.checker.violation import Violation
from virtuallog.testing.sim.object_store import FilesServer
from virtuallog_loglets.archive.config import ArchiveConfig, decode_untrusted
from virtuallog_loglets.archive.core import manifest as manifests
from virtuallog_loglets.archive.core.manifest import checksum
from virtuallog_loglets.archive.drivers.trim_markers import trim_point
from virtuallog_loglets.archive.provider import KIND
from virtuallog_simulation.checks.history.facts import chains, newest_chain

ARCHIVED: Final = "looked: files of archives"
RELEASED: Final = "looked: archives without a hot copy"
LOOKED: Final = (ARCHIVED, RELEASED)


@attrs.define(eq=False)
class ArchiveWatch:
    """Puts what it finds wrong into `violations`."""

    files: FilesServer
    looked: Counter[str]
    violations: list[Violation]

    def start(self) -> None:
        self.files.on_write = self._written

    def _written(self, url: str, name: str, content: bytes) -> None:
        if name != manifests.NAME:
            return
        manifest = manifests.decode_untrusted(content)
        there = self.files.directories[url]
        for file in manifest.files:
            if file.name not in there:
                message = f"{url} has a manifest, and not file {file.name} that it names"
                self.violations.append(Violation("manifest comes last", message))

    def look(self, history: History) -> None:
        """Check all archives in the newest chain that any client knows."""
        chain = newest_chain(history)
        for segment in chain.segments if chain is not None else ():
            if segment.kind == KIND:
                config = decode_untrusted(segment.config)
                self.looked[RELEASED] += config.hot is None
                self.violations.extend(archive_is_whole(config, self.files.directories, self.looked))


def archive_is_whole(
    config: ArchiveConfig, directories: Mapping[str, Mapping[str, bytes]], looked: Counter[str]
) -> Iterator[Violation]:
    """Check that all the chain lists is there: of what is not trimmed, every byte."""
    there = directories.get(config.location, {})
    blob = there.get(manifests.NAME)
    if blob is None or checksum(blob) != config.manifest:
        what = "no manifest" if blob is None else "another manifest than the chain says"
        yield Violation("archives are whole", f"{config.location} has {what}")
        return
    manifest = manifests.decode_untrusted(blob)
    trimmed = trim_point(manifest, there)
    for file in manifest.files:
        if file.stop > trimmed:
            looked[ARCHIVED] += 1
            content = there.get(file.name)
            if content is None or checksum(content) != file.checksum:
                what = "is missing" if content is None else "is damaged"
                yield Violation("archives are whole", f"file {file.name} of {config.location} {what}")


def hot_copies_are_kept(history: History) -> Iterator[Violation]:
    """A segment's loglet that leaves the chain for an archive is kept: the first version that names
    the archive names the loglet too, by the id and the kind that it had."""
    known = chains(history)
    for version, one in known.items():
        before = known.get(version - 1)
        for segment in one.chain.segments if before is not None else ():
            if segment.kind != KIND or before is None:
                continue
            former = before.chain.segment_at(LogPosition(segment.start))
            if former is not None and former.kind != KIND and former.stop is not None:
                hot = decode_untrusted(segment.config).hot
                if hot is None or (hot.id, hot.kind) != (former.id, former.kind):
                    message = f"version {version} has an archive for {former.id}, and does not keep that"
                    yield Violation("hot copies are kept", message)
