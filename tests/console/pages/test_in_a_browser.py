"""The pages in a real browser, over a real cluster with a database."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

import pytest

from tests.browser import Browser
from tests.console.pages.axe import checker, violations
from tests.console.pages.shown_cluster import HOSTILE_NAME, SECRET, ShownCluster

pytestmark = [pytest.mark.processes, pytest.mark.xdist_group("console pages")]

PAGES = {
    "chain": "/",
    "entries": "/entries",
    "search": "/entries?text=queue",
    "no housekeeping": "/entries?housekeeping=left-out",
    "entry": "/entries/3",
    "no entry": "/entries/99999999",
    "tail": "/entries/live",
    "tree": "/tree?path=/app",
    "masked": "/tree?path=/app/billing/password",
    "past": "/tree/past?path=/app/billing",
    "past masked": "/tree/past?path=/app/billing/password",
    "hostile": "/tree?path=" + quote(f"/app/{HOSTILE_NAME}"),
    "sessions": "/tree/sessions",
    "nodes": "/nodes",
    "holds": "/holds?position=30",
    "live": "/live",
    "actions refused": "/actions",
    "wrong": "/entries?from=x",
    "no page": "/nothing",
    "refused": "/v1/entries?from=x",
}
FOCUSED = "document.activeElement"
OVERFLOW = "document.documentElement.scrollWidth - innerWidth"
OUTLINED = f"(() => {{ const s = getComputedStyle({FOCUSED}); return s.outlineStyle != 'none' && parseFloat(s.outlineWidth) >= 2; }})()"


def text(browser: Browser, selector: str = "main") -> str:
    found = browser.evaluate(f"document.querySelector({selector!r}).innerText")
    assert isinstance(found, str)
    return found


def reach(browser: Browser, wanted: str, most: int = 60) -> None:
    """Press Tab until this expression about `e`, the element with the focus, is true. The focus can always be seen."""
    for _ in range(most):
        browser.press("Tab")
        assert browser.evaluate(OUTLINED), browser.evaluate(f"{FOCUSED}.outerHTML")
        if browser.evaluate(f"(e => {wanted})({FOCUSED})"):
            return
    raise AssertionError(f"{wanted} is not reached")


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_accessible(browser: Browser, shown: ShownCluster, name: str) -> None:
    """axe-core finds nothing, in light and dark, on a desk and at 360 pixels."""
    script = checker()
    for width, dark in ((1200, False), (1200, True), (360, False), (360, True)):
        browser.look(width=width, height=800, dark=dark, still=True)
        browser.open(shown.url + PAGES[name])
        assert violations(browser, script) == [], (width, dark)


@pytest.mark.parametrize("name", PAGES)
def test_a_page_fits_a_phone_and_the_dark(browser: Browser, shown: ShownCluster, name: str, tmp_path: Path) -> None:
    """At 360 pixels nothing scrolls sideways; light and dark differ; the browser has no complaint and asks no other server."""
    shots = []
    for dark in (False, True):
        browser.look(width=360, height=800, dark=dark)
        browser.open(shown.url + PAGES[name])
        assert browser.evaluate(OVERFLOW) <= 0
        browser.screenshot(tmp_path / "shot.png")
        shots.append((tmp_path / "shot.png").read_bytes())
        assert SECRET not in browser.evaluate("document.documentElement.outerHTML")

    assert shots[0] != shots[1]
    assert [each for each in browser.complaints if "status of 40" not in each] == []
    assert {request for request in browser.requests if not request.startswith((shown.url, "data:"))} == set()


def test_the_keyboard_is_enough(browser: Browser, shown: ShownCluster) -> None:
    """From the skip link to an entry, to the tree and to a znode, without a pointer; the focus can be seen at each step."""
    browser.open(shown.url)
    reach(browser, "e.className == 'skip'", 1)
    browser.press("Enter")
    assert browser.evaluate(f"{FOCUSED}.id || location.hash") in {"content", "#content"}
    browser.open(shown.url)
    reach(browser, "e.textContent == 'Entries'")
    browser.follow("Enter")
    reach(browser, "e.id == 'from'")
    browser.evaluate(f"{FOCUSED}.select()")
    browser.write("3")
    reach(browser, "e.tagName == 'BUTTON'")
    browser.follow("Enter")
    assert "from=3" in browser.evaluate("location.search")
    reach(browser, "e.getAttribute('href') == '/entries/3'")
    browser.follow("Enter")
    assert browser.evaluate("document.title") == "Entry 3 - virtuallog"
    reach(browser, "e.textContent == 'Tree'")
    browser.follow("Enter")
    reach(browser, "e.textContent == 'app' && e.closest('table') !== null")
    browser.follow("Enter")
    assert browser.evaluate("document.querySelector('h2').innerText") == "/app"


def test_names_and_values_of_others_stay_text(browser: Browser, shown: ShownCluster) -> None:
    """A name that is an image with a script, with an override of the direction: its link leads to it, and nothing of it has run."""
    browser.open(shown.url + "/tree?path=/app")
    assert browser.evaluate("document.querySelectorAll('main img').length") == 0
    assert "<img src=x onerror=alert(1)>\\u202etxt" in text(browser)
    browser.open(browser.evaluate("document.querySelector('table a').href"))
    assert "<script>alert(1)<" in text(browser) or "<img" in text(browser, "h2")
    assert browser.complaints == []


def test_the_tail_shows_what_is_appended_meanwhile(browser: Browser, shown: ShownCluster) -> None:
    """Pauses, goes on from there, and keeps its bound."""
    browser.open(shown.url + "/entries/live")
    browser.until("document.querySelector('[data-tail-status]').textContent.startsWith('Following')")
    before = browser.evaluate("document.querySelector('[data-tail-rows]').children.length")
    shown.write("/app/tail-1")
    browser.until("document.querySelector('[data-tail-rows]').innerText.includes('/app/tail-1')")
    browser.evaluate("document.querySelector('[data-tail-toggle]').focus()")
    browser.press("Enter")
    assert text(browser, "[data-tail-toggle]").startswith("Resume from ")
    assert text(browser, "[data-tail-status]").startswith("Paused at position ")
    shown.write("/app/tail-2")
    shown.write_many("/app/tail-2", 300)
    assert "/app/tail-2" not in text(browser, "[data-tail-rows]")
    browser.press("Enter")
    browser.until("document.querySelector('[data-tail-rows]').innerText.includes('/app/tail-2/299')")
    browser.until("!document.querySelector('[data-tail-dropped]').hidden")

    assert before <= 20
    assert browser.evaluate("document.querySelector('[data-tail-rows]').children.length") == 200
    assert "dropped from the end of this page" in text(browser, "[data-tail-dropped]")
    assert browser.complaints == []


def test_figures_are_renewed_and_the_focus_stays(browser: Browser, shown: ShownCluster) -> None:
    """The table stays open, the focus on it; a pause is a pause."""
    browser.open(shown.url + "/live")
    browser.evaluate("document.querySelector('summary').focus()")
    browser.press("Enter")
    first = text(browser, "tbody th")
    browser.until(f"document.querySelector('tbody th').innerText != {first!r}")
    assert browser.evaluate("document.querySelector('details').open")
    assert browser.evaluate(f"{FOCUSED}.tagName") == "SUMMARY"
    browser.evaluate("document.querySelector('[data-refresh-toggle]').click()")
    assert text(browser, "[data-refresh-status]") == "Updates are paused."
    assert browser.complaints == []


def test_a_reader_without_javascript_has_the_pages(browser: Browser, shown: ShownCluster) -> None:
    """All but the tail and the renewal; the pages say what is missing."""
    browser.call("Emulation.setScriptExecutionDisabled", value=True)
    for path in ("/", "/live", "/entries/live", "/tree?path=/app"):
        browser.open(shown.url + path)
        if "tree" not in path:
            assert "Without JavaScript this page shows the moment at which it was loaded" in text(browser)
        assert browser.evaluate("document.querySelectorAll('h2').length") > 0


def test_motion_is_a_choice(browser: Browser, shown: ShownCluster) -> None:
    """New rows appear without an animation for readers who ask for that."""
    durations = []
    for still in (False, True):
        browser.look(width=1200, height=800, still=still)
        browser.open(shown.url + "/entries/live")
        durations.append(
            browser.evaluate(
                "(() => { const row = document.querySelector('[data-tail-rows] tr'); row.className = 'new';"
                " return getComputedStyle(row).animationName; })()"
            )
        )

    assert durations == ["appear", "none"]
