"""The znodes that every loglet has, and what makes one that is not there: never created, wiped, or dropped.

Whoever appends or seals first makes them, all in one step; the others find them. Who has seen them once never makes them again,
and does not take others for them: a ZooKeeper that has lost its data would look like a fresh loglet.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Final

import attrs

from virtuallog.contract.crash_points import CrashPoint
from virtuallog.contract.errors import CorruptionError, SealedError, UnavailableError
from virtuallog.contract.znodes import BadVersionError, Create, NoZnodeError, Set, Stat, Znode, ZnodeExistsError, Znodes
from virtuallog_loglets.zookeeper.core.layout import CreationId, ZooKeeperLayout, ancestors_of, creation_id_of
from virtuallog_loglets.zookeeper.core.records import OPEN, RELEASED, SEALED, TrimState

DROPPED: Final = "the chain no longer holds this segment"
_ROUNDS: Final = 8
"""Of making, or sealing; each next one comes only if somebody else has just made a part of it."""

_SEALED = CrashPoint("zookeeper: the seal is set, nobody has been told")


@attrs.define(eq=False)
class BaseZnodes:
    """One client's knowledge of them."""

    layout: ZooKeeperLayout
    _znodes: Znodes
    _creation_id: CreationId | None = attrs.field(default=None, init=False)
    """None: not seen yet."""

    @property
    def was_seen(self) -> bool:
        return self._creation_id is not None

    def recognise(self, stat: Stat) -> None:
        """This is the birth of the loglet, as a stat of one of its znodes has shown it.

        Raises:
            CorruptionError: it was another one before.
        """
        birth = creation_id_of(stat)
        if self._creation_id is None:
            self._creation_id = birth
        elif birth != self._creation_id:
            raise self.lost("there is another one in its place")

    def missing(self) -> None:
        """Something that every loglet has does not exist, as a fresh read has shown.

        Raises:
            CorruptionError: it did exist.
        """
        if self.was_seen:
            raise self.lost("it is not there any more")

    def lost(self, what: str) -> CorruptionError:
        return CorruptionError(f"ZooKeeper has lost loglet {self.layout.segment}: {what}")

    def check_dropped(self, seal: Znode | None) -> None:
        """Raises SealedError if this says that the loglet has left the chain."""
        if seal is not None and seal.data == RELEASED:
            raise SealedError(DROPPED, refused=True)

    async def make(self, *, sealed: bool = False) -> None:
        """On return the loglet exists. Somebody else may have made it, and need not have sealed it.

        Raises:
            UnavailableError: unknown.
            CorruptionError: it did exist.
        """
        self.missing()
        layout = self.layout
        born = [
            Create(layout.base, OPEN),
            Create(layout.batches),
            Create(layout.chunks),
            Create(layout.writers),
            Create(layout.trim, TrimState().encode()),
        ]
        for _ in range(_ROUNDS):
            with suppress(ZnodeExistsError):
                try:
                    await self._znodes.multi([*born, *([Set(layout.base, SEALED, 0)] if sealed else [])])
                except NoZnodeError:
                    await make_root(layout.root, self._znodes)
                    continue
            return
        raise UnavailableError(f"the znode {layout.root} comes and goes")

    async def seal(self) -> None:
        """See `Loglet.seal`. A loglet that does not exist is made, and sealed in the same step: a late first append finds it so."""
        for _ in range(_ROUNDS):
            try:
                (stat,) = await self._znodes.multi([Set(self.layout.base, SEALED, 0)])
            except BadVersionError:
                return
            except NoZnodeError:
                await self.make(sealed=True)
                continue
            assert isinstance(stat, Stat)
            self.recognise(stat)
            _SEALED.reached()
            return
        raise UnavailableError(f"loglet {self.layout.segment} is made, and is not there")


async def make_root(root: str, znodes: Znodes) -> None:
    """On return there is the znode that loglets are made below."""
    for path in ancestors_of(root):
        with suppress(ZnodeExistsError):
            await znodes.multi([Create(path)])
