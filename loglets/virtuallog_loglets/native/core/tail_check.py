"""Tail check of a NativeLoglet: five states of a majority, two of them final. Delos, OSDI'20,
figure 6.

    none sealed, tails differ --wait--> none sealed, all there          -> Open(X)
         |                    '-------> some sealed
    some sealed --seal, ask again-----> some | all sealed
    all sealed, all there               -> Sealed(X)
    all sealed, tails differ --repair-> all sealed, all there           -> Sealed(X)

X covers every append that was acknowledged before the check began (`quorum.tail_to_cover`).

Tail first, seal bit second: a state has both from one moment, and R2 asks for the seal bits once more.

Departure: **R2**. As published, the wait may end because the known tail reached X. But a known tail
may come from another client's repair *after* a seal whose tail was below X. Then Open(X) would be
false, and replicas would diverge. So if only a reported known tail says that X is committed, a
fresh majority has to confirm that it is not sealed (specs/delos.md, section 5.3). No such round is
needed if a majority of servers reported during this check that they have X and are not sealed: any
sealed majority shares a server with them, which was sealed later and has X.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import TypeAlias

import attrs

from virtuallog.contract.errors import ReconfigurationNeededError, VirtualLogError
from virtuallog.contract.types import NodeId, Open, Sealed, Tail
from virtuallog_loglets.native.config import NativeConfig
from virtuallog_loglets.native.core import suffix_repair
from virtuallog_loglets.native.core.quorum import committed_tail, tail_to_cover
from virtuallog_loglets.native.core.suffix_repair import Complete, Fetch
from virtuallog_loglets.native.core.wave import Wave
from virtuallog_loglets.native.messages import NativeState, NativeStored


class NativeQuestion(enum.Enum):
    """Kind of request that a round sends to the servers."""

    STATE = "state"
    SEAL = "seal"
    WAIT = "wait"


@attrs.frozen
class NativeAsk:
    """Ask these servers until each answers or another round begins, and pass each answer to
    `answer`."""

    round: int
    question: NativeQuestion
    servers: tuple[NodeId, ...]
    past: int = 0
    """For WAIT: answer when the tail is past this offset."""
    pause: bool = False
    """True to pause first: the servers have just been asked, and their answers led nowhere."""


@attrs.frozen
class NativeFinish:
    """The tail has been established."""

    tail: Tail


@attrs.frozen
class GiveUp:
    """The tail cannot be established without a reconfiguration."""

    error: VirtualLogError


Effect: TypeAlias = NativeAsk | Fetch | Complete | NativeFinish | GiveUp


class _Phase(enum.Enum):
    ASKING = "asking"
    WAITING = "waiting"
    CONFIRMING = "confirming"
    SEALING = "sealing"
    REPAIRING = "repairing"
    DONE = "done"


@attrs.define(eq=False)
class NativeTailCheck:
    """One tail check. Takes answers, returns effects. Concurrent repairs and seals make it ask
    again, never fail."""

    config: NativeConfig
    known_tail: int = 0
    """Hint below which offset everything is committed. It grows with every answer and says nothing
    about seals."""
    round: int = attrs.field(default=0, init=False)
    phase: _Phase = attrs.field(default=_Phase.ASKING, init=False)
    _answers: dict[NodeId, NativeState] = attrs.field(factory=dict, init=False)
    """Latest answer of each server in this round."""
    _target: int = attrs.field(default=0, init=False)
    """X; 0 until it is established."""
    _repair: suffix_repair.SuffixRepair | None = attrs.field(default=None, init=False)

    # -- events ---------------------------------------------------------------------------------------------------

    def begin(self) -> list[Effect]:
        return self._ask(_Phase.ASKING, NativeQuestion.STATE)

    def begin_sealing(self) -> list[Effect]:
        """Begin with the seal, for a client that means to seal."""
        return self._ask(_Phase.SEALING, NativeQuestion.SEAL)

    def answer(self, round_number: int, server: NodeId, state: NativeState) -> list[Effect]:
        """Take in a server's answer of that round. Answers of earlier rounds are too old to count."""
        self.known_tail = max(self.known_tail, state.known_tail)
        if round_number != self.round:
            return []
        self._answers[server] = state
        match self.phase:
            case _Phase.ASKING:
                return self._judge() if len(self._answers) >= self.config.majority else []
            case _Phase.WAITING:
                return self._judge() or self._wait(server)
            case _Phase.CONFIRMING:
                return self._confirm()
            case _Phase.SEALING:
                return self._judge_sealed() if len(self._answers) >= self.config.majority else []
            case _Phase.REPAIRING | _Phase.DONE:
                return []

    def waited_long(self) -> list[Effect]:
        """Give up: the tails still differ, so the sequencer is dead or cut off. Its successor will
        begin with a seal."""
        if self.phase is not _Phase.WAITING:
            return []
        self.phase = _Phase.DONE
        return [GiveUp(ReconfigurationNeededError("entries in flight stay uncommitted: the sequencer seems dead"))]

    def fetched(self, holder: NodeId, waves: Sequence[Wave]) -> list[Effect]:
        """Take in the result of a `Fetch`; `waves` is empty if it failed."""
        return self._follow(self._repair.fetched(holder, waves)) if self._repair else []

    def completed(self, target: NodeId, reply: NativeStored | None) -> list[Effect]:
        """Take in the result of a `Complete`; `reply` is None if it failed."""
        return self._follow(self._repair.completed(target, reply)) if self._repair else []

    # -- none sealed ----------------------------------------------------------------------------------------------

    def _judge(self) -> list[Effect]:
        """Decide by the state of the servers that answered. No effects if none is sealed and the
        tails still differ."""
        answers = list(self._answers.values())
        if self.phase is _Phase.ASKING and all(state.sealed for state in answers):
            # What a round of seals would answer: the states of a sealed majority. The usual case, as
            # a reconfiguration checks the tail right after its seal.
            return self._judge_sealed()
        if any(state.sealed for state in answers):
            return self._ask(_Phase.SEALING, NativeQuestion.SEAL)
        tails, servers = [state.local_tail for state in answers], len(self.config.servers)
        cover = tail_to_cover(tails, servers)
        self._target = cover if self.phase is _Phase.ASKING else min(cover, self._target)
        if committed_tail(tails, servers) >= self._target:
            return self._finish(Open(self._target))
        if self.known_tail >= self._target:
            return self._check_unsealed_again()
        if self.phase is _Phase.ASKING:
            return self._wait_for_target()
        return []

    def _wait_for_target(self) -> list[Effect]:
        """Wait for the sequencer, which is about to complete what some servers have and others
        lack. Answers stay valid: tails only grow."""
        self.phase = _Phase.WAITING
        self.round += 1
        return [NativeAsk(self.round, NativeQuestion.WAIT, self.config.servers, self._target - 1)]

    def _wait(self, server: NodeId) -> list[Effect]:
        """Ask a server to wait again. It answered because its time was up, because too many clients
        wait there, or because its tail is there and others' are not."""
        if self._answers[server].local_tail >= self._target:
            return []
        return [NativeAsk(self.round, NativeQuestion.WAIT, (server,), self._target - 1, pause=True)]

    def _check_unsealed_again(self) -> list[Effect]:
        """Begin the R2 round (tail first, seal bit second): after the target was reached, a majority must
        say that it is not sealed."""
        return self._ask(_Phase.CONFIRMING, NativeQuestion.STATE)

    def _confirm(self) -> list[Effect]:
        if any(state.sealed for state in self._answers.values()):
            return self._ask(_Phase.SEALING, NativeQuestion.SEAL)
        return self._finish(Open(self._target)) if len(self._answers) >= self.config.majority else []

    # -- sealed ---------------------------------------------------------------------------------------------------

    def _judge_sealed(self) -> list[Effect]:
        """Judge a sealed majority. Repair what is missing below the tail, unless nothing is."""
        assert all(state.sealed for state in self._answers.values()), "a Seal is answered by a sealed server"
        tails = [state.local_tail for state in self._answers.values()]
        # Copies of a loglet that was moved after all of it had been trimmed are empty: only the
        # trim tells what is committed.
        self._target = max(tail_to_cover(tails, len(self.config.servers)), self.known_tail)
        if self.known_tail == self._target:  # committed, though perhaps on servers that did not answer
            return self._finish(Sealed(self._target))
        self.phase = _Phase.REPAIRING
        start = max(self.known_tail, *(state.trim for state in self._answers.values()))
        self._repair = suffix_repair.SuffixRepair(dict(self._answers), start, self._target, self.config.majority)
        return self._follow(self._repair.begin())

    def _follow(self, steps: Sequence[suffix_repair.Effect]) -> list[Effect]:
        effects: list[Effect] = []
        for step in steps:
            match step:
                case suffix_repair.Repaired():
                    effects += self._finish(Sealed(self._target))
                case suffix_repair.StatesChanged():
                    effects += self._ask(_Phase.SEALING, NativeQuestion.SEAL, pause=True)
                case Fetch() | Complete():
                    effects.append(step)
        return effects

    # -- both -----------------------------------------------------------------------------------------------------

    def _ask(self, phase: _Phase, question: NativeQuestion, *, pause: bool = False) -> list[Effect]:
        """Begin a new round: answers to earlier ones no longer count."""
        self.phase, self._repair = phase, None
        self.round += 1
        self._answers.clear()
        return [NativeAsk(self.round, question, self.config.servers, pause=pause)]

    def _finish(self, tail: Tail) -> list[Effect]:
        """Finish with a tail. Everything below it is committed, wherever the knowledge came from."""
        self.phase = _Phase.DONE
        self.known_tail = max(self.known_tail, tail.tail)
        return [NativeFinish(tail)]
