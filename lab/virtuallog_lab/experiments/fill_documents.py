#!/usr/bin/env python3
"""Put what was measured into documents, where they have a place for it.

    python -m virtuallog_lab.experiments.fill_documents measured docs/results/swaps.md docs/results/performance.md

A document has a place for NAME between `<!-- measured: NAME -->` and `<!-- end of measured -->`; what comes there is measured/NAME.md.
Pictures that a document shows are copied beside it, if they have been drawn anew. All other places stay as they are.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import click

from virtuallog_lab.experiments.appends.summary import put_between
from virtuallog_lab.harness.report import tell

PLACE: Final = re.compile(r"<!-- measured: ([a-z-]+) -->")
PICTURE: Final = re.compile(r"!\[[^]]*\]\(([a-z0-9-]+\.(?:png|svg))\)")


def fill(measured: Path, document: Path) -> list[str]:
    """Do it; the names of what has changed."""
    names = [name for name in PLACE.findall(document.read_text()) if (measured / f"{name}.md").exists()]
    for name in names:
        put_between(document, (measured / f"{name}.md").read_text().rstrip() + "\n", name)
    pictures = [name for name in PICTURE.findall(document.read_text()) if (measured / name).exists()]
    for name in pictures:
        shutil.copyfile(measured / name, document.with_name(name))
    return [*names, *pictures]


@click.command()
@click.argument("measured", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.argument("documents", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True, dir_okay=False))
def main(measured: Path, documents: Sequence[Path]) -> None:
    """Put what is in MEASURED into DOCUMENTS."""
    for document in documents:
        tell(f"{document}: {', '.join(fill(measured, document)) or 'nothing'}")


if __name__ == "__main__":
    main()
