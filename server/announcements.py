"""Raises the level of the cluster once every node of the register's table has announced a newer version of the protocol.

    level = what all of them have announced, kept in the register: whoever reads a register knows what its nodes can read

A cluster that starts begins at the level of its nodes. During an upgrade each node asks the others now and then; the last
one to be upgraded, or whoever hears it first, changes the register. The level never goes down by itself: a node that goes
back to an older program is told so by that program, when it meets what it cannot read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import attrs
import structlog

from virtuallog.amending import amend
from virtuallog.errors import VirtualLogError
from virtuallog.register import Register
from virtuallog.survey import ask_all
from virtuallog.types import NodeId
from virtuallog.versions import Versions, level_of
from virtuallog.view import View

ASK_SECONDS: Final = 2.0
ASK_SECONDS_MAX: Final = 30.0
"""Between two rounds, while others speak less than this node: twice as long each time. An upgrade takes minutes, and
nothing waits for the level."""

log = structlog.get_logger(__name__)


@attrs.frozen
class Raise:
    """An amendment of the register: the level that `announced`, by node and data directory, allows."""

    announced: Mapping[tuple[NodeId, bytes], int]

    def amend(self, register: Register) -> Register | None:
        level = level_of(self.announced.get((node, entry.store_id)) for node, entry in register.nodes.items())
        return register.with_level(level) if level > register.level else None


@attrs.define(eq=False)
class Announcements:
    """See above. One per node."""

    _own: Versions
    _view: View

    async def run(self) -> None:
        """Ask and raise, for ever. Cancelled, a change may still be made."""
        pause, clock = ASK_SECONDS, self._view.environment.clock
        while True:
            register = self._view.cached
            if register is not None and register.level < self._own.last:
                try:
                    await self._raise(register)
                except VirtualLogError as error:
                    log.info("the level of the cluster stays", level=register.level, reason=str(error))
            await clock.sleep(pause)
            pause = min(2 * pause, ASK_SECONDS_MAX)

    async def _raise(self, register: Register) -> None:
        environment = self._view.environment
        answers = await ask_all(environment.services, sorted(register.nodes))
        change = Raise(
            {
                (node, answer.store_id): min(answer.protocol, self._own.last)
                for node, answer in answers.items()
                if not isinstance(answer, VirtualLogError)
            }
        )
        if change.amend(register) is not None:
            raised = self._view.adopt(await amend(self._view.metastore, change, environment.random))
            log.info("the level of the cluster", level=raised.level)
