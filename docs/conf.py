"""Sphinx settings of the site that `make docs` builds. It needs no network, and every warning is an error."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

from pygments.lexers.special import TextLexer
from sphinx.application import Sphinx

project = "virtuallog"
copyright = "the authors of virtuallog"  # the name that Sphinx looks for  # noqa: A001
extensions = ["myst_parser"]
root_doc = "index"
exclude_patterns = ["_build", "_generate", "**/README.md"]
nitpicky = True
myst_heading_anchors = 4
html_theme = "furo"
html_title = "virtuallog"
html_show_sourcelink = False
html_copy_source = False
html_static_path = ["_static"]
html_css_files = ["site.css"]

DOCS: Final = Path(__file__).parent
_LINK: Final = re.compile(r"(?<!!)\[([^\]]+)\]\((\.\./[^)\s]+)\)")


def _name_files_outside(app: Sphinx, page: str, source: list[str]) -> None:
    """A link to a file of the checkout that is no page becomes its path: the site has no copy of the code."""

    def one(link: re.Match[str]) -> str:
        target = os.path.normpath((DOCS / page).parent / link[2].partition("#")[0])
        if Path(target).is_relative_to(DOCS):
            return link[0]
        path = os.path.relpath(target, DOCS.parent)
        return f"`{path}`" if link[1].strip("`") in path else f"{link[1]} (`{path}`)"

    source[0] = _LINK.sub(one, source[0])


def setup(app: Sphinx) -> None:
    """Sphinx calls it."""
    app.add_lexer("mermaid", TextLexer)  # its script would come from the network; GitHub draws it
    app.connect("source-read", _name_files_outside)
