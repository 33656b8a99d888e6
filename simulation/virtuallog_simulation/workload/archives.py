"""Archive acts: operators write closed segments to an archive, read them back and put them into the
chain, as `virtuallog archive` does.

An operator may die anywhere in between; another one then goes on with the same directory. The nodes
release the hot copy after a time that is short here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from virtuallog.contract.chain import Segment
from virtuallog.contract.errors import CorruptionError, UnavailableError
from virtuallog.contract.types import LogletOffset
from virtuallog.testing.checker.actions import ModifyChange
from virtuallog_loglets.archive.provider import KIND
from virtuallog_simulation.workload import chain_changes
from virtuallog_simulation.workload.actor import Actor, Acts

URL: Final = "simulated://archives"
GRACE_SECONDS: Final = (0.0, 0.5, 3.0)
_SIZES: Final[tuple[Mapping[str, int], ...]] = ({}, {"group_bytes": 300, "file_bytes": 1500})
"""`DataFileSizes`: small ones make archives of several files, as the segments of a short run are small."""


async def archive(actor: Actor) -> None:
    """Archive a closed segment; if there is none, fill and close one for it."""
    chosen = await _closed(actor)
    if not chosen:
        await actor.append(actor.random.randint(1, 5), actor.random.choice((0, 400)))
        await chain_changes.extend(actor)
        chosen = await _closed(actor)
    if chosen:
        await _archive(actor, actor.random.choice(chosen))


async def archive_the_start(actor: Actor) -> None:
    """The oldest segments that are hot, one after the other: what an operator does when nodes fill up."""
    for segment in (await _closed(actor))[: actor.random.choice((1, 2, 3))]:
        if await _archive(actor, segment):
            actor.did("archive the start of the log")


async def trim_an_archive(actor: Actor) -> None:
    """Trim an archive, mostly in the middle."""
    segments = (await actor.client.log.view.refresh()).chain.segments
    archives = [segment for segment in segments if segment.kind == KIND and segment.stop is not None]
    if archives:
        segment = actor.random.choice(archives)
        assert segment.stop is not None
        await actor.trim(actor.random.randint(segment.start, segment.stop))
        actor.did("trim an archive")


async def _closed(actor: Actor) -> list[Segment]:
    """Segments that could be archived."""
    segments = (await actor.client.log.view.refresh()).chain.segments
    return [one for one in segments if one.stop is not None and one.stop > one.start and one.kind != KIND]


async def _archive(actor: Actor, segment: Segment) -> bool:
    """Archive a segment; returns True if the chain has an archive of it now."""
    from virtuallog_loglets.archive.creation.archiver import Archiver  # needs Arrow, which only seeds with archives do
    from virtuallog_loglets.archive.creation.data_files import DataFileSizes

    log, make = actor.client.log, actor.stage.archives
    assert make is not None
    register = await log.view.refresh()
    archiving = Archiver(
        provider=make(), cluster=register.cluster.hex(), url=URL, environment=log.view.environment,
        grace_seconds=actor.random.choice(GRACE_SECONDS), sizes=DataFileSizes(**actor.random.choice(_SIZES)),
    )  # fmt: skip
    try:
        archived = await archiving.run(segment, log.view.loglet(segment))
    except CorruptionError as error:
        actor.stage.cluster.world.fault("archive refused", str(error))
        raise UnavailableError("what was written is not the segment, so it is not used") from error
    config, base = archived.config.encode(), LogletOffset(segment.start)
    work = log.reconfig_modify(segment.id, KIND, config, base)
    after = await actor.change(ModifyChange(segment.id, KIND, base), work)
    if after.chain.find(segment.id) is None:
        actor.did("archive a segment")
    return True


ACTS: Final[Acts] = (
    (10, archive),
    (6, archive_the_start),
    (3, trim_an_archive),
)
