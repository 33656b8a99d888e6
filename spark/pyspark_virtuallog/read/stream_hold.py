"""Places and moves the hold of a stream (option `hold`), on the driver. `hold_position.py` decides
the position."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

import attrs

from pyspark_virtuallog.clients import with_retries
from pyspark_virtuallog.read.hold_position import HoldPosition
from virtuallog.blocking import BlockingLog
from virtuallog.contract.errors import RetryableError, TrimmedError, UnavailableError
from virtuallog.contract.types import LogPosition
from virtuallog.runtime.clock import SystemClock
from virtuallog_database.control.client import find_hold, place_hold

FLOORS_MAX: Final = 10
"""Tries to begin where the log still begins: each fails only if servers have agreed on a trim since
the one before, minutes apart."""


@attrs.define(eq=False)
class StreamHold:
    """Hold of one run of a query. Spark pickles it with the reader, for tasks, which do not use it."""

    name: str
    _holding: HoldPosition
    _now: Callable[[], float] = SystemClock().monotonic

    @property
    def placed(self) -> int | None:
        """Position of the hold. None before `begin` has placed it."""
        return self._holding.placed

    def begin(self, log: BlockingLog, start: int, *, may_begin_later: bool) -> int:
        """Keep everything from `start` on; an existing hold of this name that is further back
        stays. A second call does nothing.

        Args:
            log: the client.
            start: position from which on the run reads.
            may_begin_later: True to take what is left, if servers have agreed to trim some of that.

        Returns:
            Position from which on the log is kept for certain, if that is later than `start`; else
            `start`.

        Raises:
            TrimmedError: some of it may be trimmed, and `may_begin_later` is False.
            UnsupportedError: no database stands on this log.
            VirtualLogError: as of `place_hold`; UnavailableError not before `patienceSeconds` are
                over.
        """
        if self._holding.placed is None:
            place = partial(self._begin, log, start, may_begin_later=may_begin_later)
            position = with_retries(self._holding.patience_seconds, place)
            self._holding.begin(position, max(start, position), self._now())
        return max(start, self._holding.placed or 0)

    def commit(self, end: int) -> None:
        """Note that all below `end` is committed. Makes no call: `keep` does."""
        self._holding.commit(end)

    def keep(self, log: BlockingLog) -> None:
        """Move the hold, if it is time to.

        Raises:
            RetryableError: moves have failed for `patienceSeconds`.
            VirtualLogError: as of `place_hold`.
        """
        position = self._holding.due(self._now())
        if position is None:
            return
        try:
            log.run(place_hold, self.name, LogPosition(position))
        except RetryableError:
            if self._holding.failed(self._now()):
                raise
        else:
            self._holding.moved(position, self._now())

    def _begin(self, log: BlockingLog, start: int, *, may_begin_later: bool) -> int:
        present = log.run(find_hold, self.name)
        position = start if present is None else min(present, start)
        for _ in range(FLOORS_MAX):
            try:
                # Also if it is there already: the replica that answered may lag, and the hold may
                # have been released since.
                log.run(place_hold, self.name, LogPosition(position))
            except TrimmedError as error:
                position = max(start, error.first)
                if position > start and not may_begin_later:
                    raise
            else:
                return position
        raise UnavailableError(f"the log is trimmed faster than the hold '{self.name}' can be placed")
