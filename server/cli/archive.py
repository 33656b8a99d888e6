"""`virtuallog archive`: closed segments become Parquet files elsewhere, and nodes let go of their copies after a while.

The command reads, writes and verifies; the change of the chain is made by a node, which looks at the archive first. It may be
killed anywhere and given again.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Final

import attrs
import click
import trio

from loglets.archive.config import GRACE_SECONDS, ArchiveConfig, decode_untrusted
from loglets.archive.fsspec_files import absolute_url
from loglets.archive.provider import KIND, ArchiveProvider
from server.cli.options import cluster_option, echo_json, json_option
from server.cli.progress import progress_bar
from server.cli.segments import each_segment
from virtuallog.chain import Segment
from virtuallog.cluster_file import ClusterFile
from virtuallog.connect import ask_living, connect, open_services_to
from virtuallog.control import ReconfigModify
from virtuallog.errors import InvalidSettingError, UnavailableError, UnsupportedError, VirtualLogError
from virtuallog.register import Register
from virtuallog.register import decode_untrusted as decode_register
from virtuallog.virtual_log import VirtualLog

GRACE_SECONDS_MAX: Final = 10 * 365 * 86_400.0
"""The time when it is over has to fit in a config, and in a clock."""
CHANGE_SECONDS: Final = 60.0
"""For a node to look at the archive, and to change the chain."""


@click.command()
@click.argument("wanted", metavar="SEGMENT|all")
@click.option("--to", "url", metavar="URL", help="Where archives are: file:///mnt/archives, s3://bucket/logs, ...")
@click.option(
    "--grace",
    type=float,
    callback=lambda _context, _option, seconds: _checked_grace(seconds),
    default=GRACE_SECONDS,
    show_default=True,
    metavar="SECONDS",
    help="How long nodes keep their copies.",
)
@click.option("--verify-only", is_flag=True, help="Change nothing; read archives back, and compare them.")
@click.option("--undo", is_flag=True, help="Put back the loglet that an archive took the place of, while it is there.")
@cluster_option
@json_option
def archive(
    cluster: ClusterFile, wanted: str, url: str | None, grace: float, verify_only: bool, undo: bool, as_json: bool
) -> None:
    """Keep closed segments as Parquet files on another filesystem, any that fsspec knows, instead of on nodes.

    SEGMENT is an id that `virtuallog chain` shows; `all` means every closed segment that is none yet (with --verify-only and
    --undo: every archive). Each is written, read back as a whole and compared with what the nodes have; only then does the
    chain name it. Nodes drop their copies after the grace period. Reads and trims go on as before. All nodes, and whoever
    reads, must be able to reach the URL; passwords belong to the configuration of fsspec, not into it.

    It may be interrupted and repeated: what is written, and whole, is not written again.

    \b
    Examples:
        virtuallog archive all --to file:///mnt/archives
        virtuallog archive all --verify-only
        virtuallog archive 4.5fe7a0 --undo
    """
    if verify_only and undo:
        raise click.UsageError("--verify-only and --undo exclude each other")
    if (url is None) != (verify_only or undo):
        raise click.UsageError("--to URL says where to; --verify-only and --undo go by the chain")
    if url is not None:
        work = partial(_archive, cluster, wanted, absolute_url(url), grace)
    else:
        work = partial(_undo if undo else _verify, cluster, wanted)
    done = list[Done]()
    try:
        trio.run(work, done)
    except BaseException:  # Ctrl-C, too: what is in the chain by now is told
        if done:
            _show(done, as_json)
        raise
    _show(done, as_json)


@attrs.frozen(kw_only=True)
class Done:
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


async def _archive(cluster: ClusterFile, wanted: str, url: str, grace: float, done: list[Done]) -> None:
    from loglets.archive.archiving import Archiving  # Arrow takes a third of a second

    async def archive_one(register: Register, segment: Segment) -> None:
        with progress_bar() as bar:
            archiving = Archiving(
                provider=_provider(log), cluster=register.cluster.hex(), url=url, environment=log.view.environment,
                grace_seconds=grace, tell=_teller(bar, segment), is_still_hot=partial(_is_there, log),
            )  # fmt: skip
            made = await archiving.run(segment, log.view.loglet(segment))
        after = await _put(cluster, log, segment, KIND, made.config.encode(), segment.start)
        found = made.verified
        done.append(
            Done(
                was="archived", segment=str(_at(after, segment).id), start=segment.start, stop=segment.stop,
                url=made.config.location, files=found.files, entries=found.entries, bytes=found.bytes, compared=True,
            )
        )  # fmt: skip

    async with connect(cluster) as log:
        await each_segment(log, wanted, _is_hot, archive_one)


async def _verify(cluster: ClusterFile, wanted: str, done: list[Done]) -> None:
    from loglets.archive.archiving import verify_archive

    async def verify_one(_: Register, segment: Segment) -> None:
        config = _config(segment)
        with progress_bar() as bar:
            found = await verify_archive(_provider(log), config, log.view.environment, _teller(bar, segment))
        done.append(
            Done(
                was="verified", segment=str(segment.id), start=segment.start, stop=segment.stop, url=config.location,
                files=found.files, entries=found.entries, bytes=found.bytes, compared=found.compared,
            )
        )  # fmt: skip

    async with connect(cluster) as log:
        await each_segment(log, wanted, _is_archive, verify_one)


async def _undo(cluster: ClusterFile, wanted: str, done: list[Done]) -> None:
    """One that cannot be put back keeps no other from that; it is told in the end."""
    from loglets.archive.undoing import config_to_put_back

    refused = list[VirtualLogError]()

    async def undo_one(register: Register, segment: Segment) -> None:
        config = _config(segment)
        if (hot := config.hot) is None:
            raise InvalidSettingError(f"segment {segment.id}", "the nodes have let go of their copies")
        try:
            blob = config_to_put_back(log.view.provider(hot.kind), hot, register)
        except (InvalidSettingError, UnsupportedError) as error:
            refused.append(error)
            return
        after = await _put(cluster, log, segment, hot.kind, blob, hot.base)
        done.append(
            Done(
                was="undone", segment=str(_at(after, segment).id), start=segment.start, stop=segment.stop,
                url=config.location,
            )
        )  # fmt: skip

    async with connect(cluster) as log:
        await each_segment(log, wanted, _has_hot_copy, undo_one)
    if refused:
        raise refused[0]


# -- the chain ------------------------------------------------------------------------------------------------------------


async def _is_there(log: VirtualLog, segment: Segment) -> bool:
    """In the chain as it is now."""
    return (await log.view.refresh()).chain.find(segment.id) is not None


def _is_hot(segment: Segment) -> bool:
    return segment.kind != KIND and segment.start != segment.stop


def _is_archive(segment: Segment) -> bool:
    return segment.kind == KIND


def _has_hot_copy(segment: Segment) -> bool:
    return _is_archive(segment) and decode_untrusted(segment.config).hot is not None


def _config(segment: Segment) -> ArchiveConfig:
    if not _is_archive(segment):
        raise InvalidSettingError(f"segment {segment.id}", f"is no archive, but {segment.kind}")
    return decode_untrusted(segment.config)


def _at(register: Register, segment: Segment) -> Segment:
    """What is there now; the first that is left if all of it was trimmed meanwhile."""
    return register.chain.segment_at(segment.start) or register.chain.segments[0]


async def _put(
    cluster: ClusterFile, log: VirtualLog, segment: Segment, kind: str, config: bytes, base: int
) -> Register:
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


def _provider(log: VirtualLog) -> ArchiveProvider:
    provider = log.view.provider(KIND)
    assert isinstance(provider, ArchiveProvider)
    return provider


# -- words ----------------------------------------------------------------------------------------------------------------


def _checked_grace(seconds: float) -> float:
    """Click's own ranges let nan through."""
    if not 0 <= seconds <= GRACE_SECONDS_MAX:
        raise click.BadParameter(f"{seconds:g} is not from 0 to {GRACE_SECONDS_MAX:g} seconds, ten years")
    return seconds


def _teller(bar: Any, segment: Segment) -> Any:
    if bar is None:
        return lambda what, position: None
    tasks: dict[str, Any] = {}
    length = (segment.stop or segment.start) - segment.start

    def tell(what: str, position: int) -> None:
        if what not in tasks:
            tasks[what] = bar.add_task(f"{what} {segment.id}", total=length)
        bar.update(tasks[what], completed=position - segment.start)

    return tell


def _show(done: Sequence[Done], as_json: bool) -> None:
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
