"""docs/howto/back-up.md is run, as a reader would paste it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.documented_commands import open_clusters, run_document
from tests.source_tree import ROOT

pytestmark = [pytest.mark.processes, pytest.mark.slow]


def test_the_page_does_what_it_says(tmp_path: Path) -> None:
    """A cluster is backed up twice and verified, a new one begins with the backup, and nothing is left."""
    with open_clusters(tmp_path) as clusters:
        kinds = run_document(ROOT / "docs/howto/back-up.md", clusters)

    assert kinds == ["sh"] * 6
    assert not (tmp_path / "restored").exists()
