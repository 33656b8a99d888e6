"""Pages as a browser reads them, without one: what could run, what is fetched, and the text."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Final

import attrs

VOID: Final = frozenset({"br", "img", "input", "link", "meta"})
FETCHING: Final = frozenset({"src", "href", "action", "data", "formaction", "xlink:href", "poster"})


@attrs.define(eq=False)
class PageReader(HTMLParser):
    """One page. Fails where it could run or fetch what is not ours."""

    words: list[str] = attrs.field(factory=list)
    tags: list[str] = attrs.field(factory=list)
    open_tags: list[str] = attrs.field(factory=list)
    ids: list[str] = attrs.field(factory=list)

    def __attrs_post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = dict(attrs)
        self.tags.append(tag)
        if tag not in VOID:
            self.open_tags.append(tag)
        for name, value in attrs:
            assert not name.startswith("on"), f"{tag} has {name}"
            assert name != "style", f"{tag} has a style of its own"
            if name in FETCHING:
                assert str(value).startswith(("/", "#", "data:,")), f"{tag} leads to {value}"
                assert not str(value).startswith("//"), f"{tag} leads to {value}"
        if tag == "script":
            assert str(named.get("src", "")).startswith("/static/"), "an inline script"
        assert tag not in {"style", "iframe", "object", "embed", "base"}, tag
        if "id" in named:
            self.ids.append(str(named["id"]))

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open_tags.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open_tags.pop() == tag, f"{tag} ends where it does not begin"

    def handle_data(self, data: str) -> None:
        assert not self.open_tags or self.open_tags[-1] != "script" or not data.strip(), "an inline script"
        self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join("".join(self.words).split())


def read(page: str) -> PageReader:
    """Read a page; its elements are nested rightly, and each id is there once."""
    reader = PageReader()
    reader.feed(page)
    reader.close()
    assert reader.open_tags == []
    assert sorted(reader.ids) == sorted(set(reader.ids))
    return reader
