"""Measurements go into documents that have a place for them."""

from __future__ import annotations

from pathlib import Path

from virtuallog_lab.experiments.fill_documents import fill

DOCUMENT = """before
<!-- measured: one -->
old
<!-- end of measured -->
![a picture](shown.png) ![another](kept.png)
<!-- measured: two -->
kept
<!-- end of measured -->
"""


def test_only_what_was_measured_is_replaced(tmp_path: Path) -> None:
    """Tables and pictures; what has no new figure stays."""
    measured = tmp_path / "measured"
    measured.mkdir()
    (measured / "one.md").write_text("| new |\n")
    (measured / "shown.png").write_bytes(b"new")
    document = tmp_path / "page.md"
    document.write_text(DOCUMENT)

    assert fill(measured, document) == ["one", "shown.png"]
    assert document.read_text() == DOCUMENT.replace("\nold\n", "\n\n| new |\n\n")
    assert (tmp_path / "shown.png").read_bytes() == b"new"
    assert fill(measured, document) == ["one", "shown.png"], "it can be done again"
