"""The README and the tutorial are run, as a reader would paste them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.documented_commands import Clusters, open_clusters, run_document
from tests.source_tree import ROOT

pytestmark = pytest.mark.processes


@pytest.fixture
def clusters(tmp_path: Path) -> Iterator[Clusters]:
    """A shell in an empty folder, and clusters beside it."""
    with open_clusters(tmp_path) as opened:
        yield opened


def test_readme_does_what_it_says(clusters: Clusters) -> None:
    """Three nodes, appends, a live swap, and everything appended is still there; the same from Python; ZooKeeper's clients."""
    kinds = run_document(ROOT / "README.md", clusters)

    assert kinds == ["sh", "sh", "text", "python", "text", "sh", "python", "text", "sh", "text", "sh", "text"]


def test_tutorial_does_what_it_says(clusters: Clusters) -> None:
    """Three nodes, Python, asyncio, curl, a swap by the console, one while a program appends, a node that is killed and a page that says
    so, kazoo, and nothing is left."""
    kinds = run_document(ROOT / "docs/tutorial/first-hour.md", clusters)

    written = ["python", "text", "python", "text", "sh"]
    swapped = ["sh", "text", "python", "text"]
    killed = ["sh", "sh", "sh", "text"]
    assert kinds == ["sh", "sh", *written, *swapped, *killed, "python", "text", "sh", "sh"]
    assert not (clusters.shell.folder / "hour").exists()
