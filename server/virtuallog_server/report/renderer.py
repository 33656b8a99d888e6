"""Renderer of a page: makes its text, and writes the file.

The template escapes all values. The policy in the page's head lets a browser run this one script, known by its hash, and fetch
nothing at all: text that an attacker puts into a setting stays text even if the template had a hole.
"""

from __future__ import annotations

import base64
import hashlib
import shlex
import sys
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Final

import jinja2

from virtuallog.runtime.file_errors import file_errors
from virtuallog_server.report.figures.axes import spell
from virtuallog_server.report.figures.svg_paths import SIDE
from virtuallog_server.report.page import Page


def made_now() -> str:
    """Present time, and version of the program, for the foot of a page."""
    return f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC, virtuallog {version('virtuallog')}"


def this_command() -> str:
    """The command line of this process, for the foot of a page."""
    return shlex.join(["virtuallog", *sys.argv[1:]])


FOLDER: Final = Path(__file__).parent


def render(page: Page) -> str:
    """Render the page as one HTML file."""
    script, style = _read("page.js"), _read("page.css")
    return _environment().get_template("page.html").render(
        page=page, script=script, style=style, script_hash=_hash_for_policy(script), side=SIDE
    )  # fmt: skip


def write(page: Page, path: Path) -> None:
    """Render the page into a file.

    Raises:
        StorageError: `path` cannot be written.
    """
    with file_errors(path):
        path.write_text(render(page), encoding="utf-8")


@cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(FOLDER),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["spell"] = spell
    return environment


def _read(name: str) -> str:
    return (FOLDER / name).read_text(encoding="utf-8")


def _hash_for_policy(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
