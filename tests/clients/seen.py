"""Rows that tests note of each client, and the table of them that is printed at the end of the run."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, Protocol

from tests.clients.troubles import BOTH, LEADER, OTHER, START, SWAP

PROPERTY: Final = "seen by a client"
"""Name of the rows among the properties of a test's report."""
TROUBLES: Final = (SWAP, LEADER, OTHER, BOTH, START)


class Note(Protocol):
    """Notes one row."""

    def __call__(
        self, client: str, ensemble: str, writes: int, unknown: int, events: int, gaps: Mapping[str, int]
    ) -> None: ...


def spell(client: str, ensemble: str, writes: int, unknown: int, events: int, gaps: Mapping[str, int]) -> str:
    return json.dumps([client, ensemble, writes, unknown, events, gaps])


def table(rows: Iterable[str]) -> Iterator[str]:
    """Lines of a Markdown table: longest times without an acknowledged write, in milliseconds."""
    columns = ("client", "servers", "writes", "unknown", "watch events", *TROUBLES)
    yield "| " + " | ".join(columns) + " |"
    yield "|" + " --- |" * len(columns)
    for row in rows:
        *facts, gaps = json.loads(row)
        cells = [f"{fact:,}" if isinstance(fact, int) else fact for fact in facts]
        cells += [f"{gaps[what]:,} ms" if what in gaps else "" for what in TROUBLES]
        yield "| " + " | ".join(cells) + " |"
