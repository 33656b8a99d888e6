"""axe-core, the accessibility checker, in a real browser. `.ci/setup` gets it from npm; it is no part of the repository."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import pytest

from tests.browser import Browser

CACHE: Final = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
SCRIPT: Final = CACHE / "virtuallog/axe-core/node_modules/axe-core/axe.min.js"
RUN: Final = """axe.run(document).then((found) => ({
    passes: found.passes.length,
    violations: found.violations.map((each) => [each.id, each.help, each.nodes.map((node) => node.target.join(" "))]),
}))"""
RULES_MIN: Final = 20
"""Rules that apply to any page of ours. With fewer the checker has not looked at the page."""


def checker() -> str:
    """The script. Skips the test if it is not here."""
    if not SCRIPT.exists():
        pytest.skip(f"no axe-core in {SCRIPT.parent}: .ci/setup gets it, with npm")
    return SCRIPT.read_text(encoding="utf-8")


def violations(browser: Browser, script: str) -> list[object]:
    """Rules that the page breaks, each with the elements."""
    browser.call("Runtime.evaluate", expression=script)
    answer = browser.call("Runtime.evaluate", expression=RUN, awaitPromise=True, returnByValue=True)
    found = answer["result"]["value"]
    assert found["passes"] >= RULES_MIN
    broken: list[object] = found["violations"]
    return broken
