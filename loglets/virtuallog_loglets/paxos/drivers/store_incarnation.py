"""Incarnation of the store of a node's replicas: when it was founded, and so what it cannot have forgotten.

A replica that has forgotten a promise must not vote before it has recovered. So a store knows when it was *founded*:
while the register had some version. No peer can have asked a former store about loglets of later versions.

    made in a data directory that never had one        founded = the version in which the directory joined
    lost: the directory had one, and it is gone        founded = the newest version, read from a majority now

Until the latter is read, replicas of this store serve no log (docs/internals/protocols/paxos.md, "Recovery").
"""

from __future__ import annotations

from typing import Final

import attrs

from virtuallog.contract.crash_points import CrashPoint
from virtuallog.contract.errors import RetryableError
from virtuallog.contract.ports import DurableMap, NodeEnvironment
from virtuallog.runtime import log
from virtuallog_loglets.paxos.drivers import disk_format
from virtuallog_loglets.paxos.messages import NOWHERE

STORE: Final = "paxos"
"""Name of the store in a data directory."""
RETRY_SECONDS: Final = 0.5
"""Pause between two attempts to read the register."""
_BOOT_BITS: Final = 40

_FOUNDED = CrashPoint("paxos: a store is founded, no replica is in it", rare=True)
_FOUND_EMPTY = CrashPoint("paxos: a store is new, and not known to be as old as the node", rare=True)


@attrs.frozen(kw_only=True)
class StoreIncarnation:
    """Origin of a store, as stored in it."""

    incarnation: int
    """Number of the store: each store of this node has a higher one than those before."""
    founded: int
    """Newest version of the register at the founding; no former store knew loglets of later versions. NOWHERE if it is
    not read yet."""
    lowest_live_version: int = 0
    """Loglets of earlier versions are dropped."""

    @property
    def pair(self) -> disk_format.Pair:
        return disk_format.incarnation_pair(self.incarnation, self.founded, self.lowest_live_version)


async def open_store_incarnation(store: DurableMap, environment: NodeEnvironment) -> StoreIncarnation:
    """Read the incarnation of a store; an empty store is founded now.

    Raises:
        CorruptionError, MalformedError, StorageError: the store cannot be trusted.
    """
    stored = await store.get(disk_format.INCARNATION_KEY)
    if stored is not None:
        incarnation, founded, lowest = disk_format.parse_incarnation(stored)
        return StoreIncarnation(incarnation=incarnation, founded=founded, lowest_live_version=lowest)
    was_lost = environment.is_lost(STORE)
    founding = StoreIncarnation(
        incarnation=_incarnation(environment), founded=NOWHERE if was_lost else environment.joined
    )
    await store.write(dict([founding.pair]))
    (_FOUND_EMPTY if was_lost else _FOUNDED).reached()
    return founding


async def newest_version(environment: NodeEnvironment) -> int:
    """Newest version of the register, read now; retries until a majority answers."""
    while True:
        try:
            return await environment.register_version()
        except RetryableError as error:
            log.info("the store of the replicas is new: waiting for the register", reason=str(error))
            await environment.clock.sleep(RETRY_SECONDS)


def _incarnation(environment: NodeEnvironment) -> int:
    """Number of a new store.

    Boots of a data directory begin below 2**32 and grow by one; a later directory joins later.
    """
    return (environment.joined << _BOOT_BITS) + environment.boot
