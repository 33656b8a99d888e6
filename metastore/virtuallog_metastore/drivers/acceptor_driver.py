"""Driver of an acceptor: requests in, one after the other; state to the store; answers out. Its
only driver."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

import attrs
import trio

from virtuallog.contract.crash_points import CrashPoint
from virtuallog.contract.errors import OverloadedError, StorageError, VirtualLogError
from virtuallog.contract.ports import Done, DurableMap, Handlers, NodeEnvironment
from virtuallog.contract.types import NodeId
from virtuallog_metastore import records
from virtuallog_metastore.core.acceptor import Acceptor, Message, PersistBallots, PersistDecision, Reply
from virtuallog_metastore.core.validation import check_untrusted
from virtuallog_metastore.messages import Accept, Ask, Learn, Prepare, genesis
from virtuallog_metastore.metrics import AcceptorMetrics

QUEUE_MAX: Final = 64
"""Requests that wait for the store.

Each may hold a value of 1 MiB. A round of one client is one request, so this is far more clients
than change the register at once, and a refused one backs off.
"""

STORE: Final = "metastore"

_FOUNDED = CrashPoint("metastore: version 0 is durable, the acceptor does not vote yet")
_PROMISING = CrashPoint("metastore: an acceptor is about to write a promise")
_PROMISED = CrashPoint("metastore: a promise is durable, nobody has been told")
_ACCEPTING = CrashPoint("metastore: an acceptor is about to write a vote")
_ACCEPTED = CrashPoint("metastore: a vote is durable, nobody has been told")
_LEARNING = CrashPoint("metastore: an acceptor is about to write a decision")
_LEARNED = CrashPoint("metastore: a decision is durable on an acceptor, nobody has been told")

_Queued: TypeAlias = tuple[Message, Done]


@attrs.define(eq=False)
class AcceptorDriver:
    """Serves the requests of `wire.ACCEPTOR` on one node.

    Requests are performed wholly, in order of arrival. When the store fails its content is unknown:
    the service reports the failure and answers every later request with the error.
    """

    _acceptor: Acceptor
    _store: DurableMap
    _fail: Callable[[BaseException], None]
    _queue: trio.MemorySendChannel[_Queued]
    _now: Callable[[], float]
    _meter: AcceptorMetrics
    _learned: Callable[[bytes], None]
    _failure: VirtualLogError | None = attrs.field(default=None, init=False)

    @classmethod
    async def start(cls, members: Sequence[NodeId], environment: NodeEnvironment, meter: AcceptorMetrics) -> Handlers:
        """Restore the acceptor, create version 0 on a first member's first start, and serve from now on.

        Raises:
            CorruptionError, MalformedError, StorageError, WrongRecipientError: the stored state
                cannot be used.
        """
        store = await environment.key_values(STORE)
        acceptor = await records.restore(store, environment.is_seated)
        queue, queued = trio.open_memory_channel[_Queued](QUEUE_MAX)
        service = cls(acceptor, store, environment.fail, queue, environment.clock.monotonic, meter, environment.learned)
        meter.known_version = acceptor.known
        if acceptor.known < 0 and environment.node in members:
            await service._perform(Learn(genesis(tuple(sorted(set(members))))), lambda _: None)
            _FOUNDED.reached()
        environment.nursery.start_soon(service._serve, queued)
        return dict.fromkeys((Ask, Prepare, Accept, Learn), service._receive)

    def _receive(self, message: Message, done: Done) -> None:
        try:
            check_untrusted(message)
            if self._shows_decision(message):
                self._tell(message, done)
                return
            self._queue.send_nowait((message, done))
            self._meter.waiting += 1
        except trio.WouldBlock:
            done(OverloadedError("the MetaStore has too many requests waiting"))
        except trio.BrokenResourceError:
            done(OverloadedError("the MetaStore of this node is stopping"))
        except VirtualLogError as error:
            done(error)

    def _shows_decision(self, message: Message) -> bool:
        """True for a question about a closed slot: the answer is a decision, which is true, also if this disk fails.

        So it need not wait behind a write, above all not behind that of the very decision. All other answers speak
        of this acceptor's own memory, and come in order.
        """
        return isinstance(message, Ask) and message.slot <= self._acceptor.known and self._failure is None

    def _tell(self, message: Message, done: Done) -> None:
        (reply,) = self._acceptor.step(message)
        assert isinstance(reply, Reply), "a question about a closed slot changes nothing"
        done(reply.outcome)

    async def _serve(self, queued: trio.MemoryReceiveChannel[_Queued]) -> None:
        """Serve until cancelled. If cancelled inside a write, the answer is never sent: its outcome
        is unknown."""
        async with queued:
            async for message, done in queued:
                self._meter.waiting -= 1
                if self._failure is None:
                    await self._perform_or_fail(message, done)
                else:
                    done(self._failure)

    async def _perform_or_fail(self, message: Message, done: Done) -> None:
        started = self._now()
        try:
            await self._perform(message, done)
            self._meter.performed(message, self._now() - started)
            self._meter.known_version = self._acceptor.known
        except VirtualLogError as error:
            # The acceptor in memory may now be ahead of the disk; no client may see it again.
            self._failure = StorageError(f"the MetaStore of this node has stopped: {error}")
            self._fail(error)
            done(self._failure)

    async def _perform(self, message: Message, done: Done) -> None:
        for effect in self._acceptor.step(message):
            match effect:
                case Reply():
                    done(effect.outcome)
                case PersistBallots() | PersistDecision():
                    if isinstance(effect, PersistDecision) and effect.decision.version > 0:
                        # It is true, also if this disk fails, and appends may wait for a sequencer here.
                        self._learned(effect.decision.proposal.value)
                    before, after = _around(message)
                    before.reached()
                    await self._store.write(records.changes(effect))
                    after.reached()


def _around(message: Message) -> tuple[CrashPoint, CrashPoint]:
    """Return the crash points before and after the write that `message` asks for."""
    if isinstance(message, Prepare):
        return _PROMISING, _PROMISED
    return (_ACCEPTING, _ACCEPTED) if isinstance(message, Accept) else (_LEARNING, _LEARNED)
