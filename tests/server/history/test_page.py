"""docs/howto/history.md is run, as a reader would paste it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.documented_commands import open_clusters, run_document
from tests.source_tree import ROOT

pytestmark = [pytest.mark.processes, pytest.mark.slow]


def test_the_page_does_what_it_says(tmp_path: Path) -> None:
    """The changes of a znode are shown, the entry that has made the last one, the states around it; and nothing is left."""
    with open_clusters(tmp_path) as clusters:
        kinds = run_document(ROOT / "docs/howto/history.md", clusters)

    assert kinds == ["sh", "sh", "python", "sh", "sh", "text", "sh", "text", "sh"]
    assert not (tmp_path / "here").exists()
