"""`virtuallog state` and `virtuallog registrar`; docs/howto/state.md is run, block by block."""

from __future__ import annotations

import json
from pathlib import Path

import attrs
import pytest
import trio
from click.testing import CliRunner, Result

from tests.documented_commands import open_clusters, run_document
from tests.source_tree import ROOT
from virtuallog_database.registrar.core.edit import Edit
from virtuallog_database.registrar.core.tables import RecordTable
from virtuallog_database.registrar.registrar import open_registrar
from virtuallog_database.state.core.record_changes import RecordChanges
from virtuallog_database.state.records import PackedRecords
from virtuallog_database.state.storages.rocks import open_rocks_storage
from virtuallog_server.cli import main
from virtuallog_server.cli.state import state_job
from virtuallog_server.cli.state.state_job import VALUE_BYTES_MAX, value_of

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
    assert found["owner"] == {"name": "me", "epoch": 1, "capabilities": []}
    lines = run("registrar", "show", "jobs", "--storage", storage, "--table", "jobs").output.splitlines()
    assert lines[0] == f"version {found['version']}  owner me  epoch 1"
    assert lines[1:] == ['jobs  j2  {"command": "make"}', 'jobs  j1  {"command": "test"}']
    refused = run("registrar", "show", "jobs", "--storage", storage, "--table", "nope")
    assert (refused.exit_code, refused.output.count("\n")) == (1, 1)
    assert "'nope' (tables with records: jobs, notes)" in refused.output
    run("state", "set", "value", "hello", "--storage", storage)
    for name, reason in (("none", "there is no registry 'none'"), ("value", "a value that is none of records")):
        refused = run("registrar", "show", name, "--storage", storage)
        assert refused.exit_code == 1
        assert refused.output.startswith(f"virtuallog: {reason}")


def test_a_value_is_the_bytes_of_its_argument(storage: str) -> None:
    """Python decodes an argument that is no UTF-8 with surrogates. Other lone surrogates cannot be meant."""
    assert run("state", "set", "a", "x\udcff", "--storage", storage).exit_code == 0
    assert run("state", "get", "a", "--storage", storage).stdout_bytes == b"x\xff"
    for arguments in (["set", "a", "\ud800"], ["set", "\udcff", "1"], ["get", "\udcff"], ["expunge", "\udcff"]):
        check_refused(run("state", *arguments, "--storage", storage))


def check_refused(result: Result) -> None:
    """It failed by one line."""
    assert result.exit_code in (1, 2)
    assert isinstance(result.exception, SystemExit)
    assert result.output.count("\n") == 1


@pytest.mark.parametrize(
    "blob",
    [
        b"\xff\xfe\0",
        b"\0" * 100,
        b"[" * 100_000,
        b'{"name":"a","value":' + b"[" * 100_000,
        b'{"name":"a","value":"\\ud800"}',
        b"\n",
    ],
)
def test_a_dump_that_is_none(storage: str, tmp_path: Path, blob: bytes) -> None:
    """Any file is refused in one line."""
    (tmp_path / "dump").write_bytes(blob)
    check_refused(run("state", "restore", str(tmp_path / "dump"), "--storage", storage))


def test_a_file_that_is_too_large_is_not_read_to_its_end(storage: str, tmp_path: Path) -> None:
    """One byte above the largest value is enough to refuse it."""
    with (tmp_path / "large").open("wb") as file:
        file.truncate(VALUE_BYTES_MAX + 1000)
    with (tmp_path / "large").open("rb") as file:
        assert len(value_of(None, file)) == VALUE_BYTES_MAX + 1
    check_refused(run("state", "set", "a", "--file", str(tmp_path / "large"), "--storage", storage))


def test_a_line_that_is_too_long_is_not_read_to_its_end(
    storage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is named, and the lines before it are stored. The longest line that is read has room for the largest value."""
    assert len(json.dumps("\0" * 1000)) - 2 == 6 * 1000
    assert state_job.LINE_BYTES_MAX > 6 * VALUE_BYTES_MAX
    monkeypatch.setattr(state_job, "LINE_BYTES_MAX", 100)
    whole = b'{"name": "a", "value": "1"}'.ljust(99) + b"\n"
    with (tmp_path / "dump").open("wb") as file:
        file.write(whole + b" " + whole)
        file.truncate(1 << 30)
    refused = run("state", "restore", str(tmp_path / "dump"), "--storage", storage)
    assert refused.output == "virtuallog: line 2 has more than 100 bytes: no variable is so large\n"
    assert run("state", "get", "a", "--storage", storage).output == "1"


def test_names_are_printed_without_control_characters(storage: str) -> None:
    """A line for each, and no escape sequence of a terminal. Scripts ask for JSON."""
    run("state", "set", "a\nb\x1b[31m", "1", "--storage", storage)
    assert run("state", "names", "--storage", storage).output == "a\\nb\\x1b[31m\n"
    assert json.loads(run("state", "names", "--storage", storage, "--json").output) == {"names": ["a\nb\x1b[31m"]}
    check_refused(run("state", "get", "c\nd", "--storage", storage))


@attrs.frozen
class PutNote:
    key: str
    note: bytes

    def perform(self, edit: Edit) -> None:
        edit.put(NOTES, self.key, self.note)


def test_a_registry_with_strange_records_is_shown(storage: str, tmp_path: Path) -> None:
    """Control characters and lone surrogates are escaped; what is nested too deeply is in base 64."""
    notes = {"\ud800": b'"\\ud800\\u001b"', "\n": b'"\x7f"', "deep": b"[" * 100_000, "nan": b"NaN"}

    async def fill() -> None:
        async with (
            open_rocks_storage(tmp_path / "state") as opened,
            open_registrar(PackedRecords(opened), "r", tables=[NOTES], owner="\x1b") as registrar,
        ):
            await registrar.recover()
            for key, note in notes.items():
                await registrar.apply(PutNote(key, note))

    trio.run(fill)
    shown = run("registrar", "show", "r", "--storage", storage)
    assert shown.exit_code == 0
    lines = shown.output.splitlines()
    assert lines[0].endswith("owner \\x1b  epoch 1")
    assert lines[1:3] == ['notes  \\ud800  "\\ud800\\u001b"', 'notes  \\n  "\\x7f"']
    assert [line.startswith('notes  deep  {"base64": ') for line in lines] == [False] * 3 + [True, False]
    assert (
        json.loads(run("registrar", "show", "r", "--storage", storage, "--json").output)["tables"]["notes"]["\n"]
        == "\x7f"
    )


def test_a_registry_with_a_key_that_is_no_text(storage: str, tmp_path: Path) -> None:
    """Something else has written it."""

    async def fill() -> None:
        async with open_rocks_storage(tmp_path / "state") as opened:
            await PackedRecords(opened).update(
                "r", b"", RecordChanges(b"v" * 16, {b"notes\0\xff": b"\0" * 8}), may_create=True
            )

    trio.run(fill)
    check_refused(run("registrar", "show", "r", "--storage", storage))
