"""The contract of a loglet: a log with a fixed configuration.

The picture that every name here refers to, for a loglet as for the whole log:

       trimmed            readable                 not yet committed
    |-----------|------------------------------|......................>
    0       trim point                        tail
            first place not trimmed            first unwritten place

Places are offsets in a loglet and positions in the virtual log. Source: Delos, OSDI'20, section 3.
The ordering rule is corrected here; the published text lets the tail check and the seal check run
side by side. **The tail is read first, the seal bit second; an entry is written first, the seal bit
checked second.** See docs/internals/protocols/loglet.md. Each kind enforces it in its tail check
(`native/core/tail_check.py`, `paxos/core/tail_check.py`, `raft/core/read_index.py`,
`zookeeper/drivers/tail_check.py`, `striped/loglet.py`); the conformance kit tests it (`virtuallog/testing/weak_seal.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias, runtime_checkable

from virtuallog.contract.batch import Batch
from virtuallog.contract.errors import VirtualLogError
from virtuallog.contract.types import Gap, LogletOffset, PlacedBatch, Tail

Placed: TypeAlias = PlacedBatch | Gap
"""Items that a loglet reads: batches where they lie, and ranges that hold none."""


class Loglet(Protocol):
    """A log with a fixed configuration.

    Only `seal`, `check_tail` and reads must survive failures; `append` need not.

    Many tasks may call every method at once, and may cancel it at any await. Cancelling an `append`
    leaves its outcome unknown. Cancelling any other method has no effect beyond what it has done.
    """

    async def append(self, batch: Batch, *, opens: bool, expected_tail: LogletOffset | None = None) -> range:
        """Order the batch and make it durable.

        On return all its entries are durable, and so is everything before them. Batches of one
        session are placed in the order of their sequence numbers. A batch offered again to the same
        sequencer gets the places it already has. After an error or a cancellation the batch may be
        in the log, now or later.

        Args:
            batch: the whole batch; committed and sealed as one.
            opens: True for the first batch that its session offers to this loglet. The caller
                offers no other batch of the session until this one is settled: a loglet could not
                tell a gap from a beginning.
            expected_tail: append only if the batch would be placed exactly here. This condition by
                itself makes the append happen at most once. None for an unconditional append.

        Returns:
            The places of the entries, in order.

        Raises:
            SealedError: the loglet is sealed; refresh the chain. Unknown outcome.
            ReconfigurationNeededError: the loglet will never take appends again, but is not sealed.
                Unknown outcome.
            UnavailableError: not done in time. Unknown outcome; offer the same batch again, to this
                loglet.
            OutOfOrderError, OverloadedError: this call did nothing. Unknown outcome all the same,
                unless the same batch is acknowledged later: a second copy of the call, made by the
                network, may have been taken or may yet be.
            TailMismatchError: `expected_tail` is not the tail. `found` was the tail at some time
                between the first call with this batch and this condition and the error. Nothing was
                done, and nothing will be if this same call arrives once more.
            UnsupportedError: this loglet has no conditional appends.
        """
        ...

    async def check_tail(self) -> Tail:
        """Return the first unwritten place, and if the loglet is sealed; linearizable with `append`.

        `Open(t)`: every append acknowledged before the call lies below t, everything below t is
        readable, and no seal had completed when t was read.

        `Sealed(t)`: no append was or will be acknowledged at or past t. A later call may return a
        larger t, never a smaller one, until the loglet is moved.

        A moved loglet (`ReplicatedProvider.replicate`) is sealed and ends at or past the stop of
        its segment. Past that stop it promises nothing: its t may be smaller than before, and below
        what a stripe had acknowledged to its striped loglet.

        Raises:
            UnavailableError: not enough servers answered, or had room to settle what is in flight.
            ReconfigurationNeededError: entries in flight stay undecided until a client seals the
                loglet.
            SealedError: the loglet has been dropped. Every other method may raise this, too.
        """
        ...

    async def wait_tail(self, past: LogletOffset) -> Tail:
        """Return once the tail is beyond `past` or the loglet is sealed.

        The result is as good as that of `check_tail`, except that an `Open` one may lag. Returns
        the current tail after a while in any case.

        Raises:
            UnavailableError: not enough servers answered.
        """
        ...

    async def read(self, start: LogletOffset, stop: LogletOffset, max_bytes: int) -> Sequence[Placed]:
        """Return what lies in [start, stop), in order, without holes: batches and gaps.

        The caller has seen a tail of at least `stop`, from this loglet or as the stop of a closed
        segment. Results begin exactly at `start` and may end early: at least one item, then as many
        as fit in about `max_bytes`. Batches reach as far as they lie, clipped to the range. A
        caller that has not seen such a tail gets what is there, or an error. It never gets anything
        about places that are not written.

        Raises:
            UnavailableError: no server that has it answered.
            CorruptionError: every copy that answered is damaged.
        """
        ...

    async def seal(self) -> None:
        """Stop appends for good. On return no later append will be acknowledged.

        Idempotent; any number of callers may seal at once.

        Raises:
            UnavailableError: not enough servers answered, or had room; some may be sealed.
        """
        ...

    async def prefix_trim(self, offset: LogletOffset) -> LogletOffset:
        """Allow everything below `offset` to be dropped; space comes back in the background.

        A loglet that drops only whole batches, or whole slots, stops before the one that `offset`
        lies in.

        Returns:
            The effective trim point, never past the tail and never below an earlier one.

        Raises:
            UnavailableError: not enough servers answered, or had room; some may have trimmed.
        """
        ...


@runtime_checkable
class SupportsPost(Protocol):
    """A `Loglet` that appends without a waiting task.

    Otherwise every batch costs one task: two turns of the scheduler, and a third of a client's work
    for a batch that is alone.
    """

    def post_append(self, batch: Batch, *, opens: bool, done: Callable[[range | VirtualLogError], None]) -> None:
        """Append as `append` does, and give the places or the error to `done`.

        Batches of one session are offered in the order of the calls.

        Args:
            batch: as in `append`.
            opens: as in `append`.
            done: called once, later, never from within this call. It must not raise: that is a
                fault of the caller and ends the client.
        """
        ...


@runtime_checkable
class SupportsSealedTail(Protocol):
    """A `Loglet` whose servers tell its tail as they are sealed: a change of the chain takes one round less."""

    async def seal_and_check_tail(self) -> Tail:
        """`seal` followed by `check_tail`, as one operation; the tail is as good as if asked for after the seal.

        Raises: as these two.
        """
        ...
