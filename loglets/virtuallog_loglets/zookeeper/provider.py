"""Loglets in a ZooKeeper as a pluggable kind: plans them, opens clients of them, frees what they took."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, ClassVar, TypeAlias

import attrs

from virtuallog.contract.chain import SegmentId
from virtuallog.contract.diagnosis import Evidence
from virtuallog.contract.errors import InvalidSettingError, UnavailableError
from virtuallog.contract.loglet import Loglet
from virtuallog.contract.placement import Cluster
from virtuallog.contract.ports import Environment
from virtuallog.contract.provider import RetainedLoglets, ServerlessProvider
from virtuallog.contract.znodes import Create, Delete, NoZnodeError, ZnodeExistsError, Znodes
from virtuallog_loglets.zookeeper import config as configs
from virtuallog_loglets.zookeeper.config import ZooKeeperConfig, decode_untrusted
from virtuallog_loglets.zookeeper.core.layout import ZooKeeperLayout, probe_of
from virtuallog_loglets.zookeeper.diagnosis import explain
from virtuallog_loglets.zookeeper.drivers.base_znodes import make_root
from virtuallog_loglets.zookeeper.drivers.kazoo_znodes import KazooConnections
from virtuallog_loglets.zookeeper.drivers.release import LogletRelease
from virtuallog_loglets.zookeeper.loglet import ZooKeeperLoglet

# FOLDED from virtuallog_loglets.zookeeper.probing: Whether a ZooKeeper would take the appends of a loglet that is only planned.
#
# Asked with a znode that is made and deleted in one step: that takes a quorum, and the right to do both below the root, and nobody ever
# sees it. The root is made if it is missing, as the first append would do.


async def probe(config: ZooKeeperConfig, znodes: Znodes) -> None:
    """See `virtuallog.contract.provider.SupportsPreflight`."""
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


Connect: TypeAlias = Callable[[ZooKeeperConfig, Environment], Znodes]
"""Must not block or fail: a client connects when it is first used."""


@attrs.define(eq=False)
class ZooKeeperProvider(ServerlessProvider):
    """See `virtuallog.contract.provider.LogletProvider`; what else it offers refers to where it is described."""

    color: ClassVar = "green"
    trials: ClassVar[Mapping[str, Mapping[str, str]]] = {}
    crash_area: ClassVar = "clients of a loglet in a ZooKeeper"

    connect: Connect = attrs.field(factory=KazooConnections)
    hosts: str = ""
    """Of the ZooKeeper to use where neither the operator nor the active segment names one."""

    @property
    def kind(self) -> str:
        return "zookeeper"

    @property
    def settings(self) -> Mapping[str, str]:
        """See `virtuallog.contract.provider.SupportsSettings`."""
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
        """See `virtuallog.contract.provider.SupportsRebind`."""
        decoded = decode_untrusted(config)
        return attrs.evolve(decoded, loglet=decoded.loglet or segment).encode()

    def loglets(self, segment: SegmentId, config: bytes) -> RetainedLoglets:
        """See `virtuallog.contract.provider.SupportsRetention`."""
        return {decode_untrusted(config).loglet or segment: (self.kind, config)}

    async def release(self, segment: SegmentId, config: bytes, environment: Environment) -> None:
        """See `virtuallog.contract.provider.SupportsExternalRelease`."""
        decoded = decode_untrusted(config)
        await LogletRelease(
            ZooKeeperLayout(decoded.root, decoded.loglet or segment), self.connect(decoded, environment)
        ).run()

    async def probe(self, config: bytes, environment: Environment) -> None:
        """See `virtuallog.contract.provider.SupportsPreflight`."""
        decoded = decode_untrusted(config)
        await probe(decoded, self.connect(decoded, environment))

    async def explain(self, segment: SegmentId, config: bytes, environment: Environment) -> Sequence[Evidence]:
        """See `virtuallog.contract.provider.SupportsDiagnosis`."""
        decoded = decode_untrusted(config)
        znodes = self.connect(decoded, environment)
        return await explain(
            ZooKeeperLayout(decoded.root, decoded.loglet or segment), znodes, decoded.hosts, environment.clock
        )
