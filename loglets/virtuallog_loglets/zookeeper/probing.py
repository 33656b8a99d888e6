"""Whether a ZooKeeper would take the appends of a loglet that is only planned.

Asked with a znode that is made and deleted in one step: that takes a quorum, and the right to do both below the root, and nobody ever
sees it. The root is made if it is missing, as the first append would do.
"""

from __future__ import annotations

from contextlib import suppress

from virtuallog.errors import InvalidSettingError, UnavailableError
from virtuallog.znodes import Create, Delete, NoZnodeError, ZnodeExistsError, Znodes
from virtuallog_loglets.zookeeper.config import ZooKeeperConfig
from virtuallog_loglets.zookeeper.layout import probe_of
from virtuallog_loglets.zookeeper.skeleton import make_root


async def probe(config: ZooKeeperConfig, znodes: Znodes) -> None:
    """See `virtuallog.probing.ProbesLoglets`."""
    try:
        try:
            await _touch(config.root, znodes)
        except NoZnodeError:  # not before: who may use the root need not be allowed to make it
            await make_root(config.root, znodes)
            await _touch(config.root, znodes)
    except UnavailableError as error:
        raise InvalidSettingError("hosts", f"the log stays where it is: {error}") from error


async def _touch(root: str, znodes: Znodes) -> None:
    path = probe_of(root)
    with suppress(ZnodeExistsError):  # made by hand; what we may do here is looked at before names are
        await znodes.multi([Create(path), Delete(path)])
