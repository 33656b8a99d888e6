"""The pages as an admin sees them, behind a proxy that names the user; and the same console for a user without the role."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.browser import Browser
from tests.console.curl import console_process
from tests.console.pages.axe import SCRIPT, checker, violations
from tests.console.pages.shown_cluster import MASK, SECRET, ShownCluster
from tests.console.pages.test_in_a_browser import reach

pytestmark = [pytest.mark.processes, pytest.mark.xdist_group("console pages")]
TEXT = "document.querySelector('main').innerText"


def ask_as(browser: Browser, user: str) -> None:
    """Be the proxy: name this user in each request."""
    browser.call("Network.setExtraHTTPHeaders", headers={"X-Forwarded-User": user})


ACTIONS = {
    "/actions": "Recorded in the log",
    "/actions/trim": "Trim to position",
    "/actions/trim?position=1": "Dry run: trim 1",
    "/actions/reconfigure?kind=native": "To carry it out, type reconfigure native",
    "/actions/drain?node=1": "It cannot be carried out",
    "/actions/archive": "Archive",
}
"""Pages of actions, and words on each."""


def test_an_admin_acts_by_keyboard_without_scripts(browser: Browser, shown: ShownCluster, tmp_path: Path) -> None:
    """axe-core finds nothing on the pages of actions, wide and narrow, light and dark. Then a swap, typed: its record is on the page of
    actions and among the entries; the replicas go on."""
    options = ["--proxy", "127.0.0.1", "--admin", "alice", "--actions"]
    cluster = str(shown.folder / "log" / "cluster.toml")
    with console_process(tmp_path, "--cluster", cluster, *options) as url:
        ask_as(browser, "alice")
        for path, words in ACTIONS.items():
            for width, dark in ((1200, False), (360, True), (360, False), (1200, True)):
                browser.look(width=width, height=800, dark=dark, still=True)
                browser.open(url + path)
                assert words in browser.evaluate(TEXT), path
                assert browser.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
                if SCRIPT.exists():
                    assert violations(browser, checker()) == [], (path, width, dark)
        browser.call("Emulation.setScriptExecutionDisabled", value=True)
        browser.open(url + "/actions/reconfigure?kind=native")
        reach(browser, "e.id == 'confirmation'")
        browser.write("reconfigure native")
        browser.follow("Enter")
        outcome = browser.evaluate(TEXT)
        browser.open(url + "/actions")
        recorded = browser.evaluate(TEXT)
        browser.open(url + "/entries")
        entries = browser.evaluate(TEXT)
    with shown.client() as client:
        client.create("/app/after-the-swap", b"value")

    assert "Done" in outcome
    assert "the log goes on on the native segment" in outcome
    assert "outcome of reconfigure" in recorded
    assert "by alice" in entries
    assert browser.complaints == []


def test_an_admin_sees_values_sessions_and_watches(browser: Browser, shown: ShownCluster, tmp_path: Path) -> None:
    """But nothing below a mask; the tail, too, is that of the role. axe-core finds nothing on the pages that only admins have."""
    options = ["--proxy", "127.0.0.1", "--admin", "alice", "--actions", "--mask", MASK]
    cluster = str(shown.folder / "log" / "cluster.toml")
    seen = {}
    with shown.client() as client, console_process(tmp_path, "--cluster", cluster, *options) as url:
        client.create("/app/lease", b"of-an-ephemeral", ephemeral=True)
        client.get("/app/lease", watch=print)
        for user in ("alice", "bob"):
            ask_as(browser, user)
            for path in ("/tree/sessions", "/tree?path=/app/lease&node=1", "/entries", "/entries/live", "/"):
                browser.open(url + path)
                seen[user, path] = browser.evaluate(TEXT)
                assert SECRET not in browser.evaluate("document.documentElement.outerHTML")
                if SCRIPT.exists() and user == "alice":
                    assert violations(browser, checker()) == []
            browser.open(url + "/entries/live")
            browser.until("document.querySelector('[data-tail-status]').textContent.startsWith('Following')")
            client.set("/app/lease", f"set-for-{user}".encode())
            browser.until("[...document.querySelectorAll('tr.new')].some(row => row.innerText.includes('/app/lease'))")
            seen[user, "tail"] = browser.evaluate("document.querySelector('[data-tail-rows]').innerText")
        footer = browser.evaluate("document.querySelector('footer').innerText")

    assert "1 connection, 1 watch" in seen["alice", "/tree/sessions"]
    assert "needs the role admin" in seen["bob", "/tree/sessions"]
    assert "of-an-ephemeral" in seen["alice", "/tree?path=/app/lease&node=1"]
    assert "1 on the data" in seen["alice", "/tree?path=/app/lease&node=1"]
    assert "needs the role admin" in seen["bob", "/tree?path=/app/lease&node=1"]
    assert "of session 0x" in seen["bob", "/tree?path=/app/lease&node=1"]
    assert "of-an-ephemeral" in seen["alice", "/entries"]
    assert "of-an-ephemeral" not in seen["bob", "/entries"]
    assert "set-for-alice" in seen["alice", "tail"]
    assert "set-for" not in seen["bob", "tail"]
    assert "Read as bob, role client" in footer
    assert browser.complaints == []
