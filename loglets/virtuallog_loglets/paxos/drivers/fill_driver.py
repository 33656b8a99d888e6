"""Fill of a range of positions: runs one `FillAttempt` after the other over the network, until all are decided."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import attrs

from virtuallog.client.quorum_call import QuorumCall
from virtuallog.contract.chain import SegmentId
from virtuallog.contract.crash_points import CrashPoint
from virtuallog.contract.errors import UnavailableError, VirtualLogError
from virtuallog.contract.ports import Environment
from virtuallog.contract.types import NodeId
from virtuallog_loglets.paxos.config import Ensemble
from virtuallog_loglets.paxos.core import values
from virtuallog_loglets.paxos.core.fill_attempt import FillAttempt, FillEffect, FillFinish, FillSend, FillTeach
from virtuallog_loglets.paxos.core.rounds import CrashVector, Ignored, Rejected
from virtuallog_loglets.paxos.messages import Learn, PaxosWritten, Promised

FILL_SECONDS: Final = 10.0
"""Timeout of a fill; its positions may still be decided later."""
ATTEMPT_SECONDS: Final = 2.0
"""Timeout of an attempt, which is then undecided: some replicas do not answer, and no quorum of the others agrees."""
LEARN_SECONDS: Final = 1.0
"""Timeout for the local replica to learn what was decided. A slower replica learns it later; nothing breaks."""
PAUSE_SECONDS: Final = 0.1
"""T of the pause of T to 2T between attempts, so that two competing fills do not meet again."""
POSITIONS_MAX: Final = 16
"""Cap on positions of one attempt: each may come back from every replica with a value of some MiB, and an answer must fit
in a frame. After an attempt without outcome the next one takes half as many."""

_TAUGHT: Final = -1
_WRITING = CrashPoint("paxos: a fill has a quorum of promises, its values are not written", rare=True)
_FILLED = CrashPoint("paxos: a fill is decided, nobody has been told", rare=True)


async def fill(
    segment: SegmentId,
    ensemble: Callable[[], Ensemble],
    environment: Environment,
    local_node: NodeId,
    proposal: int,
    first: int,
    stop: int,
    timeout_seconds: float = FILL_SECONDS,
) -> int:
    """Decide all positions in [first, stop): the value that was accepted with the highest number, or NOP.

    On return each of them is decided, and every replica has been sent the decisions; the local one has answered that it
    has learned them, if it answers at all. Safe to cancel, to repeat, and to run beside other fills and coordinators.

    Args:
        segment: the log.
        ensemble: returns the ensemble at the moment of the call.
        environment: the caller's.
        local_node: the proposer; its replica is waited for.
        proposal: number to begin with; a higher one is used after a REJECT.
        first: first position to decide.
        stop: position behind the last one to decide.
        timeout_seconds: timeout of the whole fill.

    Returns:
        The number of the last attempt.

    Raises:
        UnavailableError: not done in time. Some positions may be decided.
        SealedError: the log has been dropped.
    """
    range_fill = _RangeFill(segment, ensemble, environment, local_node, max(1, proposal))
    await range_fill.run(first, stop, environment.clock.monotonic() + timeout_seconds)
    return range_fill.proposal


@attrs.define(eq=False)
class _RangeFill:
    """One call of `fill`.

    If it is cancelled, other fills continue from what replicas have promised and accepted.
    """

    _segment: SegmentId
    _ensemble: Callable[[], Ensemble]
    _environment: Environment
    _node: NodeId
    proposal: int
    _crash_vector: CrashVector = attrs.field(factory=CrashVector, init=False)
    _positions: int = attrs.field(default=POSITIONS_MAX, init=False)

    async def run(self, first: int, stop: int, deadline: float) -> None:
        clock = self._environment.clock
        while first < stop:
            until = min(stop, first + self._positions)
            attempt = FillAttempt(
                self._segment, self._node, self._ensemble(), self.proposal, first, until, self._crash_vector
            )
            end = min(deadline, clock.monotonic() + ATTEMPT_SECONDS)
            finish = await _AttemptRun(attempt, self._environment, self._node).run(end)
            if finish is not None and finish.failure is None:
                first = until
                continue
            self._learn_from(finish)
            if clock.monotonic() >= deadline:
                raise UnavailableError(f"positions {first} to {stop - 1} of log {self._segment} cannot be decided now")
            await clock.sleep(PAUSE_SECONDS * self._environment.random.uniform(1, 2))

    def _learn_from(self, finish: FillFinish | None) -> None:
        match finish:
            case FillFinish(Rejected(number)):
                self.proposal = max(self.proposal, number) + 1
            case FillFinish(Ignored()):
                pass  # not a refusal: the same number again
            case _:  # undecided: replicas that have promised this number will not promise it again
                self.proposal += 1
                self._positions = max(1, self._positions // 2)


@attrs.define(eq=False)
class _AttemptRun:
    """One attempt over the network."""

    _attempt: FillAttempt
    _environment: Environment
    _node: NodeId
    _call: QuorumCall = attrs.field(init=False)
    _finish: FillFinish | None = attrs.field(default=None, init=False)
    _to_learn: int = attrs.field(default=0, init=False)
    """`Learn` messages that the local replica has not answered."""

    def __attrs_post_init__(self) -> None:
        self._call = QuorumCall(self._environment)

    async def run(self, deadline: float) -> FillFinish | None:
        """Run the attempt and return its end; None if it is undecided."""
        clock = self._environment.clock
        self._perform(self._attempt.begin())
        while self._finish is None or self._to_learn:
            answer = await self._call.receive(deadline - clock.monotonic())
            if answer is None:
                break
            if answer.tag == _TAUGHT:
                self._to_learn -= 1
            elif self._finish is None and not isinstance(answer.outcome, VirtualLogError):
                self._take(answer.tag, answer.server, answer.outcome)
        return self._finish

    def _take(self, number: int, node: NodeId, answer: Promised | PaxosWritten) -> None:
        try:
            for record in answer.records:
                if record.value:
                    values.check_untrusted(record.value)
        except VirtualLogError:  # damaged: no answer
            return
        self._perform(self._attempt.answered(number, node, answer))

    def _perform(self, effects: list[FillEffect]) -> None:
        for effect in effects:
            match effect:
                case FillSend(request, number):
                    if number:
                        _WRITING.reached()
                    for node in self._attempt.ensemble.members:
                        self._call.ask(node, request, number, ATTEMPT_SECONDS)
                case FillTeach(request):
                    _FILLED.reached()
                    for node in self._attempt.ensemble.members:
                        self._teach(node, request)
                case FillFinish():
                    self._finish = effect

    def _teach(self, node: NodeId, request: Learn) -> None:
        if node == self._node:
            self._to_learn += 1
            self._call.ask(node, request, _TAUGHT, LEARN_SECONDS)
        else:
            self._environment.services.post(node, request, _ignore, LEARN_SECONDS)


def _ignore(outcome: object) -> None:
    """Ignore an answer: a replica that has not learned the decision catches up later."""
