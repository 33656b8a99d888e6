"""Takes the picture that changes of the nodes are decided on: the register as it is, who answers, where the loglets are."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias

from server.healing.healer import placed_segments
from server.membership.picture import Picture
from virtuallog.api import Cluster
from virtuallog.register import Register
from virtuallog.virtual_log import VirtualLog

Survey: TypeAlias = Callable[[Register], Awaitable[Cluster]]
"""Asks every node of the register how it is."""


async def look(log: VirtualLog, survey: Survey) -> Picture:
    """The picture of this moment.

    Raises:
        UnavailableError: the register cannot be read.
    """
    register = await log.view.refresh()
    cluster = await survey(register)
    return Picture(
        register=register,
        living={member.node: member.roles for member in cluster.members if member.alive},
        placed=placed_segments(log.view, register),
    )
