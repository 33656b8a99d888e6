"""Renderer of templates, and the answers that are made of them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

import jinja2
from starlette.responses import HTMLResponse, Response

from virtuallog_console.pages import shown_text
from virtuallog_server.report.figures.svg_paths import SIDE

FOLDER: Final = Path(__file__).parent
STATIC_TYPES: Final[Mapping[str, str]] = {".css": "text/css", ".js": "text/javascript"}
"""Types of the files that pages load."""


def render(template: str, **values: Any) -> str:
    """The text of a template."""
    return _environment().get_template(template).render(**values)


def macro(template: str, name: str) -> Any:
    """A macro of a template, as a function that returns text."""
    return getattr(_environment().get_template(template).module, name)


def answer(template: str, status: int = 200, **values: Any) -> Response:
    """An answer with the text of a template."""
    return HTMLResponse(render(template, **values), status)


@cache
def static_files() -> Mapping[str, bytes]:
    """The files that pages load, by their names."""
    return {
        path.name: path.read_bytes() for path in sorted((FOLDER / "static").iterdir()) if path.suffix in STATIC_TYPES
    }


def static_url(name: str) -> str:
    """Address of a file that pages load. It changes with the content, as browsers keep the file."""
    return f"/static/{name}?v={hashlib.sha256(static_files()[name]).hexdigest()[:12]}"


def _query_string(values: Mapping[str, object]) -> str:
    """Values as the query string of an address. Unlike Jinja's own filter it takes every text."""
    return urlencode(values, errors="replace")


@cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(FOLDER / "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        shown=shown_text.shown,
        shown_lines=shown_text.shown_lines,
        when=shown_text.when,
        size=shown_text.size,
        count=shown_text.count,
        number=shown_text.number,
        urlencode=_query_string,
    )
    environment.globals.update(static=static_url, side=SIDE)
    return environment
