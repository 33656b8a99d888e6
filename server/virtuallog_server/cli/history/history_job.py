"""The work of `virtuallog database get`, `ls`, `diff` and `history`: a job of low priority, on a scratch store of its own."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import attrs

from virtuallog.client.cluster_file import ClusterFile
from virtuallog.client.virtual_log import READS_ONLY
from virtuallog.connect import connect
from virtuallog.runtime.clock import SystemClock
from virtuallog.runtime.nurseries import shielded_context
from virtuallog.runtime.process_priority import give_way
from virtuallog_database.control.tree_messages import DATA_BYTES_MAX
from virtuallog_database.control.wire import DATABASE
from virtuallog_database.snapshots.wire import SNAPSHOTS
from virtuallog_server.backup.place import BackupPlace
from virtuallog_server.backup.retried_files import opened_again
from virtuallog_server.cli.common import event_loop
from virtuallog_server.cli.common.options import echo_json
from virtuallog_server.cli.common.progress_bar import progress_bar
from virtuallog_server.cli.history import history_output as output
from virtuallog_server.history.past_database import PastDatabase, open_past_database
from virtuallog_server.history.past_log import Moment
from virtuallog_server.history.past_states import PastProgress, ScratchSettings

AnswerT = TypeVar("AnswerT")
When: TypeAlias = tuple[int | None, int | None]
"""A position, or a time in milliseconds; both None for the default."""


@attrs.frozen(kw_only=True)
class HistoryOptions:
    """Options of all commands."""

    cluster: ClusterFile
    backups: str | None
    rate: float
    """Most MB per second that are read from the cluster."""
    disk: int
    """Most MiB of scratch files."""
    scratch: Path | None
    priority: str
    as_json: bool

    @property
    def place(self) -> BackupPlace | None:
        if self.backups is None:
            return None
        from virtuallog_loglets.archive.drivers.fsspec_files import FsspecFiles, absolute_url

        return BackupPlace(absolute_url(self.backups), opened_again(FsspecFiles, SystemClock()))

    @property
    def settings(self) -> ScratchSettings:
        return ScratchSettings(bytes_per_second=self.rate * 1e6, disk_bytes=self.disk << 20, folder=self.scratch)


def get(options: HistoryOptions, path: str, at: When, raw: bool) -> None:
    """Print a znode."""
    found = _run(options, lambda past: past.znode(path, _moment(at), bytes_max=DATA_BYTES_MAX))
    if raw:
        sys.stdout.buffer.write(found.value.data or b"")
    elif options.as_json:
        echo_json(output.plain_znode(found))
    else:
        output.show_znode(found)


def ls(options: HistoryOptions, path: str, at: When, after: str, limit: int) -> None:
    """Print the children of a znode."""
    found = _run(options, lambda past: past.children(path, _moment(at), after=after, limit=limit))
    if options.as_json:
        echo_json(output.plain_children(found))
    else:
        output.show_children(found)


def diff(options: HistoryOptions, path: str, start: When, stop: When, after: str, limit: int, bytes_max: int) -> None:
    """Print the differences of a subtree."""
    found = _run(
        options,
        lambda past: past.differences(
            path, _moment(start), _moment(stop), after=after, limit=limit, bytes_max=bytes_max
        ),
    )
    if options.as_json:
        echo_json(output.plain_differences(found))
    else:
        output.show_differences(found)


def history(
    options: HistoryOptions,
    path: str,
    start: When,
    stop: When,
    limit: int,
    bytes_max: int,
    *,
    only_last: bool,
    is_alone: bool,
) -> None:
    """Print the changes of a subtree."""
    first = None if start == (None, None) else _moment(start)
    found = _run(
        options,
        lambda past: past.changes(
            path, first, _moment(stop), limit=limit, bytes_max=bytes_max, only_last=only_last, is_alone=is_alone
        ),
    )
    if options.as_json:
        echo_json(output.plain_changes(found))
    else:
        output.show_changes(found)


def _moment(when: When) -> Moment:
    position, time_ms = when
    return Moment(position=position, time_ms=time_ms)


def _run(options: HistoryOptions, ask: Callable[[PastDatabase], Awaitable[AnswerT]]) -> AnswerT:
    with progress_bar() as bar:
        return event_loop.run(_ask, options, ask, _teller(bar))


async def _ask(
    options: HistoryOptions, ask: Callable[[PastDatabase], Awaitable[AnswerT]], tell: PastProgress
) -> AnswerT:
    # Also after a cancellation the hold of the log has to be released through it.
    connected = connect(options.cluster, more=[DATABASE, SNAPSHOTS], settings=READS_ONLY)
    async with shielded_context(connected) as log:
        # A short question is over before it is noticed; with a low priority it would take long on a busy machine.
        give_way_later = partial(give_way, options.priority)
        return await ask(await open_past_database(log, options.place, options.settings, tell, give_way_later))


def _teller(bar: Any) -> PastProgress:
    tasks: dict[str, Any] = {}

    def tell(step: str, position: int) -> None:
        if bar is not None:
            if step not in tasks:
                tasks[step] = bar.add_task(step, total=None)
            bar.update(tasks[step], completed=position)

    return tell
