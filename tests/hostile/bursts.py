"""Bursts of one hostile connection: an opening, then mutated frames up to the first that ends the connection.

A twin of the node's connection reads every frame first. So only frames count that the node really reads. Frames that are still, or by
chance, sound commands are not sent: without TLS any client may seal or trim the log, and that would prove nothing.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from functools import cache
from typing import Any, Final

import attrs

from tests.hostile.mutation import mutated
from tests.hostile.samples import MADE_UP, interfaces, message, methods
from virtuallog.admin.control import GetStatus
from virtuallog.contract.errors import UnavailableError
from virtuallog.contract.ports import Request
from virtuallog.contract.types import NodeId
from virtuallog.rpc.protocol import message_writer
from virtuallog.rpc.protocol.connection import RpcConnection
from virtuallog.rpc.protocol.events import CallArrived
from virtuallog.rpc.protocol.frames import pack
from virtuallog.rpc.protocol.messages import PromisedAnswer
from virtuallog.rpc.protocol.methods import Methods, bind
from virtuallog.rpc.protocol.node import Hello, Identity, OpenNode
from virtuallog_loglets.native.messages import (
    NativeAppend,
    NativeGetState,
    NativeReadWaves,
    NativeRepair,
    NativeSeal,
    NativeStore,
    NativeTrim,
    NativeWaitTail,
)
from virtuallog_metastore.messages import Ask

HARMLESS: Final = (NativeAppend, NativeGetState, NativeReadWaves, NativeWaitTail, Ask, GetStatus, Hello, OpenNode)
"""Commands that may be executed as they are."""
OF_A_LOGLET: Final = (NativeStore, NativeRepair, NativeSeal, NativeTrim)
"""Commands that may be executed on invented loglets."""
FRAMES_MAX: Final = 400
"""Most frames of one connection."""
_ENDS_SHARE: Final = 0.1
"""Share of the frames that end a connection that are sent; else most of the time would go into new connections."""
_NOT_SENT: Final = "sound command, not sent"
_CALLS_SHARE: Final = 0.995
VARIANTS: Final = 20
"""Variants of each message: values differ, frames are then mutated at random."""
_QUESTION_AT: Final = 32
"""Place in a frame: behind its header, the root pointer, and the two words of the Message."""
_SMALLEST_CALL: Final = 100
_TOO_LONG: Final = 1 << 20
_NOBODY: Final = Identity(cluster=b"", node=NodeId(1), store_id=b"", boot=1, software="twin")


@attrs.frozen
class Burst:
    """The frames of one connection, and their effect as far as the twin can tell."""

    data: bytes
    frames: int
    outcomes: Counter[str]


@attrs.define(eq=False)
class Bursts:
    """Makes bursts. They differ between two runs: codecs are the same, but question numbers go on."""

    _chooser: random.Random
    _methods: Methods = attrs.field(factory=lambda: bind(interfaces()))
    _calls: Sequence[bytes] = attrs.field(init=False)
    """Sound calls of every method."""
    _others: Sequence[bytes] = attrs.field(init=False)
    """The other messages of the RPC protocol."""
    _question: int = attrs.field(default=0, init=False)

    def __attrs_post_init__(self) -> None:
        self._calls, self._others = calls(self._chooser), others(self._methods)

    def next(self) -> Burst:
        """The next burst."""
        opening, twin = _opening(), self._new_twin()
        parts, outcomes, size = [opening], Counter[str](), 0
        while len(parts) <= FRAMES_MAX and size < _TOO_LONG and twin.failure is None and not twin.unfinished_bytes:
            frame = mutated(self._chooser, self._numbered(self._draw()))
            outcome = _outcome(twin, frame)
            if outcome is None or (_ends(twin) and self._chooser.random() > _ENDS_SHARE):
                twin = self._new_twin()
                outcomes[_NOT_SENT] += outcome is None
                continue
            outcomes[outcome] += 1
            parts.append(frame)
            size += len(frame)
        return Burst(b"".join(parts), len(parts) - 1, outcomes)

    def _new_twin(self) -> RpcConnection:
        twin = RpcConnection.new(self._methods, lambda: _NOBODY)
        twin.receive_untrusted(_opening())
        return twin

    def _draw(self) -> bytes:
        """Mostly calls: nearly all else ends the connection."""
        return self._chooser.choice(self._calls if self._chooser.random() < _CALLS_SHARE else self._others)

    def _numbered(self, frame: bytes) -> bytes:
        """A call under a question of its own: the same one twice would end the connection."""
        if len(frame) < _SMALLEST_CALL:
            return frame  # no call, or one without parameters
        self._question = self._question % 0xFFFF_FFFF + 1
        return frame[:_QUESTION_AT] + self._question.to_bytes(4, "little") + frame[_QUESTION_AT + 4 :]


def calls(chooser: random.Random) -> Sequence[bytes]:
    """Calls of every method, on the node and on the promise of it."""
    frames = [
        _call(chooser, target, method, request_class)
        for request_class, method in methods()
        for target in (0, PromisedAnswer(0, ()))
        for _ in range(VARIANTS)
    ]
    return [b"".join(pack(segments)) for segments in frames if segments is not None]


def others(known: Methods) -> Sequence[bytes]:
    """Every message that is no call."""
    frames = [
        message_writer.bootstrap(5),
        message_writer.finish(0, release=True),
        message_writer.finish(77, release=False),
    ]
    frames += [
        message_writer.abort("because"),
        message_writer.canceled(3),
        message_writer.exception(3, "why", "failed", finish_needed=True),
    ]
    return [_node_return(known), *(b"".join(pack(segments)) for segments in frames)]


def _call(chooser: random.Random, target: Any, method: Any, request_class: type[Request[Any]]) -> list[bytes] | None:
    """A call, unless the value that was drawn does not fit the schema."""
    for _ in range(20):
        try:
            return message_writer.call(chooser.randrange(1, 1 << 32), target, method, message(request_class, chooser))
        except Exception:
            continue
    return None


def _node_return(known: Methods) -> bytes:
    """The answer to a bootstrap, which only a node should send."""
    node = RpcConnection.new(known, lambda: _NOBODY)
    node.receive_untrusted(_opening())
    return b"".join(node.outbox.take())


@cache
def _opening() -> bytes:
    return b"".join(pack(message_writer.bootstrap(0)))


def _outcome(twin: RpcConnection, frame: bytes) -> str | None:
    """The effect of the frame on a node. None if it must not be sent."""
    calls = [event for event in twin.receive_untrusted(frame) if isinstance(event, CallArrived)]
    for call in calls:
        if not _is_harmless(call.request):
            return None
        twin.answers.respond(call.answer, UnavailableError("twin"))
    twin.outbox.take()
    if twin.failure is not None:
        return f"connection ended: {type(twin.failure).__name__}"
    if calls:
        return "call executed"
    return "waits for more" if twin.unfinished_bytes else "refused"


def _ends(twin: RpcConnection) -> bool:
    return twin.failure is not None or twin.unfinished_bytes > 0


def _is_harmless(request: Any) -> bool:
    return isinstance(request, HARMLESS) or (isinstance(request, OF_A_LOGLET) and request.segment in MADE_UP)
