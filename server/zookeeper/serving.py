"""Serves ZooKeeper's clients: accepts connections, keeps them within bounds, and ends those whose time is over."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import trio
from trio.abc import Listener, Stream

from database.kv.database import Database
from server.zookeeper.facts import Traffic
from server.zookeeper.hooks import Hooks
from server.zookeeper.settings import ZooKeeperSettings
from virtuallog.metrics import Family
from virtuallog.ports import Clock


class ZooKeeperServer:
    """See above. Usable while `run` runs; `serve` runs it, too.

    Args:
        database: the replica that is served.
        settings: of the node.
        clock: of the node.
        random: identifiers and passwords of sessions come from it.
        node: its number.
        hooks: who clients are, whether they are served now, words of four letters.
    """

    def __init__(
        self,
        database: Database,
        settings: ZooKeeperSettings,
        clock: Clock,
        random: random.Random,
        *,
        node: int,
        hooks: Hooks | None = None,
    ) -> None:
        raise NotImplementedError

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Needed by `serve_stream`: ends connections whose time is over, and carries out `sync`. Until cancelled."""
        raise NotImplementedError

    async def serve(
        self,
        listeners: Sequence[Listener[Any]],
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Accept connections until cancelled; `run` must be running."""
        raise NotImplementedError

    async def serve_stream(self, stream: Stream, host: str, subject: str = "") -> None:
        """Serve one connection until it ends; closes the stream. Cancelling cuts it off.

        Args:
            stream: to the client.
            host: its address, without a port; empty if it has none.
            subject: of the certificate that it has shown; empty: none.
        """
        raise NotImplementedError

    def close_all(self, reason: str) -> None:
        """End all connections now."""
        raise NotImplementedError

    def traffic(self) -> Traffic:
        """What connections do, for four-letter words and admin pages; `server.zookeeper.facts.CountsTraffic`."""
        raise NotImplementedError

    def reset_traffic(self) -> None:
        """Start counting anew."""
        raise NotImplementedError

    def metrics(self) -> list[Family]:
        """See `virtuallog.metrics.Measured`."""
        raise NotImplementedError
