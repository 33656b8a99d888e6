"""One question from the local replica to all other replicas of a log."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Final

import attrs
import trio

from virtuallog.contract.errors import VirtualLogError
from virtuallog.contract.ports import NodeEnvironment, Request
from virtuallog.contract.types import NodeId
from virtuallog_loglets.paxos.config import Ensemble
from virtuallog_loglets.paxos.core.recovery import Recovery, RecoveryStep
from virtuallog_loglets.paxos.drivers.local_replica import LocalReplica
from virtuallog_loglets.paxos.messages import NOWHERE, GetStanding, PaxosRecover, PaxosRecovered, Standing

RECOVER_SECONDS: Final = 2.0
"""Timeout of a round of `PaxosRecover`, whose answer takes one sync. Mesos waits 10 s, so a lost
request costs that much."""

STANDING_SECONDS: Final = 1.0
"""Timeout for the standings of all replicas: these need no sync of their own."""


@attrs.define(eq=False)
class Broadcast:
    """A request to all replicas but the local one. After a cancelled wait, late answers are still taken."""

    _environment: NodeEnvironment
    _request: Request[Any]
    _take: Callable[[NodeId, Any], None]
    """Called with each answer: a reply or an error. Must not block."""
    _awaited: int = attrs.field(default=0, init=False)
    """Replicas that have not answered yet."""
    _over: trio.Event = attrs.field(factory=trio.Event, init=False)

    def post(self, members: Iterable[NodeId], timeout_seconds: float) -> None:
        """Send the request to all `members` but this node."""
        others = [node for node in members if node != self._environment.node]
        self._awaited = len(others)
        for node in others:
            self._environment.services.post(node, self._request, partial(self._answered, node), timeout_seconds)
        if not others:
            self._over.set()

    def enough(self) -> None:
        """End the wait: no more answers are needed."""
        self._over.set()

    async def wait(self) -> None:
        """Wait until all have answered, failed or timed out, or `enough` was called."""
        await self._over.wait()

    def _answered(self, node: NodeId, outcome: Any) -> None:
        self._awaited -= 1
        if self._awaited == 0:
            self._over.set()
        self._take(node, outcome)


async def recovery_round(
    replica: LocalReplica,
    ensemble: Callable[[], Ensemble],
    environment: NodeEnvironment,
    *,
    has_forgotten: bool,
    auto_initialize: bool = False,
) -> RecoveryStep | None:
    """Ask all replicas for the extent of the log.

    Args:
        replica: the replica of this node.
        ensemble: returns the ensemble at the moment of the call.
        environment: the node's.
        has_forgotten: the local store may be new, so replicas note its incarnation before they answer.
        auto_initialize: see `Recovery`.

    Returns:
        The step that follows from the answers; None if there is none.
    """
    now, standing = ensemble(), replica.core.standing()
    recovery = Recovery(environment.node, _own(standing), now.quorum, auto_initialize)

    def take(node: NodeId, outcome: PaxosRecovered | VirtualLogError) -> None:
        if isinstance(outcome, PaxosRecovered):
            recovery.answered(node, outcome)
            if recovery.next_step is not None:
                question.enough()

    incarnation = standing.incarnation if has_forgotten else NOWHERE
    request = PaxosRecover(segment=replica.segment, node=environment.node, incarnation=incarnation)
    question = Broadcast(environment, request, take)
    question.post(now.members, RECOVER_SECONDS)
    await question.wait()
    return recovery.next_step


async def standings(replica: LocalReplica, environment: NodeEnvironment) -> Mapping[NodeId, Standing]:
    """Standings of all other holders of the log that answer in time."""
    known: dict[NodeId, Standing] = {}

    def take(node: NodeId, outcome: Standing | VirtualLogError) -> None:
        if isinstance(outcome, Standing):
            known[node] = outcome

    question = Broadcast(environment, GetStanding(segment=replica.segment), take)
    question.post(replica.holders, STANDING_SECONDS)
    await question.wait()
    return known


def _own(standing: Standing) -> PaxosRecovered:
    return PaxosRecovered(
        status=standing.status,
        promised=standing.promised,
        begin=standing.begin,
        end=standing.end,
        incarnation=standing.incarnation,
        incarnations=standing.incarnations,
        trim=standing.trim,
    )
