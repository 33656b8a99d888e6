"""Pages for browsers, JSON for programs, by the header `Accept`."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from virtuallog_console.access.core.media_preference import prefers_html

CHROMIUM = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8,application/signed-exchange;v=b3;q=0.7"


@pytest.mark.parametrize(
    ("accept", "html"),
    [
        (CHROMIUM, True),
        ("text/html", True),
        ("Text/HTML; q=0.5, application/json; q=0.4", True),
        ("text/html;q=0.5, application/json", False),
        ("text/html;q=0", False),
        ("text/html;q=x", False),
        ("*/*", False),
        ("text/event-stream", False),
        ("application/problem+json, text/html;q=0.9", False),
        ("", False),
        ("x," * 100 + "text/html", False),
    ],
)
def test_a_page_is_for_clients_that_name_it(accept: str, html: bool) -> None:
    """Browsers name it for pages, and neither for scripts nor for streams; curl takes anything and gets JSON."""
    assert prefers_html([accept]) is html


@given(st.lists(st.text("*/;=,q0.9 texhml", max_size=40), max_size=3))
def test_any_header_is_read(accept: list[str]) -> None:
    """One that makes no sense names nothing."""
    assert prefers_html(accept) in {True, False}
