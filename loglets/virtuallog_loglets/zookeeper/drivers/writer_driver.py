"""Driver of the writers of a loglet's client: sends their transactions and wakes their callers.

What is in flight for a session goes on in the environment's nursery. A cancelled caller leaves a
batch that may yet be placed, and cancels nothing that others wait for.

    check the seal | set, or create, the writer | set `batches` | create the slot         one multi, in this order
    index 0          1                            2               3

The index of the refused operation tells the reason; then nothing has happened.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import attrs
import trio

from virtuallog.contract.batch import Batch, SessionId
from virtuallog.contract.crash_points import CrashPoint
from virtuallog.contract.errors import ReconfigurationNeededError, UnavailableError, VirtualLogError
from virtuallog.contract.ports import Environment
from virtuallog.contract.types import LogletOffset, Sealed
from virtuallog.contract.znodes import (
    ANY_VERSION,
    BadVersionError,
    Check,
    Create,
    NoZnodeError,
    Operation,
    RefusedError,
    Set,
    Stat,
    Znodes,
)
from virtuallog.exactly_once.slot_offsets import INDEX_BITS
from virtuallog_loglets.zookeeper.core.layout import ZooKeeperLayout
from virtuallog_loglets.zookeeper.core.records import WriterState, decode_writer_untrusted
from virtuallog_loglets.zookeeper.core.writer import (
    ABSENT,
    AskTail,
    Commit,
    Effect,
    Fence,
    ReadWriterState,
    ZooKeeperAnswer,
    ZooKeeperWriter,
)
from virtuallog_loglets.zookeeper.drivers.base_znodes import DROPPED, BaseZnodes
from virtuallog_loglets.zookeeper.drivers.slots import ZooKeeperSlots
from virtuallog_loglets.zookeeper.drivers.tail_check import ZooKeeperTailCheck

APPEND_SECONDS: Final = 5.0
"""Time limit for an append, in seconds. Then its outcome is called unknown and it is offered again."""
PAUSE_SECONDS: Final = 0.05
"""Pause in seconds before a ZooKeeper that has not answered is asked again."""
SESSIONS_MAX: Final = 16_384
"""Most sessions in one loglet. Each leaves a znode of up to 1 KB, and none is forgotten while the
loglet lives. Beyond that the loglet needs a successor."""
IDLE_WRITERS_MAX: Final = 256
"""Most idle sessions of this client whose state is kept in memory. It can be read again."""

_PLACED = CrashPoint("zookeeper: a slot is created, nobody has been told")


@attrs.define(eq=False)
class _Ticket:
    """A waiting caller."""

    _done: trio.Event = attrs.field(factory=trio.Event, init=False)
    _outcome: range | VirtualLogError | None = attrs.field(default=None, init=False)

    def settle(self, outcome: range | VirtualLogError) -> None:
        self._outcome = outcome
        self._done.set()

    async def wait(self) -> range:
        await self._done.wait()
        if isinstance(self._outcome, VirtualLogError):
            raise self._outcome
        assert self._outcome is not None
        return self._outcome


@attrs.define(eq=False)
class _Session:
    name: SessionId
    writer: ZooKeeperWriter = attrs.field(factory=ZooKeeperWriter)
    todo: Effect | None = None
    is_running: bool = False


@attrs.define(eq=False)
class ZooKeeperWriterDriver:
    """Writers of one client of a loglet."""

    _layout: ZooKeeperLayout
    _znodes: Znodes
    _base_znodes: BaseZnodes
    _tails: ZooKeeperTailCheck
    _slots: ZooKeeperSlots
    _environment: Environment
    _sessions: dict[SessionId, _Session] = attrs.field(factory=dict, init=False)
    """Sessions, the most recently used one last."""

    async def append(self, batch: Batch, *, opens: bool, expected_tail: LogletOffset | None) -> range:
        """See `Loglet.append`."""
        session, ticket = self._session(batch.session), _Ticket()
        try:
            self._take(session, session.writer.offer(batch, expected_tail, ticket, opens=opens))
            with self._environment.clock.timeout(APPEND_SECONDS):
                return await ticket.wait()
        finally:
            session.writer.withdraw(ticket)
        raise UnavailableError(f"ZooKeeper has not placed a batch within {APPEND_SECONDS:g} s")

    def _session(self, name: SessionId) -> _Session:
        session = self._sessions.pop(name, None) or _Session(name)
        self._sessions[name] = session
        if len(self._sessions) > IDLE_WRITERS_MAX:
            idle = [other for other in self._sessions.values() if not other.is_running and other.writer.is_idle]
            for other in idle[: len(self._sessions) - IDLE_WRITERS_MAX]:
                if other is not session:
                    del self._sessions[other.name]
        return session

    def _take(self, session: _Session, effects: Sequence[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, ZooKeeperAnswer):
                for ticket in effect.tickets:
                    ticket.settle(effect.outcome)
            else:
                assert session.todo is None, "a writer asks for one thing at a time"
                session.todo = effect
        if session.todo is not None and not session.is_running:
            session.is_running = True
            self._environment.nursery.start_soon(self._run, session)

    async def _run(self, session: _Session) -> None:
        try:
            while session.todo is not None:
                effect, session.todo = session.todo, None
                self._take(session, await self._carry_out(session, effect))
        finally:
            session.is_running = False

    async def _carry_out(self, session: _Session, effect: Effect) -> list[Effect]:
        writer = session.writer
        try:
            if isinstance(effect, Commit):
                return await self._commit(session, effect)
            if isinstance(effect, ReadWriterState):
                return await self._look(session)
            if isinstance(effect, Fence):
                return await self._fence(session, effect)
            assert isinstance(effect, AskTail)
            return await self._meet_tail(writer)
        except UnavailableError:
            await self._environment.clock.sleep(PAUSE_SECONDS)
            return writer.unknown()
        except VirtualLogError as error:
            return writer.failed(error)

    async def _commit(self, session: _Session, commit: Commit) -> list[Effect]:
        writer = session.writer
        try:
            if commit.version == ABSENT:
                await self._check_room()
            body = await self._slots.prepare(commit.batches)
            _, _, stat, _ = await self._znodes.multi(
                [
                    Check(self._layout.base, 0),
                    self._set_writer(session, commit.written, commit.version),
                    Set(self._layout.batches, b"", ANY_VERSION if commit.slot is None else commit.slot),
                    Create(self._layout.new_slot, body, sequence=True),
                ]
            )
        except RefusedError as error:
            return await self._explain_refusal(session, error)
        assert isinstance(stat, Stat)
        _PLACED.reached()
        self._base_znodes.recognise(stat)
        # Slots are numbered by the children that were created, and `batches` is set once for
        # each: the two go together.
        self._tails.known = max(self._tails.known, stat.version << INDEX_BITS)
        return writer.committed(stat.version - 1, commit.version + 1)

    def _set_writer(self, session: _Session, written: WriterState, version: int) -> Operation:
        path = self._layout.writer(session.name)
        return Create(path, written.encode()) if version == ABSENT else Set(path, written.encode(), version)

    async def _explain_refusal(self, session: _Session, error: RefusedError) -> list[Effect]:
        writer, path = session.writer, error.operation.path
        if path == self._layout.base and isinstance(error, BadVersionError):
            return writer.sealed()
        if path == self._layout.base and isinstance(error, NoZnodeError):
            await self._base_znodes.make()
            return writer.refused()
        if path == self._layout.writer(session.name):
            return writer.outdated()
        if path == self._layout.batches and isinstance(error, BadVersionError):
            return await self._meet_tail(writer)
        raise self._base_znodes.lost(str(error))

    async def _meet_tail(self, writer: ZooKeeperWriter) -> list[Effect]:
        tail = await self._tails.look(fresh=True)
        return writer.sealed() if isinstance(tail, Sealed) else writer.mismatched(tail.tail)

    async def _look(self, session: _Session) -> list[Effect]:
        layout = self._layout
        # The tail is read after the writer: the slot that the writer names is below it.
        seal, found, batches = await self._znodes.read(
            [layout.base, layout.writer(session.name), layout.batches], fresh=True
        )
        if seal is None:
            self._base_znodes.missing()
            return session.writer.found(None, ABSENT)
        self._base_znodes.recognise(seal.stat)
        if seal.stat.version > 0:
            return session.writer.sealed(DROPPED if batches is None else "sealed")
        if found is None:
            return session.writer.found(None, ABSENT)
        written = decode_writer_untrusted(found.data)
        if not written.is_resolved:
            tail = 0 if batches is None else batches.stat.version
            written = written.resolved(await self._slots.find(found.stat.mzxid, written.floor, tail))
        return session.writer.found(written, found.stat.version)

    async def _fence(self, session: _Session, fence: Fence) -> list[Effect]:
        try:
            await self._znodes.multi(
                [Check(self._layout.base, 0), self._set_writer(session, fence.written, fence.version)]
            )
        except RefusedError as error:
            return await self._explain_refusal(session, error)
        return session.writer.fenced(fence.version + 1)

    async def _check_room(self) -> None:
        """Raise ReconfigurationNeededError if too many sessions have appended here."""
        (writers,) = await self._znodes.stats([self._layout.writers])
        if writers is not None and writers.children >= SESSIONS_MAX:
            raise ReconfigurationNeededError(f"{SESSIONS_MAX} sessions have appended to loglet {self._layout.segment}")
