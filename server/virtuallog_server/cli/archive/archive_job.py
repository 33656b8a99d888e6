"""What commands that archive share: segment after segment is written, read back, compared and put into the chain by a node.

Who works on the files is up to the command: its own process, or tasks elsewhere (`virtuallog_loglets.archive.creation.executor`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

import attrs
import click
import trio

from virtuallog.admin.control import ReconfigModify
from virtuallog.client.cluster_file import ClusterFile
from virtuallog.client.virtual_log import VirtualLog
from virtuallog.connect import ask_living, connect, open_services_to
from virtuallog.contract.chain import Segment
from virtuallog.contract.errors import UnavailableError
from virtuallog.contract.register import Register
from virtuallog.contract.register import decode_untrusted as decode_register
from virtuallog_loglets.archive.config import GRACE_SECONDS
from virtuallog_loglets.archive.provider import KIND, ArchiveProvider
from virtuallog_server.cli.archive.segment_selection import each_segment
from virtuallog_server.cli.common.options import echo_json
from virtuallog_server.cli.common.progress_bar import progress_bar

if TYPE_CHECKING:
    from virtuallog_loglets.archive.creation.archiver import ExecutorFactory
    from virtuallog_loglets.archive.creation.data_files import DataFileSizes

CommandT = TypeVar("CommandT", bound=Callable[..., Any])

GRACE_SECONDS_MAX: Final = 10 * 365 * 86_400.0
"""The time when it is over has to fit in a config, and in a clock."""
CHANGE_SECONDS: Final = 60.0
"""For a node to look at the archive, and to change the chain."""


@attrs.frozen(kw_only=True)
class ArchivedSegment:
    """What became of one segment."""

    was: str
    """archived, verified, undone."""
    segment: str
    """Its id now."""
    start: int
    stop: int | None
    url: str
    files: int = 0
    entries: int = 0
    bytes: int = 0
    compared: bool = False
    """With the copies of the nodes."""


def grace_option(command: CommandT) -> CommandT:
    """`--grace SECONDS`."""
    return click.option(
        "--grace",
        type=float,
        callback=lambda _context, _option, seconds: _checked_grace(seconds),
        default=GRACE_SECONDS,
        show_default=True,
        metavar="SECONDS",
        help="How long nodes keep their copies.",
    )(command)


def run_and_show(work: Callable[[list[ArchivedSegment]], Awaitable[None]], as_json: bool) -> None:
    """Have it done, and tell what became of each segment, also of those that were done when it failed."""
    done = list[ArchivedSegment]()
    try:
        trio.run(work, done)
    except BaseException:  # Ctrl-C, too: what is in the chain by now is told
        if done:
            _show(done, as_json)
        raise
    _show(done, as_json)


async def archive_segments(
    cluster: ClusterFile, wanted: str, url: str, grace: float, done: list[ArchivedSegment],
    executor_factory: ExecutorFactory | None = None, sizes: DataFileSizes | None = None,
) -> None:  # fmt: skip
    """Archive the closed segments that the command means, below this URL.

    Args:
        cluster: whose log.
        wanted: a segment, or `all`.
        url: where archives are.
        grace: how long nodes keep their copies, in seconds.
        done: is told what became of each, as it comes.
        hire: who works on the files; None: this process.
        sizes: how large files are; None: as large as they should be.

    Raises:
        VirtualLogError: as `Archiver.run`, and what the node answers that is to change the chain.
    """
    from virtuallog_loglets.archive.creation.archiver import (  # Arrow takes a third of a second
        Archiver,
        serial_executor,
    )
    from virtuallog_loglets.archive.creation.data_files import DataFileSizes

    async def archive_one(register: Register, segment: Segment) -> None:
        with progress_bar() as bar:
            archiving = Archiver(
                provider=provider_of(log), cluster=register.cluster.hex(), url=url, environment=log.view.environment,
                grace_seconds=grace, tell=teller(bar, segment), is_still_hot=partial(_is_there, log),
                executor_factory=executor_factory or serial_executor, sizes=sizes or DataFileSizes(),
            )  # fmt: skip
            made = await archiving.run(segment, log.view.loglet(segment))
        after = await put(cluster, log, segment, KIND, made.config.encode(), segment.start)
        found = made.verified
        done.append(
            ArchivedSegment(
                was="archived", segment=str(at(after, segment).id), start=segment.start, stop=segment.stop,
                url=made.config.location, files=found.files, entries=found.entries, bytes=found.bytes, compared=True,
            )
        )  # fmt: skip

    async with connect(cluster) as log:
        await each_segment(log, wanted, _is_hot, archive_one)


async def _is_there(log: VirtualLog, segment: Segment) -> bool:
    """In the chain as it is now."""
    return (await log.view.refresh()).chain.find(segment.id) is not None


def _is_hot(segment: Segment) -> bool:
    return segment.kind != KIND and segment.start != segment.stop


def at(register: Register, segment: Segment) -> Segment:
    """What is there now; the first that is left if all of it was trimmed meanwhile."""
    return register.chain.segment_at(segment.start) or register.chain.segments[0]


async def put(cluster: ClusterFile, log: VirtualLog, segment: Segment, kind: str, config: bytes, base: int) -> Register:
    """Let a node change the chain. An answer that is lost is found in the chain."""
    request = ReconfigModify(segment=segment.id, kind=kind, config=config, base=base)
    try:
        async with open_services_to(cluster) as services:
            changed = await ask_living(services, cluster, request, CHANGE_SECONDS)
            return log.view.adopt(decode_register(changed.register))
    except UnavailableError:
        found = await log.view.refresh()
        there = found.chain.segment_at(segment.start)
        if there is None or (there.kind, there.config) != (kind, config):
            raise
        return found


def provider_of(log: VirtualLog) -> ArchiveProvider:
    """What opens archives."""
    provider = log.view.provider(KIND)
    assert isinstance(provider, ArchiveProvider)
    return provider


def _checked_grace(seconds: float) -> float:
    """Click's own ranges let nan through."""
    if not 0 <= seconds <= GRACE_SECONDS_MAX:
        raise click.BadParameter(f"{seconds:g} is not from 0 to {GRACE_SECONDS_MAX:g} seconds, ten years")
    return seconds


def teller(bar: Any, segment: Segment) -> Any:
    """For a bar, or None: shows up to which position of the segment something is done."""
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
