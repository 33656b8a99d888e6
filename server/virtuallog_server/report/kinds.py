"""Colors of the kinds of loglets, as their providers choose them."""

from __future__ import annotations

from functools import cache
from typing import Final

from virtuallog.contract.errors import UnknownKindError
from virtuallog.contract.provider import SupportsPresentation
from virtuallog.plugins import loglet_maker
from virtuallog_server.report.figures.palette import PAINT, Tone

OTHER: Final[Tone] = "teal"
"""Color of kinds that choose none, or that are not installed."""


@cache
def tone_of(kind: str) -> Tone:
    """Return the color of a kind of loglets."""
    try:
        provider = loglet_maker(kind)()
    except (UnknownKindError, ImportError):  # a page may show a log whose kinds are not installed here
        return OTHER
    chosen = provider.color if isinstance(provider, SupportsPresentation) else OTHER
    return next((tone for tone in PAINT if tone == chosen), OTHER)
