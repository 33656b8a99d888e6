"""The asking half of a connection: our questions and what became of them.                                      Pure.

Bootstrap, open and the first calls leave in one flight: each names its target as the promised result of the one
before. If open fails, the calls behind it fail with the same error, unexecuted. Once the node's capability is known,
calls name that instead; both arrive in the order they were sent, so nothing overtakes.

Deadlines do not travel. The caller alone knows how long an answer is worth something; when it gives up it abandons
the question, which sends the finish early.
"""

from __future__ import annotations

from typing import Any, Final

import attrs

from virtuallog.contract.errors import (
    MalformedError,
    OverloadedError,
    UnavailableError,
    UnsupportedError,
    VirtualLogError,
)
from virtuallog.contract.ports import Request
from virtuallog.contract.versions import SPOKEN, Versions
from virtuallog.rpc.protocol import message_reader, message_writer
from virtuallog.rpc.protocol.codec import malformed
from virtuallog.rpc.protocol.error_codec import from_wire_untrusted
from virtuallog.rpc.protocol.events import ReturnArrived
from virtuallog.rpc.protocol.frames import Outbox
from virtuallog.rpc.protocol.messages import PromisedAnswer, Return, Target
from virtuallog.rpc.protocol.methods import BoundMethod, Methods
from virtuallog.rpc.protocol.node import NodeOpened, OpenNode, no_common_protocol

QUESTIONS_MAX: Final = 4096
"""Without a return at a time. Pipelines keep some hundred in flight; more means that the other side is stuck."""


@attrs.define
class Questions:
    """Our calls to the other side's node."""

    _methods: Methods = attrs.field(repr=False)
    _outbox: Outbox
    _waiting: dict[int, BoundMethod | None] = attrs.field(factory=dict, init=False)
    """By question, until the return comes; None for a bootstrap."""
    _abandoned: set[int] = attrs.field(factory=set, init=False)
    """Those of `_waiting` whose finish was sent early."""
    _next: int = attrs.field(default=0, init=False)
    _node: Target | None = attrs.field(default=None, init=False)
    _spoken: Versions = attrs.field(default=SPOKEN, init=False)
    """What `open` has announced."""

    def open(self, expected: OpenNode) -> int:
        """Ask for the node and check that it is the one meant; calls may follow at once.

        Returns the question whose `ReturnArrived` has `NodeOpened`, or the error that all calls will get.
        """
        bootstrap = self._ask(None)
        self._outbox.put(message_writer.bootstrap(bootstrap))
        self._node = PromisedAnswer(bootstrap, ())
        self._spoken = Versions(expected.protocol_first, expected.protocol_last)
        question = self.call(expected)
        self._node = PromisedAnswer(question, (0,))
        return question

    def call(self, request: Request[Any]) -> int:
        """Send a request to the node; needs `open` before it.

        Raises:
            OverloadedError: too many questions are without a return.
            TooLargeError, UnsupportedError: too large for a frame, or of no known method.
            Exception: a field does not fit the schema.
            After any of these nothing was sent.
        """
        assert self._node is not None
        method = self._methods.by_request.get(type(request))
        if method is None:
            raise UnsupportedError(f"{type(request).__qualname__} belongs to no interface that this client knows")
        if len(self._waiting) >= QUESTIONS_MAX:
            raise OverloadedError(f"{QUESTIONS_MAX} calls to this node are without an answer")
        question = self._ask(method)
        try:
            self._outbox.put(message_writer.call(question, self._node, method, request))
        except Exception:
            del self._waiting[question]
            raise
        return question

    def abandon(self, question: int) -> None:
        """Nobody waits for this one any more: no `ReturnArrived` will tell of it."""
        if question in self._waiting and question not in self._abandoned:
            self._abandoned.add(question)
            self._outbox.put(message_writer.finish(question, release=True))

    def _ask(self, method: BoundMethod | None) -> int:
        question = self._next
        while question in self._waiting:  # after four billion
            question = (question + 1) & 0xFFFFFFFF
        self._next = (question + 1) & 0xFFFFFFFF
        self._waiting[question] = method
        return question

    def on_return(self, received: Return) -> ReturnArrived | None:
        """Settle a question.

        Raises:
            MalformedError: nobody asked.
        """
        question = received.question
        if question not in self._waiting:
            raise MalformedError(f"a return for question {question}, which is not open")
        method = self._waiting.pop(question)
        if question in self._abandoned:
            self._abandoned.remove(question)
            return None
        if method is None:  # what became of a bootstrap shows in the open that builds on it
            self._finish(received, release=True)
            return None
        outcome = self._outcome_untrusted(method, received)
        self._finish(received, release=not isinstance(outcome, NodeOpened))
        return ReturnArrived(question, outcome)

    def _finish(self, received: Return, *, release: bool) -> None:
        if received.finish_needed:
            self._outbox.put(message_writer.finish(received.question, release=release))

    def _outcome_untrusted(self, method: BoundMethod, received: Return) -> Any:
        if received.kind == "exception":
            return from_wire_untrusted(*message_reader.exception(received.value))
        if received.kind != "results":
            return UnavailableError(f"{method.name} was answered with '{received.kind}'")
        codec = method.results
        if codec is None:
            return self._opened_untrusted(received.value)
        try:
            return message_reader.results(received.value, codec)
        except Exception as error:  # this reply is unreadable; the connection is sound
            return malformed(f"a reply to {method.name}", error)

    def _opened_untrusted(self, payload: Any) -> NodeOpened | VirtualLogError:
        """Nodes of version 1 choose without having read what we speak."""
        protocol = message_reader.protocol(payload)
        if self._spoken.agree_untrusted(protocol, protocol) is None:
            return no_common_protocol(str(protocol), str(self._spoken))
        self._node = message_reader.hosted_capability(payload)
        return NodeOpened(protocol)

    def on_unimplemented(self, question: int | None) -> ReturnArrived | None:
        """The other side sent our message back: it does not know such messages."""
        if question is None or question not in self._waiting:
            return None
        method = self._waiting.pop(question)
        if method is None or question in self._abandoned:
            self._abandoned.discard(question)
            return None
        return ReturnArrived(question, UnsupportedError(f"the other side has no {method.name}"))
