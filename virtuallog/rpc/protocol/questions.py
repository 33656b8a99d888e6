"""The asking half of a connection: our questions and their answers.

Bootstrap, open and the first calls leave in one flight: each names its target as the promised
result of the one before. If open fails, the calls behind it fail with the same error, unexecuted.
Once the node's capability is known, calls name that instead. Both arrive in the order they were
sent, so no call overtakes another.

Deadlines do not travel. Only the caller knows how long an answer is of use. When it gives up it
abandons the question, which sends the finish early.
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
"""Questions without a return at a time. Pipelines keep some hundred in flight; more means that the
other side is stuck."""


@attrs.define
class Questions:
    """Our calls to the other side's node."""

    _methods: Methods = attrs.field(repr=False)
    _outbox: Outbox
    _waiting: dict[int, BoundMethod | None] = attrs.field(factory=dict, init=False)
    """Methods of open questions, by question, until the return comes; None for a bootstrap."""
    _abandoned: set[int] = attrs.field(factory=set, init=False)
    """Questions of `_waiting` with an early finish."""
    _next: int = attrs.field(default=0, init=False)
    _node: Target | None = attrs.field(default=None, init=False)
    _spoken: Versions = attrs.field(default=SPOKEN, init=False)
    """Versions that `open` has announced."""

    def open(self, expected: OpenNode) -> int:
        """Ask for the node and check that it is the one meant. Calls may follow at once.

        Returns:
            The question. Its `ReturnArrived` has `NodeOpened`, or the error that all calls will
            get.
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
        """Give up a question: there will be no `ReturnArrived` for it."""
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
            MalformedError: there is no such question.
        """
        question = received.question
        if question not in self._waiting:
            raise MalformedError(f"a return for question {question}, which is not open")
        method = self._waiting.pop(question)
        if self._abandoned and question in self._abandoned:
            self._abandoned.remove(question)
            return None
        if method is None:  # the open that builds on a bootstrap shows its outcome
            self._finish(received, release=True)
            return None
        outcome = self._outcome_untrusted(method, received)
        if received.finish_needed:
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
        """Read the reply to open. Nodes of version 1 choose without having read our versions."""
        protocol = message_reader.protocol(payload)
        if self._spoken.agree_untrusted(protocol, protocol) is None:
            return no_common_protocol(str(protocol), str(self._spoken))
        self._node = message_reader.hosted_capability(payload)
        return NodeOpened(protocol)

    def on_unimplemented(self, question: int | None) -> ReturnArrived | None:
        """Settle a question that the other side sent back: it does not know such messages."""
        if question is None or question not in self._waiting:
            return None
        method = self._waiting.pop(question)
        if method is None or question in self._abandoned:
            self._abandoned.discard(question)
            return None
        return ReturnArrived(question, UnsupportedError(f"the other side has no {method.name}"))
