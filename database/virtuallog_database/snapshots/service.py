"""Serves the snapshots of this replica to peers, piece by piece.

A peer that is offered a snapshot needs the log from its position on, and is in no view yet. So the
log is held first (a hold is an entry in the state, with an end), then the offer is made. While the
peer reads on, the hold is renewed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final, TypeAlias

import attrs
import trio
from crc32c import crc32c

from virtuallog.contract.errors import OverloadedError, WrongRecipientError
from virtuallog.contract.ports import Clock, Done, Handlers
from virtuallog.contract.types import LogPosition
from virtuallog_database.replies import reply_with_result
from virtuallog_database.snapshots.messages import (
    PIECE_BYTES_MAX,
    GetSnapshot,
    Piece,
    ReadPiece,
    SnapshotOffer,
    hold_name,
)
from virtuallog_database.snapshots.policy import NONE, name_of
from virtuallog_database.snapshots.snapshotter import Snapshotter

REQUESTS_MAX: Final = 16
"""Requests served at a time, each with a piece in memory. A restoring peer has three in flight."""

HOLD_SECONDS: Final = 300.0
"""Lifetime of a hold after the last piece: until then the peer has to verify the files, open them,
play the log, and join the view."""

Hold: TypeAlias = Callable[[str, LogPosition, float], Awaitable[Any]]
"""`hold(name, position, seconds)`: on return the log is not trimmed past `position` for so long.
Replaces a hold of that name. Raises TrimmedError if the log may have been trimmed past it: the
snapshot would be of no use then."""


@attrs.define(eq=False)
class SnapshotService:
    """Serves `GetSnapshot` and `ReadPiece`.

    Args:
        snapshots: snapshots of this replica.
        cluster: cluster of this replica.
        nursery: runs one task for each request.
        hold: holds the log for a peer; `ViewTrackingEngine.hold_exactly`.
        clock: clock of this node.
    """

    _snapshots: Snapshotter
    _cluster: bytes
    _nursery: trio.Nursery
    _hold: Hold
    _clock: Clock
    _serving: int = attrs.field(default=0, init=False)
    _held_at: dict[str, float] = attrs.field(factory=dict, init=False)
    """Time of the last hold for each peer, by replica name."""

    @property
    def handlers(self) -> Handlers:
        return {
            GetSnapshot: partial(self._handle, self._offer),
            ReadPiece: partial(self._handle, self._read),
        }

    def _handle(self, work: Callable[[Any], Awaitable[Any]], request: GetSnapshot | ReadPiece, done: Done) -> None:
        if request.cluster != self._cluster:
            done(WrongRecipientError("cluster", request.cluster[:16].hex(), self._cluster.hex()))
        elif self._serving >= REQUESTS_MAX:
            done(OverloadedError(f"{self._serving} requests for snapshots are being served"))
        else:
            self._serving += 1
            self._nursery.start_soon(self._answer, work, request, done)

    async def _answer(self, work: Callable[[Any], Awaitable[Any]], request: Any, done: Done) -> None:
        """Reply with the result or the error. After a failure of the disk, the replica's own next
        use of it stops the replica."""
        try:
            await reply_with_result(work, request, done)
        finally:
            self._serving -= 1

    async def _offer(self, request: GetSnapshot) -> SnapshotOffer:
        position = await self._snapshots.newest_up_to(request.at_most) if request.at_most else self._snapshots.newest
        if position == NONE:
            return SnapshotOffer(position=NONE, files=())
        self._snapshots.reading(position)
        files = await self._snapshots.checkpoints.files(name_of(position))
        await self._keep_log(request.replica, position)
        return SnapshotOffer(position=position, files=tuple(files))

    async def _read(self, request: ReadPiece) -> Piece:
        position = LogPosition(request.position)
        length = min(request.length, PIECE_BYTES_MAX)
        content = await self._snapshots.checkpoints.read(name_of(position), request.file, request.offset, length)
        self._snapshots.reading(position)
        if self._clock.monotonic() > self._held_at.get(request.replica, 0.0) + HOLD_SECONDS / 3:
            await self._keep_log(request.replica, position)
        return Piece(content=content, checksum=crc32c(content))

    async def _keep_log(self, replica: str, position: LogPosition) -> None:
        now = self._clock.monotonic()
        self._held_at = {peer: held_at for peer, held_at in self._held_at.items() if held_at > now - HOLD_SECONDS}
        await self._hold(hold_name(replica), position, HOLD_SECONDS)
        self._held_at[replica] = now  # only now: a failed call holds nothing
