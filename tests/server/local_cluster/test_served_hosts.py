"""Certificates of owners that serve browsers: `virtuallog certificates --host NAME=HOST`."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner
from cryptography import x509

from virtuallog.contract.caller_roles import Principal, Role
from virtuallog.contract.errors import InvalidSettingError
from virtuallog.rpc.security.credentials import Credentials
from virtuallog_server.cli.program import main
from virtuallog_server.local_cluster.certificates import files_of

CONSOLE = Principal(cluster="virtuallog", role=Role.CLIENT, name="console")
APP = Principal(cluster="virtuallog", role=Role.CLIENT, name="app")


def made(folder: Path, *arguments: str) -> int:
    return CliRunner().invoke(main, ["certificates", str(folder), "--clients", "console,app", *arguments]).exit_code


def test_an_owner_with_hosts_may_serve_them(tmp_path: Path) -> None:
    """Its certificate names it to nodes, and its hosts to browsers; others of the same call cannot serve."""
    assert made(tmp_path, "--host", "console=localhost", "--host", "console=127.0.0.1") == 0

    certificate = x509.load_pem_x509_certificate(files_of(tmp_path, CONSOLE).certificate.read_bytes())
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["localhost"]
    assert [str(each) for each in names.get_values_for_type(x509.IPAddress)] == ["127.0.0.1"]
    assert Credentials.open(files_of(tmp_path, CONSOLE), serves=True).owner == CONSOLE
    with pytest.raises(InvalidSettingError, match="unsuitable certificate purpose"):
        Credentials.open(files_of(tmp_path, APP), serves=True)


@pytest.mark.parametrize("host", ["console", "console=", "other=localhost", "=localhost", "console=a/b"])
def test_a_host_belongs_to_one_of_the_owners(host: str, tmp_path: Path) -> None:
    """Anything else is wrong usage, and no certificate is made."""
    assert made(tmp_path / "made", "--host", host) == 2
    assert not (tmp_path / "made").exists()
