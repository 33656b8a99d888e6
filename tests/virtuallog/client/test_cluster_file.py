"""A shared cluster file, and the certificate of its user."""

from __future__ import annotations

from pathlib import Path

import attrs
import pytest

from virtuallog.client.cluster_file import ClusterFile, NodeAddress, with_own_certificate
from virtuallog.connect import connect
from virtuallog.contract.errors import InvalidSettingError
from virtuallog.rpc.security.tls_files import TlsFiles

PLAIN = ClusterFile(nodes=(NodeAddress(id=1, address="127.0.0.1:1"),))
SHARED = attrs.evolve(PLAIN, tls=TlsFiles(certificate=Path("c"), key=Path("k"), authority=Path("a")))
OWN = {"VIRTUALLOG_CERTIFICATE": "mine.pem", "VIRTUALLOG_KEY": "mine.key"}
ALL = {**OWN, "VIRTUALLOG_AUTHORITY": "ours.pem"}


def test_the_environment_may_name_another_certificate() -> None:
    """Certificate and key come from the environment; the authority from the file, unless the environment names it."""
    mine = TlsFiles(certificate=Path("mine.pem"), key=Path("mine.key"), authority=Path("a"))
    assert with_own_certificate(SHARED, OWN).tls == mine
    assert with_own_certificate(SHARED, ALL).tls == attrs.evolve(mine, authority=Path("ours.pem"))
    assert with_own_certificate(PLAIN, ALL) == attrs.evolve(PLAIN, tls=attrs.evolve(mine, authority=Path("ours.pem")))


@pytest.mark.parametrize("environment", [{}, {"VIRTUALLOG_KEY": "", "HOME": "/"}])
def test_without_one_the_file_is_as_it_is(environment: dict[str, str]) -> None:
    """An empty variable counts as absent."""
    assert with_own_certificate(SHARED, environment) == SHARED
    assert with_own_certificate(PLAIN, environment) == PLAIN


@pytest.mark.parametrize("cluster", [PLAIN, SHARED])
@pytest.mark.parametrize("half", ["VIRTUALLOG_CERTIFICATE", "VIRTUALLOG_KEY"])
def test_a_certificate_and_its_key_go_together(cluster: ClusterFile, half: str) -> None:
    """A certificate without its key, and a key without its certificate, are refused."""
    with pytest.raises(InvalidSettingError, match="go together"):
        with_own_certificate(cluster, {half: "mine"})


def test_somebody_has_to_say_whom_to_believe() -> None:
    """Without `[tls]` in the file, the environment has to name the authority."""
    with pytest.raises(InvalidSettingError, match="VIRTUALLOG_AUTHORITY"):
        with_own_certificate(PLAIN, OWN)


async def test_a_program_that_names_the_file_uses_its_own_certificate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A path given to `connect` is read as commands do."""
    path = tmp_path / "cluster.toml"
    path.write_text(PLAIN.spell())
    for name in OWN:
        monkeypatch.setenv(name, str(tmp_path / "missing.pem"))
    with pytest.raises(InvalidSettingError, match="VIRTUALLOG_AUTHORITY"):
        async with connect(path):
            raise AssertionError("it connected")
