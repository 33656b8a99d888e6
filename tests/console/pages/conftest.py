"""The browser and the cluster that tests of the console's pages share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.browser import Browser, find_browser, open_browser
from tests.console.pages.shown_cluster import ShownCluster, shown_cluster


@pytest.fixture(scope="session")
def browser_program() -> str:
    found = find_browser()
    if found is None:
        pytest.skip("no Chromium on this machine: apt-get install chromium-headless-shell (make does it for root)")
    return found


@pytest.fixture
def browser(browser_program: str) -> Iterator[Browser]:
    """With a window for a desk."""
    with open_browser(browser_program) as browser:
        browser.look(width=1200, height=900)
        yield browser


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ShownCluster]:
    """A cluster with a database in which there is something to see, and a console."""
    folder: Path = tmp_path_factory.mktemp("shown")
    with shown_cluster(folder, database=True) as cluster:
        cluster.plant()
        yield cluster
