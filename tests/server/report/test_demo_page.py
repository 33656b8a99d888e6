"""The demo's page: what it says, that it says it as text, and how a real browser takes it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.browser import Browser, find_browser, open_browser
from tests.server.report.demo_sample import NASTY, closed, outcome
from tests.server.report.page_reader import count, read
from virtuallog.plugins import loglet_providers
from virtuallog_lab.demo.page import RIGHT, demo_page
from virtuallog_lab.harness.machine import Machine
from virtuallog_server.report import Page, render, write

MACHINE = Machine(cpus=2, kernel=NASTY, python="3.11", load=0.5)


def page(problems: tuple[str, ...] = ()) -> Page:
    return demo_page(outcome(problems=problems), loglet_providers(), MACHINE, f"virtuallog demo {NASTY}", "today")


def test_what_comes_from_outside_stays_text() -> None:
    """Kinds, labels, problems, the machine and the command may hold anything; the one script is our own, nothing is fetched."""
    text = render(page(problems=(NASTY,)))
    reader = read(text)

    assert reader.scripts == 1
    assert NASTY not in text
    assert "".join(reader.words).count(NASTY) >= 8


def test_a_page_of_a_wrong_log_says_so_first() -> None:
    """The problems stand in the verdict; nothing on the page claims that all is well."""
    text = render(page(problems=("0/7 is at 3 and at 9",)))

    assert 'class="verdict bad"' in text
    assert text.index("0/7 is at 3 and at 9") < text.index("The log in the end")
    assert RIGHT not in "".join(read(text).words)


def test_a_closed_log_has_a_page() -> None:
    """Its last segment has an end, and nothing was trimmed."""
    text = render(demo_page(closed(), loglet_providers(), MACHINE, "virtuallog demo", "today"))

    assert "300 to 306" in text
    assert ">trimmed<" not in text


@pytest.fixture
def browser(browser_program: str, tmp_path: Path) -> Iterator[Browser]:
    """With the page loaded from a file."""
    path = tmp_path / "demo.html"
    write(page(), path)
    with open_browser(browser_program) as browser:
        browser.look(width=1200, height=900)
        browser.load(path)
        yield browser


@pytest.mark.processes
def test_a_browser_shows_it_without_a_word_of_complaint(browser: Browser) -> None:
    """Title, verdict, a mark for each swap; the page makes no request, and smuggled scripts have not run."""
    assert browser.complaints == []
    assert [address.rpartition("/")[2] for address in browser.requests] == ["demo.html"]
    assert browser.evaluate("document.title") == "One log, swapped live under load"
    assert RIGHT in browser.evaluate("document.querySelector('#verdict').innerText")
    assert count(browser, "[data-mark=swap]") == len(outcome().changes) == 3
    assert count(browser, "[data-mark=fault]") == 1
    assert count(browser, ".chain li") == len(outcome().chain.segments) + 1


@pytest.mark.processes
def test_it_fits_a_phone_and_the_dark(browser: Browser, tmp_path: Path) -> None:
    """Nothing is wider than the screen; light and dark differ, and in both what is written can be told from its ground."""
    grounds = []
    for dark in (False, True):
        browser.look(width=360, height=700, dark=dark)
        assert browser.evaluate("document.documentElement.scrollWidth <= innerWidth")
        style = "getComputedStyle(document.body)"
        grounds.append((browser.evaluate(f"{style}.backgroundColor"), browser.evaluate(f"{style}.color")))
        browser.screenshot(tmp_path / f"{dark}.png")
    (light, ink), (dark_ground, pale) = grounds

    assert len({light, ink, dark_ground, pale}) == 4
    assert (tmp_path / "False.png").read_bytes() != (tmp_path / "True.png").read_bytes()


@pytest.mark.processes
def test_the_crosshair_tells_what_was_measured(browser: Browser) -> None:
    """Under the pointer: the time, the loglet, and that nothing ended in a hole. It goes with the pointer."""
    box = "(() => { const plot = document.querySelector('.chart'); plot.scrollIntoView({block: 'center'});"
    x, y = browser.evaluate(
        f"{box} const r = plot.getBoundingClientRect(); return [r.left + r.width * 4.45 / 6, r.top + 40]; }})()"
    )
    browser.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
    told = browser.evaluate("document.querySelector('.reading').innerText")
    browser.call("Input.dispatchMouseEvent", type="mouseMoved", x=2, y=2)

    assert "4.4 s" in told or "4.5 s" in told
    assert told.count("none ended") == 2
    assert browser.evaluate("document.querySelector('.reading').hidden")


@pytest.mark.processes
def test_details_show_when_a_segment_gets_the_focus(browser: Browser) -> None:
    """Also for those who have no pointer, and without JavaScript."""
    shown = "getComputedStyle(document.querySelectorAll('.chain li .tip')[0]).display"

    assert browser.evaluate(shown) == "none"
    browser.evaluate("document.querySelector('.chain li .tip').parentElement.focus()")
    assert browser.evaluate(shown) == "grid"


def test_no_browser_is_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a browser none is found; tests that need it say so."""
    monkeypatch.setattr(shutil, "which", lambda name: None)

    assert find_browser() is None
