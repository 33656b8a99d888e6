"""Pictures of the console for docs/howto/console.md: `make console-pictures`.

A cluster of its own, with a database, two swaps and a node that is killed, as a browser shows it.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Final

import attrs

from tests.browser import Browser, find_browser, open_browser
from tests.console.curl import console_process
from tests.console.pages.shown_cluster import ShownCluster, shown_cluster
from tests.console.pages.small_png import smaller
from tests.source_tree import ROOT

OUT: Final = ROOT / "docs/howto"
WIDTH: Final = 1200


@attrs.frozen(kw_only=True)
class Picture:
    """One picture of one page."""

    name: str
    path: str
    height: int
    ready: str = "true"
    """JavaScript expression that is true once the page shows what the picture is about."""
    dark: bool = False


PICTURES: Final = (
    Picture(
        name="console-chain",
        path="/",
        height=1160,
        ready="document.querySelector('.verdict').innerText.includes('node 3 takes no part')",
    ),
    Picture(name="console-entries", path="/entries?from=128&count=6", height=860),
    Picture(name="console-tree", path="/tree?path=/app/billing", height=860, dark=True),
    Picture(
        name="console-live",
        path="/live",
        height=980,
        ready="document.querySelectorAll('.mark').length >= 4",
        dark=True,
    ),
)
ADMIN: Final = "alice"
OF_ADMIN: Final = Picture(name="console-action", path="/actions/reconfigure?kind=raft", height=665)


def main(out: Path = OUT) -> None:
    """Write all pictures into a folder."""
    program = find_browser()
    assert program is not None, "needs Chromium: apt-get install chromium-headless-shell"
    with tempfile.TemporaryDirectory() as folder, shown_cluster(Path(folder), database=True) as cluster:
        happen(cluster)
        with open_browser(program) as browser:
            for picture in PICTURES:
                take(browser, cluster.url, picture, out)
            file, options = str(cluster.folder / "log" / "cluster.toml"), ["--admin", ADMIN, "--actions"]
            with console_process(Path(folder), "--cluster", file, "--proxy", "127.0.0.1", *options) as url:
                browser.call("Network.setExtraHTTPHeaders", headers={"X-Forwarded-User": ADMIN})
                take(browser, url, OF_ADMIN, out)


def happen(cluster: ShownCluster) -> None:
    """Give the pages something to show."""
    cluster.plant()
    for number, kind in enumerate(("raft", "native")):
        cluster.run("reconfigure", "--to", kind)
        cluster.write(f"/app/orders-{number}")
        cluster.write_many(f"/app/orders-{number}", 200)
    cluster.kill(3)


def take(browser: Browser, url: str, picture: Picture, out: Path) -> None:
    """Take one picture of the console at `url`, and write it with few bytes."""
    path = out / f"{picture.name}.png"
    browser.look(width=WIDTH, height=picture.height, dark=picture.dark, still=True)
    browser.open(url + picture.path)
    browser.until(picture.ready)
    browser.screenshot(path, is_whole=False)
    path.write_bytes(smaller(path.read_bytes()))


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
