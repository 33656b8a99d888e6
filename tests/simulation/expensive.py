"""Scenarios of which one seed takes a second or more: few seeds of them fit into `make test`."""

from __future__ import annotations

from typing import Final

EXPENSIVE: Final = frozenset({
    "archive", "burden", "cluster", "comeback", "estranged", "expiring", "intruders", "leased", "mixed", "operated", "rights", "strangers", "striped", "zelos",
})  # fmt: skip
