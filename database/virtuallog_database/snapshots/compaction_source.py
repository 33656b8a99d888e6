"""A compaction as a snapshot source, restored in the same way as the snapshots of peers."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Final

import attrs

from virtuallog.contract.errors import UnavailableError, VirtualLogError
from virtuallog.contract.metrics import Counter
from virtuallog.contract.ports import Clock
from virtuallog_database.snapshots.compaction_manifest import Manifest
from virtuallog_database.snapshots.compaction_store import CompactionStore
from virtuallog_database.snapshots.messages import SnapshotOffer

READ_SECONDS: Final = 30.0
"""Timeout of one call, as for archives: a location may be far away."""


@attrs.frozen(kw_only=True)
class CompactionSource:
    """Implements `virtuallog_database.snapshots.transfer.SnapshotSource`."""

    place: CompactionStore
    manifest: Manifest
    clock: Clock
    fetched: Counter
    """Counts bytes as they arrive."""

    @property
    def name(self) -> str:
        return name_of(self.place)

    @property
    def offer(self) -> SnapshotOffer:
        files = sorted((each.file for each in self.manifest.store), key=attrgetter("name"))
        return SnapshotOffer(position=self.manifest.position, files=tuple(files))

    async def read(self, file: str, offset: int, length: int) -> bytes:
        """See `SnapshotSource.read`. Checks no checksum: `fetch` checks the whole file."""
        stored, content = self.manifest.stored(file), b""
        try:
            with self.clock.timeout(READ_SECONDS):
                content = await self.place.read_file(self.manifest, stored, offset, offset + length)
        except (
            VirtualLogError
        ) as error:  # not our disk: its error must not be taken for a failure of this replica's disk
            raise UnavailableError(f"{self.name}: {error}") from error
        if not 0 < len(content) <= length:
            raise UnavailableError(
                f"{self.name} gave {len(content)} bytes of {stored} at {offset}, not {length}, in time"
            )
        self.fetched.value += len(content)
        return content


def name_of(place: CompactionStore) -> str:
    return f"the compaction at {place.url}"


async def newest_at(
    place: CompactionStore, cluster: bytes, known: Sequence[str], clock: Clock, fetched: Counter
) -> CompactionSource | None:
    """The newest compaction that a program with these engines can continue from. None if the
    location has none at all.

    Raises:
        UnavailableError: the location does not answer, or its compactions cannot be used; gives the
            reason.
    """
    try:
        with clock.timeout(READ_SECONDS) as scope:
            manifest = await place.newest(cluster)
            if manifest is None:
                return None
            manifest.check(cluster, known)
            return CompactionSource(place=place, manifest=manifest, clock=clock, fetched=fetched)
    except VirtualLogError as error:
        raise UnavailableError(f"{name_of(place)}: {error}") from error
    assert scope.cancelled_caught
    raise UnavailableError(f"{name_of(place)}: no answer in time")
