"""The page of an audit: bars, columns and lines; any content of the log stays text; a real browser shows it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pyspark_virtuallog.audit.page import audit_page
from tests.browser import Browser, open_browser
from tests.server.report.audit_sample import KINDS, PREFIXES, findings
from tests.server.report.demo_sample import NASTY
from tests.server.report.page_reader import count, read
from virtuallog_server.report import Axis, Bar, Bars, Columns, Series, render, write

UNIT = Axis(0.0, 10.0)


def test_columns_of_several_series_stand_on_each_other() -> None:
    """The axis has room for the sum; where there is nothing, there is no column, and what stands above stands lower."""
    low = Series(label="low", tone="blue", points=[(0.0, 4.0), (5.0, 0.0)])
    high = Series(label="high", tone="red", points=[(0.0, 4.0), (5.0, 2.0)])
    columns = Columns(title="", x=UNIT, labels=[], series=[low, high], width=5.0)

    assert columns.y.high == 8
    assert [path for _, _, path in columns.drawn] == [
        "M0 1000V500H500V1000Z",
        "M0 500V0H500V500ZM500 1000V750H1000V1000Z",
    ]


def test_without_a_width_they_are_lines() -> None:
    """Each with its own height."""
    series = [Series(label="", tone="blue", points=[(0.0, 0.0), (10.0, height)]) for height in (1.0, 2.0)]
    columns = Columns(title="", x=UNIT, labels=[], series=series)

    assert [path for _, _, path in columns.drawn] == ["M0 1000L1000 500", "M0 1000L1000 0"]


def test_the_longest_bar_has_all_the_room() -> None:
    """And a bar of nothing has none, also if there are no others."""
    bars = [Bar(name="", value=value, text="") for value in (8.0, 2.0, 0.0)]

    assert [Bars(bars=bars).percent(bar) for bar in bars] == ["100.00%", "25.00%", "0.00%"]
    assert Bars(bars=bars[2:]).percent(bars[2]) == "0.00%"


def test_what_is_in_the_log_stays_text() -> None:
    """Kinds of loglets, keys and findings may hold anything; the one script is our own, nothing is fetched."""
    text = render(audit_page(findings(wrong=[NASTY]), f"virtuallog spark audit {NASTY}", "today"))
    reader = read(text)

    assert reader.scripts == 1
    assert NASTY not in text
    assert "".join(reader.words).count(NASTY) >= 6


def test_a_log_that_is_wrong_is_not_called_right() -> None:
    """Violations stand in the verdict, before everything else."""
    wrong, right = (render(audit_page(findings(wrong), "virtuallog", "today")) for wrong in (["twice at 7"], []))

    assert 'class="verdict bad"' in wrong
    assert wrong.index("twice at 7") < wrong.index("What was checked")
    assert 'class="verdict good"' in right
    assert "as it should be" not in wrong


@pytest.fixture
def browser(browser_program: str, tmp_path: Path) -> Iterator[Browser]:
    """With the page loaded from a file."""
    path = tmp_path / "audit.html"
    write(audit_page(findings(), "virtuallog spark audit", "today"), path)
    with open_browser(browser_program) as browser:
        browser.look(width=1200, height=900)
        browser.load(path)
        yield browser


@pytest.mark.processes
def test_a_browser_shows_it_light_and_dark_and_on_a_phone(browser: Browser) -> None:
    """Without a complaint or a request: columns and lines have a size, no bar is wider than the page, each series has its colour."""
    assert browser.complaints == []
    assert [address.rpartition("/")[2] for address in browser.requests] == ["audit.html"]
    assert count(browser, "path.column") == len(KINDS)
    assert count(browser, "path.line") == 8
    assert count(browser, ".bar") == 1 + len(PREFIXES)
    for width, dark in ((1200, False), (360, True)):
        browser.look(width=width, height=900, dark=dark)
        assert browser.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert browser.evaluate("Math.min(...[...document.querySelectorAll('.chart')].map(c => c.clientHeight)) > 100")
    colours = "new Set([...document.querySelectorAll('path.line')].map(p => getComputedStyle(p).stroke)).size"
    assert browser.evaluate(colours) == 8
