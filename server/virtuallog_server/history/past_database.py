"""A database as it was: a znode, its children, differences and changes, each an answer of bounded size.

async with connect(cluster, more=[DATABASE, SNAPSHOTS]) as log:
past = await open_past_database(log)
await past.znode("/app/config", Moment(time_ms=...))
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import attrs
import trio

from virtuallog.client.virtual_log import VirtualLog
from virtuallog.contract.errors import InvalidSettingError
from virtuallog.contract.types import LogPosition
from virtuallog_database.errors import NoPastStateError, NoSuchZnodeError
from virtuallog_database.history.core.changes import ZnodeChange
from virtuallog_database.history.core.differences import difference_at
from virtuallog_database.history.core.subtree import Subtree
from virtuallog_database.history.core.znode_state import FoundedRecords, state_of
from virtuallog_database.history.observed_replay import replay_noting, replay_touching
from virtuallog_database.history.touched_paths import TouchedPaths
from virtuallog_database.tree import acl
from virtuallog_database.tree.results import Error, RefusedError
from virtuallog_database.tree.tree import Tree
from virtuallog_server.backup.place import BackupPlace
from virtuallog_server.history.core.answers import (
    PastChange,
    PastChanges,
    PastChild,
    PastChildren,
    PastDifference,
    PastDifferences,
    PastState,
    PastValue,
    PastZnode,
)
from virtuallog_server.history.core.rows import Rows
from virtuallog_server.history.past_log import Moment, open_past_log
from virtuallog_server.history.past_states import PastProgress, PastStates, ScratchSettings
from virtuallog_server.history.read_pace import ReadPace
from virtuallog_server.zookeeper.auth.schemes import SUPER

LIMIT_MAX: Final = 100_000
"""Most rows of one answer: with short values some 100 MB."""
VALUE_BYTES: Final = 256
"""Bytes of a value in a list, by default."""
_CHILDREN_WORK_BYTES: Final = 64 << 20
"""Work of one list of children: see `Tree.get_children_behind`."""
_TURN: Final = 256
"""Paths that are compared between two looks at other tasks."""


async def open_past_database(
    log: VirtualLog,
    place: BackupPlace | None = None,
    settings: ScratchSettings | None = None,
    tell: PastProgress = lambda step, position: None,
    on_long: Callable[[], None] = lambda: None,
) -> PastDatabase:
    """Open the past of a database.

    Args:
        log: log of the cluster; its services must know `DATABASE` and `SNAPSHOTS`, and a node that uses TLS wants the
            certificate of an administrator.
        place: location of backups, which reach further back. None to use the cluster only.
        settings: bounds of each question. None for the defaults.
        tell: callback for progress.
        on_long: called once, when it takes more than a moment: for a process that gives way to others then.

    Raises: as `open_past_log`.
    """
    settings = settings or ScratchSettings()
    pace = ReadPace(log.view.environment.clock, settings.bytes_per_second, on_long)
    past = await open_past_log(log, place, pace)
    return PastDatabase(PastStates(log=log, past=past, place=place, pace=pace, settings=settings, tell=tell))


@attrs.frozen(eq=False)
class PastDatabase:
    """The past of a database, up to the tail at the time of the opening.

    Methods raise the errors of `PastLog.find` and of `PastStates.open`; and NoSuchZnodeError if the tree had no znode at
    the path.
    """

    states: PastStates

    async def znode(self, path: str, at: Moment, *, bytes_max: int) -> PastZnode:
        """A znode, with at most so many bytes of its data."""
        position = await self._find(at)
        async with self.states.open(position) as state:
            tree = Tree(state.store)
            try:
                data, stat = tree.get_data(path, (SUPER,))
                rights = acl.masked(tree.get_acl(path, (SUPER,))[0])
            except RefusedError as error:
                raise _no_znode(error, path, position) from error
            value = PastValue.of(data, bytes_max)
            return PastZnode(path=path, position=position, zxid=tree.last_zxid, stat=stat, value=value, acl=rights)

    async def children(self, path: str, at: Moment, *, after: str, limit: int) -> PastChildren:
        """The children with names behind `after`, at most `limit`."""
        position = await self._find(at)
        async with self.states.open(position) as state:
            tree = Tree(state.store)
            try:
                stat = tree.exists(path)
                found, has_more = tree.get_children_behind(path, (SUPER,), after, limit, _CHILDREN_WORK_BYTES)
            except RefusedError as error:
                raise _no_znode(error, path, position) from error
            return PastChildren(
                path=path, position=position, zxid=tree.last_zxid, total=stat.children,
                children=tuple(PastChild(name=name, stat=stat) for name, stat in found),
                more_after=found[-1][0] if has_more and found else None,
            )  # fmt: skip

    async def differences(
        self, path: str, start: Moment, stop: Moment, *, after: str, limit: int, bytes_max: int
    ) -> PastDifferences:
        """Znodes at the path and below that differ between two moments, with paths behind `after`, at most `limit`, and
        less if the values are large.

        The state at `start` is made once, and played on. Only znodes whose records were written in between are compared.
        """
        first, last = await self._range(start, stop)
        async with self.states.open(first) as state:
            before = FoundedRecords(state.store.snapshot())
            touched = TouchedPaths(await state.another_store("touched"))
            await state.play(replay_touching(state.store, Subtree(path), touched), last, "comparing")
            found, compared = Rows[PastDifference](limit=limit, bytes_max=self.states.settings.answer_bytes), 0
            for each in touched.behind(after):
                difference = difference_at(each, before, FoundedRecords(state.store))
                if difference is not None and found.is_full:
                    return _differences(path, first, last, compared, found, has_more=True)
                if difference is not None:
                    found.add(PastDifference.of(difference, bytes_max))
                compared += 1
                if compared % _TURN == 0:
                    await trio.lowlevel.checkpoint()
            if not found and not after and state_of(FoundedRecords(state.store), path) is None:
                raise NoSuchZnodeError(path, last)
            return _differences(path, first, last, compared, found, has_more=False)

    async def changes(
        self,
        path: str,
        start: Moment | None,
        stop: Moment,
        *,
        limit: int,
        bytes_max: int,
        only_last: bool = False,
        is_alone: bool = False,
    ) -> PastChanges:
        """Changes of the znode at the path, and of those below, between two moments.

        Args:
            path: the path.
            start: first moment. None for the oldest one whose state can be made.
            stop: last moment.
            limit: most changes; more only if one entry has them, and less if the values are large.
            bytes_max: bytes of a value.
            only_last: True for the last changes of the range. Otherwise the answer ends behind the first ones.
            is_alone: True for the znode alone, without those below.
        """
        if start is None:
            last = await self._find(stop)
            opening = self.states.open_oldest(last)
        else:
            first, last = await self._range(start, stop)
            opening = self.states.open(first)
        found = Rows[PastChange](limit=limit, only_last=only_last, bytes_max=self.states.settings.answer_bytes)

        def note(change: ZnodeChange) -> None:
            found.add(PastChange.of(change, bytes_max))

        async with opening as state:
            replay = replay_noting(state.store, Subtree(path, is_alone), note)
            first = replay.cursor
            await state.play(replay, last, "reading", lambda: found.is_full)
            end = state_of(FoundedRecords(state.store), path)
            if not found and end is None:
                raise NoSuchZnodeError(path, last)
        return PastChanges(
            path=path, start=first, stop=last, changes=tuple(found), dropped=found.dropped,
            more_from=replay.cursor if replay.cursor < last else None, state=PastState.of(end, bytes_max),
        )  # fmt: skip

    async def _find(self, moment: Moment) -> LogPosition:
        clock = self.states.log.view.environment.clock
        return await self.states.past.find(moment, int(clock.wall() * 1000))

    async def _range(self, start: Moment, stop: Moment) -> tuple[LogPosition, LogPosition]:
        first, last = await self._find(start), await self._find(stop)
        if last < first:
            raise InvalidSettingError("to", f"the range ends at {last}, before it begins, at {first}")
        if self.states.past.beginning(last) > first:
            reason = f"the log up to {last} can be read from {self.states.past.beginning(last)} on"
            raise NoPastStateError(first, reason)
        return first, last


def _differences(
    path: str, start: int, stop: int, compared: int, found: Rows[PastDifference], *, has_more: bool
) -> PastDifferences:
    rows = tuple(found)
    return PastDifferences(
        path=path, start=start, stop=stop, compared=compared, differences=rows,
        more_after=rows[-1].path if has_more else None,
    )  # fmt: skip


def _no_znode(error: RefusedError, path: str, position: LogPosition) -> Exception:
    return NoSuchZnodeError(path, position) if error.error is Error.NO_NODE else error
