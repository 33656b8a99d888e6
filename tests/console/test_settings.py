"""`console.toml`, and the options of `virtuallog console`."""

from __future__ import annotations

import ipaddress
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.console.served import Owners
from virtuallog.client.cluster_file import ClusterFile, NodeAddress
from virtuallog.contract.errors import InvalidSettingError
from virtuallog.runtime.toml import FieldError
from virtuallog_console.process import run_until_signalled
from virtuallog_console.settings import ConsoleSettings, read_console_settings
from virtuallog_server.cli.program import main

TLS = '\n[tls]\ncertificate = "c.pem"\nkey = "c.key"\nauthority = "a.pem"\n'


def read(folder: Path, text: str) -> ConsoleSettings:
    path = folder / "console.toml"
    path.write_text(text)
    return read_console_settings(path)


def test_a_file_says_everything(tmp_path: Path) -> None:
    """Paths are relative to its folder; the policy of access follows from it."""
    settings = read(
        tmp_path,
        'listen = "0.0.0.0:8443"\nhosts = ["console.example"]\nactions = true\nproxy = ["10.1.0.0/16"]\nadmins = ["alice"]\n'
        + TLS,
    )

    assert settings.cluster == tmp_path / "cluster.toml"
    assert settings.tls is not None and settings.tls.key == tmp_path / "c.key"
    policy = settings.policy
    assert (policy.tls, policy.actions, policy.hosts, policy.admins) == (
        True, True, frozenset({"console.example"}), frozenset({"alice"}),
    )  # fmt: skip
    assert policy.proxies == (ipaddress.ip_network("10.1.0.0/16"),)


def test_by_default_nothing_is_open() -> None:
    """Loopback, no proxy, no actions."""
    policy = ConsoleSettings().policy

    assert (policy.tls, policy.actions, policy.loopback_admin, policy.hosts, policy.proxies, policy.admins) == (
        False, False, False, frozenset(), (), frozenset(),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('listen = "0.0.0.0:8090"', "console.toml:1: listen: without TLS only loopback"),
        ('listen = "localhost"', "is not host:port"),
        ('hosts = ["https://a"]', "hosts: 'https://a' is no host name"),
        ('proxy = ["example.org"]', "proxy: 'example.org' is no address"),
        ('proxy = ["10.1.2.3/16"]', "has host bits set"),
        ('proxy_header = "a b"', "is no name of a header"),
        ('admins = ["alice"]', "admins: names users of a proxy"),
        ('archives = "s3://user:secret@bucket"', "archives: has a user or a password in it"),
        ("action = true", "unknown key"),
        (TLS, "hosts: with tls, name the hosts"),
        (
            'loopback_admin = true\nhosts = ["a"]\n' + TLS,
            "loopback_admin: with tls the role is that of the certificate",
        ),
    ],
)
def test_what_cannot_be_meant_is_refused(text: str, words: str, tmp_path: Path) -> None:
    """At the start, with file, line and key."""
    with pytest.raises(InvalidSettingError) as refused:
        read(tmp_path, text)

    assert words in str(refused.value)


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        ([], 2, "name the cluster"),
        (["--cluster", "cluster.toml", "--listen", "0.0.0.0:1"], 2, "listen: without TLS only loopback"),
        (["--cluster", "cluster.toml", "--certificate", "c.pem"], 2, "go together"),
        (["--cluster", "nothing.toml"], 1, "cannot be read"),
        (["--config", "nothing.toml"], 1, "cannot be read"),
    ],
)
def test_wrong_usage_is_told_in_one_line(arguments: list[str], code: int, words: str, tmp_path: Path) -> None:
    """As with every command."""
    (tmp_path / "cluster.toml").write_text('[[node]]\nid = 1\naddress = "127.0.0.1:1"\n')
    placed = [str(tmp_path / part) if part.endswith(".toml") else part for part in arguments]
    done = CliRunner().invoke(main, ["console", *placed], env={"VIRTUALLOG_CLUSTER": None})

    assert done.exit_code == code
    assert words in done.output
    assert len(done.output.splitlines()) == 1


def test_a_certificate_that_browsers_refuse_is_refused_at_the_start(tmp_path: Path) -> None:
    """That of a client without hosts."""
    owners = Owners.in_(tmp_path)
    (tmp_path / "cluster.toml").write_text('[[node]]\nid = 1\naddress = "127.0.0.1:1"\n')
    files = owners.client
    done = CliRunner().invoke(
        main,
        ["console", "--cluster", str(tmp_path / "cluster.toml"), "--listen", "127.0.0.1:0", "--host", "localhost",
         "--certificate", str(files.certificate), "--key", str(files.key), "--authority", str(files.authority)],
    )  # fmt: skip

    assert done.exit_code == 1
    assert "unsuitable certificate purpose" in done.output


def test_an_option_takes_the_place_of_a_setting() -> None:
    """One that is not given leaves the setting as it is; a priority that does not exist is refused."""
    settings = ConsoleSettings(actions=True)

    assert settings.with_options(priority="idle", actions=None).priority == "idle"
    assert settings.with_options(priority=None, actions=None, hosts=()) == settings
    with pytest.raises(FieldError, match="'high' is none of normal, low, idle"):
        settings.with_options(priority="high")


async def test_a_console_that_acts_is_an_admin(tmp_path: Path) -> None:
    """Else nodes would refuse each action, and an admin would see it after a confirmation."""
    owners = Owners.in_(tmp_path)
    settings = ConsoleSettings(actions=True, hosts=("localhost",), tls=owners.console)
    cluster = ClusterFile(nodes=(NodeAddress(id=1, address="127.0.0.1:1"),), tls=owners.admin)
    with pytest.raises(
        InvalidSettingError, match="a certificate of an admin for the console; this is virtuallog://here/client/console"
    ):
        await run_until_signalled(settings, cluster, print)
