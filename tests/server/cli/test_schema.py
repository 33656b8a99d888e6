"""`virtuallog schema`: the files that a client in another language begins with."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import attrs
import pytest
from click.testing import CliRunner, Result

from docs._generate import wire
from tests import debian
from tests.documented_commands import open_clusters, run_document
from tests.source_tree import ROOT, SHIPPED
from virtuallog.contract.errors import WIRE_CLASSES
from virtuallog_loglets.native.config import NativeConfig
from virtuallog_loglets.native.wire import SCHEMA
from virtuallog_server.cli import main

MEASURING = {"floor.capnp"}
"""Schemas of programs that measure; no node serves them."""


def write(folder: Path) -> Result:
    return CliRunner().invoke(main, ["schema", "--out", str(folder)])


def test_the_schema_of_each_service_is_written_as_it_is(tmp_path: Path) -> None:
    """A client gets every schema of the product, unchanged, and a page that names them. A second call finds them there."""
    ours = {path.name: path.read_bytes() for package in SHIPPED for path in (ROOT / package).rglob("*.capnp")}
    assert write(tmp_path / "new").exit_code == 0
    assert write(tmp_path / "new").exit_code == 0

    written = {path.name: path.read_bytes() for path in (tmp_path / "new").iterdir()}
    page = written.pop("README.md").decode()
    assert written == {name: text for name, text in ours.items() if name not in MEASURING}
    for name, text in written.items():
        (file_id,) = re.findall(r"^(@0x[0-9a-f]{16});", text.decode(), re.MULTILINE)
        assert f"| `{name}` | `{file_id}` |" in page


@pytest.mark.parametrize("name", ["notes", "native.capnp"], ids=["another-file", "another-version"])
def test_a_directory_with_other_files_is_left_alone(tmp_path: Path, name: str) -> None:
    """A file that is not one of this version is named, and nothing is written beside it."""
    (tmp_path / name).write_text("mine")
    done = write(tmp_path)

    assert done.exit_code == 1
    assert f"{tmp_path / name} is there already" in done.output
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_a_path_that_is_no_directory_is_refused(tmp_path: Path) -> None:
    """A file in the way is an error of one line."""
    (tmp_path / "file").touch()

    assert write(tmp_path / "file" / "below").exit_code == 1


@pytest.mark.processes
def test_stock_capnp_takes_the_schemas(tmp_path: Path) -> None:
    """The commands of docs/howto/other-languages.md: all schemas are compiled to C++ by Debian's capnp."""
    debian.require("capnp", lambda: shutil.which("capnp") is not None, "capnproto", "libcapnp-dev")
    with open_clusters(tmp_path) as clusters:
        assert run_document(ROOT / "docs/howto/other-languages.md", clusters) == ["sh", "sh", "console"]
    schemas = {path.name for path in (tmp_path / "schema").glob("*.capnp")}
    classes = {path.name for path in (tmp_path / "classes").iterdir()}

    assert classes == {f"{name}.{suffix}" for name in schemas for suffix in ("h", "c++")}


def test_ids_are_those_of_stock_capnp(tmp_path: Path) -> None:
    """The page of the wire protocol has the ids that stock capnp computes for the interfaces."""
    debian.require("capnp", lambda: shutil.which("capnp") is not None, "capnproto", "libcapnp-dev")
    write(tmp_path)
    dump = subprocess.run(
        ["capnp", "compile", "-ocapnp", *sorted(tmp_path.glob("*.capnp"))], capture_output=True, text=True, check=True
    )
    stock = dict(re.findall(r"^interface (\w+) @(0x[0-9a-f]+)", dump.stdout, re.MULTILINE))
    named = dict(re.findall(r"\| `(\w+)` `(0x[0-9a-f]+)` \|", wire.page()))

    assert named.items() <= stock.items()
    assert {"Node", "Control", "Sequencer", "LogServer"} <= named.keys()


def test_the_config_of_a_native_segment_is_as_its_schema_says() -> None:
    """The struct that describes the JSON has its fields, by the same names."""
    assert list(SCHEMA.Config.schema.fieldnames) == [
        field.name for field in attrs.fields(NativeConfig) if field.name != "others"
    ]


def test_each_error_of_the_wire_has_a_next_step() -> None:
    """A new error class cannot be left out of the page."""
    assert wire.APPENDS.keys() == WIRE_CLASSES.keys()
