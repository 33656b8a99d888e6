"""The client of a PaxosLoglet: what `virtuallog.contract.loglet.Loglet` promises, over its replicas and whoever leads them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Final

import attrs

from virtuallog.client.quorum_call import QuorumCall
from virtuallog.client.replica_order import ReplicaOrder
from virtuallog.contract.batch import Batch, SessionId
from virtuallog.contract.chain import SegmentId
from virtuallog.contract.crash_points import CrashPoint
from virtuallog.contract.errors import SealedError, TailMismatchError, UnavailableError
from virtuallog.contract.loglet import Placed
from virtuallog.contract.ports import Environment
from virtuallog.contract.types import LogletOffset, NodeId, Open, Sealed, Tail
from virtuallog_loglets.paxos.config import PaxosConfig
from virtuallog_loglets.paxos.core.leader_search import LeaderCache
from virtuallog_loglets.paxos.core.tail_check import PaxosTailCheck
from virtuallog_loglets.paxos.drivers.leader_client import LeaderClient
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
"""How long an append may take before its outcome is called unknown and it is offered again."""
OFFERS_MAX: Final = 1024
"""Conditional batches without an answer that are remembered: many more than one client has under way."""
WAIT_SECONDS: Final = 2.0
"""How long `wait_tail` waits before it returns the tail as it is."""
READ_SECONDS: Final = (0.4, 0.4, 2.0)
"""For one replica; then the next one is asked. Once all have been asked, what nobody has learned is settled, and all are
asked again; in the end those that are slow get more time."""
TRUNCATES_MAX: Final = 4
"""Per trim. The second one does it, unless another one leads by then."""
LEARN_SECONDS: Final = 0.02
"""What is decided reaches all replicas within some milliseconds: before it is settled on purpose, that is waited for."""

_TRIMMING = CrashPoint("paxos: the trim of a sealed log has left for one replica more")


@attrs.define(eq=False)
class PaxosLoglet:
    """One client. All its operations share what is known of who leads."""

    segment: SegmentId
    config: PaxosConfig
    _environment: Environment
    _leader: LeaderClient = attrs.field(init=False)
    _replica_order: ReplicaOrder = attrs.field(init=False)
    """Replicas in the order in which they are asked for data."""
    _asked: dict[tuple[SessionId, int], set[NodeId]] = attrs.field(factory=dict, init=False)
    """Who has been sent each conditional batch that has no answer, the oldest first."""

    def __attrs_post_init__(self) -> None:
        environment, config = self._environment, self.config
        self._replica_order = ReplicaOrder.of(config.replicas, environment)
        self._leader = LeaderClient(self.segment, environment, LeaderCache(config.replicas, config.coordinator))

    async def append(self, batch: Batch, *, opens: bool, expected_tail: LogletOffset | None = None) -> range:
        """As promised. Here a batch that was offered before is found by whoever leads, also by one that did not then."""
        expected = NOWHERE if expected_tail is None else expected_tail

        def request(insist: bool) -> PaxosAppend:
            return PaxosAppend(
                segment=self.segment, batch=batch.blob, opens=opens, expected_tail=expected, insist=insist
            )

        with nullcontext() if expected_tail is None else self._tracking(batch) as asked:
            taken = await self._leader.ask(request, "an append", APPEND_SECONDS, asked)
        return range(taken.place, taken.place + batch.count)

    @contextmanager
    def _tracking(self, batch: Batch) -> Iterator[set[NodeId]]:
        """Who is sent a conditional batch, from its first call to the one that has an answer: that must hold for all of them."""
        name = batch.session, batch.first_sequence
        if name not in self._asked and len(self._asked) >= OFFERS_MAX:
            del self._asked[next(iter(self._asked))]
        asked = self._asked.setdefault(name, set())
        try:
            yield asked
        except TailMismatchError:
            self._asked.pop(name, None)
            raise
        self._asked.pop(name, None)

    async def check_tail(self) -> Tail:
        core = PaxosTailCheck(len(self.config.replicas), self.config.quorum)
        driver = PaxosTailCheckDriver(self.segment, self.config.replicas, core, self._environment, self._leader)
        return await driver.run()

    async def wait_tail(self, past: LogletOffset) -> Tail:
        """As promised. One replica's word is enough: what it has learned is decided."""
        call, clock = QuorumCall(self._environment), self._environment.clock
        request = WaitLearned(segment=self.segment, past=position_of(past))
        deadline = clock.monotonic() + WAIT_SECONDS
        for replica in self._replica_order.order()[:2]:  # one that is cut off from the others does not hold us up
            call.ask(replica, request, None, ANSWER_SECONDS, lambda: True)
        while (answer := await call.receive(deadline - clock.monotonic())) is not None:
            tail = _tail(answer.outcome)
            if isinstance(tail, Sealed) or tail.tail > past:
                return tail
            if clock.monotonic() < deadline - WAIT_SECONDS / 2:  # too many wait there: ask now and then
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
            if isinstance(tail, Sealed):  # meanwhile; else it is being dropped
                return await self._trim_sealed(min(offset, tail.tail))
            raise

    async def _truncate(self, offset: int) -> LogletOffset:
        """`offset` is not past the tail."""

        def request(insist: bool) -> PaxosTruncate:
            return PaxosTruncate(segment=self.segment, offset=offset, insist=insist)

        for _ in range(TRUNCATES_MAX):
            place = (await self._leader.ask(request, "a trim", CHECK_SECONDS)).place
            if place >= offset:
                return LogletOffset(place)
            # A quorum told us of a decision of which its leader has not heard yet; it drops nothing that it does not know of.
            await self._settle(position_of(offset - 1))
        raise UnavailableError(f"trim of loglet {self.segment}: leaders come and go")

    async def _settle(self, past: int) -> None:
        def request(insist: bool) -> PaxosSettle:
            return PaxosSettle(segment=self.segment, past=past, insist=insist)

        await self._leader.ask(request, "settling", SETTLE_SECONDS)

    async def _trim_sealed(self, trim_point: int) -> LogletOffset:
        """Nothing can be appended any more, not even a TRUNCATE: each replica remembers where readers begin."""
        while True:
            points = await self._trim_majority(TrimSealed(segment=self.segment, offset=trim_point))
            trim_point = max(points)
            if min(points) == trim_point:
                return LogletOffset(trim_point)
            # Somebody's trim has reached a minority: without a majority behind it, the next one to ask may be told less.
            # Another round comes only with a trim that is newer still, and each is bounded in time.

    async def _trim_majority(self, request: TrimSealed) -> list[int]:
        call, points = QuorumCall(self._environment), dict[NodeId, int]()
        deadline = self._environment.clock.monotonic() + CHECK_SECONDS
        for replica in self.config.replicas:
            call.ask(replica, request, None, ASK_SECONDS, lambda: True)
            _TRIMMING.reached()
        while len(points) < self.config.quorum:
            answer = await call.receive(deadline - self._environment.clock.monotonic())
            if answer is None:
                raise call.unavailable(f"trim of loglet {self.segment}")
            points[answer.server] = answer.outcome.trim
        return list(points.values())

    async def _have_learned(self, driver: ReadDriver) -> None:
        """Nobody who answered has learned what is to be read. Whoever decided it is about to tell, or else is gone."""
        if not driver.is_seen_unlearned:
            return
        if not driver.has_waited:
            driver.has_waited = True
            await self._environment.clock.sleep(LEARN_SECONDS)
            return
        try:
            await self._settle(driver.settle_through)
        except UnavailableError:
            return  # the hunt says why nobody has it


def _tail(standing: Standing) -> Tail:
    """What one replica knows: an open tail may lag."""
    return Open(offset_of(standing.learned)) if standing.seal == NOWHERE else Sealed(offset_of(standing.seal))
