"""Systems compared by `virtuallog_lab.experiments.contestants.peers`: three processes each that
acknowledge small writes."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Protocol

import attrs


@attrs.frozen(kw_only=True)
class Figures:
    """One measurement of one system."""

    ops_per_s: float
    p50_ms: float
    p99_ms: float


class RunningContestant(Protocol):
    """A system that has been started."""

    @property
    def pids(self) -> list[int]:
        """Its servers."""
        ...

    async def measure(self, outstanding: int, size: int, seconds: float) -> Figures:
        """Keep so many writes of `size` bytes in flight, for a second that does not count and `seconds` that do.

        Raises:
            PeerError: the system, or its client, has failed.
        """
        ...


class Contestant(Protocol):
    """A system that can be started."""

    @property
    def name(self) -> str: ...

    @property
    def durability(self) -> str:
        """Durable state when a write is acknowledged, by its documentation and the settings used
        here."""
        ...

    def open(self) -> AbstractAsyncContextManager[RunningContestant]:
        """Start it, for the length of the block."""
        ...
