"""Page of a problem, for a browser. It stands alone: the caller may be unknown, and the cluster silent."""

from __future__ import annotations

from virtuallog_console.access.core.policy import WRONG_HOST
from virtuallog_console.access.core.problem import Problem
from virtuallog_console.pages.renderer import render


def problem_page(problem: Problem) -> str:
    """The page. A request for another host gets its title alone: a page of another site may read it."""
    return render("problem.html", problem=problem, is_ours=problem.kind != WRONG_HOST)
