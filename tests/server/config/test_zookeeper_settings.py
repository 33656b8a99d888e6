"""The section `[zookeeper]`: the sample lists every option with its default, and what cannot be is refused where it stands."""

from __future__ import annotations

import re
from pathlib import Path

import attrs
import pytest

from tests.source_tree import ROOT
from virtuallog.contract.errors import InvalidSettingError
from virtuallog_server.config.node_config import read_node_config
from virtuallog_server.config.zookeeper_settings import SaslUser, ZooKeeperSettings

HEAD = 'id = 1\ndata = "data"\n'


def test_the_sample_lists_every_option_with_its_default(tmp_path: Path) -> None:
    """The section, commented in, is an empty one, but for the certificate and the user that show their form."""
    section = (ROOT / "docs/reference/sample.toml").read_text().partition("# [zookeeper]\n")[2].partition("\n\n")[0]
    text = re.sub(r"^# ?(?=[a-z_]+ = |\[)", "", section, flags=re.MULTILINE)
    (tmp_path / "node.toml").write_text(f"{HEAD}[zookeeper]\n{text}")
    sample = read_node_config(tmp_path / "node.toml").zookeeper

    assert sample is not None
    assert sample.sasl_users == (SaslUser(name="app", password="secret"),)
    assert attrs.evolve(sample, tls=None, sasl_users=()) == ZooKeeperSettings()
    keys = {str(field.metadata.get("toml", field.name)) for field in attrs.fields(ZooKeeperSettings)}
    assert keys == set(re.findall(r"^([a-z_]+) = ", text.partition("\n[zookeeper.tls]\n")[0], re.MULTILINE)) | {
        "tls",
        "sasl_user",
    }


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('tls_listen = "127.0.0.1:2281"', "needs [zookeeper.tls]"),
        ('client_certificates = "perhaps"', "must be need, want, none"),
        ("sasl_required = true", "no client could log in"),
        ('listen = "here"', "is not host:port"),
        ("tick_ms = 0", "must be at least 1"),
    ],
)
def test_what_cannot_be_is_refused_with_its_line(tmp_path: Path, line: str, reason: str) -> None:
    """Before anything starts."""
    (tmp_path / "node.toml").write_text(f"{HEAD}[zookeeper]\n{line}\n")
    with pytest.raises(InvalidSettingError, match=rf"node\.toml:4.*{re.escape(reason)}"):
        read_node_config(tmp_path / "node.toml")
