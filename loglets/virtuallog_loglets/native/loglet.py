"""Client of a NativeLoglet: implements `virtuallog.contract.loglet.Loglet` over its sequencer and
log servers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import attrs

from virtuallog.client.quorum_call import PAUSE_SECONDS, QuorumCall
from virtuallog.client.replica_order import ReplicaOrder
from virtuallog.contract.batch import Batch
from virtuallog.contract.chain import SegmentId
from virtuallog.contract.crash_points import CrashPoint
from virtuallog.contract.errors import (
    CorruptionError,
    ForbiddenError,
    ReconfigurationNeededError,
    SealedError,
    StorageError,
    UnavailableError,
    VirtualLogError,
    WrongRecipientError,
)
from virtuallog.contract.loglet import Placed
from virtuallog.contract.ports import Environment, Request
from virtuallog.contract.types import LogletOffset, NodeId, Open, Sealed, Tail
from virtuallog_loglets.native.config import NativeConfig, TransferLimits
from virtuallog_loglets.native.core import read_assembly
from virtuallog_loglets.native.core.quorum import committed_tail
from virtuallog_loglets.native.core.tail_check import NativeTailCheck
from virtuallog_loglets.native.drivers.tail_check_driver import (
    ASK_SECONDS,
    CHECK_SECONDS,
    SEALING,
    NativeTailCheckDriver,
)
from virtuallog_loglets.native.drivers.tail_check_driver import WAIT_SECONDS as ANSWER_SECONDS
from virtuallog_loglets.native.messages import (
    NO_EXPECTATION,
    NativeAppend,
    NativeAppended,
    NativeReadWaves,
    NativeSeal,
    NativeState,
    NativeTrim,
    NativeWaitTail,
)

APPEND_SECONDS: Final = 5.0
"""Time limit for an append, in seconds. Then its outcome is called unknown and it is offered again."""
WAIT_SECONDS: Final = 2.0
"""Time in seconds that `wait_tail` waits before it returns the tail unchanged."""
READ_SECONDS: Final = (0.4, 2.0)
"""Time limits for one server in the first and second pass over all servers, in seconds.

The first pass finds a healthy server quickly, past any that stand still. The second is patient with
those that did not answer.
"""

_TRIMMING = CrashPoint("native: a trim has left for one LogServer more")


@attrs.define(eq=False)
class NativeLoglet:
    """Client of one NativeLoglet.

    All operations share the known tail. It is a hint which offsets are committed, and never
    evidence that the loglet is not sealed.
    """

    segment: SegmentId
    config: NativeConfig
    _environment: Environment
    _limits: TransferLimits = attrs.field(factory=TransferLimits)
    _known_tail: int = attrs.field(default=0, init=False)
    _nearest: ReplicaOrder = attrs.field(init=False)
    """Order in which servers are asked for data."""

    def __attrs_post_init__(self) -> None:
        self._nearest = ReplicaOrder.of(self.config.servers, self._environment)

    async def append(self, batch: Batch, *, opens: bool, expected_tail: LogletOffset | None = None) -> range:
        expected = NO_EXPECTATION if expected_tail is None else expected_tail
        request = NativeAppend(segment=self.segment, batch=batch.blob, opens=opens, expected_tail=expected)
        try:
            reply = await self._environment.services.call(self.config.sequencer, request, APPEND_SECONDS)
        except VirtualLogError as error:
            raise self._refused(error) from error
        return self._placed(batch, reply)

    def post_append(self, batch: Batch, *, opens: bool, done: Callable[[range | VirtualLogError], None]) -> None:
        """See `virtuallog.contract.loglet.SupportsPost`."""

        def answered(outcome: NativeAppended | VirtualLogError) -> None:
            done(self._refused(outcome) if isinstance(outcome, VirtualLogError) else self._placed(batch, outcome))

        request = NativeAppend(segment=self.segment, batch=batch.blob, opens=opens)
        self._environment.services.post(self.config.sequencer, request, answered, APPEND_SECONDS)

    def _placed(self, batch: Batch, reply: NativeAppended) -> range:
        self._learn(reply.known_tail)
        return range(reply.first, reply.first + batch.count)

    def _refused(self, error: VirtualLogError) -> VirtualLogError:
        if isinstance(error, CorruptionError | StorageError | WrongRecipientError):
            # The sequencer's node has lost its disk, or this role on it. It orders nothing more,
            # and what it had ordered may or may not be in the log.
            return ReconfigurationNeededError(f"the sequencer on node {self.config.sequencer}: {error}")
        return error

    async def check_tail(self) -> Tail:
        """Check the tail as the contract says.

        Raises also ReconfigurationNeededError if entries in flight are never completed: the loglet
        must be sealed.
        """
        core = NativeTailCheck(self.config, self._known_tail)
        try:
            return await NativeTailCheckDriver(self.segment, core, self._environment, self._limits).run()
        except ForbiddenError as error:
            # It has met a seal, which clients may not complete. As for a dropped loglet, the
            # chain will say what follows.
            raise SealedError(f"sealed, and left to others: {error}") from error
        finally:
            self._learn(core.known_tail)

    async def wait_tail(self, past: LogletOffset) -> Tail:
        clock = self._environment.clock
        deadline = clock.monotonic() + WAIT_SECONDS
        while True:
            if (committed := await self._wait_for_news(past, deadline)) > past:
                self._learn(committed)
                return Open(LogletOffset(committed))
            # News from one server is no proof: its wave may not be committed, its known tail may
            # come from a repair.
            tail = await self.check_tail()
            if isinstance(tail, Sealed) or tail.tail > past or clock.monotonic() >= deadline:
                return tail
            await clock.sleep(PAUSE_SECONDS)

    async def read(self, start: LogletOffset, stop: LogletOffset, max_bytes: int) -> Sequence[Placed]:
        request = NativeReadWaves(segment=self.segment, start=start, stop=stop, max_bytes=max_bytes)
        damage: VirtualLogError | None = None
        unheard: dict[NodeId, VirtualLogError | None] = dict.fromkeys(self._nearest.order())
        for seconds in READ_SECONDS:
            for server in list(unheard):
                try:
                    reply = await self._environment.services.call(server, request, seconds)
                except SealedError:
                    raise
                except CorruptionError as error:
                    del unheard[server]
                    damage = error
                    continue
                except VirtualLogError as error:
                    unheard[server] = error
                    self._nearest.failed(server)
                    continue
                del unheard[server]
                copy = read_assembly.assemble_untrusted(self.segment, reply, start, stop)
                if copy.items:
                    return copy.items
                damage = damage or copy.damage
        raise _unreadable(start, damage, next(iter(unheard.values()), None))

    async def seal(self) -> None:
        await self._ask_majority(NativeSeal(segment=self.segment), "seal", SEALING)

    async def seal_and_check_tail(self) -> Tail:
        """See `virtuallog.contract.loglet.SupportsSealedTail`.

        A server that is sealed answers with its tail: those of a majority are what a check would ask for next.
        """
        core = NativeTailCheck(self.config, self._known_tail)
        try:
            return await NativeTailCheckDriver(self.segment, core, self._environment, self._limits).run(seals=True)
        finally:
            self._learn(core.known_tail)

    async def prefix_trim(self, offset: LogletOffset) -> LogletOffset:
        if self._known_tail < offset:
            await self.check_tail()  # a new client knows nothing: its zero must not clamp the trim
        trim_point = min(offset, self._known_tail)
        while True:
            request = NativeTrim(segment=self.segment, offset=trim_point, known_tail=self._known_tail)
            points = [state.trim for state in await self._ask_majority(request, "trim", _TRIMMING)]
            trim_point = max(points)
            if min(points) == trim_point:
                return LogletOffset(trim_point)
            # Another client's trim has reached a minority. Without a majority behind it, the
            # next caller may get a lower trim point. Another round comes only with a newer trim,
            # and each is bounded in time.

    def _learn(self, known_tail: int) -> None:
        self._known_tail = max(self._known_tail, known_tail)

    async def _wait_for_news(self, past: int, deadline: float) -> int:
        """Wait at a majority for a tail beyond `past`. Returns it, or 0 if a tail check is needed.

        What all of a majority have, none being sealed, is committed: any majority that is sealed
        later shares a server with them, so the sealing client sees it (the last rule of
        `tail_check`). Such a tail is returned if it is beyond `past`, and spares a check. 0 is
        returned after a seal, after news from one server whose wave the others do not get, or after
        the deadline.
        """
        call, clock = QuorumCall(self._environment), self._environment.clock
        request = NativeWaitTail(segment=self.segment, past=past, known_tail=self._known_tail)
        asked = self._nearest.order()[: max(2, self.config.majority)]
        for server in asked:
            call.ask(server, request, None, ANSWER_SECONDS, lambda: True)
        until, tails = deadline, dict[NodeId, int]()
        while (answer := await call.receive(until - clock.monotonic())) is not None:
            state: NativeState = answer.outcome
            if state.sealed:
                return 0
            tails[answer.server] = state.local_tail
            if (committed := committed_tail([*tails.values()], len(self.config.servers))) > past:
                return committed
            if max(state.local_tail, state.known_tail) > past:
                # a server that is cut off must not delay the others
                until = min(until, clock.monotonic() + PAUSE_SECONDS)
                if len(tails) == len(asked):
                    return 0
            elif clock.monotonic() < deadline - WAIT_SECONDS / 2:  # too many wait there: ask now and then
                call.ask(answer.server, request, None, ANSWER_SECONDS, lambda: True, pause=True)
        return 0

    async def _ask_majority(self, request: Request[NativeState], what: str, asked: CrashPoint) -> list[NativeState]:
        """Ask all servers until a majority has answered. Repeating is harmless: seals and trims only add up."""
        call, answers = QuorumCall(self._environment), dict[NodeId, NativeState]()
        deadline = self._environment.clock.monotonic() + CHECK_SECONDS
        for server in self.config.servers:
            call.ask(server, request, None, ASK_SECONDS, lambda: True)
            asked.reached()
        while len(answers) < self.config.majority:
            answer = await call.receive(deadline - self._environment.clock.monotonic())
            if answer is None:
                raise call.unavailable(f"{what} of loglet {self.segment}")
            answers[answer.server] = answer.outcome
            self._learn(answer.outcome.known_tail)
        return list(answers.values())


def _unreadable(start: int, damage: Any, unheard: Any) -> VirtualLogError:
    """Error for a read that no server answered with data.

    A server that did not answer may have a whole copy; one that lacks the data proves nothing.
    """
    if damage is not None and unheard is None:
        return CorruptionError(f"every copy of offset {start} is damaged: {damage}")
    return UnavailableError(f"no server that answered has offset {start}" + (f": {unheard}" if unheard else ""))
