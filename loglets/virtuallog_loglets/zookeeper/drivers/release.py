"""Release of a loglet that has left the chain: frees its znodes.

First a tombstone takes the place of the seal. From then on no client can append or create the
loglet again, even with an old view of the chain. The tombstone stays: a hundred bytes for each
segment that ever was. Then everything below it is deleted, some at a time. Any client may do it,
and continue where another one stopped.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Final

import attrs

from virtuallog.contract.crash_points import CrashPoint
from virtuallog.contract.errors import UnavailableError
from virtuallog.contract.znodes import Delete, NotEmptyError, NoZnodeError, Set, Znodes
from virtuallog_loglets.zookeeper.core.layout import ZooKeeperLayout
from virtuallog_loglets.zookeeper.core.records import RELEASED
from virtuallog_loglets.zookeeper.drivers.base_znodes import BaseZnodes

DELETES_MAX: Final = 256
"""Most deletes in one transaction."""
_ROUNDS: Final = 100
"""Most rounds in a row in which other clients have been faster: then they will finish it."""

_TOMBSTONE_SET = CrashPoint("zookeeper: a released loglet has its tombstone, nothing is deleted", rare=True)


@attrs.frozen(eq=False)
class LogletRelease:
    """Release of one loglet."""

    _layout: ZooKeeperLayout
    _znodes: Znodes

    async def run(self) -> None:
        """Delete all but the tombstone. See `virtuallog.contract.provider.SupportsExternalRelease`."""
        await self._write_tombstone()
        _TOMBSTONE_SET.reached()
        layout = self._layout
        for parent in (layout.batches, layout.chunks, layout.writers):
            await self._clear(parent)
            await self._delete([parent])
        await self._delete([layout.trim])

    async def _write_tombstone(self) -> None:
        """Write the tombstone, also for a loglet that was never created: another client may be
        about to create it."""
        try:
            await self._znodes.multi([Set(self._layout.base, RELEASED)])
        except NoZnodeError:
            await BaseZnodes(self._layout, self._znodes).make(sealed=True)
            await self._znodes.multi([Set(self._layout.base, RELEASED)])

    async def _clear(self, parent: str) -> None:
        for _ in range(_ROUNDS):
            names = sorted(await self._znodes.children(parent, fresh=True) or ())
            if not names:
                return
            for first in range(0, len(names), DELETES_MAX):
                if not await self._delete([f"{parent}/{name}" for name in names[first : first + DELETES_MAX]]):
                    break  # another client deletes: see what is left
        raise UnavailableError(f"loglet {self._layout.segment} is being released by others")

    async def _delete(self, paths: list[str]) -> bool:
        """Delete znodes in one transaction; False if some of them are gone already."""
        with suppress(NoZnodeError, NotEmptyError):
            await self._znodes.multi([Delete(path) for path in paths])
            return True
        return False
