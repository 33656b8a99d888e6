"""Update of the node table in the newest register, by an amendment (`virtuallog.reconfiguration.core.node_table`).

Read, amend, put, and read again if another client's version came first. Each round means progress of another
client, so this ends. The outcome of a put is settled by reading, not by its attempt: an amendment that was
made already is no change when made again.
"""

from __future__ import annotations

import random

from virtuallog.contract import register
from virtuallog.contract.errors import ChainConflictError, UnavailableError
from virtuallog.contract.metastore import MetaStore
from virtuallog.contract.register import Register
from virtuallog.reconfiguration.core.node_table import Amendment


async def update_node_table(metastore: MetaStore, amendment: Amendment, source: random.Random) -> Register:
    """Make an amendment; returns a decided register that has it. After a cancel it may still be made.

    Raises:
        InvalidSettingError: the amendment is refused; nothing was done.
        TooLargeError: the register has no room for another node; nothing was done.
        UnavailableError: no majority of the MetaStore answered, or there is no register yet: unknown
            outcome; may be repeated.
    """
    while True:
        version, value = await metastore.get()
        if version == 0:
            raise UnavailableError("the cluster has not been bootstrapped")
        current = register.decode_untrusted(value)
        wanted = amendment.amend(current)
        if wanted is None:
            return current
        # Only an added node needs room: a replaced one comes back to its place however large the chain has grown.
        adds = len(wanted.nodes) > len(current.nodes)
        value = wanted.encode_planned(current) if adds else wanted.encode()
        try:
            await metastore.put(value, version, source.getrandbits(63), wanted.members)
        except ChainConflictError:
            continue
        return wanted
