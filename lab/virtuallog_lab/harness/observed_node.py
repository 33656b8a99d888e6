"""A node that writes down when it passes the steps of a reconfiguration. Otherwise `virtuallog serve`, unchanged.

    python -m virtuallog_lab.harness.observed_node serve --config DIR/node.toml         writes DIR/steps, one JSON object per line

The steps are crash points of the product: named places between two steps of a protocol. Times are those of the
monotonic clock, which all processes of a machine share.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Final

from virtuallog.contract.crash_points import CRASH_POINTS, CrashPoint, hooked
from virtuallog.reconfiguration import chain_writer
from virtuallog.runtime.clock import SystemClock
from virtuallog_metastore.drivers import client
from virtuallog_server.cli import main

STEPS: Final = {
    "chain: a successor is planned, nothing is sealed": "planned",
    "metastore: a majority has promised, the value is not known": "promised",
    "chain: the active loglet is sealed, its tail is not known": "sealed",
    "chain: the tail of a sealed loglet is known, nothing is put": "bounded",
    "metastore: a decision has left for one member more": "decided",
    "chain: an extension is decided, its client does not know": "taught",
}
"""Points of the chain writer and of the client of the MetaStore, and what the file calls them. A new chain is decided right before
its proposer tells the members so; each of these messages is a step."""
FILE: Final = "steps"


def run() -> None:
    """Run the command line, observed."""
    missing = STEPS.keys() - CRASH_POINTS.keys()
    assert not missing, f"{chain_writer.__name__} and {client.__name__} have no points {missing}"
    clock = SystemClock()
    with (Path(sys.argv[-1]).parent / FILE).open("a", buffering=1) as file:

        def write(point: CrashPoint) -> None:
            if point.name in STEPS:
                file.write(json.dumps({"step": STEPS[point.name], "at": clock.monotonic()}) + "\n")

        with hooked(write):
            main()


if __name__ == "__main__":
    run()
