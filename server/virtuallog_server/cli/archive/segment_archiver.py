"""Archiving of segments, for `virtuallog archive` and the commands of Spark.

One segment after the other is written, read back, compared and put into the chain by a node. The files are made by this
process, or by tasks elsewhere: the command decides (`virtuallog_loglets.archive.creation.executor`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any

import attrs
import click

from virtuallog.client.cluster_file import ClusterFile
from virtuallog.connect import connect
from virtuallog.contract.chain import Segment
from virtuallog.contract.register import Register
from virtuallog_loglets.archive.creation.segment_archive import archive_segment, can_be_archived
from virtuallog_server.cli.archive.segment_selection import each_segment
from virtuallog_server.cli.common import event_loop
from virtuallog_server.cli.common.options import echo_json
from virtuallog_server.cli.common.progress_bar import progress_bar

if TYPE_CHECKING:
    from virtuallog_loglets.archive.creation.archiver import ExecutorFactory
    from virtuallog_loglets.archive.creation.data_files import DataFileSizes


@attrs.frozen(kw_only=True)
class ArchivedSegment:
    """Result for one segment."""

    was: str
    """"archived", "verified" or "undone"."""
    segment: str
    """Id of the segment after the change."""
    start: int
    stop: int | None
    url: str
    files: int = 0
    entries: int = 0
    bytes: int = 0
    compared: bool = False
    """True if the archive was compared with the copies of nodes."""


def run_and_show(work: Callable[[list[ArchivedSegment]], Awaitable[None]], as_json: bool) -> None:
    """Run the work, and print the result of each segment, also of those that were done before a failure."""
    done = list[ArchivedSegment]()
    try:
        event_loop.run(work, done)
    except BaseException:  # also Ctrl-C: the chain has changed, and the user must see how
        if done:
            _show(done, as_json)
        raise
    _show(done, as_json)


async def archive_segments(
    cluster: ClusterFile, wanted: str, url: str, grace: float, done: list[ArchivedSegment],
    executor_factory: ExecutorFactory | None = None, sizes: DataFileSizes | None = None,
) -> None:  # fmt: skip
    """Archive closed segments below a URL.

    Args:
        cluster: the nodes to ask.
        wanted: the id of a segment, or `all`.
        url: parent of all archives.
        grace: seconds for which nodes keep their copies.
        done: receives the result of each segment, as soon as there is one.
        executor_factory: makes the executor that works on the files. None if this process does.
        sizes: sizes of the files. None for the usual ones.

    Raises:
        VirtualLogError: as `Archiver.run`; or the node refused to change the chain.
    """

    async def archive_one(_: Register, segment: Segment) -> None:
        with progress_bar() as bar:
            made, after = await archive_segment(log, segment, url, grace, teller(bar, segment), executor_factory, sizes)
        found = made.verified
        done.append(
            ArchivedSegment(
                was="archived", segment=str(at(after, segment).id), start=segment.start, stop=segment.stop,
                url=made.config.location, files=found.files, entries=found.entries, bytes=found.bytes, compared=True,
            )
        )  # fmt: skip

    async with connect(cluster) as log:
        await each_segment(log, wanted, can_be_archived, archive_one)


def at(register: Register, segment: Segment) -> Segment:
    """The segment at the same place now. The first one left, if the whole segment was trimmed meanwhile."""
    return register.chain.segment_at(segment.start) or register.chain.segments[0]


def teller(bar: Any, segment: Segment) -> Any:
    """A callback that shows the position reached in a segment on the bar. It shows nothing if the bar is None."""
    if bar is None:
        return lambda what, position: None
    tasks: dict[str, Any] = {}
    length = (segment.stop or segment.start) - segment.start

    def tell(what: str, position: int) -> None:
        if what not in tasks:
            tasks[what] = bar.add_task(f"{what} {segment.id}", total=length)
        bar.update(tasks[what], completed=position - segment.start)

    return tell


def _show(done: Sequence[ArchivedSegment], as_json: bool) -> None:
    if as_json:
        echo_json([attrs.asdict(one) for one in done])
        return
    if not done:
        click.echo("nothing to do")
    for one in done:
        what = f"{one.was} [{one.start}, {one.stop})"
        size = f": {one.entries:,} entries in {one.files} files, {one.bytes:,} bytes" if one.files else ""
        compared = ", the same as on the nodes" if one.compared else ""
        click.echo(f"{what}{size}{compared}; {one.url}, segment {one.segment}")
