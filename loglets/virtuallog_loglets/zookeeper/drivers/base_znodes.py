"""Base znodes of a loglet: created on first use, and checked against being wiped or dropped.

The first client that appends or seals creates them, all in one transaction; the others find them. A
client that has seen them never creates them again, and does not take others for them: a ZooKeeper
that has lost its data would look like a fresh loglet.
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
"""Most rounds of creating or sealing. Another one comes only if another client has just created a part."""

_SEALED = CrashPoint("zookeeper: the seal is set, nobody has been told")


@attrs.define(eq=False)
class BaseZnodes:
    """One client's knowledge of a loglet's base znodes."""

    layout: ZooKeeperLayout
    _znodes: Znodes
    _creation_id: CreationId | None = attrs.field(default=None, init=False)
    """Creation id of the loglet; None if it has not been seen yet."""

    @property
    def was_seen(self) -> bool:
        return self._creation_id is not None

    def recognise(self, stat: Stat) -> None:
        """Learn or compare the loglet's creation id from the stat of one of its znodes.

        Raises:
            CorruptionError: it was another one before.
        """
        birth = creation_id_of(stat)
        if self._creation_id is None:
            self._creation_id = birth
        elif birth != self._creation_id:
            raise self.lost("there is another one in its place")

    def missing(self) -> None:
        """Note that a base znode does not exist, as a fresh read has shown.

        Raises:
            CorruptionError: it did exist.
        """
        if self.was_seen:
            raise self.lost("it is not there any more")

    def lost(self, what: str) -> CorruptionError:
        return CorruptionError(f"ZooKeeper has lost loglet {self.layout.segment}: {what}")

    def check_dropped(self, seal: Znode | None) -> None:
        """Raise SealedError if the seal says that the loglet has left the chain."""
        if seal is not None and seal.data == RELEASED:
            raise SealedError(DROPPED, refused=True)

    async def make(self, *, sealed: bool = False) -> None:
        """Create the loglet. It exists on return. Another client may have created it, perhaps
        without a seal.

        Raises:
            UnavailableError: the outcome is unknown.
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
        """Seal the loglet (see `Loglet.seal`).

        A loglet that does not exist is created and sealed in one transaction: a late first append
        finds it sealed.
        """
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
    """Create the znode below which loglets are created. It exists on return."""
    for path in ancestors_of(root):
        with suppress(ZnodeExistsError):
            await znodes.multi([Create(path)])
