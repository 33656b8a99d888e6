"""Puts an amendment of the table of nodes (`virtuallog.reconfiguration.core.node_table`) on top of the newest register.

Look, amend, put, and look again if somebody else's version came first: each time round somebody has made a change, so
this ends. The outcome of a put is settled by looking, not by its attempt: an amendment that has been made is no change
when it is made again.
"""

from __future__ import annotations

import random

from virtuallog.contract import register
from virtuallog.contract.errors import ChainConflictError, UnavailableError
from virtuallog.contract.metastore import MetaStore
from virtuallog.contract.register import Register
from virtuallog.reconfiguration.core.node_table import Amendment


async def update_node_table(metastore: MetaStore, amendment: Amendment, source: random.Random) -> Register:
    """A decided register that shows the amendment. Cancelled, it may still be made.

    Raises:
        InvalidSettingError: it cannot be; nothing was done.
        TooLargeError: the register has no room for another node; nothing was done.
        UnavailableError: no majority of the MetaStore answered, or there is no register yet: unknown; may be repeated.
    """
    while True:
        version, value = await metastore.get()
        if version == 0:
            raise UnavailableError("the cluster has not been bootstrapped")
        current = register.decode_untrusted(value)
        wanted = amendment.amend(current)
        if wanted is None:
            return current
        # Only another node needs room: a replaced one comes back to its place whatever the chain has grown to.
        adds = len(wanted.nodes) > len(current.nodes)
        value = wanted.encode_planned(current) if adds else wanted.encode()
        try:
            await metastore.put(value, version, source.getrandbits(63), wanted.members)
        except ChainConflictError:
            continue
        return wanted
