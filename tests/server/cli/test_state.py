"""`virtuallog state` and `virtuallog registrar`; docs/howto/state.md is run, block by block."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import trio
from click.testing import CliRunner, Result

from tests.documented_commands import open_clusters, run_document
from tests.source_tree import ROOT
from virtuallog_database.registrar.core.edit import Edit
from virtuallog_database.registrar.core.tables import RecordTable
from virtuallog_database.registrar.registrar import open_registrar
from virtuallog_database.state.records import PackedRecords
from virtuallog_database.state.storages.rocks import open_rocks_storage
from virtuallog_server.cli import main

NOTES = RecordTable[bytes]("notes", bytes, bytes)


def run(*arguments: str, text: str | None = None) -> Result:
    """Result of a command."""
    return CliRunner().invoke(main, arguments, input=text)


@pytest.fixture
def storage(tmp_path: Path) -> str:
    """Location of an empty storage."""
    return f"rocks:{tmp_path / 'state'}"


@pytest.mark.processes
@pytest.mark.slow
def test_the_manual_is_true(tmp_path: Path) -> None:
    """All commands and programs of docs/howto/state.md, with what they print."""
    with open_clusters(tmp_path) as clusters:
        kinds = run_document(ROOT / "docs/howto/state.md", clusters)
    assert kinds == ["python", "text", "sh", "text", "python", "text"]


def test_a_value_is_set_only_over_its_version(storage: str) -> None:
    """A version that is another one is refused in one line, and nothing is changed; so is a name that is gone."""
    version = run("state", "set", "a", "1", "--storage", storage).output.strip()
    assert run("state", "set", "a", "2", "--storage", storage, "--version", version).exit_code == 0
    for arguments in (["set", "a", "3"], ["expunge", "a"]):
        refused = run("state", *arguments, "--storage", storage, "--version", version)
        assert refused.exit_code == 1
        assert refused.output.count("\n") == 1
    assert run("state", "get", "a", "--storage", storage).output == "2"
    assert run("state", "expunge", "a", "--storage", storage).exit_code == 0
    assert run("state", "expunge", "a", "--storage", storage).exit_code == 1
    assert run("state", "get", "a", "--storage", storage).output == "virtuallog: there is no variable 'a'\n"


def test_a_dump_is_restored(storage: str, tmp_path: Path) -> None:
    """Text and other bytes, names of all kinds; what exists is replaced only on demand; a bad line is named."""
    (tmp_path / "bytes").write_bytes(b"\xff\0")
    run("state", "set", "a/b \N{SNOWMAN}", "\N{SNOWMAN}", "--storage", storage)
    run("state", "set", "bytes", "--file", str(tmp_path / "bytes"), "--storage", storage)
    run("state", "dump", "--storage", storage, "--out", str(tmp_path / "dump"))
    other = f"rocks:{tmp_path / 'other'}"
    for expected in (0, 1):
        assert run("state", "restore", str(tmp_path / "dump"), "--storage", other).exit_code == expected
    assert run("state", "restore", str(tmp_path / "dump"), "--storage", other, "--replace").exit_code == 0
    assert json.loads(run("state", "names", "--storage", other, "--json").output)["names"] == [
        "a/b \N{SNOWMAN}",
        "bytes",
    ]
    assert run("state", "get", "bytes", "--storage", other).stdout_bytes == b"\xff\0"
    (tmp_path / "dump").write_text('{"name": "c", "value": "1"}\n{"name": 1}\n')
    refused = run("state", "restore", str(tmp_path / "dump"), "--storage", other)
    assert refused.output == "virtuallog: line 2 is not a variable of a dump\n"
    assert run("state", "get", "c", "--storage", other).output == "1"


@pytest.mark.parametrize(
    "location",
    [
        "",
        "rocks:",
        "disk:here",
        "zookeeper:localhost:2181",
        "paxos-log:here",
        "paxos-log:here?quorum=x",
        "paxos-log:here?size=1",
    ],
)
def test_a_location_that_is_none(location: str) -> None:
    """Refused in one line that says what there is."""
    refused = run("state", "names", "--storage", location)
    assert refused.exit_code == 1
    assert refused.output.startswith("virtuallog: ")
    assert refused.output.count("\n") == 1


@pytest.mark.parametrize("version", ["x", "00"])
def test_a_version_that_is_none(storage: str, version: str) -> None:
    """Wrong usage."""
    assert run("state", "set", "a", "1", "--storage", storage, "--version", version).exit_code == 2


class _Fill:
    def perform(self, edit: Edit) -> None:
        edit.put(JOBS, "j2", {"command": "make"})
        edit.put(JOBS, "j1", {"command": "test"})
        edit.put(NOTES, "n", b"\xff")


JOBS = RecordTable[dict[str, str]]("jobs", lambda record: json.dumps(record).encode(), json.loads)


def test_a_registry_is_shown_in_its_order(storage: str, tmp_path: Path) -> None:
    """Records of any table, those that are no JSON in base 64, and the owner."""

    async def fill() -> None:
        async with open_rocks_storage(tmp_path / "state") as opened:
            records = PackedRecords(opened)
            async with open_registrar(records, "jobs", tables=[JOBS, NOTES], owner="me") as registrar:
                await registrar.recover()
                await registrar.apply(_Fill())

    trio.run(fill)
    found = json.loads(run("registrar", "show", "jobs", "--storage", storage, "--json").output)
    assert [*found["tables"]["jobs"].items()] == [("j2", {"command": "make"}), ("j1", {"command": "test"})]
    assert found["tables"]["notes"] == {"n": {"base64": "/w=="}}
    assert found["owner"] == [1, "me", 1, []]
    lines = run("registrar", "show", "jobs", "--storage", storage, "--table", "jobs").output.splitlines()
    assert lines[1:] == ['jobs  j2  {"command": "make"}', 'jobs  j1  {"command": "test"}']
    run("state", "set", "value", "hello", "--storage", storage)
    for name, reason in (("none", "there is no registry 'none'"), ("value", "a value that is none of records")):
        refused = run("registrar", "show", name, "--storage", storage)
        assert refused.exit_code == 1
        assert refused.output.startswith(f"virtuallog: {reason}")
