"""Request of a restore, and its plan for what is left of a log."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from pyspark_virtuallog.restore.coverage import reach, whole_from
from pyspark_virtuallog.restore.range_reader import RangeReader
from pyspark_virtuallog.restore.sources import LogSources
from virtuallog.client.cluster_file import ClusterFile
from virtuallog.client.time_search import search_time
from virtuallog.contract.errors import InvalidSettingError
from virtuallog.contract.register import ClusterId
from virtuallog.contract.types import LogPosition
from virtuallog_loglets.archive.restore_plan import RestorePlan


@attrs.frozen(kw_only=True)
class RestoreRequest:
    """Request of a user: what to restore, and where to."""

    into: str
    """URL of the target directory: empty, or with the files of a former attempt at the same."""
    cluster: Path | ClusterFile | None = None
    """The log itself. None if it is gone."""
    places: Sequence[str] = ()
    """URLs of locations with archives, backups, compactions."""
    cluster_id: bytes | None = None
    """Cluster of the log, if the locations have several. None to take the only one."""
    position: LogPosition | None = None
    """Everything below is restored. None to go by time, or to take all there is."""
    time_ms: int | None = None
    """Restore what was ordered before about this time of day, in milliseconds. None if not by time."""
    since: LogPosition | None = None
    """First position of the history. None to begin where the sources do."""
    state: bool | None = None
    """True to restore the state of a database. None: if the log has one."""
    history: bool | None = None
    """True to restore the log itself. None: if it has no database."""
    store: Path | None = None
    """Directory into which the state is played, kept as the store of a server of the former
    cluster. None for none."""

    @property
    def asked(self) -> Mapping[str, Any]:
        """Request values that two attempts at the same have in common; plain values."""
        return {name: getattr(self, name) for name in ("position", "time_ms", "since", "state", "history")}


@attrs.frozen
class RestorePlanner:
    """Makes the plan, once for each restore.

    Args:
        wanted: the request.
        found: the sources.
        open_reading: opens a range of the log; refuses one that is not covered.
    """

    _wanted: RestoreRequest
    _found: LogSources
    _open_reading: Callable[[int, int], RangeReader]

    async def run(self, cluster: ClusterId) -> RestorePlan:
        """The plan for the new cluster with this id.

        Raises:
            InvalidSettingError: a source is missing, or options of the request contradict each
                other.
            VirtualLogError: as the sources; they are read to find a time.
        """
        wanted, found = self._wanted, self._found
        position = await self._position()
        with_state = found.has_database if wanted.state is None else wanted.state
        with_history = not found.has_database if wanted.history is None else wanted.history
        if wanted.since is not None and not with_history:
            raise InvalidSettingError("since", "no history is restored; --history does")
        if wanted.store is not None and not with_state:
            raise InvalidSettingError("store", "no state is restored; --state does")
        return RestorePlan(
            asked=wanted.asked,
            former=found.cluster,
            cluster=cluster,
            position=position,
            state=with_state,
            since=self._since(position) if with_history else None,
        )

    async def _position(self) -> LogPosition:
        wanted, (_, end) = self._wanted, self._found.reach
        if wanted.position is None and wanted.time_ms is not None:
            return await self._find_time(wanted.time_ms)
        position = LogPosition(end) if wanted.position is None else wanted.position
        if not 0 < position <= end:
            raise InvalidSettingError("position", f"{position} is not within what was found, which ends at {end}")
        return position

    async def _find_time(self, time_ms: int) -> LogPosition:
        """Position of a time, found in the log: compactions know of one time each."""
        _, end = reach(self._found.spans)
        first = LogPosition(whole_from(self._found.spans, end))
        reading = self._open_reading(first, end)
        found = await search_time(reading.first_batch, first, LogPosition(end), time_ms)
        if found == first:
            raise InvalidSettingError("time", f"all that was found, from {first} on, is later")
        return found

    def _since(self, position: LogPosition) -> LogPosition:
        first, _ = self._found.reach
        since = self._wanted.since if self._wanted.since is not None else LogPosition(first)
        if not since < position:
            raise InvalidSettingError("since", f"{since} is not below {position}")
        self._open_reading(since, position)
        return since
