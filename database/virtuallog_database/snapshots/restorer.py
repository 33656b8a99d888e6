"""Installs a snapshot under a store that the log can no longer bring up to date: a wiped, lagging
or brand-new replica.

    ask all peers, and look for compactions -> take the newest offer -> fetch it into staging -> check the log once more -> install

A failure ends one attempt, and the next one begins with asking again: the peer may have died, or
the log may have been trimmed past the offer meanwhile. Fetched files stay if the next offer has the
same ones. A source that gave wrong content comes last then. A compaction (`compaction_manifest.py`)
is a snapshot at a location, made by a job: it is available when no peer is. The store is the old
one or the new one at any time, never a mixture.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final

import attrs
import trio

from virtuallog.contract.errors import (
    CorruptionError,
    DiskFullError,
    RetryableError,
    StorageError,
    UnavailableError,
    UnsupportedError,
    VirtualLogError,
)
from virtuallog.contract.ports import Clock, Services
from virtuallog.contract.types import POSITION_MAX, LogPosition, NodeId
from virtuallog.runtime import log
from virtuallog_database.engines.core.keys import read_cursor
from virtuallog_database.engines.stack import KNOWN
from virtuallog_database.engines.view_tracking import ViewTrackingEngine
from virtuallog_database.errors import NoPastStateError
from virtuallog_database.ports import LocalStore, StoreDirectory
from virtuallog_database.snapshots.compaction_source import newest_at
from virtuallog_database.snapshots.compaction_store import CompactionStore
from virtuallog_database.snapshots.messages import GetSnapshot, hold_name
from virtuallog_database.snapshots.metrics import SnapshotMetrics
from virtuallog_database.snapshots.transfer import PeerSource, SnapshotSource, fetch

OFFER_SECONDS: Final = 10.0
"""Timeout of an offer: the peer puts an entry into the log before it replies."""
PAUSE_SECONDS: Final = (0.5, 5.0)
"""First and longest pause between two attempts; it doubles in between. If no source can help,
waiting is all that is left."""
RELEASE_LOOK_SECONDS: Final = 1.0
"""Interval between two looks of `release_own_hold`."""


@attrs.define(eq=False, kw_only=True)
class Restorer:
    """Restores snapshots of one replica.

    Args:
        directory: directory of its store.
        services: calls to peers.
        clock: clock of this node.
        random: randomness of this node.
        cluster: cluster of the replica.
        replica: name of the replica.
        peers: other nodes that may have a snapshot; asked before each attempt.
        trim_point: finds where the log begins; `VirtualLog.find_trim_point`.
        meter: metrics of the host.
        places: locations of compactions.
        known: names of this program's engines.
    """

    directory: StoreDirectory
    services: Services
    clock: Clock
    random: random.Random
    cluster: bytes
    replica: str
    peers: Callable[[], Sequence[NodeId]]
    trim_point: Callable[[], Awaitable[LogPosition]]
    meter: SnapshotMetrics
    places: Sequence[CompactionStore] = ()
    known: Sequence[str] = KNOWN
    waiting_for: str = attrs.field(default="", init=False)
    """Reason of the last attempt's failure; empty while all is well."""
    _distrusted: set[str] = attrs.field(factory=set, init=False)
    """Names of sources that gave wrong content."""

    async def open_store(self) -> LocalStore:
        """Open the store, after installing a snapshot if the log has been trimmed past it. Waits
        for as long as that takes; `waiting_for` gives the reason. Cancelled, the next call resumes
        where this one was.

        Raises:
            CorruptionError: RocksDB found damage.
            StorageError: the disk failed.
        """
        while True:
            store = await self.directory.open()
            if not await self._lacks_something(store):
                self.waiting_for = ""
                return store
            await store.close()
            await self.restore()

    async def _lacks_something(self, store: LocalStore) -> bool:
        """True if the log has been trimmed past the store's cursor."""
        try:
            cursor = read_cursor(store)
            return await self.known_trim_point() > cursor
        except BaseException:  # includes cancellation
            await store.close()
            raise

    async def restore(self) -> None:
        """Install the newest snapshot from which the log can be played on, in the store's stead, which is closed. Waits as
        `open_store` does.

        Raises:
            CorruptionError, StorageError: the disk failed here.
        """
        began = self.clock.monotonic()
        pause, longest = PAUSE_SECONDS
        while True:
            try:
                await self._attempt()
            except DiskFullError as error:
                # The fetched files take part of the room, and other components need room to go on.
                await self.directory.staging.clear()
                self._failed(error)
            except (CorruptionError, StorageError):
                raise
            except VirtualLogError as error:
                self._failed(error)
            else:
                self.meter.restored(self.clock.monotonic() - began)
                return
            await self.clock.sleep(pause * self.random.uniform(0.5, 1.0))
            pause = min(2 * pause, longest)

    async def _attempt(self) -> None:
        source = await self.newest_offer(await self._find_trim_point())
        name, position = source.name, source.offer.position
        log.info("restoring a snapshot", source=name, position=position, files=len(source.offer.files))
        self._distrusted.add(name)  # until it has delivered what it offered
        await fetch(source, self.directory.staging)
        if await self._find_trim_point() > position:
            self._distrusted.discard(name)
            raise UnavailableError(f"the log was trimmed past {position} meanwhile")
        await self._install(name)
        self._distrusted.clear()
        log.info("restored a snapshot", source=name, position=position)

    async def _install(self, source: str) -> None:
        try:
            await self.directory.staging.install()
        except CorruptionError as error:
            # It arrived as it was sent, so it was damaged before: on the peer's disk.
            await self.directory.staging.clear()
            raise UnavailableError(f"the snapshot of {source} is damaged: {error}") from error

    async def newest_offer(self, trim_point: LogPosition, at_most: LogPosition | None = None) -> SnapshotSource:
        """Newest offer from which the log can be played on. Of two equal ones the first peer's,
        which is nearer than a compaction.

        Args:
            trim_point: first position of the log that can be read.
            at_most: highest position of the offer. None for any.

        Raises:
            NoPastStateError: all peers have answered, and none has one that is old enough.
            UnavailableError: there is no such offer.
        """
        peers = list(self.peers())
        askers: list[Callable[[], Awaitable[SnapshotSource | None]]] = [
            partial(self._ask_peer, peer, at_most or 0) for peer in peers
        ]
        askers += [partial(self._look_at, place) for place in self.places]
        offers: list[SnapshotSource | None] = [None] * len(askers)
        reasons: list[VirtualLogError | None] = [None] * len(offers)
        async with trio.open_nursery() as nursery:
            for number, asker in enumerate(askers):
                nursery.start_soon(self._ask, asker, number, offers, reasons)
        newest = POSITION_MAX if at_most is None else at_most
        usable = [each for each in offers if each is not None and max(1, trim_point) <= each.offer.position <= newest]
        if not usable:
            told = "; ".join(str(reason) for reason in reasons if reason is not None) or "they have none"
            if at_most is not None and not any(isinstance(reason, RetryableError) for reason in reasons):
                reason = f"the log begins at {trim_point}, and no server keeps a snapshot from there up to {at_most}"
                raise NoPastStateError(at_most, f"{reason} ({told})")
            who = "neither a peer nor a place for compactions offers" if self.places else "no peer offers"
            raise UnavailableError(f"{who} a snapshot at or past {trim_point}, where the log begins ({told})")
        return max(usable, key=lambda source: (source.name not in self._distrusted, source.offer.position))

    async def known_trim_point(self) -> LogPosition:
        """First position of the log; waits for as long as it cannot be learnt."""
        pause, longest = PAUSE_SECONDS
        while True:
            try:
                return await self._find_trim_point()
            except RetryableError as error:
                self._failed(error)
            await self.clock.sleep(pause * self.random.uniform(0.5, 1.0))
            pause = min(2 * pause, longest)

    async def _ask(
        self,
        who: Callable[[], Awaitable[SnapshotSource | None]],
        number: int,
        offers: list[SnapshotSource | None],
        reasons: list[VirtualLogError | None],
    ) -> None:
        try:
            offers[number] = await who()
        except VirtualLogError as error:
            reasons[number] = error

    async def _ask_peer(self, peer: NodeId, at_most: int) -> SnapshotSource:
        request = GetSnapshot(cluster=self.cluster, replica=self.replica, at_most=at_most)
        try:
            offer = await self.services.call(peer, request, OFFER_SECONDS)
        except RetryableError as error:
            raise UnavailableError(f"node {peer}: {error}") from error
        except VirtualLogError as error:  # it runs no replica, or its log was trimmed past the snapshot
            raise UnsupportedError(f"node {peer}: {error}") from error
        return PeerSource(
            services=self.services,
            peer=peer,
            cluster=self.cluster,
            replica=self.replica,
            offer=offer,
            fetched=self.meter.restore_bytes,
        )

    async def _look_at(self, place: CompactionStore) -> SnapshotSource | None:
        return await newest_at(place, self.cluster, self.known, self.clock, self.meter.restore_bytes)

    async def _find_trim_point(self) -> LogPosition:
        """First position of the log. Any failure becomes an UnavailableError: it says nothing about this
        store, as the log may begin in an archive that cannot be read today."""
        try:
            return await self.trim_point()
        except VirtualLogError as error:
            raise UnavailableError(f"the start of the log cannot be found: {error}") from error

    def _failed(self, error: VirtualLogError) -> None:
        self.waiting_for = str(error)
        log.warning("no snapshot could be restored yet", reason=str(error))


async def release_own_hold(replica: str, view: ViewTrackingEngine, clock: Clock) -> None:
    """Drop the hold that kept the log for `replica` while it restored a snapshot; returns once it
    is dropped.

    The hold ends by itself some minutes later, but until then nothing is trimmed. So the replica
    drops it once it is in the view with a snapshot of its own at or past the hold: from then on its
    place in the view keeps all that it needs. Call this when the replica has caught up, as it does
    not see a hold that it has not applied yet. Cancelled, the hold ends by itself.

    Args:
        replica: name of this replica.
        view: engine of its stack.
        clock: clock of its node.
    """
    while (hold := view.holds().get(hold_name(replica))) is not None:
        own = view.members().get(replica)
        if own is not None and own.durable >= hold.position:
            try:
                await view.release(hold_name(replica))
            except RetryableError:  # the next look shows if it was dropped all the same
                pass
            else:
                return
        await clock.sleep(RELEASE_LOOK_SECONDS)
