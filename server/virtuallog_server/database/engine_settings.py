"""Settings of a replica's engines, from the section `[zookeeper]` of a node's config."""

from __future__ import annotations

from virtuallog_database.engines.core.enabled_engines import BOUNDS, FLOOR
from virtuallog_database.engines.lease import LeaseEngine, LeaseSettings
from virtuallog_database.engines.log_backup import LogBackupEngine, LogBackupSettings
from virtuallog_database.engines.rollout import RolloutSettings
from virtuallog_database.engines.stack import StackSettings
from virtuallog_database.engines.view_tracking import ViewSettings
from virtuallog_database.replica.host import HostSettings
from virtuallog_database.replica.replica import ReplicaSettings
from virtuallog_database.snapshots.compaction_store import CompactionStore
from virtuallog_server.config.zookeeper_settings import ZooKeeperSettings


def host_settings(zookeeper: ZooKeeperSettings, origin: str = "") -> HostSettings:
    """Settings of a replica, its snapshots and its sources. `origin` is the URL of the state that the cluster was restored from."""
    places = [CompactionStore(url) for url in (zookeeper.compacted_url, origin) if url]
    return HostSettings(replica=replica_settings(zookeeper), snapshots=zookeeper.snapshots, places=places)


def replica_settings(zookeeper: ZooKeeperSettings) -> ReplicaSettings:
    """Settings of the engines. An engine that is off at first and wanted here is enabled for all, once all replicas know it."""
    wanted = {
        BOUNDS: True,
        FLOOR: True,
        LeaseEngine.name: zookeeper.lease,
        LogBackupEngine.name: bool(zookeeper.backup_url),
    }
    stack = StackSettings(
        view=ViewSettings(eject_seconds=zookeeper.eject_seconds, copies=zookeeper.copies or None),
        lease=LeaseSettings(wanted=zookeeper.lease),
        log_backup=LogBackupSettings(url=zookeeper.backup_url),
        rollout=RolloutSettings(enable=tuple(name for name, is_wanted in wanted.items() if is_wanted)),
    )
    return ReplicaSettings(stack=stack)
