"""docs/howto/http.md is run, as a reader would paste it: each command, and what it prints."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.console.curl import until
from tests.documented_commands import PATIENCE_SECONDS, Clusters, blocks, open_clusters
from tests.free_ports import free_ports
from tests.source_tree import ROOT
from virtuallog_console.door.error_answers import ANSWERS

PAGE = ROOT / "docs/howto/http.md"
PORT = "8090"
"""Port of the page."""


@contextmanager
def console(clusters: Clusters, command: str, port: str) -> Iterator[None]:
    """The command of the page, in a terminal of its own, on another port."""
    folder = clusters.shell.folder
    with (folder / "console.out").open("wb") as output:
        started = subprocess.Popen(
            ["bash", "-c", f"exec {command} --listen 127.0.0.1:{port}"],
            cwd=folder, env=clusters.shell.environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
        )  # fmt: skip
    try:
        until(lambda: b"try: curl" in (folder / "console.out").read_bytes())
        yield
    finally:
        started.terminate()
        assert started.wait(PATIENCE_SECONDS) == 0, "it ends in order"


@pytest.mark.processes
def test_the_page_does_what_it_says(tmp_path: Path) -> None:
    """A cluster, a console, and curl: appends, conditions, reads, a tail, and their output to the letter."""
    found, port = blocks(PAGE), str(free_ports(1))
    with open_clusters(tmp_path) as clusters:
        clusters.up(found[0].text.strip())
        with console(clusters, found[1].text.strip(), port):
            printed = ""
            for block in found[2:]:
                if block.kind == "sh":
                    printed = clusters.shell.run(block.text.replace(PORT, port))
                elif block.kind == "text":
                    assert printed.rstrip("\n") == block.text.rstrip("\n")
            description = json.loads(clusters.shell.run(f"curl -s http://127.0.0.1:{port}/v1/openapi.json"))

    assert [block.kind for block in found].count("text") == 5
    for path in description["paths"]:
        assert f"`{path.replace('{position}', 'POSITION')}`" in PAGE.read_text() or f"{path}?" in PAGE.read_text()


def test_the_table_of_errors_is_complete() -> None:
    """Each kind of problem of the log stands on the page, beside its status."""
    rows = {
        row.split("|")[1].strip(): row.split("|")[2]
        for row in PAGE.read_text().splitlines()
        if row.startswith("| ") and "`" in row
    }
    missing = [
        f"{status} {answer.kind}"
        for answer in ANSWERS.values()
        for status in (answer.status, answer.append_status or answer.status)
        if f"`{answer.kind}`" not in rows.get(str(status), "")
    ]

    assert missing == []
