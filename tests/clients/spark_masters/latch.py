"""The election of Spark's masters: a latch of Curator, one ephemeral of each candidate, the oldest of which leads.

A master is two clients of ZooKeeper, with a session each: this one, and the one that stores its applications and workers.
"""

from __future__ import annotations

import re
from typing import Final

from tests.clients.ensembles import Ensemble
from tests.clients.observer import Observer
from tests.clients.spark_masters.daemons import Master

ELECTION: Final = "/spark/leader_election"
_CONNECTED: Final = r"Session establishment complete on server \S+/(\S+), session id = {:#x},"
"""A line of ZooKeeper's client in the log of a master."""


async def leading_session(observer: Observer) -> int:
    """The session of the master that leads."""
    client = observer.client
    candidates = await observer.call(client.retry, client.get_children, ELECTION)
    oldest = min(candidates, key=lambda name: int(name.rpartition("-")[2]))
    stat = await observer.call(client.retry, client.exists, f"{ELECTION}/{oldest}")
    return int(stat.ephemeralOwner)


def server_of(ensemble: Ensemble, master: Master, session: int) -> int:
    """The server that a session of a master was connected to last."""
    found = re.findall(_CONNECTED.format(session), master.log_file.read_text(errors="replace"))
    return ensemble.addresses.index(found[-1]) + 1
