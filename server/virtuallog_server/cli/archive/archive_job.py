"""The work of `virtuallog archive`: archive closed segments, verify archives, put loglets back.

The command reads, writes and verifies. A node changes the chain, and looks at the archive first. The command may be killed
anywhere and repeated.
"""

from __future__ import annotations

from functools import partial

from virtuallog.client.cluster_file import ClusterFile
from virtuallog.connect import connect
from virtuallog.contract.chain import Segment
from virtuallog.contract.errors import InvalidSettingError, UnsupportedError, VirtualLogError
from virtuallog.contract.register import Register
from virtuallog_loglets.archive.config import ArchiveConfig, decode_untrusted
from virtuallog_loglets.archive.creation.segment_archive import provider_of, put_into_chain
from virtuallog_loglets.archive.drivers.fsspec_files import absolute_url
from virtuallog_loglets.archive.provider import KIND
from virtuallog_server.cli.archive.segment_archiver import (
    ArchivedSegment,
    archive_segments,
    at,
    run_and_show,
    teller,
)
from virtuallog_server.cli.archive.segment_selection import each_segment
from virtuallog_server.cli.common.progress_bar import progress_bar


def archive(cluster: ClusterFile, wanted: str, url: str, grace: float, as_json: bool) -> None:
    """Archive the closed segments that `wanted` names below `url`; nodes keep their copies for `grace` seconds."""
    run_and_show(partial(archive_segments, cluster, wanted, absolute_url(url), grace), as_json)


def verify(cluster: ClusterFile, wanted: str, as_json: bool) -> None:
    """Read archives back, and compare them with the copies of nodes that are left."""
    run_and_show(partial(_verify, cluster, wanted), as_json)


def undo(cluster: ClusterFile, wanted: str, as_json: bool) -> None:
    """Put back the loglets that archives have replaced."""
    run_and_show(partial(_undo, cluster, wanted), as_json)


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
    """Put back what can be put back, then raise the first refusal."""
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
        after = await put_into_chain(log, segment, hot.kind, blob, hot.base)
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
