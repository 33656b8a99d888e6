"""One end of a Cap'n Proto RPC connection: bytes in, events out; calls and replies in, bytes out.

Both ends are the same machine: `questions` is the half that asks, `answers` the half that answers.
Of https://capnproto.org/rpc.html it speaks bootstrap, call, return, finish, release, abort and
unimplemented, and calls on a promised answer as far as the promise is the node. Any other message
is sent back as `unimplemented`, which the protocol provides for.

A peer that breaks the protocol gets an `abort`, and the connection is over.
"""

from __future__ import annotations

from collections.abc import Callable

import attrs

from virtuallog.contract.errors import UnavailableError, VirtualLogError
from virtuallog.rpc.protocol import message_reader, message_writer
from virtuallog.rpc.protocol.answers import Answers
from virtuallog.rpc.protocol.codec import malformed
from virtuallog.rpc.protocol.events import ConnectionFailed, Event
from virtuallog.rpc.protocol.frames import Frame, FrameSplitter, Outbox
from virtuallog.rpc.protocol.methods import Methods
from virtuallog.rpc.protocol.node import Identity
from virtuallog.rpc.protocol.questions import Questions


@attrs.define
class RpcConnection:
    """The connection machine. The two halves put bytes into the outbox; they are for the other
    side, in that order."""

    questions: Questions
    answers: Answers
    outbox: Outbox
    failure: VirtualLogError | None = attrs.field(default=None, init=False)
    """Set with `ConnectionFailed`; from then on received bytes are ignored. None before."""
    received_frames: int = attrs.field(default=0, init=False)
    """Number of messages received, of all kinds."""
    _splitter: FrameSplitter = attrs.field(factory=FrameSplitter, init=False)

    @classmethod
    def new(cls, methods: Methods, identity: Callable[[], Identity] | None = None) -> RpcConnection:
        """Make a new connection.

        Args:
            methods: methods that can be called, and answered if this side serves.
            identity: returns the present identity of the node that this side offers; None if it
                offers none.
        """
        outbox = Outbox()
        return cls(Questions(methods, outbox), Answers(methods, outbox, identity), outbox)

    @property
    def unfinished_bytes(self) -> int:
        """Bytes received of an incomplete message."""
        return self._splitter.buffered_bytes

    def receive_untrusted(self, chunk: bytes) -> list[Event]:
        """Process received bytes; return their events. A `ConnectionFailed` is the last one."""
        events: list[Event] = []
        try:
            frames = [] if self.failure is not None else self._splitter.feed_untrusted(chunk)
            self.received_frames += len(frames)
            for frame in frames:
                if (event := self._step_untrusted(frame)) is not None:
                    events.append(event)
                if self.failure is not None:
                    break
        except Exception as error:  # pycapnp raises many kinds
            self.failure = malformed("an RPC message", error)
            self.outbox.put(message_writer.abort(str(self.failure)))
            events.append(ConnectionFailed(self.failure))
        return events

    def _step_untrusted(self, frame: Frame) -> Event | None:
        message = message_reader.parse(frame)
        match message_reader.kind_of(message):
            case "call":
                return self.answers.on_call(message_reader.call(message), sum(map(len, frame)))
            case "return":
                return self.questions.on_return(message_reader.return_(message))
            case "finish":
                self.answers.on_finish(message_reader.finish(message))
            case "bootstrap":
                self.answers.on_bootstrap(message_reader.bootstrap(message))
            case "release":
                self.answers.on_release(message_reader.release(message))
            case "unimplemented":
                return self.questions.on_unimplemented(message_reader.unimplemented(message))
            case "abort":
                self.failure = UnavailableError(f"the other side aborted: {message_reader.abort(message)[:500]}")
                return ConnectionFailed(self.failure)
            case _:
                self.outbox.put(message_writer.unimplemented(message))
        return None
