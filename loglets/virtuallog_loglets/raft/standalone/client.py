"""Client of a log used by itself: appends, reads, and the operator's requests, from any process.

Entries have offsets, from 0, without holes. An append is done once, also over a network that repeats and loses calls: each
is a batch of a session, and any later leader finds it. One session has one append in flight. So two appends that overlap
have no order; two that follow each other have theirs.

Two kinds of reads, both from one replica:
* *eventually consistent*: what that replica knows to be committed. It may lag, and never shows what is not committed.
* *linearizable*: the leader tells its tail, after a majority has confirmed it (read index); the replica waits until it
  knows as much. So the read sees every append that was acknowledged before it began.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeVar

import attrs
import trio

from virtuallog.client.leader_client import LeaderClient
from virtuallog.client.leader_search import LeaderCache
from virtuallog.client.quorum_call import QuorumCall
from virtuallog.contract.batch import ENTRY_BYTES_MAX, Batch, SessionId
from virtuallog.contract.chain import SegmentId
from virtuallog.contract.errors import (
    BeyondTailError,
    InvalidSettingError,
    TerminalError,
    TooLargeError,
    TrimmedError,
    UnavailableError,
    VirtualLogError,
)
from virtuallog.contract.placement import majority_of
from virtuallog.contract.ports import Environment, Request
from virtuallog.contract.types import Gap, NodeId
from virtuallog_loglets.raft.core import read_assembly
from virtuallog_loglets.raft.core.membership import MemberKind
from virtuallog_loglets.raft.messages import (
    NO_MEMBER,
    NO_NODE,
    ChangeLogMember,
    GetLogMembership,
    LeaderReply,
    LogMembership,
    RaftAppend,
    RaftCheckTail,
    RaftStanding,
    RaftTrim,
    RaftWaitTail,
    ReadRaftRecords,
    TransferLogLeadership,
)
from virtuallog_loglets.raft.standalone.member_status import (
    MemberStatus,
    has_member,
    has_promoted,
    rank,
    status_of,
    voters_of,
)

SEGMENT: Final = SegmentId(1, 0)
"""Id of a log that has its store for itself. Versions begin at 1: one below counts as dropped."""
CALL_SECONDS: Final = 10.0
"""Time limit for an operation, in seconds: some elections. Then its outcome is called unknown."""
ROUND_SECONDS: Final = 3.0
"""Time in seconds after which a client asks again who the members are."""
ASK_SECONDS: Final = 2.0
"""Timeout of one question to one replica, in seconds."""
WAIT_SECONDS: Final = 3.0
"""Timeout of a `RaftWaitTail`, in seconds; a replica answers after two."""
PAUSE_SECONDS: Final = 0.1
"""Pause between two looks at the members, in seconds."""
READ_BYTES: Final = 1 << 20
"""Bytes of records in one answer to a read."""
SESSIONS_IDLE_MAX: Final = 64
"""Most sessions kept for later appends."""
SESSION_SECONDS: Final = 60.0
"""Time in seconds after which an idle session is not used any more: a leader forgets it some time later."""

_END: Final = (1 << 63) - 1
_T = TypeVar("_T")


@attrs.frozen
class RaftLogEntry:
    """One appended entry."""

    offset: int
    data: bytes


@attrs.define(eq=False)
class _Session:
    id: SessionId
    next_sequence: int = 0
    used: float = 0.0


@attrs.define(eq=False)
class LogClient:
    """One client of one log.

    Args:
        environment: its services reach all stores of the log.
        learn: notes the address of a store, for the services.
        asked: stores that are asked who the members are, to begin with.
    """

    environment: Environment
    learn: Callable[[NodeId, str], None]
    asked: tuple[NodeId, ...]
    view: LogMembership | None = attrs.field(default=None, init=False)
    """The members as this client knows them; None before `discover`."""
    _leader: LeaderClient[LeaderReply] = attrs.field(init=False)
    _idle: list[_Session] = attrs.field(factory=list, init=False)

    def __attrs_post_init__(self) -> None:
        self._leader = LeaderClient(SEGMENT, self.environment, LeaderCache((), NO_NODE))

    # -- entries ---------------------------------------------------------------------------------------------------

    async def append(self, data: bytes) -> int:
        """Append an entry, once; returns its offset. It is durable on a majority of the voters.

        Raises:
            TooLargeError: nothing has been done.
            OverloadedError, DiskFullError: this attempt did nothing.
            UnavailableError: not done in time; the outcome is unknown. So it is if the call is cancelled.
        """
        if len(data) > ENTRY_BYTES_MAX:
            raise TooLargeError("bytes of an entry", len(data), ENTRY_BYTES_MAX)
        session = self._take_session()
        batch = Batch.build(session.id, session.next_sequence, [data])
        request = RaftAppend(segment=SEGMENT, batch=batch.blob, opens=session.next_sequence == 0)
        reply = await self._ask_leader(request, "an append", appends=True)
        session.next_sequence, session.used = batch.stop_sequence, self.environment.clock.monotonic()
        if len(self._idle) < SESSIONS_IDLE_MAX:  # after an error it is not used again: its outcome is unknown
            self._idle.append(session)
        return reply.place

    async def check_tail(self) -> int:
        """Offset behind the last entry, linearizable with appends.

        Raises:
            UnavailableError: no leader has answered in time.
        """
        return (await self._ask_leader(RaftCheckTail(segment=SEGMENT), "a tail check")).place

    async def read(
        self, start: int, stop: int | None = None, *, store: NodeId | None = None, linearizable: bool = False
    ) -> list[RaftLogEntry]:
        """Read entries of one replica.

        Args:
            start: first offset.
            stop: offset behind the last one; None for all.
            store: replica to read from. If None, the own one, or the leader, or one that answers.
            linearizable: True to see all that was acknowledged before; see this module's head.

        Raises:
            TrimmedError: entries from `start` on have been trimmed.
            CorruptionError: that replica's copy is damaged; others may be whole.
            UnavailableError: no answer in time.
        """
        replica = self._reader() if store is None else store
        if replica is None:
            view = await self.discover()
            replica = view.standing.leader if view.standing.leader != NO_NODE else view.store
        tail: int | None = None
        if linearizable:
            tail = await self.check_tail()
            await self._wait_for(replica, tail)
        return await self._read(replica, start, min(_END if stop is None else stop, _END if tail is None else tail))

    async def _read(self, replica: NodeId, start: int, stop: int) -> list[RaftLogEntry]:
        entries: list[RaftLogEntry] = []
        while start < stop:
            request = ReadRaftRecords(segment=SEGMENT, start=start, stop=stop, max_bytes=READ_BYTES)
            copy = read_assembly.assemble_untrusted(SEGMENT, await self._call(replica, request), start, stop)
            if not copy.items and copy.damage is not None:
                raise copy.damage
            if not copy.items:
                break
            for item in copy.items:
                if isinstance(item, Gap):
                    raise TrimmedError(item.stop)
                for place, payload in zip(item.places, item.batch.payloads[item.first :], strict=False):
                    entries.append(RaftLogEntry(place, payload))
                start = item.stop
        return entries

    async def _wait_for(self, replica: NodeId, tail: int) -> None:
        """Wait until a replica knows that everything below `tail` is committed."""
        deadline = self.environment.clock.monotonic() + CALL_SECONDS
        while tail:
            standing: RaftStanding = await self._call(
                replica, RaftWaitTail(segment=SEGMENT, past=tail - 1), WAIT_SECONDS
            )
            if standing.tail >= tail:
                return
            if self.environment.clock.monotonic() > deadline:
                raise UnavailableError(f"store {replica} knows entries below {standing.tail} only, and not yet {tail}")
            await self.environment.clock.sleep(PAUSE_SECONDS)

    async def trim(self, offset: int) -> None:
        """Drop all entries below `offset`, for good. A member that does not answer keeps its own until a later trim.

        Raises:
            BeyondTailError: the log does not reach so far; nothing has been done.
            UnavailableError: no majority of the voters has answered in time: some may have dropped them.
        """
        tail = await self.check_tail()
        if offset > tail:
            raise BeyondTailError(offset, tail)
        view, call, done = await self.members(), QuorumCall(self.environment), set[NodeId]()
        voters = voters_of(view)
        for member in view.members:
            call.ask(member.store, RaftTrim(segment=SEGMENT, offset=offset), None, ASK_SECONDS, lambda: True)
        deadline = self.environment.clock.monotonic() + CALL_SECONDS
        while len(done.intersection(voters)) < majority_of(len(voters)):
            answer = await call.receive(deadline - self.environment.clock.monotonic())
            if answer is None:
                raise call.unavailable("trim of the log")
            done.add(answer.server)

    # -- members ---------------------------------------------------------------------------------------------------

    async def discover(self) -> LogMembership:
        """Ask all known stores who the members are; returns the newest answer, or the members known before if they are newer.

        Raises:
            WrongRecipientError: other stores, or those of another log, are where they should be.
            UnavailableError: none of them has answered, or none of them has joined a log.
        """
        known = [member.store for member in self.view.members] if self.view is not None else []
        answers = await self._ask_all({*self.asked, *known})
        found = [each for each in answers.values() if isinstance(each, LogMembership) and each.members]
        if not found:
            raise _nowhere(answers)
        newest = max(found, key=rank)
        if self.view is None or rank(newest) >= rank(self.view):  # else only a former member has answered
            self._note(newest)
        return self._known()

    async def status(self) -> list[MemberStatus]:
        """The standing of each member, and of each other store that this client was told of, sorted by store."""
        view = await self.discover()
        stores = {member.store for member in view.members}
        answers = await self._ask_all({*stores, *self.asked})
        return status_of(view, answers)

    async def add(
        self, store: NodeId, address: str, *, observer: bool = False, seen: int | None = None
    ) -> LogMembership:
        """Add a store that has joined no log yet. It becomes a voter once it has caught up.

        Args:
            store: number of the store.
            address: its host:port.
            observer: True if it is to receive everything and never to vote.
            seen: index of the members that the caller has seen; None for those of now.

        Raises:
            InvalidSettingError: it cannot be added, or the members are others than those seen; nothing has been done.
            UnavailableError: not done in time; the outcome is unknown.
        """
        kind = MemberKind.OBSERVER if observer else MemberKind.PRE_VOTER
        return await self._change(store, kind, address, seen)

    async def remove(self, store: NodeId, *, seen: int | None = None) -> LogMembership:
        """Remove a member, for good. The leader cannot be removed: transfer the leadership first.

        Raises:
            InvalidSettingError: it is no member, it leads, or the members are others than those seen; nothing has been done.
            UnavailableError: not done in time; the outcome is unknown.
        """
        return await self._change(store, NO_MEMBER, "", seen)

    async def _change(self, store: NodeId, kind: int, address: str, seen: int | None) -> LogMembership:
        view = await self.discover()
        was_member = has_member(view, store)
        while True:
            request = ChangeLogMember(
                segment=SEGMENT, store=store, kind=int(kind), address=address, seen=view.index if seen is None else seen
            )
            try:
                await self._ask_leader(request, "a change of the members")
            except InvalidSettingError:
                former, view = view, await self.discover()
                if seen is not None:
                    raise
                # An attempt without an answer may have done it. Then it is done, and the next attempt came too late.
                if has_member(view, store) == was_member:
                    if not has_promoted(former, view):
                        raise
                    continue
            return await self.discover()

    async def transfer(self, store: NodeId) -> None:
        """Have another voter lead; returns once it does.

        Raises:
            InvalidSettingError: it is no voter; nothing has been done.
            UnavailableError: it does not lead in time.
        """
        deadline = self.environment.clock.monotonic() + CALL_SECONDS
        problem: VirtualLogError | None = None
        while self.environment.clock.monotonic() < deadline:
            answers = (await self._ask_all([member.store for member in (await self.discover()).members])).values()
            leaders = [each for each in answers if isinstance(each, LogMembership) and each.standing.role == "LEADER"]
            if leaders:
                leader = max(leaders, key=rank)
                if leader.store == store:
                    return
                if store not in voters_of(leader):
                    raise InvalidSettingError("target", f"store {store} is no voter of this log")
                try:
                    await self._call(leader.store, TransferLogLeadership(segment=SEGMENT, target=store), ROUND_SECONDS)
                except UnavailableError as error:
                    problem = error
            await self.environment.clock.sleep(PAUSE_SECONDS)
        raise UnavailableError(f"store {store} does not lead: {problem or 'no leader answers'}")

    async def members(self) -> LogMembership:
        """The members as this client knows them.

        Raises:
            UnavailableError: no store has told them yet.
        """
        return self.view if self.view is not None else await self.discover()

    def _known(self) -> LogMembership:
        assert self.view is not None
        return self.view

    # -- details ---------------------------------------------------------------------------------------------------

    def _reader(self) -> NodeId | None:
        """Replica to read from if the caller names none; None for the leader."""
        return None

    def _take_session(self) -> _Session:
        now = self.environment.clock.monotonic()
        while self._idle:
            session = self._idle.pop()
            if now - session.used < SESSION_SECONDS:
                return session
        return _Session(SessionId(self.environment.random.randbytes(16)))

    async def _ask_leader(self, request: Request[LeaderReply], what: str, *, appends: bool = False) -> LeaderReply:
        """Have the leader do a request, which may be repeated; asks for the members again if no one leads."""
        clock, is_stale = self.environment.clock, False
        deadline = clock.monotonic() + CALL_SECONDS
        while True:
            try:
                await (self.discover() if is_stale else self.members())
                left = min(ROUND_SECONDS, deadline - clock.monotonic())
                return await self._leader.ask(lambda _: request, what, left, appends=appends, insists=False)
            except UnavailableError:
                if clock.monotonic() + PAUSE_SECONDS >= deadline:
                    raise
            is_stale = True
            await clock.sleep(PAUSE_SECONDS)

    async def _ask_all(self, stores: Iterable[NodeId]) -> dict[NodeId, LogMembership | VirtualLogError]:
        """Ask stores for members and standing; returns answers and errors by the number that was asked."""
        found: dict[NodeId, LogMembership | VirtualLogError] = {}

        async def ask(store: NodeId) -> None:
            try:
                found[store] = await self._call(store, GetLogMembership(segment=SEGMENT))
            except VirtualLogError as error:
                found[store] = error

        async with trio.open_nursery() as nursery:
            for store in sorted(set(stores)):
                nursery.start_soon(ask, store)
        return found

    async def _call(self, store: NodeId, request: Request[_T], seconds: float = ASK_SECONDS) -> _T:
        return await self.environment.services.call(store, request, seconds)

    def _note(self, view: LogMembership) -> None:
        self.view = view
        for member in view.members:
            self.learn(member.store, member.address)
        leadership = self._leader.leadership
        leadership.replicas = voters_of(view)
        if view.standing.leader != NO_NODE:
            leadership.leader = view.standing.leader
        elif leadership.leader not in leadership.replicas:
            leadership.leader = leadership.replicas[0]


def _nowhere(answers: Mapping[NodeId, LogMembership | VirtualLogError]) -> VirtualLogError:
    """Error of a client that has found no member."""
    problems = {asked: each for asked, each in answers.items() if isinstance(each, VirtualLogError)}
    if not problems:
        return UnavailableError("no store that was asked is a member of the log: they have joined none yet")
    asked, problem = next(iter(problems.items()))
    if len(problems) == len(answers) and isinstance(problem, TerminalError):
        return problem
    reason = str(problem).removeprefix(f"node {asked} is unreachable: ")  # a seed has no number that says anything
    return UnavailableError(f"no store that was asked is a member of the log: {reason}")
