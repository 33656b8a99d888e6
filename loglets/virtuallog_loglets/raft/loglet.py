"""Client of a raft loglet: implements `virtuallog.contract.loglet.Loglet` over the replicas and their leader."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Final

import attrs

from virtuallog.client.leader_client import LeaderClient
from virtuallog.client.leader_search import LeaderCache
from virtuallog.client.quorum_call import QuorumCall, trim_majority
from virtuallog.client.replica_order import ReplicaOrder
from virtuallog.contract.batch import Batch
from virtuallog.contract.chain import SegmentId
from virtuallog.contract.crash_points import CrashPoint
from virtuallog.contract.errors import (
    CorruptionError,
    SealedError,
    UnavailableError,
    VirtualLogError,
)
from virtuallog.contract.loglet import Placed
from virtuallog.contract.ports import Environment
from virtuallog.contract.types import LogletOffset, NodeId, Open, Sealed, Tail
from virtuallog_loglets.raft.config import RaftConfig
from virtuallog_loglets.raft.core import read_assembly
from virtuallog_loglets.raft.messages import (
    NO_EXPECTATION,
    LeaderReply,
    RaftAppend,
    RaftCheckTail,
    RaftSeal,
    RaftStanding,
    RaftTrim,
    RaftWaitTail,
    ReadRaftRecords,
)

APPEND_SECONDS: Final = 5.0
"""Time limit for an append, in seconds. Then its outcome is called unknown and it is offered again."""
CHECK_SECONDS: Final = 10.0
"""Time limit for a tail check, a seal and a trim, in seconds: some elections."""
ASK_SECONDS: Final = 1.0
"""Timeout of one request to one replica, in seconds."""
WAIT_SECONDS: Final = 2.0
"""Time in seconds that `wait_tail` waits before it returns the tail unchanged."""
ANSWER_SECONDS: Final = 3.0
"""Timeout of a `RaftWaitTail`, in seconds; a replica answers after two."""
READ_SECONDS: Final = (0.4, 0.4, 2.0)
"""Time limits for one replica in the passes over all replicas, in seconds; between passes the leader tells its tail."""

_TRIMMING = CrashPoint("raft: a trim has left for one replica more")


@attrs.define(eq=False)
class RaftLoglet:
    """One client. All its operations share the leader that was found last."""

    segment: SegmentId
    config: RaftConfig
    _environment: Environment
    _leader: LeaderClient[LeaderReply] = attrs.field(init=False)
    _nearest: ReplicaOrder = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        environment, config = self._environment, self.config
        self._nearest = ReplicaOrder.of(config.replicas, environment)
        self._leader = LeaderClient(self.segment, environment, LeaderCache(config.replicas, config.leader))

    async def append(self, batch: Batch, *, opens: bool, expected_tail: LogletOffset | None = None) -> range:
        """Append a batch; see `Loglet.append`. Any later leader finds a batch that was offered before."""
        request = self._append(batch, opens, NO_EXPECTATION if expected_tail is None else expected_tail)
        with nullcontext() if expected_tail is None else self._leader.tracking(batch) as asked:
            reply = await self._leader.ask(
                lambda _: request, "an append", APPEND_SECONDS, asked, appends=True, insists=False
            )
        return range(reply.place, reply.place + batch.count)

    def post_append(self, batch: Batch, *, opens: bool, done: Callable[[range | VirtualLogError], None]) -> None:
        """See `virtuallog.contract.loglet.SupportsPost`."""
        request = self._append(batch, opens, NO_EXPECTATION)

        def answered(outcome: LeaderReply | VirtualLogError) -> None:
            done(outcome if isinstance(outcome, VirtualLogError) else range(outcome.place, outcome.place + batch.count))

        self._leader.post(lambda _: request, "an append", APPEND_SECONDS, answered, insists=False)

    def _append(self, batch: Batch, opens: bool, expected_tail: int) -> RaftAppend:
        return RaftAppend(segment=self.segment, batch=batch.blob, opens=opens, expected_tail=expected_tail)

    async def check_tail(self) -> Tail:
        request = RaftCheckTail(segment=self.segment)
        return _tail(await self._leader.ask(lambda _: request, "a tail check", CHECK_SECONDS, insists=False))

    async def wait_tail(self, past: LogletOffset) -> Tail:
        """Wait for the tail to pass `past`; see `Loglet.wait_tail`. What one replica knows to be committed is so."""
        call, clock = QuorumCall(self._environment), self._environment.clock
        request = RaftWaitTail(segment=self.segment, past=past)
        deadline = clock.monotonic() + WAIT_SECONDS
        for replica in self._nearest.order()[:2]:  # two: one may be cut off from the others
            call.ask(replica, request, None, ANSWER_SECONDS, lambda: True)
        while (answer := await call.receive(deadline - clock.monotonic())) is not None:
            standing: RaftStanding = answer.outcome
            if standing.sealed or standing.tail > past:
                return Sealed(standing.tail) if standing.sealed else Open(standing.tail)
            if clock.monotonic() < deadline - WAIT_SECONDS / 2:  # answered early as too many wait there: poll
                call.ask(answer.server, request, None, ANSWER_SECONDS, lambda: True, pause=True)
        return await self.check_tail()

    async def read(self, start: LogletOffset, stop: LogletOffset, max_bytes: int) -> Sequence[Placed]:
        """Read from any replica; see `Loglet.read`. A replica gives only what it knows to be committed."""
        request = ReadRaftRecords(segment=self.segment, start=start, stop=stop, max_bytes=max_bytes)
        damaged: dict[NodeId, VirtualLogError] = {}
        problem: VirtualLogError | None = None
        for seconds in READ_SECONDS:
            for replica in self._nearest.order():
                if replica in damaged:
                    continue
                try:
                    reply = await self._environment.services.call(replica, request, seconds)
                except SealedError:
                    raise
                except CorruptionError as error:
                    damaged[replica] = error
                    continue
                except VirtualLogError as error:
                    problem = error
                    self._nearest.failed(replica)
                    continue
                copy = read_assembly.assemble_untrusted(self.segment, reply, start, stop)
                if copy.items:
                    return copy.items
                if copy.damage is not None:
                    damaged[replica] = copy.damage
            if len(damaged) == len(self.config.replicas):
                raise CorruptionError(f"every copy of offset {start} is damaged: {next(iter(damaged.values()))}")
            problem = await self._have_committed() or problem
        raise UnavailableError(f"no replica that answered has offset {start}" + (f": {problem}" if problem else ""))

    async def _have_committed(self) -> VirtualLogError | None:
        """Have the leader tell its tail: then it knows what is committed, and its peers are about to. Returns the error."""
        try:
            await self.check_tail()
        except UnavailableError as error:
            return error
        return None

    async def seal(self) -> None:
        await self.seal_and_check_tail()

    async def seal_and_check_tail(self) -> Tail:
        """See `virtuallog.contract.loglet.SupportsSealedTail`. A leader that is gone, or stuck, is deposed for it."""

        def request(insist: bool) -> RaftSeal:
            return RaftSeal(segment=self.segment, stand=insist)

        return _tail(await self._leader.ask(request, "the seal", CHECK_SECONDS))

    async def prefix_trim(self, offset: LogletOffset) -> LogletOffset:
        tail = await self.check_tail()

        def request(point: int) -> RaftTrim:
            return RaftTrim(segment=self.segment, offset=point)

        return await trim_majority(
            self._environment, self.config.replicas, request, min(offset, tail.tail), _TRIMMING, ASK_SECONDS
        )


def _tail(reply: LeaderReply) -> Tail:
    return Sealed(reply.place) if reply.sealed else Open(reply.place)
