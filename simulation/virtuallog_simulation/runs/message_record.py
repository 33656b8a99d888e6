"""Detailed record of a run beside its history: each message, and each durable write.

It draws no random number and takes no time, so a run that is recorded is the same run.
"""

from __future__ import annotations

from typing import Any

import attrs

from virtuallog.contract.types import NodeId
from virtuallog.testing.checker.history import Fault
from virtuallog_simulation.world.world import World

_FATES = {"requests": "request", "replies": "reply"}
"""The names of the counters, said of one message."""


@attrs.frozen
class Message(Fault):
    """A request or a reply arrived, or something happened to it on its way."""

    fate: str
    source: NodeId
    target: NodeId
    content: Any = attrs.field(repr=False)


@attrs.frozen
class Durable(Fault):
    """A disk says that something will survive a power loss from now on."""

    node: NodeId


def record(world: World) -> None:
    """Record messages and durable writes from now on."""
    events = world.history.events

    def on_message(what: str, source: NodeId, target: NodeId, content: object) -> None:
        fate = _FATES.get(what, what)
        told = f"{fate} {source} -> {target}: {content!r}"
        events.append(Message(world.now(), told, fate, source, target, content))

    def on_durable(node: NodeId, disk: str, what: str) -> None:
        events.append(Durable(world.now(), f"durable on {node}: {disk} {what}", node))

    world.network.watch = on_message
    world.on_durable = on_durable
