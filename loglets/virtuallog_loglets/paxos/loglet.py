"""Client of a paxos loglet: implements `virtuallog.contract.loglet.Loglet` over the replicas and their leader."""

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
from virtuallog.contract.errors import SealedError, UnavailableError, VirtualLogError
from virtuallog.contract.loglet import Placed
from virtuallog.contract.ports import Environment
from virtuallog.contract.types import LogletOffset, Open, Sealed, Tail
from virtuallog_loglets.paxos.config import PaxosConfig
from virtuallog_loglets.paxos.core.tail_check import PaxosTailCheck
from virtuallog_loglets.paxos.drivers.read_driver import ReadDriver
from virtuallog_loglets.paxos.drivers.tail_check_driver import (
    ASK_SECONDS,
    CHECK_SECONDS,
    SETTLE_SECONDS,
    PaxosTailCheckDriver,
)
from virtuallog_loglets.paxos.drivers.tail_check_driver import WAIT_SECONDS as ANSWER_SECONDS
from virtuallog_loglets.paxos.messages import (
    NOWHERE,
    CoordinatorReply,
    PaxosAppend,
    PaxosSeal,
    PaxosSettle,
    PaxosTruncate,
    Standing,
    TrimSealed,
    WaitLearned,
)
from virtuallog_loglets.paxos.offsets import offset_of, position_of

APPEND_SECONDS: Final = 5.0
"""Time an append may take before its outcome counts as unknown and it is offered again."""
WAIT_SECONDS: Final = 2.0
"""Time `wait_tail` waits before it returns the tail as it is."""
READ_SECONDS: Final = (0.4, 0.4, 2.0)
"""Timeout for one replica, in each round over all replicas. After a round without data, positions that no replica has
learned are settled. The last round gives slow replicas more time."""
TRUNCATES_MAX: Final = 4
"""Attempts per trim. The second one succeeds unless the leader changes again."""
LEARN_SECONDS: Final = 0.02
"""Wait before a position is settled on purpose: a decision reaches all replicas within some milliseconds."""

_APPEND: Final = "an append"
_TRIMMING = CrashPoint("paxos: the trim of a sealed log has left for one replica more")


@attrs.define(eq=False)
class PaxosLoglet:
    """One client. All its operations share the leader cache."""

    segment: SegmentId
    config: PaxosConfig
    _environment: Environment
    _leader: LeaderClient[CoordinatorReply] = attrs.field(init=False)
    _replica_order: ReplicaOrder = attrs.field(init=False)
    """Order in which replicas are asked for data."""

    def __attrs_post_init__(self) -> None:
        environment, config = self._environment, self.config
        self._replica_order = ReplicaOrder.of(config.replicas, environment)
        self._leader = LeaderClient(self.segment, environment, LeaderCache(config.replicas, config.coordinator))

    async def append(self, batch: Batch, *, opens: bool, expected_tail: LogletOffset | None = None) -> range:
        """Append a batch; see `Loglet.append`. Any later leader finds a batch that was offered before."""
        request = self._append(batch, opens, NOWHERE if expected_tail is None else expected_tail)
        with nullcontext() if expected_tail is None else self._leader.tracking(batch) as asked:
            taken = await self._leader.ask(request, _APPEND, APPEND_SECONDS, asked, appends=True)
        return range(taken.place, taken.place + batch.count)

    def post_append(self, batch: Batch, *, opens: bool, done: Callable[[range | VirtualLogError], None]) -> None:
        """See `virtuallog.contract.loglet.SupportsPost`."""

        def answered(outcome: CoordinatorReply | VirtualLogError) -> None:
            done(outcome if isinstance(outcome, VirtualLogError) else range(outcome.place, outcome.place + batch.count))

        self._leader.post(self._append(batch, opens, NOWHERE), _APPEND, APPEND_SECONDS, answered)

    def _append(self, batch: Batch, opens: bool, expected_tail: int) -> Callable[[bool], PaxosAppend]:
        def request(insist: bool) -> PaxosAppend:
            return PaxosAppend(
                segment=self.segment, batch=batch.blob, opens=opens, expected_tail=expected_tail, insist=insist
            )

        return request

    async def check_tail(self) -> Tail:
        core = PaxosTailCheck(len(self.config.replicas), self.config.quorum)
        driver = PaxosTailCheckDriver(self.segment, self.config.replicas, core, self._environment, self._leader)
        return await driver.run()

    async def wait_tail(self, past: LogletOffset) -> Tail:
        """Wait for the tail to pass `past`; see `Loglet.wait_tail`.

        One replica is enough: what it has learned is decided.
        """
        call, clock = QuorumCall(self._environment), self._environment.clock
        request = WaitLearned(segment=self.segment, past=position_of(past))
        deadline = clock.monotonic() + WAIT_SECONDS
        for replica in self._replica_order.order()[:2]:  # two: one may be cut off from the others
            call.ask(replica, request, None, ANSWER_SECONDS, lambda: True)
        while (answer := await call.receive(deadline - clock.monotonic())) is not None:
            tail = _tail(answer.outcome)
            if isinstance(tail, Sealed) or tail.tail > past:
                return tail
            if clock.monotonic() < deadline - WAIT_SECONDS / 2:  # answered early as too many wait there: poll
                call.ask(answer.server, request, None, ANSWER_SECONDS, lambda: True, pause=True)
        return await self.check_tail()

    async def read(self, start: LogletOffset, stop: LogletOffset, max_bytes: int) -> Sequence[Placed]:
        driver = ReadDriver(self.segment, start, stop, max_bytes, self._environment, self._replica_order)
        for seconds in READ_SECONDS:
            if items := await driver.ask_all(seconds):
                return items
            await self._have_learned(driver)
        raise driver.failure()

    async def seal(self) -> None:
        await self._leader.ask(lambda insist: PaxosSeal(segment=self.segment, insist=insist), "the seal", CHECK_SECONDS)

    async def prefix_trim(self, offset: LogletOffset) -> LogletOffset:
        tail = await self.check_tail()
        if isinstance(tail, Sealed):
            return await self._trim_sealed(min(offset, tail.tail))
        try:
            return await self._truncate(min(offset, tail.tail))
        except SealedError:
            tail = await self.check_tail()
            if isinstance(tail, Sealed):  # sealed meanwhile; otherwise the loglet is being dropped
                return await self._trim_sealed(min(offset, tail.tail))
            raise

    async def _truncate(self, offset: int) -> LogletOffset:
        """Have the leader decide a TRUNCATE; `offset` is not past the tail."""

        def request(insist: bool) -> PaxosTruncate:
            return PaxosTruncate(segment=self.segment, offset=offset, insist=insist)

        for _ in range(TRUNCATES_MAX):
            place = (await self._leader.ask(request, "a trim", CHECK_SECONDS)).place
            if place >= offset:
                return LogletOffset(place)
            # A quorum knows of a decision that the leader has not learned yet; it drops nothing that it has not learned.
            await self._settle(position_of(offset - 1))
        raise UnavailableError(f"trim of loglet {self.segment}: the leader keeps changing; try again")

    async def _settle(self, past: int) -> None:
        def request(insist: bool) -> PaxosSettle:
            return PaxosSettle(segment=self.segment, past=past, insist=insist)

        await self._leader.ask(request, "settling", SETTLE_SECONDS)

    async def _trim_sealed(self, trim_point: int) -> LogletOffset:
        """Trim a sealed log at a majority of replicas: a sealed log takes no TRUNCATE, so each replica keeps the trim point."""

        def request(offset: int) -> TrimSealed:
            return TrimSealed(segment=self.segment, offset=offset)

        return await trim_majority(self._environment, self.config.replicas, request, trim_point, _TRIMMING, ASK_SECONDS)

    async def _have_learned(self, driver: ReadDriver) -> None:
        """Wait for, then settle, a position that no answering replica has learned.

        The leader that decided it is about to announce it, or is gone.
        """
        if not driver.is_seen_unlearned:
            return
        if not driver.has_waited:
            driver.has_waited = True
            await self._environment.clock.sleep(LEARN_SECONDS)
            return
        try:
            await self._settle(driver.settle_through)
        except UnavailableError:
            return  # `ReadDriver.failure` gives the reason


def _tail(standing: Standing) -> Tail:
    """The tail as one replica knows it; an open tail may lag."""
    return Open(offset_of(standing.learned)) if standing.seal == NOWHERE else Sealed(offset_of(standing.seal))
