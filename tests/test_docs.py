"""Checks that the targets of all links and paths in documents exist."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.browser import find_browser, open_browser
from tests.source_tree import ROOT, SHIPPED, documents, modules, pyproject

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
CODE_BLOCK = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
FOLDERS = {package.partition("/")[0] for package in SHIPPED}
OUR_PATH = re.compile(rf"`((?:{'|'.join((*sorted(FOLDERS), 'docs', 'tests'))})/[\w./-]*)`")
DOCUMENT = re.compile(r"\b(docs/[\w/-]+\.(?:md|toml))\b")


def prose(document: Path) -> str:
    """A document without its code blocks."""
    return CODE_BLOCK.sub("", (ROOT / document).read_text())


@cache
def anchors(document: Path) -> set[str]:
    """Anchors (`#...`) of the headings of this document, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", prose(document), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_links_resolve() -> None:
    """A link within the project leads to a file that exists, and to a heading in it."""
    dead = []
    for document in documents():
        for link in LINK.findall(prose(document)):
            target, _, anchor = link.partition("#")
            if "://" in target:
                continue
            path = ((ROOT / document).parent / target).resolve() if target else ROOT / document
            if not path.exists() or (anchor and anchor not in anchors(path.relative_to(ROOT))):
                dead.append(f"{document}: {link}")

    assert dead == []


def test_paths_in_prose_exist() -> None:
    """A path of ours in backticks is a file or a folder of this checkout."""
    named = [(document, path) for document in documents() for path in OUR_PATH.findall(prose(document))]

    assert [f"{document}: {path}" for document, path in named if not (ROOT / path).exists()] == []


def test_documents_named_in_code_exist() -> None:
    """Each document that a docstring or a comment names exists."""
    named = [
        (module, name)
        for module in modules(*SHIPPED, "tests")
        for name in DOCUMENT.findall((ROOT / module).read_text())
    ]

    assert [f"{module}: {name}" for module, name in named if not (ROOT / name).exists()] == []


def test_every_document_is_reachable_from_the_readme() -> None:
    """A page without a link to it is a page without readers."""
    seen, todo = set[Path](), [Path("README.md")]
    while todo:
        document = todo.pop()
        if document in seen:
            continue
        seen.add(document)
        linked = (
            ((ROOT / document).parent / link.partition("#")[0]).resolve() for link in LINK.findall(prose(document))
        )
        todo += [path.relative_to(ROOT) for path in linked if path.suffix == ".md" and path.is_relative_to(ROOT)]

    written = {path for path in documents() if not path.is_relative_to("newsfragments")}
    assert written - seen == set()


def test_generated_pages_are_those_of_the_code() -> None:
    """`python -m docs._generate` has been run since the code was changed."""
    command = [sys.executable, "-m", "docs._generate", "--check"]
    stale = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout

    assert stale == "", "make docs"


def test_no_folder_of_documents_is_long() -> None:
    """At most twenty pages side by side, so that a reader finds one by its name."""
    folders = {path.parent for path in documents() if path.parts[0] == "docs"}

    assert [str(folder) for folder in folders if len([*(ROOT / folder).glob("*.md")]) > 20] == []


def test_lessons_quote_bugs_that_are_recorded() -> None:
    """Each example in docs/internals/lessons.md is a row of docs/internals/bugs.toml, and each row says all that it must."""
    bugs = tomllib.loads((ROOT / "docs/internals/bugs.toml").read_text())["bug"]
    quoted = re.findall(r"^\* (\d+): ", (ROOT / "docs/internals/lessons.md").read_text(), re.MULTILINE)

    assert [bug["number"] for bug in bugs] == list(range(1, len(bugs) + 1))
    assert all(bug[field] for bug in bugs for field in ("found_by", "evidence", "what", "belief"))
    assert len(quoted) >= 30
    assert {int(number) for number in quoted} <= {bug["number"] for bug in bugs}


@pytest.mark.slow
@pytest.mark.skipif(find_spec("sphinx") is None, reason="needs the dependency group docs")
def test_site_builds_without_warnings(tmp_path: Path) -> None:
    """In the site as `make docs` builds it every link resolves, and a browser shows it without the network."""
    options = ["-W", "--keep-going", "-n", "-q", "-b", "html", "-d", str(tmp_path / "trees")]
    command = [sys.executable, "-m", "sphinx", *options, str(ROOT / "docs"), str(tmp_path / "site")]
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=ROOT)

    assert (done.returncode, done.stderr) == (0, "")
    browser = find_browser()
    if browser is not None:
        with open_browser(browser) as opened:
            opened.load(tmp_path / "site" / "index.html")
            assert opened.complaints == []
            assert [each for each in opened.requests if not each.startswith(("file:", "data:"))] == []
            assert opened.evaluate("document.querySelectorAll('article a.reference.internal').length") >= 8
    shutil.rmtree(tmp_path / "site")


def test_newsfragments_are_named_as_towncrier_expects() -> None:
    """A misnamed fragment is dropped from the changelog without a word."""
    kinds = "|".join(kind["directory"] for kind in pyproject()["tool"]["towncrier"]["type"])
    names = [path.name for path in (ROOT / "newsfragments").iterdir() if path.name != "README.md"]

    assert [name for name in names if not re.fullmatch(rf"(\d+|\+[a-z0-9-]+)\.({kinds})(\.\d+)?\.md", name)] == []


def test_newsfragments_hold_one_plain_paragraph() -> None:
    """One sentence, perhaps two, that a user understands; lists and headings would break the changelog's."""
    for path in (ROOT / "newsfragments").glob("*.*.md"):
        text = path.read_text().strip()

        assert text.endswith("."), path.name
        assert "\n\n" not in text, path.name
        assert not text.startswith(("#", "*", "-")), path.name
