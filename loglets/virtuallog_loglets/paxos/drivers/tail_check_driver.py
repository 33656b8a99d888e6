"""Runs one `PaxosTailCheck` over the network."""

from __future__ import annotations

from typing import Final

import attrs

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
from virtuallog_loglets.paxos.drivers.leader_client import LeaderClient
from virtuallog_loglets.paxos.messages import GetStanding, PaxosSettle, Standing, WaitLearned

ASK_SECONDS: Final = 0.5
"""A replica that is well answers a question within a sync or two; after this the question is asked again."""
WAIT_SECONDS: Final = 4.0
"""Longer than a replica keeps a `WaitLearned` parked."""
LEARN_SECONDS: Final = 0.25
"""What is in flight is decided and told within some syncs. After this, whoever leads is asked to settle it."""
SETTLE_SECONDS: Final = 4.0
"""For one attempt: time to find another leader."""
CHECK_SECONDS: Final = 10.0
"""A check that takes longer is given up; a restart of a replica or an election takes less."""


@attrs.define(eq=False)
class PaxosTailCheckDriver:
    """One run. Cancelling it leaves nothing behind but a settling that has been asked for."""

    _segment: SegmentId
    _replicas: tuple[NodeId, ...]
    _core: PaxosTailCheck
    _environment: Environment
    _leader: LeaderClient
    _call: QuorumCall = attrs.field(init=False)
    _result: Tail | None = attrs.field(default=None, init=False)
    _learned_by: float | None = attrs.field(default=None, init=False)
    _deadline: float = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._call = QuorumCall(self._environment)
        self._deadline = self._environment.clock.monotonic() + CHECK_SECONDS

    async def run(self) -> Tail:
        """The tail.

        Raises:
            UnavailableError: not enough replicas vote and answer, or what is in flight is not settled in time.
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
        """An error is the answer only if the round was over by then: nobody wants it any more."""
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
