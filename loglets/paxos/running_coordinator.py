"""Runs one coordinator: stands for election, sends waves, hands out the answers."""

from __future__ import annotations

from collections.abc import Callable

import attrs

from loglets.paxos.replica_service import LocalReplica
from virtuallog.errors import VirtualLogError
from virtuallog.ports import Done, NodeEnvironment


@attrs.define(eq=False)
class RunningCoordinator:
    """The coordinator beside one local replica. Of a loglet: `request`. Of a log used by itself: `stand`, `append`, `truncate`.

    `run` is its only task of its own; start it in the nursery that owns the replica.
    """

    _replica: LocalReplica
    _environment: NodeEnvironment

    async def run(self) -> None:
        """Until cancelled."""
        raise NotImplementedError

    async def stand(self) -> int:
        """One election. On return appends are taken, everything before is decided and learned by the local replica.

        Returns:
            The highest position of the log.

        Raises:
            UnavailableError: not elected: somebody was in the way, or not enough replicas answered. Try again after a pause.
            SealedError: the log is closed.
        """
        raise NotImplementedError

    @property
    def is_leading(self) -> bool:
        raise NotImplementedError

    def append(self, payload: bytes, done: Callable[[int | VirtualLogError], None]) -> None:
        """Bytes of a user, without session. `done` is told the position once it is decided, in the order of positions;
        UnavailableError: maybe, and this coordinator leads no longer."""
        raise NotImplementedError

    async def truncate(self, to: int) -> int:
        """Decide that everything below position `to` may be dropped; returns the position of the TRUNCATE.

        Raises:
            UnavailableError: maybe; or this coordinator does not lead.
        """
        raise NotImplementedError

    def resign(self) -> None:
        """Lead no longer. What is pending is maybe."""
        raise NotImplementedError

    def request(self, request: object, done: Done) -> None:
        """Append, Seal, Truncate, Settle: see messages.py."""
        raise NotImplementedError

    def stop(self, error: VirtualLogError) -> None:
        """Take nothing more, for good."""
        raise NotImplementedError
