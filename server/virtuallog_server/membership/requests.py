"""Requests of operators about nodes, repeated until their work is done. The command line and the console use them."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final

from virtuallog.admin.membership import Progress
from virtuallog.contract.errors import RetryableError
from virtuallog.contract.ports import Clock, Request, Services
from virtuallog.contract.types import NodeId
from virtuallog.node_services import ask_one_of

ANSWER_SECONDS: Final = 30.0
"""Timeout of one question. Longer work answers with its progress."""
ASK_AGAIN_SECONDS: Final = 0.5
"""Pause, in seconds, before a node is asked again about the operation."""
TRIES: Final = 20
"""Unanswered questions in a row before the work is given up. The node that is asked may be restarting."""


async def ask_until_done(
    services: Services,
    nodes: Collection[NodeId],
    request: Request[Progress],
    avoid: NodeId,
    tell: Callable[[str], None],
    clock: Clock,
    *,
    may_wait: bool = False,
) -> Progress:
    """Ask one of the nodes until the work is done; returns the last progress. After a cancel the work goes on in the node.

    Args:
        services: to call nodes.
        nodes: candidates.
        request: a request that may be repeated, such as `DrainNode`.
        avoid: the node that the request is about: asked only if no other one lives.
        tell: called with each new step.
        clock: of the pauses.
        may_wait: True to go on while the work waits for the operator to start a node.

    Raises:
        RetryableError: `TRIES` questions in a row got no answer; unknown outcome.
        VirtualLogError: the refusal of the node.
    """
    said, failed = "", 0
    while True:
        try:
            progress = await ask_one_of(services, nodes, request, ANSWER_SECONDS, avoid=avoid)
        except RetryableError:
            failed += 1
            if failed == TRIES:
                raise
        else:
            failed = 0
            if progress.done or (progress.waits and not may_wait):
                return progress
            if progress.says != said:
                tell(progress.says)
            said = progress.says
        await clock.sleep(ASK_AGAIN_SECONDS)
