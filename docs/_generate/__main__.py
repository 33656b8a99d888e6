"""`python -m docs._generate`: write the generated pages of docs/reference. `--check` prints the names of those that differ and
writes nothing; it has to run in a process of its own, as click keeps the help option of a command's first context."""

from __future__ import annotations

import sys

from docs._generate.pages import FOLDER, PAGES


def main(*, check: bool) -> None:
    """Write each page that differs, unless `check`, and print its name."""
    for name, page in PAGES.items():
        path, text = FOLDER / f"{name}.md", page()
        if not path.exists() or path.read_text() != text:
            if not check:
                path.write_text(text)
            sys.stdout.write(f"{path}\n")


main(check="--check" in sys.argv[1:])
