"""What an operator sees on the chain page: a swap, and the death of a node with its reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.browser import Browser
from tests.console.pages.axe import SCRIPT, checker, violations
from tests.console.pages.shown_cluster import shown_cluster

pytestmark = [pytest.mark.processes, pytest.mark.xdist_group("console pages")]
TEXT = "document.querySelector('main').innerText"


def test_a_swap_and_a_death_are_seen(browser: Browser, tmp_path: Path) -> None:
    """The open page shows the new segment by itself; then a node is killed, and the page says which and what follows from it."""
    with shown_cluster(tmp_path) as cluster:
        for number in range(5):
            cluster.append(f"order {number}")
        browser.open(cluster.url)
        assert "All is well" in browser.evaluate(TEXT)
        assert browser.evaluate("document.querySelectorAll('.chain li').length") == 1
        assert browser.evaluate("[...document.querySelectorAll('nav a')].every(a => a.textContent != 'Tree')")
        cluster.run("reconfigure", "--to", "raft")
        cluster.append("order 5")
        browser.until("document.querySelectorAll('.chain li').length == 2")
        blocks = browser.evaluate("[...document.querySelectorAll('.chain li')].map(li => li.innerText)")
        cluster.kill(3)
        browser.until(f"{TEXT}.includes('node 3 takes no part')")
        verdict = browser.evaluate("document.querySelector('.verdict').innerText")
        if SCRIPT.exists():
            assert violations(browser, checker()) == []
        browser.open(cluster.url + "/nodes")
        first = browser.evaluate("document.querySelector('main section').innerText")
        browser.open(cluster.url + "/live")
        browser.until(f"{TEXT}.includes('node 3 is silent')")
        swaps = browser.evaluate("document.querySelector('[aria-labelledby=swaps]').innerText")
        browser.open(cluster.url + "/tree")
        tree = browser.evaluate(TEXT)

    assert blocks[0].split("\n")[:3] == ["native", "0 to 5", "sealed"]
    assert blocks[1].split("\n")[:3] == ["raft", "5 to now", "active"]
    assert "ask" in verdict
    assert "Trouble" in verdict or "Weak" in verdict
    assert "node 3 takes no part" in verdict
    assert first.startswith("Node 3")
    assert "silent" in first
    assert "changed to version" in swaps
    assert "raft" in swaps
    assert "This cluster has no database" in tree
    assert [each for each in browser.complaints if "status of 404" not in each] == []
