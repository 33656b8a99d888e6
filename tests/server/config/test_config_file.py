"""The config file of a node: it holds every option that the node was started with."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from virtuallog.client.cluster_file import NodeAddress
from virtuallog.contract.errors import InvalidSettingError
from virtuallog.rpc.security.tls_files import TlsFiles
from virtuallog.runtime.toml import FieldError, parse, spell
from virtuallog_server.config.config_file import StartOptions, amend, spell_config
from virtuallog_server.config.node_config import NodeConfig, read_node_config
from virtuallog_server.config.zookeeper_settings import SaslUser, ZooKeeperSettings

FILES = TlsFiles(certificate=Path("/a b"), key=Path('/"q"'), authority=Path("/\\x"))
SECTION = ZooKeeperSettings(
    listen="127.0.0.1:2182", tls_listen="127.0.0.1:2183", tls=FILES, client_certificates="want",
    admin_listen="127.0.0.1:8080", commands=("*",), tick_ms=7, session_timeout_min_ms=8, session_timeout_max_ms=9,
    jute_maxbuffer_bytes=1 << 30, connections_max=5, connections_per_client_max=6, outstanding_max=3,
    snapshot_log_bytes=4, snapshot_seconds=0.5, snapshots_kept=9, eject_seconds=31.0, copies=2, lease=True,
    backup_url="s3://b", compacted_url="s3://c", read_only=True, sasl_required=True, superuser_digest="a:b=",
    sasl_users=(SaslUser(name="ü", password='"\\\n\x7f'), SaslUser(name="b", password="")),
)  # fmt: skip
CONFIG = NodeConfig(
    id=7, data=Path("/data"), listen="[::1]:9", metastore=(1,), roles=("log-server",), loglet="paxos", origin="file:///o",
    peers=(NodeAddress(id=1, address="a:1"), NodeAddress(id=7, address="[::1]:9")), console="127.0.0.1:80", probes="0.0.0.0:81",
    healing="off", server_patience_seconds=0.25, rebuild_patience_seconds=1e300, protocol=1, connections_max=99,
    connections_bytes_max=1 << 40, log_level="debug", log_json=True, tls=FILES, zookeeper=SECTION,
)  # fmt: skip
HAND_MADE = """# Our third machine.
id = 3
data = "."          # beside this file
[[peer]]
id = 3
address = "127.0.0.1:7003\""""


def test_every_option_that_is_written_reads_back(tmp_path: Path) -> None:
    """No option is at its default here, so one that a later program has and this test has not makes it fail."""
    for settings in (CONFIG, SECTION):
        for field in attrs.fields(type(settings)):
            assert getattr(settings, field.name) != field.default, field.name
    path = tmp_path / "node.toml"
    path.write_text(spell_config(CONFIG), encoding="utf-8")

    assert attrs.evolve(read_node_config(path), data=CONFIG.data) == CONFIG


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_any_text_can_be_a_value(text: str) -> None:
    """Quotes, controls and what is beyond the first plane."""
    user = SaslUser(name=text, password=text)

    assert parse(SaslUser, spell(user), Path()) == user


def test_options_are_inserted_and_nothing_else_changes(tmp_path: Path) -> None:
    """An operator's text stays, comments included; so do the permissions of the file. A second start adds nothing."""
    path = tmp_path / "node.toml"
    path.write_text(HAND_MADE)
    path.chmod(0o600)
    options = StartOptions(
        console="127.0.0.1:8003", probes="0.0.0.0:9003", zookeeper="127.0.0.1:2183", origin="file:///o"
    )
    amended = amend(path, options)
    assert path.read_text() == HAND_MADE  # not before `write`

    amended.write()

    assert amended.added == ("console", "probes", "origin", "[zookeeper]")
    assert HAND_MADE in path.read_text()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    read = read_node_config(path)
    assert read == amended.config
    assert read.zookeeper == ZooKeeperSettings(listen="127.0.0.1:2183")
    assert (read.console, read.probes, read.origin) == ("127.0.0.1:8003", "0.0.0.0:9003", "file:///o")
    assert amend(path, options).added == ()
    assert amend(path, StartOptions()).config == read


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (StartOptions(console="127.0.0.1:8009"), r"node.toml:1: console: is 127.0.0.1:8003 there, not 127.0.0.1:8009"),
        (StartOptions(origin="file:///p"), r"node.toml:2: origin: is file:///o there"),
        (StartOptions(zookeeper="127.0.0.1:2189"), r"node.toml:11: zookeeper.listen: is 127.0.0.1:2183 there"),
    ],
)
def test_an_option_that_the_file_contradicts_is_refused(tmp_path: Path, options: StartOptions, reason: str) -> None:
    """The file holds: it may have been edited, and a mistyped port would move all clients."""
    path = tmp_path / "node.toml"
    path.write_text(HAND_MADE)
    amend(path, StartOptions(console="127.0.0.1:8003", zookeeper="127.0.0.1:2183", origin="file:///o")).write()
    before = path.read_text()

    with pytest.raises(InvalidSettingError, match=reason):
        amend(path, options)
    assert path.read_text() == before


@pytest.mark.parametrize("name", ["console", "probes", "zookeeper"])
def test_an_option_that_cannot_be_is_named(tmp_path: Path, name: str) -> None:
    """Before anything is started."""
    (tmp_path / "node.toml").write_text(HAND_MADE)

    with pytest.raises(FieldError) as refused:
        amend(tmp_path / "node.toml", StartOptions(**{name: "nowhere"}))
    assert refused.value.path == (name,)


def test_a_change_is_durable_once_it_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The new file first, then its name: else the former one may be back after a crash."""
    path = tmp_path / "node.toml"
    path.write_text(HAND_MADE)
    synced = list[tuple[bool, bool]]()
    sync = os.fsync

    def note(descriptor: int) -> None:
        is_renamed = "zookeeper" in path.read_text()
        synced.append((stat.S_ISDIR(os.fstat(descriptor).st_mode), is_renamed))
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", note)
    amend(path, StartOptions(zookeeper="127.0.0.1:2183")).write()

    assert synced == [(False, False), (True, True)]
