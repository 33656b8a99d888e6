"""Engine settings from a node's config."""

from __future__ import annotations

import pytest

from virtuallog.runtime.toml import FieldError
from virtuallog_server.config.zookeeper_settings import EJECT_SECONDS_MIN, ZooKeeperSettings
from virtuallog_server.database.engine_settings import host_settings, replica_settings


def test_by_default_nothing_is_enabled_that_is_off_at_first() -> None:
    """A lease and a backup have costs that an operator has to choose; a config that says nothing must not begin either."""
    stack = replica_settings(ZooKeeperSettings()).stack
    assert stack.rollout.enable == ("bounds", "session_floor")
    assert not stack.lease.wanted and not stack.log_backup.url


def test_what_is_wanted_is_enabled() -> None:
    """One option does both: the engine gets its settings, and the rollout that makes all replicas use it."""
    settings = ZooKeeperSettings(lease=True, backup_url="file:///backups", eject_seconds=60.0)
    stack = replica_settings(settings).stack
    assert stack.rollout.enable == ("bounds", "session_floor", "lease", "log_backup")
    assert stack.lease.wanted and stack.log_backup.url == "file:///backups"
    assert stack.view.eject_seconds == 60.0


@pytest.mark.parametrize("seconds", [0.0, 10.0, 29.0, float("nan")])
def test_nobody_is_ejected_at_once(seconds: float) -> None:
    """With less time to be silent in than a few announcements take, servers that live throw each other out: such a config is refused
    at the start."""
    with pytest.raises(FieldError, match="at least 30"):
        ZooKeeperSettings(eject_seconds=seconds)


def test_the_least_that_the_config_allows_is_enough_for_the_engine() -> None:
    """Two places say it; a config that passes the first must not stop the node at the second."""
    assert (
        replica_settings(ZooKeeperSettings(eject_seconds=EJECT_SECONDS_MIN)).stack.view.eject_seconds
        == EJECT_SECONDS_MIN
    )


def test_stores_begin_with_compactions_and_with_what_was_restored() -> None:
    """Both places are looked at: the first state of a restored cluster lies at one, those that it makes itself at the other."""
    zookeeper = ZooKeeperSettings(compacted_url="file:///compacted")
    assert [place.url for place in host_settings(zookeeper, "file:///restored").places] == [
        "file:///compacted",
        "file:///restored",
    ]
    assert host_settings(ZooKeeperSettings()).places == []
