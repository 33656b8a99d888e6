"""Runs one `TailCheck` over the network."""

from __future__ import annotations

from typing import Final

import attrs

from virtuallog.chain import SegmentId
from virtuallog.courier import Answer, Courier
from virtuallog.crash_points import CrashPoint
from virtuallog.errors import VirtualLogError
from virtuallog.ports import Environment, Request
from virtuallog.types import Sealed, Tail
from virtuallog_loglets.native import wave as waves
from virtuallog_loglets.native.messages import GetState, ReadWaves, Repair, Seal, State, Stored, WaitTail, Waves
from virtuallog_loglets.native.pieces import Pieces
from virtuallog_loglets.native.repair import Complete, Fetch
from virtuallog_loglets.native.tail_check import Ask, Effect, Finish, GiveUp, Question, TailCheck
from virtuallog_loglets.native.wave import Wave

ASK_SECONDS: Final = 0.5
"""A server that is well answers a question within a sync or two; after this the question is asked again."""
WAIT_SECONDS: Final = 4.0
"""Longer than a LogServer keeps a `WaitTail` parked."""
REPAIR_SECONDS: Final = 2.0
SETTLE_SECONDS: Final = 2.0
"""How long the sequencer may take to complete what is in flight, before it is taken for dead."""
CHECK_SECONDS: Final = 10.0
"""A check that takes longer is given up; a restart of a server or an election of its leader takes less."""

_REPAIRING = CrashPoint("native: a repair has left for one LogServer more", rare=True)
_ESTABLISHED = CrashPoint("native: the tail of a sealed loglet is established, nobody has been told")


@attrs.define(eq=False)
class TailCheckDriver:
    """One run. Cancelling it leaves nothing behind but what servers have been told: a seal, a part of a repair."""

    _segment: SegmentId
    _core: TailCheck
    _environment: Environment
    _pieces: Pieces
    _courier: Courier = attrs.field(init=False)
    _result: Tail | VirtualLogError | None = attrs.field(default=None, init=False)
    _settled_by: float | None = attrs.field(default=None, init=False)

    def __attrs_post_init__(self) -> None:
        self._courier = Courier(self._environment)

    async def run(self) -> Tail:
        """The tail.

        Raises:
            UnavailableError: not enough servers answered.
            ReconfigurationNeededError: the sequencer does not complete what is in flight.
            SealedError: the loglet has been dropped.
        """
        deadline = self._environment.clock.monotonic() + CHECK_SECONDS
        self._perform(self._core.begin())
        while self._result is None:
            await self._advance(deadline)
        if isinstance(self._result, VirtualLogError):
            raise self._result
        return self._result

    async def _advance(self, deadline: float) -> None:
        clock = self._environment.clock
        until = deadline if self._settled_by is None else min(deadline, self._settled_by)
        answer = await self._courier.receive(until - clock.monotonic())
        if answer is not None:
            self._perform(self._take(answer))
        elif clock.monotonic() >= deadline:
            self._result = self._courier.unavailable(f"tail of loglet {self._segment}")
        else:
            self._settled_by = None
            self._perform(self._core.waited_long())

    def _take(self, answer: Answer) -> list[Effect]:
        core, failed = self._core, isinstance(answer.outcome, VirtualLogError)
        match answer.tag:
            case Ask(number):
                if failed:  # an error is answered only once its round is over: nobody wants it any more
                    return []
                assert isinstance(answer.outcome, State)
                return core.answer(number, answer.server, answer.outcome)
            case Fetch():
                return core.fetched(answer.server, [] if failed else parse_untrusted(self._segment, answer.outcome))
            case Complete():
                return core.completed(answer.server, None if failed else _checked(answer.outcome))
        raise AssertionError(f"an answer to {answer.tag}")

    def _perform(self, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case Ask():
                    self._ask(effect)
                case Fetch(holder, start, stop):
                    read = ReadWaves(segment=self._segment, start=start, stop=stop, max_bytes=self._pieces.repair_bytes)
                    self._courier.ask(holder, read, effect, REPAIR_SECONDS)
                case Complete(target, repaired, known_tail):
                    blobs = tuple(wave.blob for wave in repaired)
                    repair = Repair(segment=self._segment, waves=blobs, known_tail=known_tail)
                    self._courier.ask(target, repair, effect, REPAIR_SECONDS)
                    _REPAIRING.reached()
                case Finish(tail):
                    if isinstance(tail, Sealed):
                        _ESTABLISHED.reached()
                    self._result = tail
                case GiveUp(error):
                    self._result = error

    def _ask(self, ask: Ask) -> None:
        seconds = ASK_SECONDS
        if ask.question is Question.WAIT:
            seconds = WAIT_SECONDS
            if self._settled_by is None:
                self._settled_by = self._environment.clock.monotonic() + SETTLE_SECONDS
        else:
            self._settled_by = None
        for server in ask.servers:
            self._courier.ask(
                server, self._request(ask), ask, seconds, lambda: ask.round == self._core.round, pause=ask.pause
            )

    def _request(self, ask: Ask) -> Request[State]:
        match ask.question:
            case Question.STATE:
                return GetState(segment=self._segment)
            case Question.SEAL:
                return Seal(segment=self._segment)
            case Question.WAIT:
                return WaitTail(segment=self._segment, past=ask.past, known_tail=self._core.known_tail)


def _checked(outcome: object) -> Stored:
    assert isinstance(outcome, Stored)
    return outcome


def parse_untrusted(segment: SegmentId, reply: Waves) -> list[Wave]:
    """The whole waves at the front of a reply; a damaged one ends them."""
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
