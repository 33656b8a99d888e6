"""`virtuallog archive`: closed segments become Parquet files elsewhere, and nodes let go of their copies after a while.

The command reads, writes and verifies; the change of the chain is made by a node, which looks at the archive first. It may be
killed anywhere and given again.
"""

from __future__ import annotations

from functools import partial

import click

from virtuallog.client.cluster_file import ClusterFile
from virtuallog.connect import connect
from virtuallog.contract.chain import Segment
from virtuallog.contract.errors import InvalidSettingError, UnsupportedError, VirtualLogError
from virtuallog.contract.register import Register
from virtuallog_loglets.archive.config import ArchiveConfig, decode_untrusted
from virtuallog_loglets.archive.drivers.fsspec_files import absolute_url
from virtuallog_loglets.archive.provider import KIND
from virtuallog_server.cli.archive.archive_job import (
    ArchivedSegment,
    archive_segments,
    at,
    grace_option,
    provider_of,
    put,
    run_and_show,
    teller,
)
from virtuallog_server.cli.archive.segment_selection import each_segment
from virtuallog_server.cli.common.options import cluster_option, json_option
from virtuallog_server.cli.common.progress_bar import progress_bar


@click.command()
@click.argument("wanted", metavar="SEGMENT|all")
@click.option("--to", "url", metavar="URL", help="Where archives are: file:///mnt/archives, s3://bucket/logs, ...")
@grace_option
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
        work = partial(archive_segments, cluster, wanted, absolute_url(url), grace)
    else:
        work = partial(_undo if undo else _verify, cluster, wanted)
    run_and_show(work, as_json)


async def _verify(cluster: ClusterFile, wanted: str, done: list[ArchivedSegment]) -> None:
    from virtuallog_loglets.archive.creation.archiver import verify_archive

    async def verify_one(_: Register, segment: Segment) -> None:
        config = _config(segment)
        with progress_bar() as bar:
            found = await verify_archive(provider_of(log), config, log.view.environment, teller(bar, segment))
        done.append(
            ArchivedSegment(
                was="verified", segment=str(segment.id), start=segment.start, stop=segment.stop, url=config.location,
                files=found.files, entries=found.entries, bytes=found.bytes, compared=found.compared,
            )
        )  # fmt: skip

    async with connect(cluster) as log:
        await each_segment(log, wanted, _is_archive, verify_one)


async def _undo(cluster: ClusterFile, wanted: str, done: list[ArchivedSegment]) -> None:
    """One that cannot be put back keeps no other from that; it is told in the end."""
    from virtuallog_loglets.archive.creation.archiver import config_to_put_back

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
        after = await put(cluster, log, segment, hot.kind, blob, hot.base)
        done.append(
            ArchivedSegment(
                was="undone", segment=str(at(after, segment).id), start=segment.start, stop=segment.stop,
                url=config.location,
            )
        )  # fmt: skip

    async with connect(cluster) as log:
        await each_segment(log, wanted, _has_hot_copy, undo_one)
    if refused:
        raise refused[0]


def _is_archive(segment: Segment) -> bool:
    return segment.kind == KIND


def _has_hot_copy(segment: Segment) -> bool:
    return _is_archive(segment) and decode_untrusted(segment.config).hot is not None


def _config(segment: Segment) -> ArchiveConfig:
    if not _is_archive(segment):
        raise InvalidSettingError(f"segment {segment.id}", f"is no archive, but {segment.kind}")
    return decode_untrusted(segment.config)
