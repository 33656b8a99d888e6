"""`python -m docs._generate`: write the generated pages of docs/reference, and the files below share/. `--check` prints the names of those that differ and
writes nothing; it has to run in a process of its own, as click keeps the help option of a command's first context."""

from __future__ import annotations

import sys

from docs._generate.pages import PAGES


def main(*, check: bool) -> None:
    """Write each page that differs, unless `check`, and print its name."""
    for path, page in PAGES.items():
        text = page()
        if not path.exists() or path.read_text() != text:
            if not check:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
            sys.stdout.write(f"{path}\n")


main(check="--check" in sys.argv[1:])
