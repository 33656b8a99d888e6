"""Loglet made of several loglets side by side, so that no single one limits it (Delos, section
4.2.2).

It only calls other loglets, its stripes.

The life of an append:

    1. loglet.py                 `StripedLoglet.append` chooses the stripe by the session (`core/layout.py`)
    2. core/batch_wrapper.py     wraps the batch as one entry of that stripe, numbered anew
    3. loglet.py                 `_append_to` appends the entry to the stripe, which acknowledges its place: the batch
                                 is durable at a slot of the whole
    4. drivers/append_barrier.py `AppendBarrier.wait` waits until every lower slot is filled (`core/acknowledgement.py`)
    5. core/fill_policy.py       decides meanwhile when idle stripes are filled; drivers/filler_sessions.py makes the
                                 fillers, which the barrier appends
    6. core/acknowledgement.py   `StripeProgress.learn` releases the append: it is acknowledged

Other answers by file:

    core/stripe_reads.py   Reads of all stripes, merged slot by slot.
    loglet.py              `check_tail` and `seal`. Tail first, seal bit second: once a stripe is sealed, all are sealed
                           and their tails are read again.
    planner.py, core/stripe_placement.py   Servers of the stripes; a lost copy is rebuilt by `provider.py: replicate`,
                                           stripe by stripe.

docs/internals/protocols/striped.md has the rules and the failures without them.
"""

from virtuallog_loglets.striped.provider import StripedProvider

__all__ = ["StripedProvider"]
