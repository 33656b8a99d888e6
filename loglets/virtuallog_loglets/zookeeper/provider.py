"""Provider of loglets in a ZooKeeper: plans them, opens clients, frees their znodes."""

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

Connect: TypeAlias = Callable[[ZooKeeperConfig, Environment], Znodes]
"""Opens a client for a config. It must not block or fail: a client connects when it is first used."""


@attrs.define(eq=False)
class ZooKeeperProvider(ServerlessProvider):
    """`LogletProvider` of the zookeeper kind, with the optional protocols of
    `virtuallog.contract.provider` as noted."""

    color: ClassVar = "green"
    trials: ClassVar[Mapping[str, Mapping[str, str]]] = {}
    crash_area: ClassVar = "clients of a loglet in a ZooKeeper"

    connect: Connect = attrs.field(factory=KazooConnections)
    hosts: str = ""
    """Addresses of the ZooKeeper to use if neither the operator nor the active segment names one."""

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


async def probe(config: ZooKeeperConfig, znodes: Znodes) -> None:
    """Check that a ZooKeeper would take the appends of a planned loglet
    (`virtuallog.contract.provider.SupportsPreflight`).

    It creates and deletes a znode in one transaction. That takes a quorum and the right to do both
    below the root, and it is never visible. A missing root is created, as the first append would
    do.
    """
    try:
        try:
            await _touch(config.root, znodes)
        except NoZnodeError:  # not before: a client that may use the root need not be allowed to create it
            await make_root(config.root, znodes)
            await _touch(config.root, znodes)
    except UnavailableError as error:
        raise InvalidSettingError("hosts", f"the log stays where it is: {error}") from error


async def _touch(root: str, znodes: Znodes) -> None:
    path = probe_of(root)
    with suppress(ZnodeExistsError):  # made by hand; permissions are checked before names are
        await znodes.multi([Create(path), Delete(path)])
