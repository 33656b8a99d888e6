"""Bugs of the loglet in a ZooKeeper: what is two steps where it must be one, and what is read where it may be old."""

from __future__ import annotations

from typing import Final

from tests.planted_bugs.mutant import Mutant, mutant
from virtuallog.contract.errors import VirtualLogError
from virtuallog.contract.types import Tail
from virtuallog.contract.znodes import ANY_VERSION, Create, Operation, RefusedError, Set, Stat
from virtuallog.exactly_once.slot_offsets import INDEX_BITS
from virtuallog_loglets.zookeeper.core.records import WriterState, decode_trim_untrusted
from virtuallog_loglets.zookeeper.core.writer import ABSENT, Commit, Effect
from virtuallog_loglets.zookeeper.drivers.tail_check import ZooKeeperTailCheck
from virtuallog_loglets.zookeeper.drivers.trimmer import ZooKeeperTrimmer
from virtuallog_loglets.zookeeper.drivers.writer_driver import ZooKeeperWriterDriver, _Session

TWICE: Final = [
    "acknowledged is readable",
    "one batch per place",
    "one batch per sequence",
    "loglet keeps sessions in order",
    "no unexpected error",
]


@mutant(
    ZooKeeperWriterDriver._commit,
    scenario="znodes",
    published="specs: Delos, section 3.4 and section 7, the ZooKeeper loglet",
    found_by=["acknowledged below the stop", "sealed takes nothing", "loglet tails move forward"],
)
async def seal_is_checked_before_the_slot_is_created(
    self: ZooKeeperWriterDriver, session: _Session, commit: Commit
) -> list[Effect]:
    """In two steps: a seal may come in between."""
    (seal,) = await self._znodes.stats([self._layout.base], fresh=True)
    if seal is not None and seal.version > 0:
        return session.writer.sealed()
    if seal is None:
        await self._base_znodes.make()
    body = await self._slots.prepare(commit.batches)
    try:
        _, stat, _ = await self._znodes.multi(
            [
                self._set_writer(session, commit.written, commit.version),
                Set(self._layout.batches, b"", ANY_VERSION if commit.slot is None else commit.slot),
                Create(self._layout.new_slot, body, sequence=True),
            ]
        )
    except RefusedError as error:
        return await self._explain_refusal(session, error)
    assert isinstance(stat, Stat)
    return session.writer.committed(stat.version - 1, commit.version + 1)


@mutant(ZooKeeperWriterDriver._set_writer, scenario="znodes", published="specs: Delos, section 3.5", found_by=TWICE)
def version_of_the_writer_is_not_checked(
    self: ZooKeeperWriterDriver, session: _Session, written: WriterState, version: int
) -> Operation:
    """A transaction that is late does what it was to do."""
    path = self._layout.writer(session.name)
    return Create(path, written.encode()) if version == ABSENT else Set(path, written.encode(), ANY_VERSION)


@mutant(
    ZooKeeperTailCheck._outcome,
    scenario="znodes",
    published="ZooKeeper, programmer's guide, consistency guarantees",
    found_by=["loglet tails move forward", "acknowledged below the stop"],
)
async def tail_of_a_server_that_lags(self: ZooKeeperTailCheck, *, fresh: bool) -> Tail | VirtualLogError:
    """Only the server to which the client is connected is asked."""
    try:
        return await self.look(fresh=False)
    except VirtualLogError as error:
        return error


@mutant(ZooKeeperTrimmer.trim, scenario="znodes", found_by=["loglet trim points move forward"])
async def trim_point_is_forgotten(self: ZooKeeperTrimmer, offset: int) -> int:
    """The caller gets the new trim point, but it is not written for the other clients."""
    batches, found = await self._znodes.read([self._layout.batches, self._layout.trim], fresh=True)
    if batches is None or found is None:
        return 0
    return max(decode_trim_untrusted(found.data).trim, min(offset, batches.stat.version << INDEX_BITS))


MUTANTS: Final[tuple[Mutant, ...]] = tuple(found for found in list(globals().values()) if isinstance(found, Mutant))
