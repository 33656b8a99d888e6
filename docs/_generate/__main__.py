"""`python -m docs._generate`: write the generated pages of docs/reference."""

from __future__ import annotations

import sys

from docs._generate.pages import FOLDER, PAGES


def main() -> None:
    """Write each page that differs, and print its name."""
    for name, page in PAGES.items():
        path, text = FOLDER / f"{name}.md", page()
        if not path.exists() or path.read_text() != text:
            path.write_text(text)
            sys.stdout.write(f"{path}\n")


main()
