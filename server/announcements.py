"""What the nodes of the cluster have announced that they can read: the level up to which this one may write for others.

    level = the least that any node of the register's table has announced; 1 as long as one has not been heard

Nodes are asked until they announce what this program knows, then never again: a node that goes back to an older program
afterwards is told so by that program, when it meets what it cannot read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import attrs
import structlog

from virtuallog.control import NodeStatus
from virtuallog.errors import VirtualLogError
from virtuallog.ports import Clock, Outcome, Services
from virtuallog.register import Register
from virtuallog.survey import ask_all
from virtuallog.types import NodeId
from virtuallog.versions import Versions, level_of

ASK_SECONDS: Final = 10.0
"""Between two rounds. An upgrade takes minutes, and nothing waits for the level."""

log = structlog.get_logger(__name__)


@attrs.define(eq=False)
class Announcements:
    """See above."""

    node: NodeId
    _own: Versions
    _register: Callable[[], Register | None]
    """The newest that is known here."""
    _services: Services
    _clock: Clock
    _heard: dict[tuple[NodeId, bytes], int] = attrs.field(factory=dict, init=False)
    """By node and data directory: another directory may come with another program."""
    _told: int = attrs.field(default=0, init=False)

    @property
    def level(self) -> int:
        """The protocol version whose formats every node can read."""
        register = self._register()
        if register is None:
            return level_of(())
        others = (self._heard.get((node, e.store_id)) for node, e in register.nodes.items() if node != self.node)
        return level_of((self._own.last, *others))

    async def run(self) -> None:
        """Ask, for ever."""
        while True:
            missing = self._missing()
            if missing:
                self._hear(await ask_all(self._services, missing))
            if self.level != self._told:
                self._told = self.level
                log.info("formats that all nodes read", node=self.node, protocol=self.level)
            await self._clock.sleep(ASK_SECONDS)

    def _missing(self) -> list[NodeId]:
        """Who has not announced all that this program knows."""
        register = self._register()
        if register is None:
            return []
        return [
            node
            for node, entry in sorted(register.nodes.items())
            if node != self.node and self._heard.get((node, entry.store_id), 0) < self._own.last
        ]

    def _hear(self, answers: dict[NodeId, Outcome[NodeStatus]]) -> None:
        for node, answer in answers.items():
            if not isinstance(answer, VirtualLogError):
                self._heard[node, answer.store_id] = answer.protocol
