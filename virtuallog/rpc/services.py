"""The Services port over RPC: a link to every node that is called, and a local link to the own node.

A call costs no task and no cancel scope. One task sleeps until the first deadline of all calls.
Links run a task or two each while they are connected. Requests posted to one node within a
scheduler turn leave in one segment.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable
from itertools import count
from typing import Any, Final

import outcome
import trio

from virtuallog.contract.capnp_interface import Interface
from virtuallog.contract.errors import UnavailableError, VirtualLogError
from virtuallog.contract.metrics import MetricFamily
from virtuallog.contract.ports import Clock, Handlers, ReplyT, Request
from virtuallog.contract.types import NodeId
from virtuallog.rpc.link import NodeLink, Peer
from virtuallog.rpc.local_link import DeferredCalls, LocalLink
from virtuallog.rpc.metrics import link_metrics
from virtuallog.rpc.protocol.methods import bind
from virtuallog.rpc.protocol.node import Hello, Identity, OpenNode
from virtuallog.rpc.transport import Connect

SWEEP_SECONDS: Final = 0.05
"""Least time between two checks for calls past their deadline, in seconds: how late a timeout may
come."""

_ANY_NODE: Final = NodeId(0)

Resolve = Callable[[NodeId], Peer]
"""Returns the present addresses and identity of a node. Raises UnavailableError for an unknown node."""


class RpcServices:
    """`ports.Services` on Cap'n Proto RPC. Usable while `run` runs.

    Args:
        interfaces: wire form of all requests that will be posted to other nodes.
        resolve: called at each post, so it must be quick. Not only the address may change, but also
            the data directory that is meant.
        connect: opens streams; `transport.tcp_connect()` on real machines.
        clock: clock for timeouts.
        random: source for back-off.
        node: the own node; None if this is no node.
        handlers: handlers of the own node; called directly, with requests as they are. May be
            filled later.
        identity: returns the present identity of the own node. A call to the own node is refused
            with WrongRecipientError, as another process would refuse it, unless `resolve` expects
            this identity there. None if calls to the own node are not checked.
    """

    def __init__(
        self,
        interfaces: Iterable[Interface],
        resolve: Resolve,
        connect: Connect,
        clock: Clock,
        random: random.Random,
        *,
        node: NodeId | None = None,
        handlers: Handlers | None = None,
        identity: Callable[[], Identity] | None = None,
    ) -> None:
        self._methods = bind(interfaces)
        self._resolve, self._connect, self._clock, self._random = resolve, connect, clock, random
        self._known_outcomes = DeferredCalls()
        self._node, self._identity = node, identity
        self._meant: Peer | None = None
        """Peer that the own node was last found to be. The resolver returns the same object while
        it means the same."""
        self._local = LocalLink({} if handlers is None else handlers, self._refusal)
        self._links: dict[NodeId, NodeLink | LocalLink] = {} if node is None else {node: self._local}
        self._numbers = count()
        self._callers: dict[int, Callable[[Any], None]] = {}
        """Callbacks of the tasks that wait in `call`."""
        self._sweep_at = math.inf
        """No call is due before this time."""
        self._sooner = trio.Event()
        """Set when `_sweep_at` has moved forward."""
        self._nursery: trio.Nursery | None = None
        self._on_broken: Callable[[NodeId], None] = lambda _: None

    def watch_connections(self, on_broken: Callable[[NodeId], None]) -> None:
        """Call `on_broken` with a node when an open connection to it has ended: closed, reset or silent.

        That is no proof that its process has ended. Replaces the function given before. It must not block and must not post.
        """
        self._on_broken = on_broken

    def learn(self, interfaces: Iterable[Interface]) -> None:
        """Take in further requests that will be posted to other nodes.

        Raises:
            TypeError: a message class does not fit its struct, or one class stands for two methods.
        """
        self._methods.add(interfaces)

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve until cancelled.

        Then waiting callers of `call` get UnavailableError. Posted calls are dropped together with
        `done`: they belong to a component that is about to end, with ports that may be dead
        already.
        """
        try:
            async with trio.open_nursery() as nursery:
                self._nursery = nursery
                nursery.start_soon(self._known_outcomes.run)
                nursery.start_soon(self._local.turns.run)
                nursery.start_soon(self._sweep)
                task_status.started()
        finally:
            self._nursery = None
            for wake in list(self._callers.values()):
                wake(UnavailableError("this client was shut down"))

    def post(
        self,
        node: NodeId,
        request: Request[ReplyT],
        done: Callable[[ReplyT | VirtualLogError], None],
        timeout_seconds: float,
    ) -> None:
        """Post as `ports.Services.post`. `done` is never called from within; a timeout may come
        `SWEEP_SECONDS` late.

        Once `run` has ended, posts are dropped: a caller that posts again from within `done` would
        do so for ever.

        Raises:
            Exception: a field of the request does not fit its schema: a bug of the caller. `done`
                is not called.
        """
        if self._nursery is None:
            return
        link = self._links.get(node) or self._new_link(node, self._nursery)
        now = self._clock.monotonic()
        link.post(request, done, now, timeout_seconds)
        if now + timeout_seconds < self._sweep_at:
            self._sweep_at = now + timeout_seconds
            self._sooner.set()

    def metrics(self) -> list[MetricFamily]:
        """Return the metrics of all links (`MetricsSource`)."""
        return link_metrics(link for link in self._links.values() if isinstance(link, NodeLink))

    async def call(self, node: NodeId, request: Request[ReplyT], timeout_seconds: float) -> ReplyT:
        """Call as `ports.Services.call`. A cancelled call goes on by itself; its outcome is dropped."""
        if self._nursery is None:
            raise UnavailableError("this client is not running")
        task, caller = trio.lowlevel.current_task(), next(self._numbers)

        def done(result: ReplyT | VirtualLogError) -> None:
            if self._callers.pop(caller, None):
                trio.lowlevel.reschedule(task, _settled(result))

        def cancelled(_: Any) -> trio.lowlevel.Abort:
            del self._callers[caller]
            return trio.lowlevel.Abort.SUCCEEDED

        self.post(node, request, done, timeout_seconds)
        self._callers[caller] = done  # no answer can have come yet
        reply: ReplyT = await trio.lowlevel.wait_task_rescheduled(cancelled)
        return reply

    async def who_is_at(self, addresses: tuple[str, ...], timeout_seconds: float) -> Identity:
        """Return the node at the first of these addresses that answers, over a connection of its own.

        It may be any node, the own one as well.

        Raises:
            VirtualLogError: no node answers there in time, or one that is not to be believed.
        """
        if self._nursery is None:
            raise UnavailableError("this client is not running")
        answers, answered = list[Identity | VirtualLogError](), trio.Event()

        def done(outcome: Identity | VirtualLogError) -> None:
            answers.append(outcome)
            answered.set()

        node = _ANY_NODE if self._node is None else self._node
        link = self._make_link(node, lambda _: Peer(addresses, OpenNode()), self._nursery)
        try:
            link.post(Hello(), done, self._clock.monotonic(), timeout_seconds)
            with self._clock.timeout(timeout_seconds):
                await answered.wait()
        finally:
            link.close()
        if not answers:
            raise UnavailableError(f"no process answers at {', '.join(addresses)}")
        if isinstance(answers[0], VirtualLogError):
            raise answers[0]
        return answers[0]

    def _new_link(self, node: NodeId, nursery: trio.Nursery) -> NodeLink:
        link = self._make_link(node, self._resolve, nursery, self._broken)
        self._links[node] = link
        return link

    def _broken(self, node: NodeId) -> None:
        self._on_broken(node)

    def _make_link(
        self,
        node: NodeId,
        resolve: Resolve,
        nursery: trio.Nursery,
        on_broken: Callable[[NodeId], None] = lambda _: None,
    ) -> NodeLink:
        return NodeLink(
            node, self._methods, resolve, self._connect, self._clock, self._random, nursery,
            self._known_outcomes.report, on_broken,
        )  # fmt: skip

    def _refusal(self) -> VirtualLogError | None:
        """Return the reason why the own node is not the one that a call to it means; None if it is."""
        if self._identity is None or self._node is None:
            return None
        try:
            peer = self._resolve(self._node)
        except VirtualLogError as error:
            return error
        if peer is not self._meant:
            outcome = peer.expected.answer_untrusted(self._identity())
            if isinstance(outcome, VirtualLogError):
                return outcome
            self._meant = peer
        return None

    async def _sweep(self) -> None:
        while True:
            with self._clock.timeout(max(SWEEP_SECONDS, self._sweep_at - self._clock.monotonic())):
                await self._sooner.wait()
            self._sooner = trio.Event()
            now = self._clock.monotonic()
            for link in list(self._links.values()):
                link.expire(now)
            self._sweep_at = min((link.next_deadline for link in self._links.values()), default=math.inf)


def _settled(result: ReplyT | VirtualLogError) -> outcome.Outcome[ReplyT]:
    return outcome.Error(result) if isinstance(result, VirtualLogError) else outcome.Value(result)
