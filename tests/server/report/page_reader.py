"""Pages as a browser shows them, with and without one."""

from __future__ import annotations

from html.parser import HTMLParser

import attrs

from tests.browser import Browser


@attrs.define(eq=False)
class Reader(HTMLParser):
    """The text of a page, as a browser would read it."""

    scripts: int = 0
    words: list[str] = attrs.field(factory=list)

    def __attrs_post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.scripts += tag == "script" and dict(attrs).get("type") != "application/json"
        assert not any(name.startswith("on") for name, _ in attrs)
        assert not [
            value for name, value in attrs if name in {"src", "href"} and not str(value).startswith(("#", "data:"))
        ]

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def read(text: str) -> Reader:
    reader = Reader()
    reader.feed(text)
    return reader


def count(browser: Browser, selector: str) -> int:
    found = browser.evaluate(f"document.querySelectorAll({selector!r}).length")
    assert isinstance(found, int)
    return found
