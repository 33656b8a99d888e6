"""Tail check over the network: the driver of `PaxosTailCheck`."""

from __future__ import annotations

from typing import Final

import attrs

from virtuallog.client.leader_client import LeaderClient
from virtuallog.client.quorum_call import QuorumAnswer, QuorumCall
from virtuallog.contract.chain import SegmentId
from virtuallog.contract.errors import UnavailableError
from virtuallog.contract.ports import Environment
from virtuallog.contract.types import NodeId, Tail
from virtuallog_loglets.paxos.core.tail_check import (
    AskStandings,
    PaxosTailCheck,
    PaxosTailEffect,
    SettleThrough,
    TailEstablished,
)
from virtuallog_loglets.paxos.messages import CoordinatorReply, GetStanding, PaxosSettle, Standing, WaitLearned

ASK_SECONDS: Final = 0.5
"""Time after which a question is asked again; a healthy replica answers within a sync or two."""
WAIT_SECONDS: Final = 4.0
"""Timeout of a `WaitLearned`: longer than a replica keeps it parked."""
LEARN_SECONDS: Final = 0.25
"""Time after which the leader is asked to settle; positions in flight are normally decided and
announced within some syncs."""
SETTLE_SECONDS: Final = 4.0
"""Timeout of one attempt to settle, in which another leader can be found."""
CHECK_SECONDS: Final = 10.0
"""Timeout of a check; a restart of a replica or an election takes less."""


@attrs.define(eq=False)
class PaxosTailCheckDriver:
    """One tail check. If it is cancelled, a settling that was asked for may still happen."""

    _segment: SegmentId
    _replicas: tuple[NodeId, ...]
    _core: PaxosTailCheck
    _environment: Environment
    _leader: LeaderClient[CoordinatorReply]
    _call: QuorumCall = attrs.field(init=False)
    _result: Tail | None = attrs.field(default=None, init=False)
    _learned_by: float | None = attrs.field(default=None, init=False)
    _deadline: float = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._call = QuorumCall(self._environment)
        self._deadline = self._environment.clock.monotonic() + CHECK_SECONDS

    async def run(self) -> Tail:
        """Establish the tail.

        Raises:
            UnavailableError: not enough replicas vote and answer, or positions in flight are not settled in time.
            SealedError: the loglet has been dropped.
        """
        await self._perform(self._core.begin())
        while self._result is None:
            await self._advance()
        return self._result

    async def _advance(self) -> None:
        clock = self._environment.clock
        until = self._deadline if self._learned_by is None else min(self._deadline, self._learned_by)
        answer = await self._call.receive(until - clock.monotonic())
        if answer is not None:
            await self._perform(self._take(answer))
        elif clock.monotonic() >= self._deadline:
            raise self._call.unavailable(f"tail of loglet {self._segment}")
        else:
            self._learned_by = None
            await self._perform(self._core.waited_long())

    def _take(self, answer: QuorumAnswer) -> list[PaxosTailEffect]:
        """Effects of an answer. An error arrives here only if its round was over, and is ignored."""
        return self._core.answer(answer.server, answer.outcome) if isinstance(answer.outcome, Standing) else []

    async def _perform(self, effects: list[PaxosTailEffect]) -> None:
        for effect in effects:
            match effect:
                case AskStandings():
                    self._ask(effect)
                case SettleThrough(past):
                    await self._settle(past)
                case TailEstablished(tail):
                    self._result = tail

    def _ask(self, ask: AskStandings) -> None:
        waits = ask.past >= 0
        self._learned_by = self._environment.clock.monotonic() + LEARN_SECONDS if waits else None
        request = WaitLearned(segment=self._segment, past=ask.past) if waits else GetStanding(segment=self._segment)
        seconds = WAIT_SECONDS if waits else ASK_SECONDS
        for node in self._replicas:
            self._call.ask(node, request, None, seconds, lambda: ask.round == self._core.round)

    async def _settle(self, past: int) -> None:
        left = min(SETTLE_SECONDS, self._deadline - self._environment.clock.monotonic())
        try:
            await self._leader.ask(
                lambda insist: PaxosSettle(segment=self._segment, past=past, insist=insist), "settling", left
            )
        except UnavailableError:
            if self._environment.clock.monotonic() >= self._deadline:
                raise
        await self._perform(self._core.settled())
