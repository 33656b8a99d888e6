"""Preference of a client between a page and JSON, from its header `Accept`. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

HTML: Final = "text/html"
_JSON: Final = ("application/json", "application/problem+json")
RANGES_MAX: Final = 32
"""Media ranges that are looked at. Browsers send some ten."""


def prefers_html(accept: Iterable[str]) -> bool:
    """True if a client names HTML, as browsers do for a page, and JSON not at all or with less weight.

    Args:
        accept: values of `Accept`. What cannot be read in them counts as not there.
    """
    weights: dict[str, float] = {}
    for media_range in ",".join(accept).split(",", RANGES_MAX)[:RANGES_MAX]:
        name, *parameters = (part.strip().lower() for part in media_range.split(";"))
        weights[name] = min((_weight(each) for each in parameters if each.startswith("q=")), default=1.0)
    html = weights.get(HTML, 0.0)
    return html > 0 and html >= max(weights.get(each, 0.0) for each in _JSON)


def _weight(parameter: str) -> float:
    try:
        return float(parameter.removeprefix("q="))
    except ValueError:
        return 0.0
