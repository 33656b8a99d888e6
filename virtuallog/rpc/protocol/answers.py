"""The answering half of a connection: calls of the other side, and the answers we owe.

* One capability is exported, as long as the connection lives: the node, which implements all
  interfaces. So there is no table of exports and no count of references.
* A call may be made on the node, or on the promise of it: the answer to a bootstrap, or field 0 of
  the answer to Node.open. These two answers are kept until their finish. If open failed, calls on
  its promise fail with its error.
* Open and Hello are answered here, because calls on the promise may follow in the same chunk.
* All other returns carry no capability and set `noFinishNeeded`: the answer is forgotten as it is
  sent, and a call costs two messages instead of three.
* Parameters that do not fit the method fail that call. Only a broken protocol ends the connection.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import attrs

from virtuallog.contract.errors import MalformedError, UnsupportedError, VirtualLogError
from virtuallog.rpc.protocol import message_reader, message_writer
from virtuallog.rpc.protocol.codec import malformed
from virtuallog.rpc.protocol.error_codec import to_wire
from virtuallog.rpc.protocol.events import CallArrived, OpenRefused
from virtuallog.rpc.protocol.frames import Outbox
from virtuallog.rpc.protocol.messages import Call, PromisedAnswer
from virtuallog.rpc.protocol.methods import BoundMethod, Methods
from virtuallog.rpc.protocol.node import Hello, Identity, NodeOpened, OpenNode

ANSWERS_MAX: Final = 8192
"""Answers owed at a time. Drivers stop reading at a fraction of it, but one more read may bring a
thousand small calls."""

KEPT_MAX: Final = 16
"""Answers that stay until their finish. Our own clients need two, for one flight; no other limit
applies to them."""

_NODE: Final = 0
"""The export id of the node."""


@attrs.define(eq=False)
class _Answer:
    """The answer owed for one question."""

    method: BoundMethod | None
    """Method of the call; None for a bootstrap."""
    frame_bytes: int = 0
    outcome: NodeOpened | VirtualLogError | None = None
    """The opened node or an error, once known and while the answer may be the target of calls; else
    None."""
    finished: bool = False
    """True if the other side no longer wants it."""

    @property
    def is_open(self) -> bool:
        return self.method is not None and self.method.results is None


@attrs.define
class Answers:
    """Calls of the other side to our node."""

    _methods: Methods = attrs.field(repr=False)
    _outbox: Outbox
    _identity: Callable[[], Identity] | None
    """Returns the present identity of the node we offer; None if we offer none."""
    pending_calls: int = attrs.field(default=0, init=False)
    """Number of calls that wait for `respond`."""
    pending_call_bytes: int = attrs.field(default=0, init=False)
    _answers: dict[int, _Answer] = attrs.field(factory=dict, init=False)
    _kept: int = attrs.field(default=0, init=False)
    """Number of kept answers with an outcome."""

    def on_bootstrap(self, question: int) -> None:
        """Answer a bootstrap with the node."""
        answer = self._enter(question, None, 0)
        outcome = NodeOpened() if self._identity else UnsupportedError("there is no node at this end")
        self._return_node(question, outcome, of_open=False)
        self._keep(answer, outcome)

    def on_call(self, call: Call, frame_bytes: int) -> CallArrived | OpenRefused | None:
        """Read a call, or refuse it.

        Raises:
            MalformedError: the call breaks the protocol.
        """
        if isinstance(call.target, int) and (call.target != _NODE or self._identity is None):
            raise MalformedError(f"a call to capability {call.target}, which was never exported")
        method = self._methods.by_number.get(call.number)
        answer = self._enter(call.question, method, frame_bytes)
        outcome: Any = self._refusal(call, method)
        if outcome is None:
            assert method is not None
            try:
                request = message_reader.params(call.params, method.params)
            except Exception as error:  # the parameters are unreadable; the connection is sound
                outcome = malformed(f"parameters of {method.name}", error)
            else:
                if not isinstance(request, OpenNode | Hello):
                    return CallArrived(call.question, request)
                outcome = self._answer_about_node(request)
        self._settle(call.question, answer, outcome)
        return OpenRefused(outcome) if answer.is_open and isinstance(outcome, UnsupportedError) else None

    def _answer_about_node(self, request: OpenNode | Hello) -> Identity | NodeOpened | VirtualLogError:
        assert self._identity is not None
        found = self._identity()
        return found if isinstance(request, Hello) else request.answer_untrusted(found)

    def _enter(self, question: int, method: BoundMethod | None, frame_bytes: int) -> _Answer:
        if question in self._answers:
            raise MalformedError(f"question {question} is asked twice")
        if len(self._answers) >= ANSWERS_MAX:
            raise MalformedError(f"{ANSWERS_MAX} questions without an answer")
        answer = self._answers[question] = _Answer(method, frame_bytes)
        if frame_bytes:
            self.pending_calls += 1
            self.pending_call_bytes += frame_bytes
        return answer

    def _refusal(self, call: Call, method: BoundMethod | None) -> VirtualLogError | None:
        if isinstance(call.target, PromisedAnswer) and (error := self._broken(call.target)):
            return error
        if method is None:
            interface_id, method_id = call.number
            return UnsupportedError(f"this node has no method {method_id} of interface {interface_id:#x}")
        return None if call.to_caller else UnsupportedError("results are sent to the caller only")

    def _broken(self, promise: PromisedAnswer) -> VirtualLogError | None:
        """Return the reason why the promise is not the node; None if it is."""
        answer = self._answers.get(promise.question)
        if answer is not None and isinstance(answer.outcome, VirtualLogError):
            return answer.outcome
        if answer is None or answer.outcome is None or promise.path != ((0,) if answer.is_open else ()):
            return UnsupportedError("calls can be made on the results of a bootstrap or of Node.open only")
        return None

    def owes(self, question: int) -> bool:
        """True if the call has arrived, and has no response yet."""
        answer = self._answers.get(question)
        return answer is not None and answer.outcome is None

    def respond(self, question: int, outcome: Any) -> None:
        """Answer a call that arrived, with a reply of its method's class or an error.

        Raises:
            TooLargeError: the reply does not fit a frame. Nothing was sent: respond with an error.
            Exception: a field of the reply does not fit the schema. Likewise.
        """
        self._settle(question, self._answers[question], outcome)

    def _settle(self, question: int, answer: _Answer, outcome: Any) -> None:
        assert answer.outcome is None
        if answer.finished:
            self._outbox.put(message_writer.canceled(question))
        elif answer.is_open:
            self._return_node(question, outcome, of_open=True)
            self._keep(answer, outcome)
        elif isinstance(outcome, VirtualLogError):
            self._outbox.put(message_writer.exception(question, *to_wire(outcome), finish_needed=False))
        else:
            assert answer.method is not None
            assert answer.method.results is not None
            self._outbox.put(message_writer.results(question, answer.method.results, outcome))
        self.pending_calls -= 1
        self.pending_call_bytes -= answer.frame_bytes
        if answer.outcome is None:
            del self._answers[question]

    def _keep(self, answer: _Answer, outcome: NodeOpened | VirtualLogError) -> None:
        if self._kept >= KEPT_MAX:
            raise MalformedError(f"{KEPT_MAX} answers are kept, and no finish comes")
        self._kept += 1
        answer.outcome = outcome

    def _return_node(self, question: int, outcome: NodeOpened | VirtualLogError, *, of_open: bool) -> None:
        if isinstance(outcome, VirtualLogError):
            self._outbox.put(message_writer.exception(question, *to_wire(outcome), finish_needed=True))
        else:
            self._outbox.put(message_writer.node_results(question, _NODE, outcome.protocol if of_open else None))

    def on_finish(self, question: int) -> None:
        """Handle a finish: the other side wants no answer any more. A finish for a forgotten answer
        is ignored."""
        answer = self._answers.get(question)
        if answer is None:
            return
        if answer.outcome is None:
            answer.finished = True  # the other side must not use the id again before our return
        else:
            self._kept -= 1
            del self._answers[question]

    def on_release(self, export: int) -> None:
        """Check that the other side releases what we export. The node itself stays exported.

        Raises:
            MalformedError: it was never exported.
        """
        if export != _NODE or self._identity is None:
            raise MalformedError(f"a release of capability {export}, which was never exported")
