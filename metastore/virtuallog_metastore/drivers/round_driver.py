"""Driver of one `Round`: posts its requests, passes the answers on, waits for its outcome. Costs no task.

There is no timeout here: every posted request ends by an answer or by its own timeout, so a round
ends, too.
"""

from __future__ import annotations

from functools import partial
from operator import itemgetter
from typing import Any, Final

import attrs
import trio

from virtuallog.contract.crash_points import CrashPoint
from virtuallog.contract.errors import ForbiddenError, VirtualLogError
from virtuallog.contract.ports import Request, Services
from virtuallog.contract.types import NodeId
from virtuallog_metastore.core.rounds import Effect, Finish, Outcome, Round, Unreachable
from virtuallog_metastore.messages import Accept, Learn

REQUEST_SECONDS: Final = 1.0
"""Timeout of one answer: some synced writes behind a queue, and a network."""

_PROMISED = CrashPoint("metastore: a majority has promised, nothing is proposed")
_PROPOSED = CrashPoint("metastore: a proposal has left for one member more")
_TAUGHT = CrashPoint("metastore: a decision has left for one member more")


@attrs.define(eq=False)
class RoundDriver:
    """One round in progress."""

    _services: Services
    _round: Round
    _under_way: int = attrs.field(default=0, init=False)
    _outcome: Outcome | None = attrs.field(default=None, init=False)
    _finished: trio.Event = attrs.field(factory=trio.Event, init=False)
    _errors: dict[NodeId, VirtualLogError] = attrs.field(factory=dict, init=False)
    """The last error of each node that failed."""

    async def run(self) -> Outcome:
        """Return the outcome, with the reason if Unreachable. A cancelled run sends nothing more;
        sent requests may still be executed.

        Raises:
            ForbiddenError: no majority answered, and a member refuses this caller.
        """
        try:
            self._perform(self._round.start())
            await self._finished.wait()
        finally:
            self._finished.set()
        assert self._outcome is not None
        if not isinstance(self._outcome, Unreachable):
            return self._outcome
        for error in self._errors.values():
            if isinstance(error, ForbiddenError):
                raise error
        return Unreachable(self._reason())

    def _perform(self, effects: list[Effect]) -> None:
        self._under_way += 1  # so that answers given at once do not exhaust the round half-way through
        for effect in effects:
            if isinstance(effect, Finish):
                self._finish(effect.outcome)
                continue
            if isinstance(effect.request, Accept):
                _PROMISED.reached()
            for node in effect.nodes:
                self._under_way += 1
                self._services.post(node, effect.request, partial(self._take, node), REQUEST_SECONDS)
                _has_left(effect.request)
        self._ended()

    def _take(self, node: NodeId, answer: Any) -> None:
        if not self._finished.is_set():
            if isinstance(answer, VirtualLogError):
                self._errors[node] = answer
            else:
                self._perform(self._round.step(node, answer))
        self._ended()

    def _ended(self) -> None:
        self._under_way -= 1
        if self._under_way == 0 and not self._finished.is_set():
            self._finish(self._round.exhausted())

    def _reason(self) -> str:
        return "; ".join(f"node {node}: {error}" for node, error in sorted(self._errors.items(), key=itemgetter(0)))

    def _finish(self, outcome: Outcome) -> None:
        self._outcome = outcome
        self._finished.set()


def _has_left(request: Request[Any]) -> None:
    if isinstance(request, Accept):
        _PROPOSED.reached()
    elif isinstance(request, Learn):
        _TAUGHT.reached()


async def run_round(services: Services, round_: Round) -> Outcome:
    """Run a round to its end."""
    return await RoundDriver(services, round_).run()
