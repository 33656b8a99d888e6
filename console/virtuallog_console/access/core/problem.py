"""A refusal or a failure as its caller sees it: RFC 9457, "problem details". Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import attrs

TYPE: Final = "urn:virtuallog:problem:"
"""Prefix of the `type` of every problem. What follows is stable: programs may compare it."""


@attrs.frozen(kw_only=True)
class Problem:
    """One problem, and the status that it is answered with."""

    status: int
    kind: str
    """Name of the kind of problem, such as `trimmed`."""
    title: str
    """Some words, the same for all problems of this kind."""
    detail: str
    """The fault of this request."""
    remedy: str
    """Advice for the caller or an operator."""
    more: Mapping[str, Any] = attrs.field(factory=dict)
    """Further members, such as `trim_point`."""
    headers: Mapping[str, str] = attrs.field(factory=dict)

    def plain(self) -> dict[str, Any]:
        """Members of the JSON object."""
        return {
            "type": TYPE + self.kind,
            "title": self.title,
            "status": self.status,
            "detail": self.detail,
            "remedy": self.remedy,
            **self.more,
        }


class ProblemError(Exception):
    """A request ends with a problem. Not an error of the log: those are mapped by the door."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.detail)
        self.problem = problem
