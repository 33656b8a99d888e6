"""Colours and their meaning, on pages and pictures alike. The page's own shades for light and dark are in its style sheet."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

Tone: TypeAlias = Literal["blue", "orange", "violet", "green", "brown", "teal", "red", "grey"]

PAINT: Final[dict[Tone, str]] = {
    "blue": "#2f6fdb",
    "orange": "#d9730d",
    "violet": "#7a4fd0",
    "green": "#2e8b3d",
    "brown": "#8a6d3b",
    "teal": "#0f8f86",
    "red": "#cf3030",
    "grey": "#7b8494",
}
"""Colours on white; the same as in page.css."""
