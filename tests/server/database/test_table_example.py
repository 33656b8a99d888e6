"""The example of tables, on a real store."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.source_tree import ROOT

PATIENCE_SECONDS = 60


@pytest.mark.processes
@pytest.mark.slow
def test_the_example_of_tables_runs_twice(tmp_path: Path) -> None:
    """It prints what docs/howto/table.md says, which has it word for word; also on the rows that it has left."""
    program, page = ROOT / "examples" / "table.py", (ROOT / "docs/howto/table.md").read_text()
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, program, tmp_path], capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=True
        )
        assert f"```text\n{done.stdout}```" in page
    assert program.read_text().partition("import sys")[2] in page
