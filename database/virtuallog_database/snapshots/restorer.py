"""Puts a snapshot in the place of a store that the log can no longer bring up to date: a wiped, lagging or brand-new replica.

    ask all peers, and look for compactions -> take the newest offer -> fetch it into staging -> look at the log once more -> install

What goes wrong ends one attempt, and the next one begins with asking again: the peer may have died, the log may have been
trimmed past the offer meanwhile. What has been fetched stays, as far as the next offer has the same files. Who gave something wrong
comes last then. A compaction (`compaction.py`) is a snapshot that lies at a place, made by a job: it is there when no peer is. The store is the old one or the new one at any time, never a mixture.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final

import attrs
import structlog
import trio

from virtuallog.contract.errors import (
    CorruptionError,
    DiskFullError,
    RetryableError,
    StorageError,
    UnavailableError,
    VirtualLogError,
)
from virtuallog.contract.ports import Clock, Services
from virtuallog.contract.types import LogPosition, NodeId
from virtuallog_database.engines.core.keys import read_cursor
from virtuallog_database.engines.stack import KNOWN
from virtuallog_database.engines.view_tracking import ViewTrackingEngine
from virtuallog_database.ports import LocalStore, StoreDirectory
from virtuallog_database.snapshots.compaction_source import newest_at
from virtuallog_database.snapshots.compaction_store import CompactionStore
from virtuallog_database.snapshots.messages import GetSnapshot, hold_name
from virtuallog_database.snapshots.metrics import SnapshotMetrics
from virtuallog_database.snapshots.transfer import PeerSource, SnapshotSource, fetch

# FOLDED from virtuallog_database.snapshots.releasing: Lets go of the log that was held for this replica while it restored a snapshot.
#
# The hold ends by itself some minutes later; but until then nothing is trimmed. So the replica drops it, once it is in the view
# with a snapshot of its own at or past what was held: from then on its place in the view keeps all that it needs.

RELEASE_LOOK_SECONDS: Final = 1.0


async def release_own_hold(replica: str, view: ViewTrackingEngine, clock: Clock) -> None:
    """Return once the log is not held for `replica` any more. Call it when the replica has caught up: a hold that it has not
    applied yet is none to it. Cancelled, the hold ends by itself.

    Args:
        replica: the name of this one.
        view: of its stack.
        clock: of its node.
    """
    while (hold := view.holds().get(hold_name(replica))) is not None:
        own = view.members().get(replica)
        if own is not None and own.durable >= hold.position:
            try:
                await view.release(hold_name(replica))
            except RetryableError:  # the next look says whether it was dropped all the same
                pass
            else:
                return
        await clock.sleep(RELEASE_LOOK_SECONDS)


log = structlog.get_logger(__name__)

OFFER_SECONDS: Final = 10.0
"""For an offer: the peer puts an entry into the log before it answers."""
PAUSE_SECONDS: Final = (0.5, 5.0)
"""Between two attempts; it doubles from the first to the second. Where nobody can help there is nothing to do but to wait."""


@attrs.define(eq=False, kw_only=True)
class Restorer:
    """Of one replica.

    Args:
        directory: of its store.
        services: to call peers with.
        clock: of this node.
        random: of this node.
        cluster: that the replica belongs to.
        replica: its name.
        peers: nodes that may have a snapshot, without this one; asked before each attempt.
        trim_point: of the log; `VirtualLog.find_trim_point`.
        meter: of the host.
        places: where compactions may be.
        known: the engines of this program.
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
    """What the last attempt failed for, in words; empty while all is well."""
    _distrusted: set[str] = attrs.field(factory=set, init=False)
    """Names of those who gave something wrong."""

    async def open_store(self) -> LocalStore:
        """Open the store, once it has all that is no longer in the log: if need be, a snapshot is installed first. Waits
        for as long as that takes; `waiting_for` says what for. Cancelled, the next call goes on where this one was.

        Raises:
            CorruptionError: RocksDB does not trust what it found.
            StorageError: the disk failed.
        """
        while True:
            store = await self.directory.open()
            if not await self._lacks_something(store):
                self.waiting_for = ""
                return store
            await store.close()
            await self._restore()

    async def _lacks_something(self, store: LocalStore) -> bool:
        """Whether the log has been trimmed past the store's cursor."""
        try:
            cursor = read_cursor(store)
            return await self._until_known() > cursor
        except BaseException:  # cancelled, above all
            await store.close()
            raise

    async def _restore(self) -> None:
        """Install a snapshot from which the log can be played on."""
        began = self.clock.monotonic()
        pause, longest = PAUSE_SECONDS
        while True:
            try:
                await self._attempt()
            except DiskFullError as error:
                # What was fetched has a part in that, and others need room to go on.
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
        source = await self._newest_offer(await self._find_trim_point())
        name, position = source.name, source.offer.position
        log.info("restoring a snapshot", source=name, position=position, files=len(source.offer.files))
        self._distrusted.add(name)  # until it has given what it promised
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

    async def _newest_offer(self, trim_point: LogPosition) -> SnapshotSource:
        """Of those from which the log can be played on. Of two that are alike the first peer's, which is nearer than a place."""
        peers = list(self.peers())
        askers: list[Callable[[], Awaitable[SnapshotSource | None]]] = [partial(self._ask_peer, peer) for peer in peers]
        askers += [partial(self._look_at, place) for place in self.places]
        offers: list[SnapshotSource | None] = [None] * len(askers)
        reasons = [""] * len(offers)
        async with trio.open_nursery() as nursery:
            for number, asker in enumerate(askers):
                nursery.start_soon(self._ask, asker, number, offers, reasons)
        usable = [offer for offer in offers if offer is not None and 0 < offer.offer.position >= trim_point]
        if not usable:
            told = "; ".join(reason for reason in reasons if reason) or "they have none"
            who = "neither a peer nor a place for compactions offers" if self.places else "no peer offers"
            raise UnavailableError(f"{who} a snapshot at or past {trim_point}, where the log begins ({told})")
        return max(usable, key=lambda source: (source.name not in self._distrusted, source.offer.position))

    async def _ask(
        self,
        who: Callable[[], Awaitable[SnapshotSource | None]],
        number: int,
        offers: list[SnapshotSource | None],
        reasons: list[str],
    ) -> None:
        try:
            offers[number] = await who()
        except VirtualLogError as error:
            reasons[number] = str(error)

    async def _ask_peer(self, peer: NodeId) -> SnapshotSource:
        request = GetSnapshot(cluster=self.cluster, replica=self.replica)
        try:
            offer = await self.services.call(peer, request, OFFER_SECONDS)
        except VirtualLogError as error:
            raise UnavailableError(f"node {peer}: {error}") from error
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

    async def _until_known(self) -> LogPosition:
        """Where the log begins; waits until that can be learnt."""
        pause, longest = PAUSE_SECONDS
        while True:
            try:
                return await self._find_trim_point()
            except RetryableError as error:
                self._failed(error)
            await self.clock.sleep(pause * self.random.uniform(0.5, 1.0))
            pause = min(2 * pause, longest)

    async def _find_trim_point(self) -> LogPosition:
        """Whatever it fails for says nothing about this store: the log may begin in an archive that cannot be read today."""
        try:
            return await self.trim_point()
        except VirtualLogError as error:
            raise UnavailableError(f"nobody can tell where the log begins: {error}") from error

    def _failed(self, error: VirtualLogError) -> None:
        self.waiting_for = str(error)
        log.warning("no snapshot could be restored yet", reason=str(error))
