"""Lets go of the log that was held for this replica while it restored a snapshot.

The hold ends by itself some minutes later; but until then nothing is trimmed. So the replica drops it, once it is in the view
with a snapshot of its own at or past what was held: from then on its place in the view keeps all that it needs.
"""

from __future__ import annotations

from typing import Final

from virtuallog.errors import RetryableError
from virtuallog.ports import Clock
from virtuallog_database.engines.view_tracking import ViewTracking
from virtuallog_database.snapshots.messages import hold_name

LOOK_SECONDS: Final = 1.0


async def release_own(replica: str, view: ViewTracking, clock: Clock) -> None:
    """Return once the log is not held for `replica` any more. Call it when the replica has caught up: a hold that it has not
    applied yet is none to it. Cancelled, the hold ends by itself.

    Args:
        replica: the name of this one.
        view: of its stack.
        clock: of its node.
    """
    while (hold := view.holds().get(hold_name(replica))) is not None:
        own = view.members().get(replica)
        if own is not None and own.durable >= hold.position:
            try:
                await view.release(hold_name(replica))
            except RetryableError:  # the next look says whether it was dropped all the same
                pass
            else:
                return
        await clock.sleep(LOOK_SECONDS)
