"""The example that a reader steps through: run as a script, with few rows."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.free_ports import free_ports
from tests.source_tree import ROOT
from tests.spark.java import require_java

pytestmark = [pytest.mark.processes, pytest.mark.slow, pytest.mark.long]

LIMIT_SECONDS = 1800
"""It starts Java three times; a machine of CI stalls."""


def test_the_notebook_does_what_it_says(tmp_path: Path) -> None:
    """All of its cells, as one program: the table grows by what has come, the archive is read, the audit is content. Nothing is left behind."""
    require_java()
    environment = {**os.environ, "ROWS": "2000", "TMPDIR": str(tmp_path), "BASE_PORT": str(free_ports(3))}
    with (tmp_path / "said").open("w+") as said:
        command = [sys.executable, str(ROOT / "examples" / "spark_notebook.py")]
        code = subprocess.run(
            command, cwd=ROOT, env=environment, stdout=said, stderr=said, check=False, timeout=LIMIT_SECONDS
        ).returncode
    told = (tmp_path / "said").read_text()
    assert code == 0, told[-4000:]
    assert "the table has 3002 rows, and then 4003" in told
    assert "archive" in told and "paxos" in told
    assert "bytes of a page with pictures" in told
    assert list(tmp_path.glob("virtuallog-spark-*")) == []
