"""docs/spark.md says what there is."""

from __future__ import annotations

import re

import pytest

from pyspark_virtuallog import options, write_options
from pyspark_virtuallog.schema import SCHEMA
from tests.source_tree import ROOT

PAGE = (ROOT / "docs/spark.md").read_text()


def first_cells(heading: str) -> str:
    """What the first column of a section's tables names."""
    section = PAGE.split(f"## {heading}\n")[1].split("\n## ")[0]
    return " ".join(re.findall(r"^\| (.*?) \|", section, re.MULTILINE))


@pytest.mark.parametrize(
    ("heading", "names"),
    [("Options of a read", options.NAMES), ("Writing", write_options.NAMES), ("The table", SCHEMA.names)],
    ids=["read", "write", "columns"],
)
def test_every_option_and_column_is_documented(heading: str, names: tuple[str, ...]) -> None:
    """And nothing else that is ours. `path` is what `load(FILE)` gives."""
    assert set(re.findall(r"`(\w+)`", first_cells(heading))) - {"checkpointLocation"} == set(names) - {"path"}
