"""Colors of the kinds of loglets, as their providers choose them."""

from __future__ import annotations

from functools import cache
from typing import Final

from virtuallog.plugins import presentations
from virtuallog_server.report.figures.palette import PAINT, Tone

OTHER: Final[Tone] = "teal"
"""Color of kinds that choose none, or that are not installed here."""


@cache
def tone_of(kind: str) -> Tone:
    """Return the color of a kind of loglets."""
    found = presentations().get(kind)
    return next((tone for tone in PAINT if found is not None and tone == found.color), OTHER)
