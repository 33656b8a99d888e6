"""Refusals as a browser sees them: a page in place of JSON, with the same headers, and nothing for other names."""

from __future__ import annotations

import pytest

from tests.console.pages.page_reader import read
from tests.console.served import served
from virtuallog_console.access.application import SECURITY_HEADERS

BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"


@pytest.mark.parametrize(
    ("method", "path", "status", "headers"),
    [
        ("GET", "/nothing", 404, {}),
        ("GET", "/v1/entries/99", 416, {}),
        ("POST", "/v1/log", 405, {}),
        ("GET", "/v1/entries?from=<b>", 400, {}),
        ("GET", "/v1/tail", 403, {"Origin": "http://example.org"}),
        ("GET", "/", 403, {"X_Forwarded_User": "mallory"}),
    ],
)
async def test_a_browser_gets_a_page(method: str, path: str, status: int, headers: dict[str, str]) -> None:
    """Title, fault and advice of the problem, and the headers that every answer has; a program gets JSON."""
    async with served() as one:
        page = await one.ask(method, path, b"", Accept=BROWSER, **headers)
        plain = await one.ask(method, path, b"", Accept="*/*", **headers)

    assert (page.status, plain.status) == (status, status)
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert plain.headers["content-type"] == "application/problem+json"
    found = read(page.body.decode())
    assert (found.tags.count("h1"), found.tags.count("main")) == (1, 1)
    for words in (plain.json["title"], plain.json["detail"], plain.json["remedy"]):
        assert words in found.text
    assert {name: page.headers[name.lower()] for name in SECURITY_HEADERS} == SECURITY_HEADERS
    assert page.headers.get("allow") == plain.headers.get("allow")


async def test_another_name_gets_a_sentence() -> None:
    """Its page may be read by the site that has pointed the name here: no address, no setting, no link, not the name itself."""
    async with served() as one:
        page = await one.get("/nodes", Host="evil.example.org", Accept=BROWSER)

    assert page.status == 421
    found = read(page.body.decode())
    assert found.text.split() == 2 * ["This", "console", "has", "another", "name"]
    assert "evil" not in page.body.decode()
    assert "href" not in page.body.decode().replace('href="data:,"', "")
