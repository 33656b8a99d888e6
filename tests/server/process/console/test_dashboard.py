"""The dashboard in docs/howto/grafana.json asks for figures that exist."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from tests.source_tree import ROOT

NAME = re.compile(r"\b(?:virtuallog|process)_[a-z_]+")
SUFFIX = re.compile(r"_(?:bucket|count|sum)$")


def dashboard() -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((ROOT / "docs/howto/grafana.json").read_text())
    return loaded


def test_every_panel_asks_for_documented_figures() -> None:
    """A name that is misspelled, or that no node tells any more, would show an empty panel."""
    documented = set(re.findall(r"^\| `([a-z_]+)` \|", (ROOT / "docs/reference/metrics.md").read_text(), re.MULTILINE))
    expressions = [target["expr"] for panel in dashboard()["panels"] for target in panel["targets"]]
    asked = {SUFFIX.sub("", name) for expression in expressions for name in NAME.findall(expression)}

    assert len(asked) > 20
    assert asked - documented == set()


@pytest.mark.parametrize(
    ("title", "figures"),
    [
        ("Appends", {"sequencer_wave", "paxos_commit", "raft_wal_group"}),
        ("From a wave to its majority", {"sequencer_commit", "paxos_commit"}),
        ("Sync of the write-ahead log", {"wal_sync", "raft_wal_sync", "paxos_sync", "wal_writing"}),
    ],
)
def test_panels_of_appends_and_disks_know_each_kind_of_loglet(title: str, figures: set[str]) -> None:
    """They would be empty while a paxos or raft loglet takes the appends. A disk that hangs is in no histogram."""
    (panel,) = (panel for panel in dashboard()["panels"] if panel["title"] == title)
    text = " ".join(target["expr"] for target in panel["targets"])

    assert {figure for figure in figures if f"virtuallog_{figure}_" not in text} == set()
    assert len({target["refId"] for target in panel["targets"]}) == len(panel["targets"])


def test_panels_do_not_lie_on_each_other() -> None:
    """Three in a row, each with a number of its own."""
    panels = dashboard()["panels"]
    places = {(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in panels}

    assert len(places) == len({panel["id"] for panel in panels}) == len(panels)
