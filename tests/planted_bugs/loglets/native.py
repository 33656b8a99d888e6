"""Bugs of the NativeLoglet: its LogServers, its sequencer, its tail check."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import attrs

from tests.planted_bugs.mutant import Mutant, mutant
from virtuallog.client.quorum_call import QuorumCall
from virtuallog.contract.crash_points import CrashPoint
from virtuallog.contract.ports import Request
from virtuallog.contract.types import NodeId, Open
from virtuallog_loglets.native.core import tail_check as tail_check_module
from virtuallog_loglets.native.core.durable_state import Change, DurableLogs, LogletSealed, decode_untrusted, encode
from virtuallog_loglets.native.core.live_loglet import LiveLoglet
from virtuallog_loglets.native.core.log_server import LogServer, _stored
from virtuallog_loglets.native.core.log_server_effects import (
    Effect,
    NativeAnswer,
    NativePersist,
    PendingAnswer,
)
from virtuallog_loglets.native.core.quorum import tail_to_cover
from virtuallog_loglets.native.core.tail_check import Effect as TailEffect
from virtuallog_loglets.native.core.tail_check import NativeTailCheck, _Phase
from virtuallog_loglets.native.loglet import NativeLoglet
from virtuallog_loglets.native.messages import NativeState, NativeStored
from virtuallog_loglets.wal.core.record import Address, WalRecord

answered_when_durable = LogServer._seal
answered_in_time = NativeTailCheck.answer


def _nobody(_: object) -> None:
    """Takes the answer that comes when all is durable."""


@mutant(
    LogServer._seal,
    scenario="loaded",
    published="Delos, OSDI'20, section 4.2.1",
    within=100,
    found_by=["loglet tails move forward", "acknowledged below the stop", "sealed takes nothing"],
)
def seal_does_not_cover_writes_in_flight(self: LogServer, loglet: LiveLoglet, question: PendingAnswer) -> list[Effect]:
    """A LogServer answers a seal before the stores that it has accepted are durable."""
    effects = answered_when_durable(self, loglet, question)
    answers: list[Effect] = []
    for effect in effects:
        if isinstance(effect, NativePersist):
            sealed = attrs.evolve(loglet.state, sealed=True)
            answers += [NativeAnswer(asked.ticket, sealed) for asked in effect.questions]
            effect.questions[:] = [attrs.evolve(asked, ticket=_nobody) for asked in effect.questions]
    return [*answers, *effects]


@mutant(
    LogServer._persist,
    scenario="loaded",
    within=100,
    found_by=["acknowledged below the stop", "acknowledged is readable", "loglet tails move forward"],
)
def store_acknowledged_before_it_is_durable(
    self: LogServer, changes: tuple[Change, ...], question: PendingAnswer, *, essential: bool
) -> list[Effect]:
    """A LogServer hands a wave to its WAL and answers at once."""
    later = attrs.evolve(question, ticket=_nobody) if question.stop else question
    persist = NativePersist(question.loglet, changes, tuple(map(encode, changes)), [later], essential)
    self._pending.append(persist)
    if not question.stop:
        return [persist]
    accepted = NativeStored(accepted=True, sealed=False, local_tail=question.stop, known_tail=0)
    return [NativeAnswer(question.ticket, accepted), persist]


@mutant(
    DurableLogs.replay,
    scenario="sealed",
    within=200,
    found_by=["sealed takes nothing", "acknowledged below the stop", "loglet tails move forward"],
)
def seal_forgotten_at_a_restart(self: DurableLogs, address: Address, record: WalRecord) -> None:
    """A LogServer that replays its WAL does not look at seals."""
    change = decode_untrusted(record)
    if not isinstance(change, LogletSealed):
        self.apply(change, address)


@mutant(
    NativeLoglet._ask_majority,
    scenario="sealed",
    published="Delos, OSDI'20, section 4.2.1",
    within=300,
    found_by=["sealed takes nothing", "acknowledged below the stop"],
)
async def seal_of_half_the_servers(
    self: NativeLoglet, request: Request[NativeState], what: str, asked: CrashPoint
) -> list[NativeState]:
    """A seal returns when n/2 servers have answered."""
    courier, answers = QuorumCall(self._environment), dict[NodeId, NativeState]()
    for server in self.config.servers:
        courier.ask(server, request, None, 1.0, lambda: True)
    while len(answers) < len(self.config.servers) // 2:
        answer = await courier.receive(10.0)
        if answer is None:
            raise courier.unavailable(what)
        answers[answer.server] = answer.outcome
    return list(answers.values())


@mutant(
    tail_to_cover,
    used_in=tail_check_module,
    scenario="loaded",
    published="Relos",
    within=60,
    found_by=["acknowledged below the stop", "loglet tails move forward"],
)
def stop_decided_from_the_lowest_tail(tails: Sequence[int], servers: int) -> int:
    """Takes what all who answered have for what was acknowledged."""
    return min(tails)


@mutant(
    NativeTailCheck._check_unsealed_again,
    scenario="repair",
    published="Delos, OSDI'20, section 4.2.1 (no R2 round)",
    within=200,
    found_by=["open tails below the stop"],
)
def no_fresh_majority_before_open(self: NativeTailCheck) -> list[TailEffect]:
    """A tail known by hearsay is called open: no R2 round."""
    return self._finish(Open(self._target))


@mutant(
    LiveLoglet.may_follow,
    scenario="uneven",
    published="Delos, OSDI'20, section 4.2.1; Relos",
    within=60,
    found_by=["progress"],
)
def wave_stored_behind_a_hole(self: LiveLoglet, wave: object) -> bool:
    """No local-commit rule."""
    return True


@mutant(
    NativeTailCheck.answer,
    scenario="loaded",
    within=60,
    found_by=["open tails below the stop", "acknowledged below the stop", "loglet tails move forward"],
)
def answer_of_an_earlier_round_counts(
    self: NativeTailCheck, round_number: int, server: NodeId, state: NativeState
) -> list[TailEffect]:
    """A server's answer from before it was asked to seal stands for its answer when sealed."""
    state = attrs.evolve(state, sealed=state.sealed or self.phase is _Phase.SEALING)
    return answered_in_time(self, self.round, server, state)


@mutant(_stored, scenario="overtaken", within=60, found_by=["acknowledged below the stop"])
def store_accepted_after_the_seal(loglet: LiveLoglet, question: PendingAnswer) -> NativeStored:
    """A server that has the wave says so, although it got it by a repair after it was sealed."""
    state = loglet.state
    return NativeStored(
        accepted=question.stop <= max(state.local_tail, state.trim),
        sealed=state.sealed,
        local_tail=state.local_tail,
        known_tail=state.known_tail,
    )


@mutant(
    NativeTailCheck.answer,
    scenario="uneven",
    published="BookKeeper 2615, Restate 2615",
    within=200,
    found_by=["committed below the stop"],
)
def repair_past_the_stop(
    self: NativeTailCheck, round_number: int, server: NodeId, state: NativeState
) -> list[TailEffect]:
    """An answer that comes late adds to what is repaired, and not to the tail that is returned."""
    if self.phase is _Phase.REPAIRING and self._repair is not None and round_number == self.round:
        self._repair._tails[server] = state.local_tail
        self._repair.stop = max(self._repair.stop, state.local_tail)
    return answered_in_time(self, round_number, server, state)


MUTANTS: Final[tuple[Mutant, ...]] = tuple(found for found in list(globals().values()) if isinstance(found, Mutant))
