"""Names in certificates, and the statements of docs/howto/secure.md about roles and making certificates."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.source_tree import ROOT
from virtuallog.contract.caller_roles import Principal, Role, find_untrusted, parse_untrusted
from virtuallog.contract.errors import UntrustedError
from virtuallog.plugins import all_interfaces, loglet_providers, metastore_provider
from virtuallog.rpc.security.credentials import Credentials
from virtuallog.rpc.security.permissions import Permissions
from virtuallog.rpc.security.tls_files import TlsFiles
from virtuallog_database.control.wire import INTERFACES

DOCUMENT = (ROOT / "docs/howto/secure.md").read_text()


@pytest.mark.parametrize(
    ("role", "name"), [(Role.NODE, "2"), (Role.NODE, "4294967295"), (Role.ADMIN, "alice"), (Role.CLIENT, "app-1.b_c")]
)
def test_a_name_reads_back_as_it_was_spelled(role: Role, name: str) -> None:
    """A name parses back from its text: nodes have numbers, all others words."""
    owner = Principal(cluster="prod", role=role, name=name)

    assert parse_untrusted(str(owner)) == owner
    assert owner.node == (int(name) if role is Role.NODE else None)


@pytest.mark.parametrize(
    "uri",
    [
        "", "virtuallog://prod", "virtuallog://prod/node", "virtuallog://prod/node/", "virtuallog://prod/node/x",
        "virtuallog://prod/node/0", "virtuallog://prod/node/02", "virtuallog://prod/node/+2", "virtuallog://prod/node/2/",
        "virtuallog://prod/node/2\n", "virtuallog:///node/2", "virtuallog://prod/root/2", "virtuallog://prod/NODE/2",
        "https://prod/node/2", "virtuallog://prod/client/a b", "virtuallog://prod/client/" + "x" * 65,
    ],
)  # fmt: skip
def test_what_is_no_name_is_refused(uri: str) -> None:
    """A name that is nearly valid is refused."""
    with pytest.raises(UntrustedError):
        parse_untrusted(uri)


def test_a_certificate_names_one_owner() -> None:
    """Names of other systems beside it do not matter; two of ours do."""
    other, app = "spiffe://prod/app", "virtuallog://prod/client/app"

    assert find_untrusted([other, app]) == parse_untrusted(app)
    for names in ([], [other], [app, "virtuallog://prod/admin/app"]):
        with pytest.raises(UntrustedError, match="must have one name"):
            find_untrusted(names)


def test_the_table_in_the_document_is_the_one_that_is_applied() -> None:
    """Each method of every interface of a node stands in the document beside the least role that
    may call it."""
    written = {
        Role[role.upper()]: set(re.findall(r"`(\w+)`", methods))
        for role, methods in re.findall(r"^\| (client|admin|node) \| (`.*) \|$", DOCUMENT, re.MULTILINE)
    }
    table = Permissions.of([*all_interfaces(loglet_providers(), metastore_provider()), *INTERFACES]).table

    assert written == {role: {method.title for method, least in table if least is role} for role in Role}


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")
def test_certificates_made_as_the_document_says_are_taken(tmp_path: Path) -> None:
    """The block of openssl commands in the document makes usable certificates."""
    found = re.search(r"^```\n(openssl .*?)^```", DOCUMENT, re.MULTILINE | re.DOTALL)
    assert found is not None
    subprocess.run(["sh", "-e", "-c", found[1]], cwd=tmp_path, check=True, capture_output=True, timeout=30)

    files = TlsFiles(certificate=Path("node-2.pem"), key=Path("node-2.key"), authority=Path("authority.pem"))
    assert str(Credentials.open(files.below(tmp_path)).owner) == "virtuallog://prod/node/2"
