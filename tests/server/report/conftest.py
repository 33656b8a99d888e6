"""The browser that tests of pages share."""

from __future__ import annotations

import pytest

from tests.browser import find_browser


@pytest.fixture(scope="session")
def browser_program() -> str:
    found = find_browser()
    if found is None:
        pytest.skip("no Chromium on this machine: apt-get install chromium-headless-shell (make does it for root)")
    return found
