"""Loglets in a ZooKeeper as a pluggable kind: plans them, opens clients of them, frees what they took."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import attrs

from virtuallog.api import Cluster, Loglet
from virtuallog.chain import SegmentId
from virtuallog.explaining import Evidence
from virtuallog.kept import Kept
from virtuallog.ports import Environment
from virtuallog.unserved import Unserved
from virtuallog.znodes import Znodes
from virtuallog_loglets.zookeeper import config as configs
from virtuallog_loglets.zookeeper.config import ZooKeeperConfig, decode_untrusted
from virtuallog_loglets.zookeeper.explaining import explain
from virtuallog_loglets.zookeeper.kazoo_znodes import Connections
from virtuallog_loglets.zookeeper.layout import Layout
from virtuallog_loglets.zookeeper.loglet import ZooKeeperLoglet
from virtuallog_loglets.zookeeper.probing import probe
from virtuallog_loglets.zookeeper.releasing import Releasing

Connect: TypeAlias = Callable[[ZooKeeperConfig, Environment], Znodes]
"""Must not block or fail: a client connects when it is first used."""


@attrs.define(eq=False)
class ZooKeeperProvider(Unserved):
    """See `virtuallog.api.LogletProvider`; what else it offers refers to where it is described."""

    connect: Connect = attrs.field(factory=Connections)
    hosts: str = ""
    """Of the ZooKeeper to use where neither the operator nor the active segment names one."""

    @property
    def kind(self) -> str:
        return "zookeeper"

    @property
    def settings(self) -> Mapping[str, str]:
        """See `virtuallog.planning.TellsSettings`."""
        return configs.SETTINGS

    def plan(self, cluster: Cluster, settings: Mapping[str, str], previous: bytes | None) -> bytes:
        return configs.plan(settings, previous, self.hosts).encode()

    def describe(self, config: bytes) -> Mapping[str, Any]:
        decoded = decode_untrusted(config)
        loglet = {} if decoded.loglet is None else {"loglet": str(decoded.loglet)}
        return {**decoded.others, "hosts": decoded.hosts, "root": decoded.root, **loglet}

    def open(self, segment: SegmentId, config: bytes, environment: Environment) -> Loglet:
        decoded = decode_untrusted(config)
        return ZooKeeperLoglet(decoded.loglet or segment, decoded, self.connect(decoded, environment), environment)

    def named(self, segment: SegmentId, config: bytes) -> bytes:
        """See `virtuallog.kept.NamesLoglets`."""
        decoded = decode_untrusted(config)
        return attrs.evolve(decoded, loglet=decoded.loglet or segment).encode()

    def loglets(self, segment: SegmentId, config: bytes) -> Kept:
        """See `virtuallog.kept.KeepsLoglets`."""
        return {decode_untrusted(config).loglet or segment: (self.kind, config)}

    async def release(self, segment: SegmentId, config: bytes, environment: Environment) -> None:
        """See `virtuallog.kept.ReleasedElsewhere`."""
        decoded = decode_untrusted(config)
        await Releasing(Layout(decoded.root, decoded.loglet or segment), self.connect(decoded, environment)).run()

    async def probe(self, config: bytes, environment: Environment) -> None:
        """See `virtuallog.probing.ProbesLoglets`."""
        decoded = decode_untrusted(config)
        await probe(decoded, self.connect(decoded, environment))

    async def explain(self, segment: SegmentId, config: bytes, environment: Environment) -> Sequence[Evidence]:
        """See `virtuallog.explaining.ExplainsLoglets`."""
        decoded = decode_untrusted(config)
        znodes = self.connect(decoded, environment)
        return await explain(Layout(decoded.root, decoded.loglet or segment), znodes, decoded.hosts, environment.clock)
