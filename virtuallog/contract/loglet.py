"""The contracts: what a loglet, a loglet provider and a MetaStore promise.

The picture that every name here refers to, for a loglet as for the whole log:

       trimmed            readable                 not yet committed
    |-----------|------------------------------|......................>
    0       trim point                        tail
            first place not trimmed            first unwritten place

Places are offsets in a loglet and positions in the virtual log. Sources: Delos, OSDI'20, section 3, with the ordering
rule corrected: the published text lets the tail check and the seal check run side by side. **The tail is read first,
the seal bit second; an entry is written first, the seal bit checked second.** See docs/internals/protocols/loglet.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias, runtime_checkable

from virtuallog.contract.batch import Batch
from virtuallog.contract.errors import VirtualLogError
from virtuallog.contract.types import Gap, LogletOffset, PlacedBatch, Tail

Placed: TypeAlias = PlacedBatch | Gap
"""What a loglet reads: batches where they lie, and ranges that hold none."""


class Loglet(Protocol):
    """A log with a fixed configuration. Only `seal`, `check_tail` and reads must survive failures; `append` need not.

    Every method may be called by many tasks at once and may be cancelled at any await: cancelling an `append` leaves
    its outcome unknown, cancelling anything else has no effect beyond what the method has already done.
    """

    async def append(self, batch: Batch, *, opens: bool, expected_tail: LogletOffset | None = None) -> range:
        """Order the batch and make it durable.

        On return all its entries are durable, and so is everything before them; the result is their places. Batches
        of one session are placed in the order of their sequence numbers; a batch offered again to the same sequencer
        gets the places it already has. After an error or a cancellation the batch may be in the log, now or later.

        Args:
            batch: whole; committed and sealed as one.
            opens: True for the first batch that its session offers to this loglet. Until that one is settled the
                caller offers no other of the session: without it a loglet cannot tell a gap from a beginning.
            expected_tail: append only if the batch would be placed exactly here; at most once by itself.

        Raises:
            SealedError: sealed; refresh the chain. Unknown outcome.
            ReconfigurationNeededError: will never take appends again, but is not sealed. Unknown outcome.
            UnavailableError: not done in time. Unknown outcome; offer the same batch again, to this loglet.
            OutOfOrderError, OverloadedError: this call did nothing. A second copy of it, which the network made, may have
                been taken or may yet be: unknown outcome, unless the same batch is acknowledged later.
            TailMismatchError: `expected_tail` is not the tail; `found` was, at some time between the first call with this batch and
                this condition and the error. Nothing was done, nor will be if this same call arrives once more.
            UnsupportedError: this loglet has no conditional appends.
        """
        ...

    async def check_tail(self) -> Tail:
        """First unwritten place, and whether the loglet is sealed; linearizable with `append`.

        `Open(t)`: every append acknowledged before the call lies below t, everything below t is readable, and no
        seal had completed when t was read. `Sealed(t)`: no append was or will be acknowledged at or past t; a later
        call may return a larger t, never a smaller one, until the loglet is moved. A moved loglet
        (`ReplicatedProvider.replicate`) is sealed and ends at or past the stop of its segment. Past that stop it promises
        nothing: its t may be smaller than before, and below what a stripe had acknowledged to its striped loglet.

        Raises:
            UnavailableError: not enough servers answered, or had room to settle what is in flight.
            ReconfigurationNeededError: entries in flight stay undecided until somebody seals.
            SealedError: the loglet has been dropped (every other method may say so, too).
        """
        ...

    async def wait_tail(self, past: LogletOffset) -> Tail:
        """Return once the tail is beyond `past` or the loglet is sealed; the result is as good as `check_tail`'s,
        except that an `Open` one may lag. Returns the current tail after a while in any case.

        Raises:
            UnavailableError: not enough servers answered.
        """
        ...

    async def read(self, start: LogletOffset, stop: LogletOffset, max_bytes: int) -> Sequence[Placed]:
        """What lies in [start, stop), in order, without holes: every place is covered by a batch or a gap.

        The caller has seen a tail of at least `stop` (from this loglet, or as the stop of a closed segment). Results
        begin exactly at `start` and may end early: at least one item, then as much as fits in about `max_bytes`.
        Batches reach as they lie, clipped to the range. A caller who has not seen such a tail hears of what is there,
        or an error; never anything about places that are not written.

        Raises:
            UnavailableError: no server that has it answered.
            CorruptionError: every copy that answered is damaged.
        """
        ...

    async def seal(self) -> None:
        """On return no later append will be acknowledged. For good; idempotent; by any number of callers.

        Raises:
            UnavailableError: not enough servers answered, or had room; some may be sealed.
        """
        ...

    async def prefix_trim(self, offset: LogletOffset) -> LogletOffset:
        """Allow everything below `offset` to be dropped; returns the effective trim point, never past the tail and
        never below an earlier one. Space comes back in the background. A loglet that drops batches only as a whole,
        or slots, stops before the one that `offset` lies in.

        Raises:
            UnavailableError: not enough servers answered, or had room; some may have trimmed.
        """
        ...


@runtime_checkable
class SupportsPost(Protocol):
    """A `Loglet` whose appends need no task that waits. Every batch costs one otherwise: two turns of the scheduler, and a third of
    what a client does for a batch that is alone."""

    def post_append(self, batch: Batch, *, opens: bool, done: Callable[[range | VirtualLogError], None]) -> None:
        """`append`, with the places or the error given to `done`: once, later, never from within this call. Batches of one session
        are offered in the order of the calls. What `done` raises is the caller's fault, and ends the client."""
        ...
