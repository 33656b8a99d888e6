"""One segment of a chain put into an archive, or back: what the command line and the console have in common.

This process writes, reads back and compares. A node changes the chain, and looks at the archive first. All of it may be killed
anywhere and repeated.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from virtuallog.admin.control import ReconfigModify
from virtuallog.client.virtual_log import VirtualLog
from virtuallog.contract.chain import Segment
from virtuallog.contract.errors import UnavailableError
from virtuallog.contract.register import Register
from virtuallog.contract.register import decode_untrusted as decode_register
from virtuallog.node_services import ask_one_of
from virtuallog_loglets.archive.provider import KIND, ArchiveProvider

if TYPE_CHECKING:  # Arrow takes a third of a second
    from virtuallog_loglets.archive.creation.archiver import ExecutorFactory, FinishedArchive
    from virtuallog_loglets.archive.creation.data_files import DataFileSizes

CHANGE_SECONDS: Final = 60.0
"""Timeout for a node to check the archive and change the chain."""


def can_be_archived(segment: Segment) -> bool:
    """True for a closed segment with positions that is no archive yet."""
    return segment.kind != KIND and segment.stop is not None and segment.start != segment.stop


async def archive_segment(
    log: VirtualLog,
    segment: Segment,
    url: str,
    grace: float,
    tell: Callable[[str, int], None],
    executor_factory: ExecutorFactory | None = None,
    sizes: DataFileSizes | None = None,
) -> tuple[FinishedArchive, Register]:
    """Archive a closed segment; returns the archive and the register that names it.

    Args:
        log: a client with the rights of an admin.
        segment: the segment, as the chain has it.
        url: parent of all archives.
        grace: seconds for which nodes keep their copies.
        tell: called with the present step and the position reached.
        executor_factory: makes the executor that works on the files. None if this process does.
        sizes: sizes of the files. None for the usual ones.

    Raises:
        VirtualLogError: as `Archiver.run`; or the node refused to change the chain.
    """
    from virtuallog_loglets.archive.creation.archiver import Archiver, serial_executor
    from virtuallog_loglets.archive.creation.data_files import DataFileSizes

    register = await log.view.current()
    archiver = Archiver(
        provider=provider_of(log), cluster=register.cluster.hex(), url=url, environment=log.view.environment,
        grace_seconds=grace, tell=tell, is_still_hot=partial(_is_there, log),
        executor_factory=executor_factory or serial_executor, sizes=sizes or DataFileSizes(),
    )  # fmt: skip
    made = await archiver.run(segment, log.view.loglet(segment))
    return made, await put_into_chain(log, segment, KIND, made.config.encode(), segment.start)


async def put_into_chain(log: VirtualLog, segment: Segment, kind: str, config: bytes, base: int) -> Register:
    """Let a node put another loglet under a segment. If its answer is lost, the chain shows if it has changed.

    Raises:
        VirtualLogError: the answer of the node; UnavailableError: unknown outcome.
    """
    request = ReconfigModify(segment=segment.id, kind=kind, config=config, base=base)
    try:
        nodes = sorted((await log.view.current()).nodes)
        changed = await ask_one_of(log.view.environment.services, nodes, request, CHANGE_SECONDS)
        return log.view.adopt(decode_register(changed.register))
    except UnavailableError:
        found = await log.view.refresh()
        there = found.chain.segment_at(segment.start)
        if there is None or (there.kind, there.config) != (kind, config):
            raise
        return found


def provider_of(log: VirtualLog) -> ArchiveProvider:
    """The provider that opens archives."""
    provider = log.view.provider(KIND)
    assert isinstance(provider, ArchiveProvider)
    return provider


async def _is_there(log: VirtualLog, segment: Segment) -> bool:
    """True if the newest chain has the segment."""
    return (await log.view.refresh()).chain.find(segment.id) is not None
