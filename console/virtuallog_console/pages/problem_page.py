"""Page of a problem, for a browser. It names neither cluster nor caller: the one may be silent, and the other unknown."""

from __future__ import annotations

from typing import Final

from virtuallog_console.access.core.policy import WRONG_HOST
from virtuallog_console.access.core.problem import Problem
from virtuallog_console.pages.frame import LINKS
from virtuallog_console.pages.renderer import render

_LINKS: Final = {path: name for path, name in LINKS.items() if path != "/tree"}
"""Pages that each cluster has."""


def problem_page(problem: Problem) -> str:
    """The page. A request for another host gets its title alone: a page of another site may read it."""
    if problem.kind == WRONG_HOST:
        return render("wrong_host.html", problem=problem)
    return render("problem.html", problem=problem, links=_LINKS, here="")
