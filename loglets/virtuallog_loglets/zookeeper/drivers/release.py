"""Frees what a loglet took that has left the chain.

First a tombstone takes the place of the seal: from then on nobody can append, or make the loglet anew, whatever he believes of the
chain. It stays, a hundred bytes for each segment that ever was. Then all below it is deleted, some at a time. Anybody may do it, and
go on where somebody else has ended.
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
"""In one step."""
_ROUNDS: Final = 100
"""In a row in which others have been faster: then they will finish it."""

_TOMBSTONE_SET = CrashPoint("zookeeper: a released loglet has its tombstone, nothing is deleted", rare=True)


@attrs.frozen(eq=False)
class LogletRelease:
    """Of one loglet."""

    _layout: ZooKeeperLayout
    _znodes: Znodes

    async def run(self) -> None:
        """On return nothing is left but the tombstone. See `virtuallog.contract.provider.SupportsExternalRelease`."""
        await self._write_tombstone()
        _TOMBSTONE_SET.reached()
        layout = self._layout
        for parent in (layout.batches, layout.chunks, layout.writers):
            await self._clear(parent)
            await self._delete([parent])
        await self._delete([layout.trim])

    async def _write_tombstone(self) -> None:
        """One that was never made gets a tombstone, too: somebody may be about to make it."""
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
                    break  # somebody else deletes: see what is left
        raise UnavailableError(f"loglet {self._layout.segment} is being released by others")

    async def _delete(self, paths: list[str]) -> bool:
        """False: some of them are gone already."""
        with suppress(NoZnodeError, NotEmptyError):
            await self._znodes.multi([Delete(path) for path in paths])
            return True
        return False
