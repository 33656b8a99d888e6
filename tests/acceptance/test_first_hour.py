"""The first hour of a newcomer: the tutorial, from a wheel in an empty environment, with a browser beside the terminal."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.browser import Browser, find_browser, open_browser
from tests.documented_commands import Block, open_clusters, run_document
from tests.source_tree import ROOT

LIMIT_SECONDS = 900.0
TEXT = "document.querySelector('main').innerText"


def install(folder: Path) -> Path:
    """The Python of a new environment that has the wheel and its extras from PyPI, and nothing of this checkout."""
    wheels, python = folder / "wheels", folder / "fresh" / "bin" / "python"
    run("-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(wheels), str(ROOT))
    (wheel,) = wheels.glob("virtuallog-*.whl")
    run("-m", "venv", str(folder / "fresh"))
    run("-m", "pip", "install", "--quiet", f"{wheel}[console,zookeeper]", python=str(python))
    return python


def run(*arguments: str, python: str = sys.executable) -> None:
    """A command of Python, which must succeed."""
    done = subprocess.run(
        [python, *arguments], cwd="/", capture_output=True, text=True, check=False, timeout=LIMIT_SECONDS
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


def go_to(browser: Browser, name: str) -> None:
    """Follow a link of the page by keyboard."""
    browser.evaluate(f"[...document.querySelectorAll('a')].find(e => e.innerText.trim() === {name!r}).focus()")
    browser.follow("Enter")


def swap(browser: Browser, url: str) -> None:
    """As the tutorial says: from page to page, a dry run, a typed confirmation, and the chain."""
    browser.open(url)
    assert "paxos" not in browser.evaluate(TEXT)
    for link in ("Actions", "Reconfigure"):
        go_to(browser, link)
    browser.evaluate("document.querySelector('select[name=kind]').value = 'paxos'")
    browser.evaluate("[...document.querySelectorAll('button')].find(e => e.innerText === 'Show the effect').focus()")
    browser.follow("Enter")
    assert "a new paxos segment takes the appends" in browser.evaluate(TEXT)
    browser.evaluate("document.querySelector('#confirmation').focus()")
    browser.write("reconfigure paxos")
    browser.follow("Enter")
    assert "the log goes on on the paxos segment" in browser.evaluate(TEXT)
    go_to(browser, "Chain")
    assert "paxos" in browser.evaluate(TEXT)


@pytest.mark.processes
@pytest.mark.slow
@pytest.mark.long
def test_the_first_hour_of_a_newcomer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Install, start, append by CLI, Python, asyncio and curl; swap in the browser and see it there; kill a node and read why."""
    program = find_browser()
    if program is None:
        pytest.skip("no Chromium on this machine: apt-get install chromium-headless-shell (make does it for root)")
    monkeypatch.delenv("PYTHONPATH", raising=False)
    monkeypatch.setenv("VIRTUAL_ENV", str(tmp_path / "fresh"))
    python, work, read = install(tmp_path), tmp_path / "work", list[str]()
    work.mkdir()
    with open_clusters(work, str(python)) as clusters, open_browser(program) as browser:
        url = f"http://127.0.0.1:{clusters.ports['8090']}/"

        def look(block: Block) -> None:
            if "virtuallog console" in block.text:
                swap(browser, url)
            elif "grep -om 1 'node 3" in block.text:
                browser.open(url)
                read.append(browser.evaluate(TEXT))

        run_document(ROOT / "docs/tutorial/first-hour.md", clusters, look)
        where = clusters.shell.run(f"{python} -c 'import virtuallog; print(virtuallog.__file__)'")

    assert where.startswith(str(tmp_path)), os.environ.get("PYTHONPATH")
    assert "node 3 takes no part" in read[0]
    assert browser.complaints == []
