"""Driver of one `NativeTailCheck` over the network."""

from __future__ import annotations

from typing import Final

import attrs

from virtuallog.client.quorum_call import QuorumAnswer, QuorumCall
from virtuallog.contract.chain import SegmentId
from virtuallog.contract.crash_points import CrashPoint
from virtuallog.contract.errors import VirtualLogError
from virtuallog.contract.ports import Environment, Request
from virtuallog.contract.types import Sealed, Tail
from virtuallog_loglets.native.config import TransferLimits
from virtuallog_loglets.native.core import wave as waves
from virtuallog_loglets.native.core.suffix_repair import Complete, Fetch
from virtuallog_loglets.native.core.tail_check import (
    Effect,
    GiveUp,
    NativeAsk,
    NativeFinish,
    NativeQuestion,
    NativeTailCheck,
)
from virtuallog_loglets.native.core.wave import Wave
from virtuallog_loglets.native.messages import (
    NativeGetState,
    NativeReadWaves,
    NativeRepair,
    NativeSeal,
    NativeState,
    NativeStored,
    NativeWaitTail,
    NativeWaves,
)

ASK_SECONDS: Final = 0.5
"""Time limit for a question, in seconds; then it is asked again. A healthy server answers within a
sync or two."""
WAIT_SECONDS: Final = 4.0
"""Time limit for a wait, in seconds: longer than a log server keeps a `NativeWaitTail` parked."""
REPAIR_SECONDS: Final = 2.0
"""Timeout of one read or one store of a repair, in seconds."""
SETTLE_SECONDS: Final = 2.0
"""Time in seconds that the sequencer may take to complete what is in flight, before it is taken for dead."""
CHECK_SECONDS: Final = 10.0
"""Time limit for a whole check, in seconds. A restart of a server or an election of its leader takes less."""

SEALING: Final = CrashPoint("native: a seal has left for one LogServer more")
_REPAIRING = CrashPoint("native: a repair has left for one LogServer more", rare=True)
_ESTABLISHED = CrashPoint("native: the tail of a sealed loglet is established, nobody has been told")


@attrs.define(eq=False)
class NativeTailCheckDriver:
    """One run of a tail check. Cancelling it leaves only requests that were already sent: a seal, a
    part of a repair."""

    _segment: SegmentId
    _core: NativeTailCheck
    _environment: Environment
    _limits: TransferLimits
    _call: QuorumCall = attrs.field(init=False)
    _result: Tail | VirtualLogError | None = attrs.field(default=None, init=False)
    _settled_by: float | None = attrs.field(default=None, init=False)

    def __attrs_post_init__(self) -> None:
        self._call = QuorumCall(self._environment)

    async def run(self, *, seals: bool = False) -> Tail:
        """Run the check and return the tail.

        Args:
            seals: seal the loglet in the first round.

        Raises:
            UnavailableError: not enough servers answered.
            ReconfigurationNeededError: the sequencer does not complete what is in flight.
            SealedError: the loglet has been dropped.
        """
        deadline = self._environment.clock.monotonic() + CHECK_SECONDS
        self._perform(self._core.begin_sealing() if seals else self._core.begin())
        while self._result is None:
            await self._advance(deadline)
        if isinstance(self._result, VirtualLogError):
            raise self._result
        return self._result

    async def _advance(self, deadline: float) -> None:
        clock = self._environment.clock
        until = deadline if self._settled_by is None else min(deadline, self._settled_by)
        answer = await self._call.receive(until - clock.monotonic())
        if answer is not None:
            self._perform(self._take(answer))
        elif clock.monotonic() >= deadline:
            self._result = self._call.unavailable(f"tail of loglet {self._segment}")
        else:
            self._settled_by = None
            self._perform(self._core.waited_long())

    def _take(self, answer: QuorumAnswer) -> list[Effect]:
        core, failed = self._core, isinstance(answer.outcome, VirtualLogError)
        match answer.tag:
            case NativeAsk(number):
                if failed:  # an error is delivered only once its round is over: no longer needed
                    return []
                assert isinstance(answer.outcome, NativeState)
                return core.answer(number, answer.server, answer.outcome)
            case Fetch():
                return core.fetched(
                    answer.server, [] if failed else whole_waves_untrusted(self._segment, answer.outcome)
                )
            case Complete():
                return core.completed(answer.server, None if failed else _checked(answer.outcome))
        raise AssertionError(f"an answer to {answer.tag}")

    def _perform(self, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case NativeAsk():
                    self._ask(effect)
                case Fetch(holder, start, stop):
                    read = NativeReadWaves(
                        segment=self._segment, start=start, stop=stop, max_bytes=self._limits.repair_bytes
                    )
                    self._call.ask(holder, read, effect, REPAIR_SECONDS)
                case Complete(target, repaired, known_tail):
                    blobs = tuple(wave.blob for wave in repaired)
                    repair = NativeRepair(segment=self._segment, waves=blobs, known_tail=known_tail)
                    self._call.ask(target, repair, effect, REPAIR_SECONDS)
                    _REPAIRING.reached()
                case NativeFinish(tail):
                    if isinstance(tail, Sealed):
                        _ESTABLISHED.reached()
                    self._result = tail
                case GiveUp(error):
                    self._result = error

    def _ask(self, ask: NativeAsk) -> None:
        seconds = ASK_SECONDS
        if ask.question is NativeQuestion.WAIT:
            seconds = WAIT_SECONDS
            if self._settled_by is None:
                self._settled_by = self._environment.clock.monotonic() + SETTLE_SECONDS
        else:
            self._settled_by = None
        for server in ask.servers:
            self._call.ask(
                server, self._request(ask), ask, seconds, lambda: ask.round == self._core.round, pause=ask.pause
            )
            if ask.question is NativeQuestion.SEAL:
                SEALING.reached()

    def _request(self, ask: NativeAsk) -> Request[NativeState]:
        match ask.question:
            case NativeQuestion.STATE:
                return NativeGetState(segment=self._segment)
            case NativeQuestion.SEAL:
                return NativeSeal(segment=self._segment)
            case NativeQuestion.WAIT:
                return NativeWaitTail(segment=self._segment, past=ask.past, known_tail=self._core.known_tail)


def _checked(outcome: object) -> NativeStored:
    assert isinstance(outcome, NativeStored)
    return outcome


def whole_waves_untrusted(segment: SegmentId, reply: NativeWaves) -> list[Wave]:
    """Decode the valid waves at the front of a reply. The first damaged one ends them."""
    parsed: list[Wave] = []
    for blob in reply.waves:
        try:
            wave = waves.parse_untrusted(blob)
        except VirtualLogError:
            break
        if wave.segment != segment:
            break
        parsed.append(wave)
    return parsed
